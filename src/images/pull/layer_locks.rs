//! Locks of layers that are being downloaded, so that pulls of several images download a common layer once.
//!
//! No two pulls wait for each other: a pull takes the lock of a layer after those of the layers below it, and lower
//! layers never wait for higher ones.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use crate::store::ChainId;

/// Held while a layer is downloaded and unpacked.
pub(super) type LayerLock = OwnedMutexGuard<()>;

#[derive(Default)]
pub(super) struct LayerLocks(Mutex<HashMap<ChainId, Weak<tokio::sync::Mutex<()>>>>);

impl LayerLocks {
    /// Waits until no other pull has the layer.
    pub(super) async fn lock(&self, layer: &ChainId) -> LayerLock {
        let lock = {
            let mut locks = self.0.lock();
            locks.retain(|_, lock| lock.strong_count() > 0);
            let known = locks.get(layer).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let lock = Arc::new(tokio::sync::Mutex::new(()));
                locks.insert(layer.clone(), Arc::downgrade(&lock));
                lock
            })
        };
        lock.lock_owned().await
    }
}
