//! A local program of the user in a pane, on a pseudo-terminal of this machine (CON-16).
//!
//! One task owns the terminal's master side. Closing the pane closes the master, which hangs up all processes on that
//! terminal.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};

use bytes::Bytes;
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::unix::AsyncFd;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use super::inputs::{Inputs, PaneInput, PaneSize};
use super::outcome::Outcome;
use super::session::{EVENTS, PaneEvent, Session};
use crate::exec_streams::READ_BYTES;
use base::subordinate_ids::as_real_user;
use console_data::extensions::Program;

/// Maximum number of typed bytes that wait for a program that does not read; more is dropped.
const WAITING: usize = 1 << 20;

/// Maximum number of reads of the output that remains when the program has exited.
const MAX_DRAIN_READS: usize = 64;

/// Starts a program; its events arrive on the receiver, and the last one is [`PaneEvent::Ended`].
pub fn open(program: Program, size: PaneSize) -> (Session, mpsc::Receiver<PaneEvent>) {
    let (session, inputs) = Session::carried_by_another();
    let (events, receiver) = mpsc::channel(EVENTS);
    base::task::start(run(program, size, inputs, events));
    (session, receiver)
}

/// Runs the program, and sends its outcome last.
async fn run(program: Program, size: PaneSize, inputs: Inputs, events: mpsc::Sender<PaneEvent>) {
    let outcome = match start(&program, size) {
        Ok((child, master)) => carry(child, &master, inputs, &events).await,
        Err(error) => {
            let name = program.words.first().map(String::as_str).unwrap_or_default();
            Outcome::Failed(format!("{name}: {error}"))
        }
    };
    // The pane may be closed already, so that the receiver is gone.
    let _ = events.send(PaneEvent::Ended(outcome)).await;
}

fn start(program: &Program, size: PaneSize) -> io::Result<(Child, AsyncFd<OwnedFd>)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let slave = ioctl_tiocgptpeer(&master, flags)?;
    resize(&master, size);
    rustix::io::ioctl_fionbio(&master, true)?;
    let (name, arguments) = program.words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let end = || slave.try_clone().map(Stdio::from);
    let mut command = Command::new(name);
    command.args(arguments).envs(program.environment.iter().cloned()).env("TERM", "xterm-256color");
    command.stdin(end()?).stdout(end()?).stderr(end()?).kill_on_drop(true);
    on_its_terminal(&mut command);
    as_real_user(command.as_std_mut());
    let child = command.spawn()?;
    Ok((child, registered(master)?))
}

#[expect(
    unsafe_code,
    reason = "an open descriptor that is owned is the one of the registration until both go"
)]
fn registered(master: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: `OwnedFd` is open and always names the same descriptor.
    unsafe { AsyncFd::register(master) }.map_err(Into::into)
}

/// Lets the process start a new session with its standard input as the controlling terminal: only it can do that.
#[expect(unsafe_code, reason = "only two system calls run between fork and exec, and they need no memory")]
fn on_its_terminal(command: &mut Command) {
    let own_session = || {
        rustix::process::setsid()?;
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        Ok(())
    };
    // SAFETY: both calls are safe in a child of a program with threads.
    unsafe {
        command.pre_exec(own_session);
    }
}

fn resize(master: &impl AsFd, size: PaneSize) {
    let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    // If this fails, the program keeps drawing in the old size.
    let _ = tcsetwinsize(master, size);
}

