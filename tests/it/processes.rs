//! Processes and directories that end with their test, and waits. The tests of `podium-lab` include this file, too.

use podium::base::optional_file::read_optional_bytes;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The timeout of all waits in tests.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

/// A temporary directory in which node hosts run. They outlive their control plane by design; the hosts of a failed
/// test end here, and their containers with them.
pub(crate) struct HostDirectory(tempfile::TempDir);

impl HostDirectory {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn in_directory(parent: &str) -> Self {
        Self(tempfile::tempdir_in(parent).unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for HostDirectory {
    /// Never panics: the test may be unwinding.
    fn drop(&mut self) {
        let mut state = b"node-host\0--state\0".to_vec();
        let path = self.path().canonicalize().unwrap_or_else(|_| self.path().to_path_buf());
        state.extend_from_slice(path.as_os_str().as_encoded_bytes());
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let command = read_optional_bytes(entry.path().join("cmdline"));
            let is_ours = command.windows(state.len()).any(|part| part == state);
            if let Some(pid) = Pid::from_raw(pid).filter(|_| is_ours) {
                // The process may have ended already.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// A child that does not outlive its test: killed and waited for when dropped, also while a failed test unwinds.
pub(crate) struct ChildGuard(pub(crate) Child);

impl ChildGuard {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        loop {
            match command.spawn() {
                Ok(child) => return Self(child),
                // A program that was just copied is busy while a process that another test has forked meanwhile holds
                // the copy open for writing, until that process executes its own program.
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => pause(),
                Err(error) => panic!("{command:?}: {error}"),
            }
        }
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The interval between two polls of something outside this process.
pub(crate) fn pause() {
    std::thread::park_timeout(Duration::from_millis(20));
}

/// Waits until `look` returns a value; fails with `what` after the timeout. The polls become rarer, and those of
/// up to a second take at most half of the time, because each may start a process, and tests wait side by side.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        let before = start.elapsed();
        if let Some(found) = look() {
            return found;
        }
        let waited = start.elapsed();
        assert!(waited < WAIT_TIMEOUT, "waited in vain: {what}");
        let poll = waited.saturating_sub(before).min(Duration::from_secs(1));
        let interval = (waited / 10).clamp(Duration::from_millis(20), Duration::from_millis(250));
        std::thread::park_timeout(interval.max(poll));
    }
}
