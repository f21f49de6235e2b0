//! Follows the objects that network policies depend on.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use api::ChangeKind;
use object::{Key, Kind, Object};
use reconcile::Caches;

/// Changed objects in their current state; `None` if deleted.
pub(super) type ChangedObjects = HashMap<(Kind, Key), Option<Arc<Object>>>;

/// Follows pods, namespaces and policies.
#[derive(Default)]
pub(super) struct PolicyChanges {
    dirty: Mutex<ChangedObjects>,
    changed: Notify,
}

impl PolicyChanges {
    /// Starts following; every existing object counts as changed.
    pub(super) fn start(caches: &Caches) -> Arc<Self> {
        let follower = Arc::new(Self::default());
        for kind in [Kind::Pod, Kind::Namespace, Kind::NetworkPolicy] {
            let weak = Arc::downgrade(&follower);
            caches.on_any_change(kind, move |change| {
                if let Some(follower) = weak.upgrade() {
                    let now = (change.kind != ChangeKind::Deleted).then(|| change.object.clone());
                    follower.dirty.lock().insert((kind, change.object.key()), now);
                    follower.changed.notify_one();
                }
            });
        }
        follower
    }

    /// Waits for changes and takes all of them.
    pub(super) async fn take(&self) -> ChangedObjects {
        loop {
            let changed = self.changed.notified();
            let taken = self.take_now();
            if !taken.is_empty() {
                return taken;
            }
            changed.await;
        }
    }

    /// Takes the changes without waiting.
    pub(super) fn take_now(&self) -> ChangedObjects {
        std::mem::take(&mut *self.dirty.lock())
    }
}
