//! The program in the torture's pods: it holds an identity and records that in a log.
//!
//! `podium-lab torture-hold DIR IDENTITY UID [VOLUME]` takes the identity's lock, and appends to the identity's log.
//! Its child has a session of its own, ignores SIGTERM and shares the lock, so the kernel releases the lock only when
//! all processes of the container are dead.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::time::{ClockId, clock_gettime};
use tokio::signal::unix::{SignalKind, signal};

use super::record::{Record, RecordKind};
use base::clock::Clock;

/// Name of the subcommand.
pub(crate) const PROGRAM: &str = "torture-hold";
/// First argument of the child.
const KEEP: &str = "--keep";
/// Maximum time that a holder takes to end, which is a little less than the shortest grace period.
const LINGER_MILLISECONDS: u64 = 900;
/// Interval between the holder's records in its log.
const EVERY: Duration = Duration::from_millis(50);

/// Path of an identity's log.
pub(super) fn log_of(directory: &Path, identity: &str) -> PathBuf {
    directory.join(format!("{identity}.log"))
}

/// Runs the program.
pub(crate) fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<String> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        [KEEP, ..] => keep(),
        [directory, identity, uid] => hold(Path::new(directory), identity, uid, None),
        [directory, identity, uid, volume] => {
            hold(Path::new(directory), identity, uid, Some(Path::new(volume)))
        }
        _ => Err(anyhow::anyhow!("DIRECTORY IDENTITY UID [VOLUME]")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{PROGRAM}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(program: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(program)
}

/// Runs the child, which inherits the lock's descriptor as its standard input, until it is killed.
fn keep() -> Result<()> {
    // The call fails, harmlessly, if the process already leads a session, as the first process of a PID namespace does.
    let _ = rustix::process::setsid();
    run(async {
        let _deaf = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()]
            .map(signal)
            .into_iter()
            .collect::<io::Result<Vec<_>>>()?;
        std::future::pending().await
    })
}

/// The log of one process.
struct HolderLog {
    log: File,
    run: u64,
    uid: String,
}

impl HolderLog {
    fn open(directory: &Path, identity: &str, uid: &str) -> Result<Self> {
        let path = log_of(directory, identity);
        let mut log = OpenOptions::new()
            .create(true)
            .append(true)
            .read(true)
            .open(&path)
            .with_context(|| path.display().to_string())?;
        // A killed holder may have left half a line.
        let mut last = [b'\n'];
        if log.seek(SeekFrom::End(-1)).is_ok() {
            log.read_exact(&mut last)?;
        }
        if last != [b'\n'] {
            log.write_all(b"\n")?;
        }
        Ok(Self { log, run: base::random::random::<u32>().into(), uid: uid.to_owned() })
    }

    /// Appends a record with a single write; a record that must not be lost is then synced to the disk.
    fn append(
        &mut self,
        kind: RecordKind,
        earlier_starts: Option<usize>,
        other: Option<String>,
    ) -> Result<()> {
        let now = clock_gettime(ClockId::Boottime);
        let at = u64::try_from(now.tv_sec)? * 1_000_000_000 + u64::try_from(now.tv_nsec)?;
        let wall = Clock::machine().now().as_millisecond();
        let pid = std::process::id();
        let record =
            Record { run: self.run, at, wall, pid, uid: self.uid.clone(), what: kind, earlier_starts, other };
        let mut line = serde_json::to_vec(&record)?;
        line.push(b'\n');
        self.log.write_all(&line)?;
        if kind != RecordKind::Alive {
            self.log.sync_data()?;
        }
        Ok(())
    }
}

fn hold(directory: &Path, identity: &str, uid: &str, volume: Option<&Path>) -> Result<()> {
    let path = directory.join(format!("{identity}.lock"));
    let mut options = OpenOptions::new();
    let mut lock = options
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)
        .with_context(|| path.display().to_string())?;
    let mut witness = HolderLog::open(directory, identity, uid)?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut other = String::new();
        lock.read_to_string(&mut other)?;
        witness.append(RecordKind::Clash, None, Some(other))?;
        bail!("{identity} is held by another process");
    }
    lock.set_len(0)?;
    lock.write_all(format!("pod {uid}, pid {} of its own", std::process::id()).as_bytes())?;
    let earlier_starts = volume.map(count).transpose()?;
    witness.append(RecordKind::Begin, earlier_starts, None)?;
    run(async {
        let mut ends = signal(SignalKind::terminate())?;
        let program = std::env::args_os().next().context("a program has a name")?;
        // The child is not awaited, because it runs until the container ends.
        Command::new(program)
            .args([PROGRAM, KEEP])
            .arg(directory)
            .arg(identity)
            .stdin(Stdio::from(lock.try_clone()?))
            .spawn()
            .context("cannot start the child")?;
        let mut ticks = tokio::time::interval(EVERY);
        let linger = Duration::from_millis(witness.run % LINGER_MILLISECONDS);
        let mut end = std::pin::pin!(async {
            ends.recv().await;
            // The holder simulates work to finish, so that a premature successor finds the identity still held.
            tokio::time::sleep(linger).await;
        });
        loop {
            tokio::select! {
                () = &mut end => return witness.append(RecordKind::End, None, None),
                _ = ticks.tick() => witness.append(RecordKind::Alive, None, None)?,
            }
        }
    })
}

/// Counts the earlier starts on this volume, and adds this one.
fn count(volume: &Path) -> Result<usize> {
    let path = volume.join("beginnings");
    let mut options = OpenOptions::new();
    let mut file = options
        .create(true)
        .append(true)
        .read(true)
        .open(&path)
        .with_context(|| path.display().to_string())?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    file.write_all(b"one\n")?;
    file.sync_data()?;
    Ok(text.lines().count())
}
