//! A console as a separate process on its own terminal, and the screen that it draws there.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::sync::oneshot;
use vt100::Screen;

use crate::bench::instance::{own_mib_of, processor_time_of};

/// Columns and rows.
const SIZE: (u16, u16) = (140, 40);
/// Timeout for an expected screen; the suite fails after it.
const TIMEOUT: Duration = Duration::from_mins(3);
/// A built-in theme: without a theme the console would query the terminal's colours, and this terminal does not answer.
const THEME: &str = "night";
/// Interval between two measurements of memory, and the number of consecutive measurements that must be the same.
const LOOK: Duration = Duration::from_millis(500);
const SAME: usize = 4;
/// Relative change of memory that still counts as the same.
const STILL: f64 = 0.01;
/// Maximum number of measurements; after it the last one counts, even if memory still changes.
const LOOKS: usize = 120;

type Predicate = Box<dyn Fn(&Screen) -> bool + Send>;

/// The drawn screen, and the predicate that a caller waits for.
struct ScreenState {
    parser: vt100::Parser,
    awaited: Option<(Predicate, oneshot::Sender<Instant>)>,
    /// True if the console has ended.
    over: bool,
}

impl ScreenState {
    fn look(&mut self) {
        let screen = self.parser.screen();
        if let Some((_, seen)) = self.awaited.take_if(|(is_there, _)| is_there(screen)) {
            // The caller may have timed out.
            let _ = seen.send(Instant::now());
        }
    }
}

/// `podium console` in a terminal.
pub(super) struct Terminal {
    console: Child,
    master: File,
    state: Arc<Mutex<ScreenState>>,
    pub(super) started: Instant,
}

impl Terminal {
    /// Starts the console of this program on the cluster of a kubeconfig; its saved state goes below `own_files`.
    pub(super) fn start(program: &Path, kubeconfig: &Path, own_files: &Path) -> Result<Self> {
        let (master, slave) = open().context("opening a terminal")?;
        let (columns, rows) = SIZE;
        tcsetwinsize(&master, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })?;
        let master = File::from(master);
        let end = || slave.try_clone().map(Stdio::from);
        let mut command = Command::new(program);
        command.args(["console", "--theme", THEME, "--kubeconfig"]).arg(kubeconfig);
        command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8").env_remove("NO_COLOR");
        for variable in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"] {
            command.env(variable, own_files.join(variable.to_lowercase()));
        }
        let started = Instant::now();
        let console = command.stdin(end()?).stdout(end()?).stderr(end()?).spawn()?;
        drop((command, slave));
        let state = Arc::new(Mutex::new(ScreenState {
            parser: vt100::Parser::new(rows, columns, 0),
            awaited: None,
            over: false,
        }));
        let (reader, draws) = (master.try_clone()?, state.clone());
        // The thread ends with the console, which has the only open descriptors of the terminal's other end.
        std::thread::spawn(move || read(reader, &draws));
        Ok(Self { console, master, state, started })
    }

    /// Types bytes, if any, waits until the screen fulfils a predicate, and returns the time at which it did.
    pub(super) async fn until(
        &mut self,
        expected: &str,
        typed: &str,
        predicate: impl Fn(&Screen) -> bool + Send + 'static,
    ) -> Result<Instant> {
        let (seen, when) = oneshot::channel();
        {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let is_there: Predicate = Box::new(predicate);
            state.awaited = (!state.over).then_some((is_there, seen));
            state.look();
        }
        self.master.write_all(typed.as_bytes())?;
        match tokio::time::timeout(TIMEOUT, when).await {
            Ok(Ok(when)) => Ok(when),
            _ => bail!("the console never showed {expected}:\n{}", self.screen()),
        }
    }

    fn screen(&self) -> String {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).parser.screen().contents()
    }

    /// The console's own memory in MiB, without the program's file, once it no longer changes.
    pub(super) async fn stable_mib(&self) -> Result<f64> {
        let mut seen: Vec<f64> = Vec::new();
        for _ in 0..LOOKS {
            seen.push(own_mib_of(self.console.id())?);
            if let [.., first, _, _, last] = seen.as_slice()
                && seen.len() >= SAME
                && (first - last).abs() <= first * STILL
            {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        seen.last().copied().context("the memory was not measured")
    }

    /// Processor time of the console's threads.
    pub(super) fn processor_time(&self) -> Result<Duration> {
        processor_time_of(self.console.id())
    }

    /// Sends SIGTERM and waits for the end.
    pub(super) async fn stop(mut self) -> Result<()> {
        self.terminate();
        let status = tokio::task::spawn_blocking(move || self.console.wait()).await??;
        if !status.success() {
            bail!("podium console ended with {status}");
        }
        Ok(())
    }

    fn terminate(&self) {
        // The signal fails only if the process has already ended.
        let _ = kill_process(Pid::from_child(&self.console), Signal::TERM);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if matches!(self.console.try_wait(), Ok(None)) {
            let _ = self.console.kill();
            let _ = self.console.wait();
        }
    }
}

/// Opens both ends of a new terminal.
fn open() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let slave = ioctl_tiocgptpeer(&master, flags)?;
    Ok((master, slave))
}

