//! A terminal for a test: a pty that a shell command holds, and the screen that it draws.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use base64::Engine as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::instance::{ChildGuard, pause, wait_for};

/// Columns and rows at the beginning.
const SIZE: (u16, u16) = (100, 30);

/// A user's pause before a key: the console ignores letters, Enter and Tab that come in one burst with others, or within
/// 0.3 s after a dialog.
const TYPING_PAUSE: Duration = Duration::from_millis(500);

/// Interval at which the reader checks for its end.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// The data that programs last put on the clipboard.
#[derive(Default)]
struct Clipboard(Option<Vec<u8>>);

impl vt100::Callbacks for Clipboard {
    fn copy_to_clipboard(&mut self, _: &mut vt100::Screen, _: &[u8], data: &[u8]) {
        self.0 = base64::engine::general_purpose::STANDARD.decode(data).ok();
    }
}

/// A pseudo-terminal of its own.
pub(crate) struct Terminal {
    /// The leader of the terminal's session.
    shell: ChildGuard,
    master: Option<Arc<File>>,
    screen: Arc<Mutex<vt100::Parser<Clipboard>>>,
    over: Arc<AtomicBool>,
    /// True if its background is light.
    light: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
    /// The directories of the user's own files: not the real user's.
    own_files: tempfile::TempDir,
}

impl Terminal {
    /// Runs a shell command in a terminal of 100×30.
    pub(crate) fn run(command: &str) -> Self {
        Self::on_background(false, command)
    }

    /// Runs a shell command on a light or a dark background.
    pub(crate) fn on_background(light: bool, command: &str) -> Self {
        let (master, slave) = open();
        let master = Arc::new(File::from(master));
        resize(&master, SIZE);
        let (columns, rows) = SIZE;
        let screen =
            Arc::new(Mutex::new(vt100::Parser::new_with_callbacks(rows, columns, 0, Clipboard::default())));
        let over = Arc::new(AtomicBool::new(false));
        let light = Arc::new(AtomicBool::new(light));
        let end = |slave: &OwnedFd| Stdio::from(slave.try_clone().unwrap());
        // Makes its standard input the terminal of a new session, which only a process itself can do.
        let mut shell = Command::new("setsid");
        shell.args(["--ctty", "sh", "-c", command]).env("TERM", "xterm-256color").env_remove("COLORTERM");
        let own_files = tempfile::tempdir().unwrap();
        for variable in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"] {
            shell.env(variable, own_files.path().join(variable.to_lowercase()));
        }
        shell.stdin(end(&slave)).stdout(end(&slave)).stderr(end(&slave));
        let shell = ChildGuard::spawn(&mut shell);
        let reader = {
            let (master, screen, over, light) = (master.clone(), screen.clone(), over.clone(), light.clone());
            std::thread::spawn(move || read(&master, &screen, &over, &light))
        };
        Self { shell, master: Some(master), screen, over, light, reader: Some(reader), own_files }
    }

    /// Returns the directory of the user's configuration.
    pub(crate) fn config_dir(&self) -> std::path::PathBuf {
        self.own_files.path().join("xdg_config_home")
    }

    /// The content of the screen, one line per row.
    pub(crate) fn screen(&self) -> String {
        self.with(|screen| screen.rows(0, screen.size().1).collect::<Vec<_>>().join("\n"))
    }

    fn with<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(self.screen.lock().unwrap_or_else(PoisonError::into_inner).screen())
    }

    /// Types these: a key by its name (`Enter`, `Escape`, `C-x`), or a text.
    pub(crate) fn keys(&self, keys: &[&str]) {
        let bytes: Vec<u8> = keys.iter().flat_map(|key| typed(key)).collect();
        self.master().write_all(&bytes).unwrap();
    }

    /// Changes the size, as when a window is resized.
    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        self.screen.lock().unwrap().screen_mut().set_size(rows, columns);
        resize(self.master(), (columns, rows));
    }

    /// The program that was run with `exec`.
    pub(crate) fn program(&self) -> Pid {
        Pid::from_child(&self.shell.0)
    }

    /// Stops the program that was run with `exec`, as a busy machine does, for as long as `meanwhile` takes.
    pub(crate) fn while_stopped(&self, meanwhile: impl FnOnce()) {
        let program = self.program();
        kill_process(program, Signal::STOP).unwrap();
        meanwhile();
        kill_process(program, Signal::CONT).unwrap();
    }

    /// The text that was last copied.
    pub(crate) fn clipboard(&self) -> Option<String> {
        let parser = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        Some(String::from_utf8_lossy(parser.callbacks().0.as_ref()?).into_owned())
    }

    /// Returns the background colour of the screen's first cell.
    pub(crate) fn background(&self) -> vt100::Color {
        self.with(|screen| screen.cell(0, 0).map(vt100::Cell::bgcolor).unwrap_or_default())
    }

    /// Sets a light or dark background, which later queries report.
    pub(crate) fn set_light(&self, light: bool) {
        self.light.store(light, Ordering::Relaxed);
    }

    /// Types keys after a pause, repeatedly, until the screen shows the text.
    pub(crate) fn until(&self, keys: &[&str], text: &str) {
        self.repeat(keys, &format!("{text:?} on the screen"), |screen| screen.contains(text));
    }

    /// Types keys after a pause, repeatedly, until the screen no longer shows the text.
    pub(crate) fn until_gone(&self, keys: &[&str], text: &str) {
        self.repeat(keys, &format!("no {text:?} on the screen"), |screen| !screen.contains(text));
    }

    fn repeat(&self, keys: &[&str], expected: &str, is_done: impl Fn(&str) -> bool) {
        wait_for(expected, || {
            std::thread::sleep(TYPING_PAUSE);
            self.keys(keys);
            (0..100).find_map(|_| {
                pause();
                is_done(&self.screen()).then_some(())
            })
        });
    }

    /// Waits until the screen shows this.
    pub(crate) fn shows(&self, text: &str) {
        wait_for(&format!("{text:?} on the screen"), || self.screen().contains(text).then_some(()));
    }

    /// Checks that no program uses the alternate screen, the mouse or bracketed paste any more, and that input is
    /// echoed.
    pub(crate) fn assert_restored(&self) {
        // The last output of a program may be read a moment after its end.
        let is_held = |screen: &vt100::Screen| {
            let has_mouse = screen.mouse_protocol_mode() != vt100::MouseProtocolMode::None;
            has_mouse || screen.alternate_screen() || screen.bracketed_paste() || screen.hide_cursor()
        };
        let is_free = || self.with(|screen| (!is_held(screen)).then_some(()));
        wait_for("the normal screen, mouse, pastes and cursor of the terminal", is_free);
        self.keys(&["typed"]);
        self.shows("typed");
    }

    /// Closes the terminal as a closed window does: its processes get SIGHUP.
    pub(crate) fn close(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            // It fails only with a screen that cannot be drawn, which the test has seen by now.
            let _ = reader.join();
        }
        self.master = None;
    }

    fn master(&self) -> &File {
        self.master.as_deref().expect("the terminal is open")
    }
}

