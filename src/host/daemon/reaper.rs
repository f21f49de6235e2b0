//! The only place that waits for children.
//!
//! The host is a subreaper, so processes it never started become its children too: they are only reaped.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use rustix::process::{Pid, WaitOptions};
use tokio::signal::unix::{Signal, SignalKind};
use tokio::sync::oneshot;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessExit {
    /// The exit code; 128 + signal when a signal ended it.
    pub(super) code: i32,
    /// The signal that ended it.
    pub(super) signal: Option<i32>,
}

impl ProcessExit {
    /// Converts the status that `wait` returns.
    pub(super) fn of(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            let number = libc::WTERMSIG(status);
            return Self { code: 128 + number, signal: Some(number) };
        }
        Self { code: if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 255 }, signal: None }
    }
}

/// Passes each child's exit to its waiter.
#[derive(Clone, Default)]
pub(super) struct Reaper {
    waiting: Rc<RefCell<HashMap<Pid, oneshot::Sender<ProcessExit>>>>,
}

impl Reaper {
    /// Returns a receiver of a child's exit. Must be called before the loop runs again after the fork, so that no exit
    /// is missed.
    pub(super) fn expect(&self, pid: Pid) -> oneshot::Receiver<ProcessExit> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().insert(pid, sender);
        receiver
    }

    /// Returns true if a task waits for this child's exit: it was started here.
    pub(super) fn expects(&self, pid: Pid) -> bool {
        self.waiting.borrow().contains_key(&pid)
    }

    /// Reaps for ever. `signals` must have been created before the first fork.
    pub(super) async fn run(self, mut signals: Signal) {
        loop {
            self.reap();
            if signals.recv().await.is_none() {
                return;
            }
        }
    }

    fn reap(&self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if let Some(waiting) = self.waiting.borrow_mut().remove(&pid) {
                // A missing receiver is fine: the process is reaped all the same.
                let _ = waiting.send(ProcessExit::of(status.as_raw()));
            }
        }
    }
}

/// The signal for exited children.
pub(super) fn child_signals() -> std::io::Result<Signal> {
    tokio::signal::unix::signal(SignalKind::child())
}
