//! Follows the objects that the proxy's rules refer to, and wakes the controller when one changes.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Secret};
use parking_lot::RwLock;
use tokio::sync::Notify;

use api::ChangeKind;
use object::{Key, Kind, Object};
use reconcile::Caches;
use services::Follower;
use services::NodeFacts;

/// The objects that rules refer to.
pub struct ReferenceFollower {
    /// All services, joined with their slices.
    pub services: Arc<Follower>,
    /// The Services and Secrets that rules refer to; changes of others are ignored.
    pub named: Arc<RwLock<HashSet<(Kind, Key)>>>,
}

impl ReferenceFollower {
    /// Starts following; returns once all caches are synced.
    pub async fn start(caches: &Caches, wake: &Arc<Notify>) -> Self {
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
        let services = Follower::start(caches);
        // With incomplete caches, requests would be refused although their services exist.
        tokio::join!(
            caches.synced(Kind::Secret),
            caches.synced(Kind::Node),
            caches.synced(Kind::Service),
            caches.synced(Kind::EndpointSlice)
        );
        Self { services, named }
    }

    /// Waits for a change of a referenced Service or its endpoints.
    pub async fn service_changed(&self) {
        loop {
            let changed = self.services.take().await;
            let named = self.named.read();
            if changed.into_iter().any(|(key, _)| named.contains(&(Kind::Service, key))) {
                return;
            }
        }
    }
}
