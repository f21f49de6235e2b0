//! Tracks which kinds of the Gateway API are installed: users may install and remove their CRDs at any time.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Notify;

use super::resources::GROUP;
use api::Api;
use object::{Kind, ServedKind};
use reconcile::{Caches, Subscription};

/// The installed kinds, and the subscriptions to their objects.
#[derive(Default)]
pub(super) struct InstalledKinds {
    pub(super) classes: Option<Kind>,
    pub(super) gateways: Option<Kind>,
    pub(super) routes: Option<Kind>,
    pub(super) grants: Option<Kind>,
    pub(super) served_class: Option<ServedKind>,
    subscriptions: HashMap<Kind, Subscription>,
}

impl InstalledKinds {
    /// Finds the installed kinds, subscribes to them, and waits until the caches of new ones are synced.
    pub(super) async fn follow(&mut self, api: &Api, caches: &Caches, changed: &Arc<Notify>) {
        let kinds = api.kinds();
        let find = |name: &str, versions: &[&str]| {
            let mut all = versions.iter();
            all.find_map(|version| kinds.by_api_version(&format!("{GROUP}/{version}"), name))
        };
        self.served_class = find("GatewayClass", &["v1"]);
        self.classes = self.served_class.map(ServedKind::kind);
        self.gateways = find("Gateway", &["v1"]).map(ServedKind::kind);
        self.routes = find("HTTPRoute", &["v1"]).map(ServedKind::kind);
        self.grants = find("ReferenceGrant", &["v1", "v1beta1"]).map(ServedKind::kind);
        let there: Vec<Kind> =
            [self.classes, self.gateways, self.routes, self.grants].into_iter().flatten().collect();
        self.subscriptions.retain(|kind, _| there.contains(kind));
        for kind in there {
            self.subscriptions.entry(kind).or_insert_with(|| {
                let changed = Arc::downgrade(changed);
                caches.watch(kind, move |_| {
                    if let Some(changed) = changed.upgrade() {
                        changed.notify_one();
                    }
                })
            });
            caches.synced(kind).await;
        }
    }
}
