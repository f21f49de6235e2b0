//! A gate before the files of a directory (FAULT-1): the kernel sends it an event before each access to their content
//! (fanotify's pre-content events), and it makes writes fail or wait. Nothing is mounted, filled or moved: existing
//! files are read as before, may be deleted, and are all there when the gate is removed.
//!
//! The kernel sends events only for files that are opened while the gate exists. Descriptors opened before can still
//! write: [`WriteGate::open_before`] returns their number. Writes through memory maps and `io_uring` cause no events
//! either.
//!
//! Architecture Invariant: a thread that waits at a gate continues when the gate's thread, this process or its
//! descriptor ends, for any reason.

mod call;
mod fanotify;
mod tree;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
#[cfg(test)]
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use base::disk_fault::DiskFault;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::fstat;
use rustix::io::{Errno, read, write};
use tokio::time::Instant;

use call::change;
use fanotify::Event;
use tree::Writer;

/// A gate, which exists until it is dropped.
#[derive(Debug)]
pub(super) struct WriteGate {
    group: Arc<OwnedFd>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    /// The directories that [`WriteGate::watch_directory`] has already marked, by device and inode.
    marked: BTreeSet<(u64, u64)>,
    before: Vec<Writer>,
    /// The number of events that a slow disk delays.
    #[cfg(test)]
    delayed: Arc<AtomicUsize>,
}

impl WriteGate {
    /// Sets a gate before all files below a directory.
    pub(super) fn before(directory: BorrowedFd<'_>, denial: DiskFault) -> io::Result<Self> {
        let group = Arc::new(fanotify::group()?);
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let keeper = GateThread {
            group: group.clone(),
            stop: stop.clone(),
            denial,
            waiting: Vec::new(),
            #[cfg(test)]
            delayed: Arc::default(),
        };
        #[cfg(test)]
        let delayed = keeper.delayed.clone();
        // The thread runs before the first mark, since it must respond to the first event at once.
        let thread = std::thread::Builder::new().name("gate".into()).spawn(move || keeper.run())?;
        let mut gate = Self {
            group,
            stop,
            thread: Some(thread),
            marked: BTreeSet::new(),
            before: Vec::new(),
            #[cfg(test)]
            delayed,
        };
        gate.watch_directory(directory)?;
        Ok(gate)
    }

    /// Extends the gate to the files below this directory, including new ones.
    pub(super) fn watch_directory(&mut self, directory: BorrowedFd<'_>) -> io::Result<()> {
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            return Err(io::Error::other("the thread that refuses writes has ended"));
        }
        let about = fstat(directory)?;
        let found = tree::walk(directory, |directory| fanotify::mark(self.group.as_fd(), directory))?;
        // The open files of the whole machine are searched only once per directory.
        if self.marked.insert((about.st_dev, about.st_ino)) {
            self.before.extend(found.writers(about.st_dev));
        }
        Ok(())
    }

    /// The number of descriptors, opened before the gate, through which its files may still be written.
    pub(super) fn open_before(&mut self) -> usize {
        self.before.retain(Writer::is_open);
        self.before.len()
    }
}

