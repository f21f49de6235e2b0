//! Faults on purpose (FAULT-1): a disk that hangs or fails, writes that are refused after so many,
//! watchers that are behind.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use object::{Kind, Revision};

/// What can be made to fail in a store.
#[derive(Default)]
pub struct Faults {
    disk: DiskFaults,
    /// How many more writes are taken; none: all.
    writes_left: Mutex<Option<u64>>,
    /// Why no write is taken.
    refusal: Mutex<Option<String>>,
    /// Control loops that watch this kind see nothing that is newer.
    held: Mutex<Option<(Kind, Revision)>>,
}

impl Faults {
    /// The disk hangs, fails or works from now on. A store without a disk takes no notice.
    pub fn set_disk(&self, fault: DiskFault) {
        self.disk.set(fault);
    }

    /// After so many more writes all are refused before anything changes, as by a disk that has failed; `None` heals.
    pub fn fail_after(&self, writes: Option<u64>) {
        *self.writes_left.lock() = writes;
    }

    /// From now on all writes are refused before anything changes, for this reason; `None` heals.
    pub fn refuse(&self, why: Option<&str>) {
        *self.refusal.lock() = why.map(str::to_owned);
    }

    /// Why no write is taken, if so.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.refusal.lock().clone()
    }

    /// How many more writes are taken; none: all.
    pub fn writes_left(&self) -> Option<u64> {
        *self.writes_left.lock()
    }

    /// The kind whose watchers are let go.
    pub(crate) fn hold_views(&self, held: Option<(Kind, Revision)>) -> Option<Kind> {
        std::mem::replace(&mut *self.held.lock(), held).map(|(kind, _)| kind)
    }

    /// What watchers of this kind may see, if not everything.
    pub(crate) fn held_at(&self, kind: Kind) -> Option<Revision> {
        self.held.lock().filter(|(held, _)| *held == kind).map(|(_, revision)| revision)
    }

    pub(crate) fn disk(&self) -> &DiskFaults {
        &self.disk
    }

    /// Counts a write, or says why it is refused.
    pub(crate) fn admit(&self) -> Result<(), String> {
        if let Some(why) = self.refusal() {
            return Err(why);
        }
        match &mut *self.writes_left.lock() {
            None => Ok(()),
            Some(0) => Err("a fault was asked for".into()),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }
}

/// What a disk does wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskFault {
    /// Nothing.
    #[default]
    None,
    /// A write does not end.
    Hang,
    /// A group of writes takes so much longer.
    Slow(Duration),
    /// A write fails as on a full disk.
    Fail,
    /// A write is told to have been made, and was not: a disk that lies.
    Forget,
}

/// Shared with the disk's thread.
#[derive(Clone, Default)]
pub(crate) struct DiskFaults(Arc<(Mutex<DiskFault>, Condvar)>);

impl DiskFaults {
    /// Before a group of writes: waits as long as the disk hangs, or says why it fails.
    pub(crate) fn pass(&self) -> Result<(), String> {
        let (fault, changed) = &*self.0;
        let mut fault = fault.lock();
        changed.wait_while(&mut fault, |fault| *fault == DiskFault::Hang);
        if let DiskFault::Slow(delay) = *fault {
            // One that heals meanwhile is slow no more.
            changed.wait_while_for(&mut fault, |fault| matches!(fault, DiskFault::Slow(_)), delay);
        }
        if *fault == DiskFault::Fail { Err("No space left on device".into()) } else { Ok(()) }
    }

    /// Whether a group of writes is to be lost in silence.
    pub(crate) fn forgets(&self) -> bool {
        *self.0.0.lock() == DiskFault::Forget
    }

    pub(crate) fn set(&self, fault: DiskFault) {
        let (current, changed) = &*self.0;
        *current.lock() = fault;
        changed.notify_all();
    }
}
