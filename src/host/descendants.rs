//! All processes of a host, seen from outside: for a caller that kills the host and must know that nothing of it is
//! left.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use sha2::{Digest, Sha256};

use super::process_tree;
use super::running_hosts::wait_for_end;
use base::hex::hex;

/// The interval between two checks while killing.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// The time for which a dead host's subreapers kill the processes below them; meanwhile the subreapers must not be
/// killed.
const SUBREAPER_GRACE: Duration = Duration::from_secs(2);

/// The descendants of a host, and the processes that carry its mark.
pub struct Descendants {
    dir: PathBuf,
    /// Pidfds, which stay valid if a pid is reused.
    processes: Vec<OwnedFd>,
}

/// The prefix of all container ids of the host of this directory.
pub(crate) fn id_prefix(dir: &Path) -> String {
    let mut prefix = hex(Sha256::digest(dir.as_os_str().as_encoded_bytes()));
    prefix.truncate(16);
    prefix
}

impl Descendants {
    /// Finds the current processes of this directory's host; `host` is the pid of the host itself, if it is known.
    pub fn of(dir: &Path, host: Option<u32>) -> Self {
        let all = process_tree::all();
        let below = host.map(|host| process_tree::tree(&all, &[host.cast_signed()])).unwrap_or_default();
        let handle = |pid| pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok();
        Self { dir: dir.to_path_buf(), processes: below.into_iter().filter_map(handle).collect() }
    }

    /// Kills the remaining processes once the host is dead, until none is left. The error has the number of processes
    /// that do not exit in time.
    pub fn kill_all(&mut self, timeout: Duration) -> io::Result<()> {
        let Ok(dir) = self.dir.canonicalize() else { return Ok(()) };
        let prefix = id_prefix(&dir);
        let begin = Instant::now();
        loop {
            let now = Some(Duration::ZERO);
            self.processes.retain(|process| !wait_for_end(process, now).is_ok_and(|ended| ended));
            let marked = process_tree::marked(&process_tree::all(), &prefix);
            if self.processes.is_empty() && marked.is_empty() {
                return Ok(());
            }
            let passed = begin.elapsed();
            if passed > timeout {
                let left = marked.len().max(self.processes.len());
                return Err(io::Error::other(format!(
                    "{left} processes of its containers did not exit after SIGKILL"
                )));
            }
            for pid in marked.into_iter().filter_map(Pid::from_raw) {
                // The process may have ended just now.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
            if passed > SUBREAPER_GRACE {
                for process in &self.processes {
                    // The process may have ended just now.
                    let _ = pidfd_send_signal(process, Signal::KILL);
                }
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
    }
}