impl Drop for Terminal {
    /// Never panics: the test may be unwinding.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the screen:\n{}", self.screen());
        }
        self.close();
        // The whole process group of its session's leader; it may have ended already.
        let _ = kill_process_group(Pid::from_child(&self.shell.0), Signal::KILL);
    }
}

/// Both ends of a new terminal.
fn open() -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
    (master, slave)
}

fn resize(master: &File, (columns, rows): (u16, u16)) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(master, size).unwrap();
}

/// Draws the output of programs until the terminal is closed or its last user has left.
fn read(mut master: &File, screen: &Mutex<vt100::Parser<Clipboard>>, over: &AtomicBool, light: &AtomicBool) {
    let mut bytes = [0; 4096];
    while !over.load(Ordering::Relaxed) {
        let mut ready = [PollFd::new(&master, PollFlags::IN)];
        if !matches!(poll(&mut ready, Some(&POLL_INTERVAL)), Ok(count) if count > 0) {
            continue;
        }
        match master.read(&mut bytes) {
            Ok(count) if count > 0 => {
                screen.lock().unwrap_or_else(PoisonError::into_inner).process(&bytes[..count]);
                let answers = answers(&bytes[..count], light.load(Ordering::Relaxed));
                // The program may have ended already.
                let _ = master.write_all(answers.as_bytes());
            }
            // Linux returns this error if no process has the other end open.
            _ => return,
        }
    }
}

/// The terminal's responses to queries of its colours and its type.
fn answers(input: &[u8], light: bool) -> String {
    let asks = |query: &str| input.windows(query.len()).any(|part| part == query.as_bytes());
    let (black, white) = ("rgb:1010/1010/1010", "rgb:f0f0/f0f0/f0f0");
    let (text, ground) = if light { (black, white) } else { (white, black) };
    let mut answers = String::new();
    for (query, answer) in [
        ("\u{1b}]10;?", format!("\u{1b}]10;{text}\u{1b}\\")),
        ("\u{1b}]11;?", format!("\u{1b}]11;{ground}\u{1b}\\")),
        ("\u{1b}[c", "\u{1b}[?62;22c".to_owned()),
    ] {
        if asks(query) {
            answers.push_str(&answer);
        }
    }
    answers
}

/// The bytes of a key.
fn typed(key: &str) -> Vec<u8> {
    match (key, key.strip_prefix("C-").map(str::as_bytes)) {
        ("Enter", _) => vec![b'\r'],
        ("Escape", _) => vec![0x1b],
        (_, Some([letter])) => vec![letter & 0x1f],
        _ => key.as_bytes().to_vec(),
    }
}
