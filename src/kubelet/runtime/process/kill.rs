//! Ends a host: waits if it ends by itself, and kills it otherwise.
//!
//! Signals reach a suspended or hanging process all the same, so nothing here sends requests to the host.

use std::os::fd::OwnedFd;
use std::process::Child;
use std::time::Duration;

use rustix::process::{Signal, pidfd_send_signal};

use super::connection::{HostProcess, SharedConnection};
use super::host_error;
use crate::runtime::RuntimeError;
use host::Descendants;
use host::running_hosts::wait_for_end;

/// Timeout for the exit of a host that has announced it.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Killed processes exit within this time unless the kernel holds them (a device that does not respond).
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

impl SharedConnection {
    /// Waits until a host that has closed its connection has ended; kills a host that does not end.
    pub(super) fn wait_for_end(&self) -> Result<(), RuntimeError> {
        // A host of an earlier control plane has another parent: its exit can only be observed.
        let ended =
            self.host.lock().as_ref().map_or(Ok(true), |host| wait_for_end(&host.handle, Some(EXIT_TIMEOUT)));
        if !ended.map_err(host_error)? {
            return self.kill();
        }
        let (_, child) = (self.host.lock().take(), self.child.lock().take());
        child.map_or(Ok(()), reap)
    }

    /// Kills the host and all its processes. The host's subreapers notice its death and kill the processes below them;
    /// other processes are found by their process handles or by the host's mark on them, and killed here. May be
    /// retried: processes that did not die are remembered.
    pub(super) fn kill(&self) -> Result<(), RuntimeError> {
        let (mut host, mut child) = (self.host.lock(), self.child.lock());
        let running =
            |host: &&HostProcess| wait_for_end(&host.handle, Some(Duration::ZERO)).is_ok_and(|ended| !ended);
        let pid = child.as_ref().map(Child::id).or(host.as_ref().filter(running).map(|host| host.pid));
        let mut held =
            self.unreaped.lock().take().unwrap_or_else(|| Descendants::of(&self.config.state_dir, pid));
        let killed = kill_and_bury(&mut host, &mut child, &mut held);
        if killed.is_err() {
            *self.unreaped.lock() = Some(held);
        }
        killed
    }
}

fn kill_and_bury(
    host: &mut Option<HostProcess>,
    child: &mut Option<Child>,
    descendants: &mut Descendants,
) -> Result<(), RuntimeError> {
    if let Some(host) = host {
        kill_and_wait(&host.handle)?;
    }
    if let Some(mut child) = child.take() {
        // The child may be dead by now.
        let _ = child.kill();
        reap(child)?;
    }
    *host = None;
    descendants.kill_all(KILL_TIMEOUT).map_err(host_error)
}

fn kill_and_wait(host: &OwnedFd) -> Result<(), RuntimeError> {
    // The host may be dead by now.
    let _ = pidfd_send_signal(host, Signal::KILL);
    if wait_for_end(host, Some(KILL_TIMEOUT)).map_err(host_error)? {
        Ok(())
    } else {
        Err(host_error("it did not exit after SIGKILL"))
    }
}

/// Waits for a child that ends, and kills one that does not.
fn reap(mut child: Child) -> Result<(), RuntimeError> {
    for _ in 0..1000 {
        if child.try_wait().map_err(host_error)?.is_some() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().map_err(host_error)?;
    child.wait().map(drop).map_err(host_error)
}
