//! Deliberate faults (FAULT-1): a disk that hangs or fails, writes refused after a number of them, watchers that lag.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use object::{Kind, Revision};

/// The faults of one store.
#[derive(Default)]
pub struct Faults {
    disk: DiskFaults,
    /// The number of further writes that succeed; all if `None`.
    remaining_writes: Mutex<Option<u64>>,
    /// The reason why all writes are refused.
    refusal: Mutex<Option<String>>,
    /// Control loops that watch this kind see nothing newer than this revision.
    view_hold: Mutex<Option<(Kind, Revision)>>,
}

impl Faults {
    /// Makes the disk hang, fail or work from now on. No effect on a store without a disk.
    pub fn set_disk(&self, fault: DiskFault) {
        self.disk.set(fault);
    }

    /// Lets this many more writes succeed and refuses all later ones before they change anything, as a failed disk
    /// would; `None` ends the fault.
    pub fn fail_after(&self, writes: Option<u64>) {
        *self.remaining_writes.lock() = writes;
    }

    /// Refuses all writes from now on, before they change anything, for this reason; `None` ends the fault.
    pub fn refuse(&self, reason: Option<&str>) {
        *self.refusal.lock() = reason.map(str::to_owned);
    }

    /// Returns the reason why all writes are refused, if they are.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.refusal.lock().clone()
    }

    /// Returns the number of further writes that succeed; all if `None`.
    pub fn remaining_writes(&self) -> Option<u64> {
        *self.remaining_writes.lock()
    }

    /// Sets or clears the hold on watchers; returns the kind that was held before.
    pub(crate) fn hold_views(&self, held: Option<(Kind, Revision)>) -> Option<Kind> {
        std::mem::replace(&mut *self.view_hold.lock(), held).map(|(kind, _)| kind)
    }

    /// Returns the newest revision that watchers of this kind may see, if a fault limits it.
    pub(crate) fn view_limit(&self, kind: Kind) -> Option<Revision> {
        self.view_hold.lock().filter(|(held, _)| *held == kind).map(|(_, revision)| revision)
    }

    pub(crate) fn disk(&self) -> &DiskFaults {
        &self.disk
    }

    /// Counts a write, or returns the reason why it is refused.
    pub(crate) fn admit(&self) -> Result<(), String> {
        if let Some(why) = self.refusal() {
            return Err(why);
        }
        match &mut *self.remaining_writes.lock() {
            None => Ok(()),
            Some(0) => Err("injected fault".into()),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }
}

/// A deliberate fault of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskFault {
    /// The disk works.
    #[default]
    None,
    /// Writes do not finish.
    Hang,
    /// Each group of writes takes this much longer.
    Slow(Duration),
    /// Writes fail as on a full disk.
    Fail,
    /// Writes are reported as successful but not made: a disk that lies.
    Forget,
}

/// The fault of the disk, shared with the disk thread.
#[derive(Clone, Default)]
pub(crate) struct DiskFaults(Arc<(Mutex<DiskFault>, Condvar)>);

impl DiskFaults {
    /// Runs before a group of writes: waits while the disk hangs, or returns the reason of a failure.
    pub(crate) fn pass(&self) -> Result<(), String> {
        let (fault, changed) = &*self.0;
        let mut fault = fault.lock();
        changed.wait_while(&mut fault, |fault| *fault == DiskFault::Hang);
        if let DiskFault::Slow(delay) = *fault {
            // Ends the delay early if the fault is healed meanwhile.
            changed.wait_while_for(&mut fault, |fault| matches!(fault, DiskFault::Slow(_)), delay);
        }
        if *fault == DiskFault::Fail { Err("No space left on device".into()) } else { Ok(()) }
    }

    /// Returns true if writes are to be lost silently.
    pub(crate) fn forgets(&self) -> bool {
        *self.0.0.lock() == DiskFault::Forget
    }

    pub(crate) fn set(&self, fault: DiskFault) {
        let (current, changed) = &*self.0;
        *current.lock() = fault;
        changed.notify_all();
    }
}