/// Reads the console's output and draws it until the console ends.
fn read(mut master: File, state: &Mutex<ScreenState>) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(count @ 1..) = master.read(&mut bytes) {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.parser.process(&bytes[..count]);
        state.look();
    }
    // The console has ended: dropping the sender tells the caller that the expected screen can no longer appear.
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    state.over = true;
    state.awaited = None;
}

fn rows(screen: &Screen) -> impl Iterator<Item = String> {
    screen.rows(0, screen.size().1)
}

/// Returns true if the console has drawn its first line.
pub(super) fn is_rendered(screen: &Screen) -> bool {
    screen.alternate_screen() && rows(screen).next().is_some_and(|row| !row.trim().is_empty())
}

/// Returns true if the header counts this many pods.
pub(super) fn counts_pods(screen: &Screen, pods: usize) -> bool {
    let count = |row: String| {
        let (before, _) = row.split_once(" pods")?;
        // The header separates thousands by one space and counts by several; a plus means that the count of pods is
        // incomplete.
        let count = before.rsplit("  ").next().filter(|count| !count.ends_with('+'))?;
        let digits = count.chars().filter(char::is_ascii_digit);
        digits.collect::<String>().parse().ok()
    };
    rows(screen).find_map(count) == Some(pods)
}

/// Returns true if the heading of the table of events counts at least this many.
pub(super) fn counts_events(screen: &Screen, events: usize) -> bool {
    let heading = rows(screen).find(|row| row.starts_with("╭ Events "));
    let heading = heading.unwrap_or_default();
    let count: String = heading.chars().filter(char::is_ascii_digit).collect();
    !heading.contains('+') && count.parse().is_ok_and(|count: usize| count >= events)
}

/// Returns true if a table of this kind is open and one of its rows contains this text.
pub(super) fn lists(screen: &Screen, kind: &str, text: &str) -> bool {
    let mut rows = rows(screen);
    // The breadcrumbs end with the kind.
    let is_open = rows.next().is_some_and(|way| way.contains(&format!("▸ {kind} ")));
    is_open && rows.any(|row| row.contains(text))
}

/// Returns true if the filter's prompt is open.
pub(super) fn has_prompt(screen: &Screen) -> bool {
    rows(screen).last().unwrap_or_default().trim_start().starts_with('/')
}

/// Returns true if the filter's prompt has exactly this text.
pub(super) fn filter_is(screen: &Screen, text: &str) -> bool {
    let typed = rows(screen).last().unwrap_or_default();
    typed.trim_start().strip_prefix('/').is_some_and(|typed| typed.split(' ').next() == Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_is_read_as_it_is_drawn_con_1() {
        let mut parser = vt100::Parser::new(4, 70, 0);
        let lines = [
            " podium ▸ Overview ▸ Pods   500 nodes ● 500   35 000 pods ● 35 000",
            "╭ Pods 35 000 ──────╮",
            "│ bench-0-7d9c  1/1 │",
            " /be   regex · !not",
        ];
        parser.process(lines.join("\r\n").as_bytes());
        let screen = parser.screen();
        for (pods, counted) in [(35_000, true), (500, false), (50_035_000, false), (35, false)] {
            assert_eq!(counts_pods(screen, pods), counted, "{pods}");
        }
        for (text, typed) in [("be", true), ("b", false), ("", false), ("ben", false)] {
            assert_eq!(filter_is(screen, text), typed, "{text:?}");
        }
        assert!(lists(screen, "Pods", "bench-0") && !lists(screen, "Pods", "web-0"));
        assert!(!lists(screen, "Events", "bench-0") && !counts_events(screen, 0));
        parser.process("\u{1b}[2J\u{1b}[H╭ Events default 60 000 ── following ╮".as_bytes());
        assert!(counts_events(parser.screen(), 60_000) && !counts_events(parser.screen(), 60_001));
        parser.process("\u{1b}[H╭ Events default 60 000+ ─ following ╮".as_bytes());
        assert!(!counts_events(parser.screen(), 60_000), "there are more to come");
    }
}