impl Drop for WriteGate {
    fn drop(&mut self) {
        // No other code writes to this eventfd, so its counter cannot overflow.
        let _ = write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Responds to threads that wait at a gate. It runs in a thread of its own, so that it responds even while other
/// threads of this process wait for a disk.
struct GateThread {
    group: Arc<OwnedFd>,
    stop: Arc<OwnedFd>,
    denial: DiskFault,
    /// The events that a slow disk delays, each with the end of its delay.
    waiting: Vec<(Instant, Event)>,
    /// The number of `waiting`, for tests of the gate.
    #[cfg(test)]
    delayed: Arc<AtomicUsize>,
}

impl GateThread {
    fn run(mut self) {
        // Some hundred events.
        let mut buffer = vec![0; 32 << 10];
        loop {
            let next = self.waiting.iter().map(|(until, _)| *until).min();
            let left = next.map(|at| at.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let mut waits =
                [PollFd::new(&*self.group, PollFlags::IN), PollFd::new(&*self.stop, PollFlags::IN)];
            match poll(&mut waits, left.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            if !waits[1].revents().is_empty() {
                return;
            }
            match read(&*self.group, &mut buffer[..]) {
                Ok(length) => {
                    for event in fanotify::events(&buffer[..length]) {
                        self.handle_event(event);
                    }
                }
                // There is no event yet; or the kernel could not open the event's file for this process, and has
                // responded itself.
                Err(
                    Errno::AGAIN
                    | Errno::INTR
                    | Errno::ACCESS
                    | Errno::NOENT
                    | Errno::NXIO
                    | Errno::TXTBSY
                    | Errno::MFILE,
                ) => {}
                Err(_) => return,
            }
            let now = Instant::now();
            let waiting = std::mem::take(&mut self.waiting).into_iter();
            let (over, waiting): (Vec<_>, Vec<_>) = waiting.partition(|(until, _)| *until <= now);
            self.waiting = waiting;
            #[cfg(test)]
            self.delayed.store(self.waiting.len(), Ordering::Release);
            for (_, event) in over {
                self.respond(&event, None);
            }
        }
    }

    fn handle_event(&mut self, event: Event) {
        let Some(change) = change(event.thread, event.file.as_fd(), event.range) else {
            return self.respond(&event, None);
        };
        match self.denial {
            DiskFault::Full => self.respond(&event, change.needs_space.then_some(libc::ENOSPC)),
            DiskFault::Failing => self.respond(&event, Some(libc::EIO)),
            DiskFault::Slow(delay) => self.waiting.push((Instant::now() + delay, event)),
        }
    }

    fn respond(&self, event: &Event, error: Option<i32>) {
        // The write fails if the waiting thread was killed meanwhile.
        let _ = write(&*self.group, &fanotify::encode_response(event.file.as_fd(), error));
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, OpenOptions};
    use std::io::{Seek, SeekFrom, Write};
    use std::time::Duration;

    use super::*;

    /// Returns a gate for a directory; `None` if this machine does not support gates.
    fn gate(place: &std::path::Path, denial: DiskFault) -> Option<WriteGate> {
        let directory = File::open(place).unwrap();
        match WriteGate::before(directory.as_fd(), denial) {
            Ok(gate) => Some(gate),
            Err(error) => {
                assert!(
                    matches!(error.raw_os_error(), Some(libc::EPERM | libc::EINVAL | libc::EOPNOTSUPP)),
                    "{error}"
                );
                None
            }
        }
    }

    #[test]
    fn writes_at_a_gate_fail_with_no_space_and_lose_nothing_fault_1() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir(at("deep")).unwrap();
        fs::write(at("deep/kept"), "kept").unwrap();
        let mut early = OpenOptions::new().append(true).open(at("deep/kept")).unwrap();
        let Some(mut gate) = gate(place.path(), DiskFault::Full) else { return };
        assert_eq!(gate.open_before(), 1);
        let assert_no_space = |outcome: io::Result<()>| {
            assert_eq!(outcome.unwrap_err().raw_os_error(), Some(libc::ENOSPC));
        };
        assert_no_space(fs::write(at("new"), "x"));
        assert_no_space(OpenOptions::new().append(true).open(at("deep/kept")).unwrap().write_all(b"more"));
        assert_eq!(fs::read_to_string(at("deep/kept")).unwrap(), "kept");
        let mut inside = OpenOptions::new().write(true).open(at("deep/kept")).unwrap();
        inside.write_all(b"KEPT").unwrap();
        assert_no_space(inside.write_all(b"!"));
        inside.seek(SeekFrom::Start(0)).unwrap();
        inside.write_all(b"kept").unwrap();
        // Descriptors opened before the gate can still write, and are no longer counted once they are closed.
        early.write_all(b"!").unwrap();
        drop(early);
        assert_eq!(gate.open_before(), 0);
        // A directory created later is covered by the next scan.
        fs::create_dir(at("later")).unwrap();
        gate.watch_directory(File::open(place.path()).unwrap().as_fd()).unwrap();
        assert_no_space(fs::write(at("later/new"), "x"));
        fs::remove_file(at("new")).unwrap();
        drop(gate);
        fs::write(at("new"), "room").unwrap();
        assert_ungated(&mut inside);
        assert_eq!(fs::read_to_string(at("deep/kept")).unwrap(), "kept!");
    }

    /// Checks that a file opened while the gate existed can be written without delay after the gate is removed.
    fn assert_ungated(file: &mut File) {
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(b"kept!").unwrap();
    }

    #[test]
    fn a_disk_that_fails_or_is_slow_meets_writes_alone_and_lets_go_when_it_is_healed_fault_1() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        fs::write(&file, "was").unwrap();
        let Some(failing) = gate(place.path(), DiskFault::Failing) else { return };
        let mut inside = OpenOptions::new().write(true).open(&file).unwrap();
        assert_eq!(inside.write_all(b"x").unwrap_err().raw_os_error(), Some(libc::EIO));
        assert_eq!(inside.set_len(0).unwrap_err().raw_os_error(), Some(libc::EIO));
        assert_eq!(fs::read_to_string(&file).unwrap(), "was");
        drop(failing);
        let slow = gate(place.path(), DiskFault::Slow(Duration::from_millis(300))).unwrap();
        let start = Instant::now();
        fs::write(&file, "slow").unwrap();
        assert!(start.elapsed() >= Duration::from_millis(300));
        drop(slow);
        let slow = gate(place.path(), DiskFault::Slow(Duration::from_hours(1))).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "slow", "a read is not delayed");
        // A write that is delayed by an hour continues once the gate is removed.
        let path = file.clone();
        let writer = std::thread::spawn(move || fs::write(path, "free"));
        let start = Instant::now();
        while slow.delayed.load(Ordering::Acquire) == 0 {
            assert!(start.elapsed() < Duration::from_mins(1), "no write waits at the gate");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!writer.is_finished());
        drop(slow);
        writer.join().unwrap().unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "free");
    }
}
