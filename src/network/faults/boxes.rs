//! The boxes of faults that delay: each at the end of a detour of its own.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fabric::{DETOURS, Delay, DelayBox, DelayCounts, FabricError};
use tokio::sync::Notify;

/// Detours of the fabric; both calls may block for some milliseconds.
pub trait Detours: Send + Sync {
    /// Has a detour made in a slot, and gives its socket.
    fn open(&self, slot: u8) -> Result<OwnedFd, FabricError>;
    /// Has nothing go by it any more, if there is one.
    fn close(&self, slot: u8) -> Result<(), FabricError>;
}

struct Open {
    slot: u8,
    delay: Delay,
    at_work: DelayBox,
    /// It can go on no more.
    is_over: Arc<AtomicBool>,
}

/// All of them, by the uids of their faults.
pub(super) struct Boxes {
    detours: Arc<dyn Detours>,
    open: BTreeMap<String, Open>,
    /// Told when one is over.
    over: Arc<Notify>,
}

impl Boxes {
    /// None yet: what another process has left goes.
    pub(super) fn new(detours: Arc<dyn Detours>, over: Arc<Notify>) -> Self {
        for slot in 0..DETOURS {
            if let Err(error) = detours.close(slot) {
                tracing::debug!(%error, slot, "a detour of before");
            }
        }
        Self { detours, open: BTreeMap::new(), over }
    }

    /// Has a box for a fault in this slot, the one there is if it works.
    pub(super) fn have(&mut self, uid: &str, slot: u8, delay: Delay) -> Result<(), FabricError> {
        if let Some(open) = self.open.get(uid)
            && (open.slot, open.delay) == (slot, delay)
            && !open.is_over.load(Ordering::Acquire)
        {
            return Ok(());
        }
        self.open.remove(uid);
        let socket = self.detours.open(slot)?;
        let (is_over, told) = (Arc::new(AtomicBool::new(false)), self.over.clone());
        let seen = is_over.clone();
        let ended = move |error| {
            tracing::warn!(%error, slot, "a delay of the pods' network has ended: it is made anew");
            seen.store(true, Ordering::Release);
            told.notify_one();
        };
        let at_work = DelayBox::start(socket, delay, rand::random(), ended)
            .map_err(|source| FabricError { step: "delay box".to_owned(), source })?;
        self.open.insert(uid.to_owned(), Open { slot, delay, at_work, is_over });
        Ok(())
    }

    /// Ends all but these; of those that end it is told what became of their packets.
    pub(super) fn only(&mut self, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, DelayCounts> {
        let gone: Vec<String> = self.open.keys().filter(|uid| !wanted(uid)).cloned().collect();
        let mut counts = BTreeMap::new();
        for uid in gone {
            let Some(open) = self.open.remove(&uid) else { continue };
            counts.insert(uid, open.at_work.counts());
            drop(open.at_work);
            if let Err(error) = self.detours.close(open.slot) {
                tracing::warn!(%error, slot = open.slot, "a detour of the pods' network stays until its socket is gone");
            }
        }
        counts
    }
}

impl Drop for Boxes {
    fn drop(&mut self) {
        self.only(|_| false);
    }
}
