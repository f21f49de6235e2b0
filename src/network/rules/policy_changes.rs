//! What concerns network policies, followed, and what they say of it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use fabric::nft::Family;
use k8s_openapi::api::core::v1::{Namespace, Pod, PodIP, PodStatus};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Owner;
use super::piece::Piece;
use super::policies::{self, SetNames};
use crate::policy::{Changes, Index, SetChange};
use api::ChangeKind;
use object::{Key, Kind, Object};
use reconcile::Caches;

/// The pod that stands for the cluster's DNS: no real one has such a name.
fn dns_pod() -> Key {
    Key::new("kube-system", "(dns)")
}

/// What changed, as it is now; none for what is gone.
pub(super) type Changed = HashMap<(Kind, Key), Option<Arc<Object>>>;

/// Follows pods, namespaces and policies.
#[derive(Default)]
pub(super) struct PolicyChanges {
    dirty: Mutex<Changed>,
    changed: Notify,
}

impl PolicyChanges {
    /// Starts following; all that is there counts as changed.
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
    pub(super) async fn take(&self) -> Changed {
        loop {
            let changed = self.changed.notified();
            let taken = self.take_now();
            if !taken.is_empty() {
                return taken;
            }
            changed.await;
        }
    }
}

impl PolicyChanges {
    /// The changes there are, without waiting.
    pub(super) fn take_now(&self) -> Changed {
        std::mem::take(&mut *self.dirty.lock())
    }
}

/// What policies say of everybody.
pub(super) struct Judgement {
    index: Index,
    names: SetNames,
}

impl Judgement {
    /// Of nobody but the cluster's DNS.
    pub(super) fn new(dns: &[IpAddr]) -> Self {
        let mut index = Index::default();
        if let Some(first) = dns.first() {
            let labels = [("k8s-app".to_owned(), "kube-dns".to_owned())].into();
            let metadata = ObjectMeta { labels: Some(labels), ..ObjectMeta::default() };
            let all = dns.iter().map(|ip| PodIP { ip: ip.to_string() }).collect();
            let status =
                PodStatus { pod_ip: Some(first.to_string()), pod_ips: Some(all), ..PodStatus::default() };
            let pod = Pod { metadata, status: Some(status), ..Pod::default() };
            index.set_pod(&dns_pod(), Some(&pod));
        }
        Self { index, names: SetNames::default() }
    }

    /// Takes changes over and gives what is wanted by them: sets before the pods that name them.
    pub(super) fn take(&mut self, changed: Changed, families: &[Family]) -> Vec<(Owner, Piece)> {
        let mut all = Changes::default();
        for ((kind, key), now) in changed {
            let now = now.as_deref();
            all.append(match kind {
                Kind::Pod => self.index.set_pod(&key, now.and_then(Object::get::<Pod>)),
                Kind::Namespace => {
                    self.index.set_namespace(&key.name, now.and_then(Object::get::<Namespace>))
                }
                _ => self.index.set_policy(&key, now.and_then(Object::get::<NetworkPolicy>)),
            });
        }
        let model = self.index.model();
        let mut wanted = Vec::new();
        let mut gone = Vec::new();
        for (id, change) in all.sets {
            match model.sets.get(&id).filter(|_| change != SetChange::Gone) {
                Some(members) => {
                    wanted.push((
                        Owner::Peers(id.clone()),
                        policies::peers(&id, members, &mut self.names, families),
                    ));
                }
                None => gone.push(id),
            }
        }
        for (key, pod) in all.pods {
            // The control plane itself is nobody's to isolate.
            let pod = pod.filter(|_| key != dns_pod());
            let piece = pod.map(|pod| policies::isolated(&key, &pod, &mut self.names, families));
            wanted.push((Owner::Isolated(key), piece.unwrap_or_default()));
        }
        for id in gone {
            self.names.forget(&id);
            wanted.push((Owner::Peers(id), Piece::default()));
        }
        wanted
    }
}