/// Relays bytes until the program exits or the user detaches.
async fn carry(
    mut child: Child,
    master: &AsyncFd<OwnedFd>,
    mut inputs: Inputs,
    events: &mpsc::Sender<PaneEvent>,
) -> Outcome {
    if events.send(PaneEvent::Opened { container: String::new(), tty: true, stdin: true }).await.is_err() {
        return Outcome::Detached;
    }
    let mut waiting: VecDeque<u8> = VecDeque::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut ended = None;
    loop {
        tokio::select! {
            read = read(master, &mut buffer) => match read {
                Ok(count) if count > 0 => {
                    let bytes = Bytes::copy_from_slice(&buffer[..count]);
                    if events.send(PaneEvent::Output(bytes)).await.is_err() {
                        return Outcome::Detached;
                    }
                }
                // No process has the terminal open any more.
                _ => break,
            },
            written = write(master, &waiting), if !waiting.is_empty() => match written {
                Ok(count) => drop(waiting.drain(..count)),
                Err(_) => waiting.clear(),
            },
            input = inputs.recv() => match input {
                Some(PaneInput::Bytes(bytes)) if waiting.len() + bytes.len() <= WAITING => waiting.extend(bytes),
                Some(PaneInput::Bytes(_)) => {}
                Some(PaneInput::Resize(size)) => resize(master, size),
                Some(PaneInput::Detach) | None => return Outcome::Detached,
            },
            // Processes that the program leaves behind may keep the terminal open for ever, so that only the output so
            // far is read.
            status = child.wait(), if ended.is_none() => {
                ended = Some(status);
                for _ in 0..MAX_DRAIN_READS {
                    let Ok(count @ 1..) = rustix::io::read(master.get_ref(), &mut buffer[..]) else { break };
                    if events.send(PaneEvent::Output(Bytes::copy_from_slice(&buffer[..count]))).await.is_err() {
                        break;
                    }
                }
                break;
            }
        }
    }
    let status = match ended {
        Some(status) => status,
        None => child.wait().await,
    };
    match status {
        Ok(status) => Outcome::Exited(code(status)),
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

async fn read(master: &AsyncFd<OwnedFd>, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        let mut ready = master.readable().await?;
        let tried = ready.try_io(|master| match rustix::io::read(master, &mut *buffer) {
            // Linux returns this once every slave is closed.
            Err(Errno::IO) => Ok(0),
            read => Ok(read?),
        });
        if let Ok(read) = tried {
            return read;
        }
    }
}

async fn write(master: &AsyncFd<OwnedFd>, waiting: &VecDeque<u8>) -> io::Result<usize> {
    loop {
        let mut ready = master.writable().await?;
        if let Ok(written) = ready.try_io(|master| Ok(rustix::io::write(master, waiting.as_slices().0)?)) {
            return written;
        }
    }
}

/// Returns the exit code in a shell's convention.
fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(script: &str) -> Program {
        let words = ["sh", "-c", script].map(str::to_owned).to_vec();
        Program { words, environment: Vec::new() }
    }

    /// Returns the complete output of a program and its outcome; `typed` is sent once the program has printed `>`.
    async fn run_script(script: &str, typed: &str) -> (String, Outcome) {
        let size = PaneSize { rows: 7, columns: 33 };
        let (session, mut events) = open(of(script), size);
        let (mut output, mut typed) = (Vec::new(), Some(typed));
        loop {
            match events.recv().await.expect("an end") {
                PaneEvent::Output(bytes) => output.extend(bytes),
                PaneEvent::Ended(outcome) => return (String::from_utf8_lossy(&output).into_owned(), outcome),
                _ => {}
            }
            if output.contains(&b'>')
                && let Some(typed) = typed.take()
            {
                session.send(PaneInput::Bytes(typed.into()));
            }
        }
    }

    #[tokio::test]
    async fn a_program_has_a_terminal_of_its_own_con_16() {
        for (script, typed, expected, outcome) in [
            ("test -t 0 && test -t 1 && test -t 2 && stty size; exit 4", "", "7 33", Outcome::Exited(4)),
            ("printf '>'; read line; echo got $line", "abc\r", "got abc", Outcome::Exited(0)),
            // Ctrl-C reaches the program through its controlling terminal.
            (
                "trap 'echo caught; exit 5' INT; printf '>'; while :; do sleep 0.01; done",
                "\u{3}",
                "caught",
                Outcome::Exited(5),
            ),
            ("echo $TERM; kill -9 $$", "", "xterm-256color", Outcome::Exited(137)),
            ("sleep 60 & echo left", "", "left", Outcome::Exited(0)),
        ] {
            let (output, ended) = run_script(script, typed).await;
            assert!(output.contains(expected), "{script}: {output:?}");
            assert_eq!(ended, outcome, "{script}");
        }
        let none = Program { words: vec!["/no/such/program".to_owned()], environment: Vec::new() };
        let (_session, mut events) = open(none, PaneSize { rows: 1, columns: 1 });
        let end = events.recv().await;
        assert!(
            matches!(&end, Some(PaneEvent::Ended(Outcome::Failed(why))) if why.starts_with("/no/such/program: No such")),
            "{end:?}"
        );
    }

    #[tokio::test]
    async fn a_program_ends_with_its_pane_con_16() {
        let dir = tempfile::tempdir().unwrap();
        let fifo_path = dir.path().join("gone");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo_path, rustix::fs::Mode::RWXU).unwrap();
        let script = format!(
            "trap 'echo > {}; exit' HUP; echo ready; while :; do sleep 0.05; done",
            fifo_path.display()
        );
        // The listening process is not the pane's own child.
        let size = PaneSize { rows: 7, columns: 33 };
        let (session, mut events) =
            open(of(&format!("sh -c '{}'; true", script.replace('\'', "'\\''"))), size);
        loop {
            let event = events.recv().await.expect("an event");
            if matches!(&event, PaneEvent::Output(bytes) if bytes.windows(5).any(|part| part == b"ready")) {
                break;
            }
        }
        drop((session, events));
        tokio::task::spawn_blocking(move || std::fs::read(fifo_path).unwrap()).await.unwrap();
    }
}
