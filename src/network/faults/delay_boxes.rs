//! The delay boxes of faults: each is at the end of its own detour.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fabric::{DETOURS, Delay, DelayBox, DelayCounts, FabricError};
use tokio::sync::Notify;

/// Detours of the fabric; both methods may block for some milliseconds.
pub trait Detours: Send + Sync {
    /// Opens a detour in a slot and returns its socket.
    fn open(&self, slot: u8) -> Result<OwnedFd, FabricError>;
    /// Closes the detour in a slot, if there is one, so that no packets use it.
    fn close(&self, slot: u8) -> Result<(), FabricError>;
}

struct OpenBox {
    slot: u8,
    delay: Delay,
    at_work: DelayBox,
    /// Set once the delay box has failed.
    is_over: Arc<AtomicBool>,
}

/// All delay boxes, by the uids of their faults.
pub(super) struct DelayBoxes {
    detours: Arc<dyn Detours>,
    open: BTreeMap<String, OpenBox>,
    /// Notified when a delay box fails.
    over: Arc<Notify>,
}

impl DelayBoxes {
    /// Starts without delay boxes, and closes detours that a previous process has left.
    pub(super) fn new(detours: Arc<dyn Detours>, over: Arc<Notify>) -> Self {
        for slot in 0..DETOURS {
            if let Err(error) = detours.close(slot) {
                tracing::debug!(%error, slot, "cannot close a detour of the previous process");
            }
        }
        Self { detours, open: BTreeMap::new(), over }
    }

    /// Starts a delay box for a fault in this slot, unless there is one that works.
    pub(super) fn ensure(&mut self, uid: &str, slot: u8, delay: Delay) -> Result<(), FabricError> {
        if let Some(open) = self.open.get(uid)
            && (open.slot, open.delay) == (slot, delay)
            && !open.is_over.load(Ordering::Acquire)
        {
            return Ok(());
        }
        self.open.remove(uid);
        let socket = self.detours.open(slot)?;
        let (is_over, notify) = (Arc::new(AtomicBool::new(false)), self.over.clone());
        let seen = is_over.clone();
        let ended = move |error| {
            tracing::warn!(%error, slot, "a delay of the pod network stopped; starting it again");
            seen.store(true, Ordering::Release);
            notify.notify_one();
        };
        let at_work = DelayBox::start(socket, delay, rand::random(), ended)
            .map_err(|source| FabricError { step: "delay box".to_owned(), source })?;
        self.open.insert(uid.to_owned(), OpenBox { slot, delay, at_work, is_over });
        Ok(())
    }

    /// Stops the delay boxes that `is_desired` does not select, closes their detours and returns their packet counts.
    pub(super) fn retain(&mut self, is_desired: impl Fn(&str) -> bool) -> BTreeMap<String, DelayCounts> {
        let removed: Vec<String> = self.open.keys().filter(|uid| !is_desired(uid)).cloned().collect();
        let mut counts = BTreeMap::new();
        for uid in removed {
            let Some(open) = self.open.remove(&uid) else { continue };
            counts.insert(uid, open.at_work.counts());
            drop(open.at_work);
            if let Err(error) = self.detours.close(open.slot) {
                tracing::warn!(%error, slot = open.slot, "cannot close a detour of the pod network");
            }
        }
        counts
    }
}

impl Drop for DelayBoxes {
    fn drop(&mut self) {
        self.retain(|_| false);
    }
}
