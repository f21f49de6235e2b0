//! The only place that waits for children.
//!
//! The host is a subreaper, so processes it never started become its children too: they are only reaped.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use rustix::process::{Pid, WaitOptions};
use tokio::signal::unix::{Signal, SignalKind};
use tokio::sync::oneshot;

use crate::process_tree;

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
    unreported: Rc<RefCell<UnreportedChildren>>,
}

/// The children that helper processes create for this process.
#[derive(Default)]
struct UnreportedChildren {
    /// The number of children that are still to be reported.
    count: usize,
    /// The exits, until then, of children without a waiter.
    exits: HashMap<Pid, ProcessExit>,
}

/// A child that a helper process is to create and report. Its exit is stored until then.
pub(super) struct UnreportedChild(Reaper);

impl UnreportedChild {
    /// Returns a receiver of the exit of the reported child; `None` if it is no child, or another one.
    pub(super) fn expect(self, pid: Pid) -> Option<oneshot::Receiver<ProcessExit>> {
        if self.0.expects(pid) {
            return None;
        }
        let exit = self.0.unreported.borrow_mut().exits.remove(&pid);
        // The number of a child that has ended may be a new child's.
        if process_tree::parent(pid) == Some(rustix::process::getpid()) {
            return Some(self.0.expect(pid));
        }
        let (sender, receiver) = oneshot::channel();
        sender.send(exit?).ok()?;
        Some(receiver)
    }
}

impl Drop for UnreportedChild {
    fn drop(&mut self) {
        let mut unreported = self.0.unreported.borrow_mut();
        unreported.count -= 1;
        if unreported.count == 0 {
            unreported.exits.clear();
        }
    }
}

impl Reaper {
    /// Returns a receiver of a child's exit. Must be called before the loop runs again after the fork, so that no exit
    /// is missed.
    pub(super) fn expect(&self, pid: Pid) -> oneshot::Receiver<ProcessExit> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().insert(pid, sender);
        receiver
    }

    /// Announces a child that a helper process will create. Must be called before the helper can do so.
    pub(super) fn announce(&self) -> UnreportedChild {
        self.unreported.borrow_mut().count += 1;
        UnreportedChild(self.clone())
    }

    /// Returns true if helper processes may have created children that they have not reported yet.
    pub(super) fn has_unreported(&self) -> bool {
        self.unreported.borrow().count > 0
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
            let exit = ProcessExit::of(status.as_raw());
            if let Some(waiting) = self.waiting.borrow_mut().remove(&pid) {
                // A missing receiver is fine: the process is reaped all the same.
                let _ = waiting.send(exit);
            } else if self.has_unreported() {
                self.unreported.borrow_mut().exits.insert(pid, exit);
            }
        }
    }
}

/// The signal for exited children.
pub(super) fn child_signals() -> std::io::Result<Signal> {
    tokio::signal::unix::signal(SignalKind::child())
}
