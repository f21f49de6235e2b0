//! The kinds that a controller of faults watches, besides Fault: each while a fault refers to it.

use std::collections::BTreeSet;
use std::sync::Arc;

use extension::fault::Fault;
use object::{Kind, TypedKind};
use parking_lot::Mutex;
use reconcile::Caches;
use tokio::sync::Notify;

/// The kinds that faults refer to, and a signal for changes of their objects and of faults.
#[derive(Default)]
pub struct WatchedKinds {
    kinds: Mutex<BTreeSet<Kind>>,
    changed: Arc<Notify>,
}

impl WatchedKinds {
    /// Subscribes to faults and these kinds. Changes of a kind count only while [`Self::set`] has selected it.
    pub fn start(caches: &Caches, kinds: &[Kind]) -> Arc<Self> {
        let watched = Arc::new(Self::default());
        for kind in [Fault::kind()].iter().chain(kinds).copied() {
            let weak = Arc::downgrade(&watched);
            caches.on_any_change(kind, move |_| {
                let is_relevant = |watched: &Arc<Self>| kind == Fault::kind() || watched.contains(kind);
                if let Some(watched) = weak.upgrade().filter(is_relevant) {
                    watched.changed.notify_one();
                }
            });
        }
        watched
    }

    /// Selects the kinds that faults refer to; called before any object is read, so that every later change counts.
    pub fn set(&self, kinds: BTreeSet<Kind>) {
        *self.kinds.lock() = kinds;
    }

    /// Returns true if a fault refers to this kind.
    pub fn contains(&self, kind: Kind) -> bool {
        self.kinds.lock().contains(&kind)
    }

    /// Returns the signal.
    pub fn changed(&self) -> &Arc<Notify> {
        &self.changed
    }
}
