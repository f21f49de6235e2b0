//! StatefulSets: pods with stable names, an order and storage of their own.
//!
//! [`plan`] decides the next steps from the desired ([`desired`]) and the actual state ([`member`]); [`identity`] and
//! [`storage`] define pods and their claims, [`pod_caches`] remember the pods, [`status`] counts, [`sync`] and
//! [`claims`] execute. There is at most one pod of each identity: a new one is created only once the old one's object
//! is gone, and this controller never removes that itself.

mod claims;
mod desired;
mod identity;
mod member;
mod new_pod;
mod plan;
mod pod_cache;
mod pod_caches;
mod pod_state;
mod reserved_names;
mod status;
mod storage;
mod sync;

use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};

use super::context::Context;
use super::controller_ref::Orphans;
use super::creation_pace::CreationPace;
use super::failed_pod_back_off::FailedPodBackOff;
use super::history::History;
use super::pod_control::{PodControl, is_relevant};
use api::{Api, Change, ChangeKind};
use base::backoff::BackoffPolicy;
use object::owner::controller_of;
use object::selector::Selector;
use object::{Key, Kind};
use pod_caches::PodCaches;
use reconcile::{
    Cache, LastWrites, ReconcileError, Reconciler, WorkQueue, controller_key, controllers_of, optional,
};
use reserved_names::ReservedNames;

/// The label of a revision with its hash.
const HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// The delay between failures of one ordinal. Kubernetes has no such delay; here a pod that is bound by name to a
/// node that refuses it would be recreated as fast as the machine can.
const FAILED_POD_BACK_OFF: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_secs(1), max: Duration::from_mins(5) };

pub(super) fn start(context: &Context) {
    context
        .controller(|queue| StatefulSets {
            api: context.api.clone(),
            sets: context.caches.of(),
            pods: context.caches.of(),
            orphans: Orphans::default(),
            pod_caches: PodCaches::default(),
            history: History::new(context, HASH_LABEL),
            control: PodControl::new(context, "statefulset-controller"),
            pace: CreationPace::default(),
            failures: FailedPodBackOff::new(FAILED_POD_BACK_OFF),
            vacancies: ReservedNames::default(),
            last_writes: LastWrites::default(),
            queue,
        })
        .for_::<StatefulSet>()
        .watches::<Pod, _>(StatefulSets::pod_changed)
        .watches::<ControllerRevision, _>(StatefulSets::revision_changed)
        .watches::<PersistentVolumeClaim, _>(StatefulSets::claim_changed)
        .workers(5)
        .run(&context.tasks);
}

struct StatefulSets {
    api: Api,
    sets: Cache<StatefulSet>,
    pods: Cache<Pod>,
    /// Pods without a controller.
    orphans: Orphans,
    pod_caches: PodCaches,
    history: History,
    control: PodControl,
    pace: CreationPace,
    failures: FailedPodBackOff,
    vacancies: ReservedNames,
    last_writes: LastWrites<StatefulSetStatus>,
    queue: WorkQueue<Key>,
}

impl Reconciler for StatefulSets {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        // Read from the store: a step decided for an outdated cached spec would be taken after the newer spec.
        let Some(set) = optional(self.api.get_as::<StatefulSet>(key))? else { return Ok(()) };
        // The event that shows the last writes causes another sync.
        if let Some(left) = self.control.waits(set.uid()) {
            self.queue.add_after(set.key(), left);
            return Ok(());
        }
        Ok(self.sync(&set)?)
    }

    fn forget(&self, uid: &str) {
        self.control.forget(uid);
        self.failures.forget(uid);
        self.pod_caches.forget(uid);
        self.pace.forget(uid);
        self.last_writes.forget(uid);
    }
}

impl StatefulSets {
    fn pod_changed(&self, change: &Change) {
        self.orphans.observe(change);
        // The pod cache first: a sync that the expectations let through must find the change.
        self.pod_caches.observe(change);
        let pod = &change.object;
        self.control.observe(change, Kind::StatefulSet);
        if !is_relevant(change) {
            return;
        }
        self.queue_all(controllers_of(change, Kind::StatefulSet));
        let Some((set, _)) = identity::parse(pod.name()) else { return };
        let key = Key::new(pod.namespace(), set);
        if change.kind == ChangeKind::Deleted {
            self.vacancies.record_deleted(pod, self.api.clock().monotonic());
            // The pod's name is free now, also if another owner had the pod.
            if self.sets.get(&key).is_some() {
                self.queue.add(key);
            }
        } else if controller_of(pod.meta()).is_none()
            && let Some(set) = self.sets.get(&key)
            && Selector::from_field(&set.spec.selector).matches(pod.meta().labels.as_ref())
        {
            self.queue.add(key);
        }
    }

    fn revision_changed(&self, change: &Change) {
        self.history.observe(change);
        match change.kind {
            ChangeKind::Deleted => self.queue_all(controller_key(&change.object, Kind::StatefulSet)),
            _ if controller_of(change.object.meta()).is_none() => {
                for set in self.sets.in_namespace(change.object.namespace()) {
                    let selector = Selector::from_field(&set.spec.selector);
                    if selector.matches(change.object.meta().labels.as_ref()) {
                        self.queue.add(set.key());
                    }
                }
            }
            _ => {}
        }
    }

    /// A deleted claim may have blocked the creation of a pod, or a pending pod may need it again.
    fn claim_changed(&self, change: &Change) {
        for set in self.sets.in_namespace(change.object.namespace()) {
            let Some(ordinal) = storage::ordinal_of(&set, change.object.name()) else { continue };
            self.pod_caches.claim_changed(set.uid(), ordinal);
            if change.kind == ChangeKind::Deleted {
                self.queue.add(set.key());
            }
        }
    }

    fn queue_all(&self, keys: impl IntoIterator<Item = Key>) {
        keys.into_iter().for_each(|key| self.queue.add(key));
    }
}
