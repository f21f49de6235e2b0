//! What Gateways and routes refer to, and what wakes the controller when it changes.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Node, Secret};
use parking_lot::RwLock;
use tokio::sync::Notify;

use crate::follow::Follower;
use crate::machine::NodeFacts;
use api::ChangeKind;
use object::{Key, Kind, Object};
use reconcile::Caches;

/// What is referred to.
pub(super) struct Following {
    pub(super) services: Arc<Follower>,
    /// Services and Secrets that are: changes of others are nothing to look at.
    pub(super) named: Arc<RwLock<HashSet<(Kind, Key)>>>,
}

impl Following {
    /// Begins to follow; returns when everything that is there has been seen.
    pub(super) async fn start(caches: &Caches, wake: &Arc<Notify>) -> Self {
        let named: Arc<RwLock<HashSet<(Kind, Key)>>> = Arc::default();
        let (secrets, changed) = (Arc::downgrade(&named), Arc::downgrade(wake));
        caches.of::<Secret>().on_change(move |change| {
            if let (Some(named), Some(changed)) = (secrets.upgrade(), changed.upgrade())
                && named.read().contains(&(Kind::Secret, change.object.key()))
            {
                changed.notify_one();
            }
        });
        let changed = Arc::downgrade(wake);
        caches.of::<Node>().on_change(move |change| {
            let facts = |object: &Object| object.get::<Node>().map(NodeFacts::of);
            let now = facts(&change.object).filter(|_| change.kind != ChangeKind::Deleted);
            if change.previous.as_deref().and_then(facts) != now
                && let Some(changed) = changed.upgrade()
            {
                changed.notify_one();
            }
        });
        let changed = Arc::downgrade(wake);
        caches.of::<Namespace>().on_change(move |change| {
            let before = change.previous.as_ref().and_then(|before| before.meta().labels.as_ref());
            if (change.previous.is_none() || before != change.object.meta().labels.as_ref())
                && let Some(changed) = changed.upgrade()
            {
                changed.notify_one();
            }
        });
        let services = Follower::start(caches);
        // Half a picture would refuse requests that a moment later are served.
        tokio::join!(
            caches.synced(Kind::Secret),
            caches.synced(Kind::Node),
            caches.synced(Kind::Namespace),
            caches.synced(Kind::Service),
            caches.synced(Kind::EndpointSlice)
        );
        Self { services, named }
    }
}
