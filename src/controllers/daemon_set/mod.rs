//! DaemonSets: one pod on every eligible node, bound there by the scheduler.
//!
//! [`node_view`] is the input of the decisions, with [`placement`] for eligibility; [`manage`] and [`rolling`] decide
//! about pods, [`status`] counts; [`pod`] builds a daemon for its node; [`sync`] executes.

mod manage;
mod node_view;
mod placement;
mod pod;
mod revisions;
mod rolling;
mod status;
mod sync;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod};

use super::context::Context;
use super::controller_ref::{Orphans, owners_concerned};
use super::creation_pace::CreationPace;
use super::failed_pod_back_off::FailedPodBackOff;
use super::history::{History, POD_REVISION_LABEL};
use super::pod_control::PodControl;
use api::{Api, Change, ChangeKind};
use base::backoff::BackoffPolicy;
use object::selector::Selector;
use object::{Key, Kind, SharedObject};
use placement::{NodeFit, Placement};
use reconcile::{Cache, LastWrites, ReconcileError, Reconciler, WorkQueue, optional};

pub(super) fn start(context: &Context) {
    let timings = context.api.timings();
    context
        .controller(|queue| DaemonSets {
            api: context.api.clone(),
            sets: context.caches.of(),
            nodes: context.caches.of(),
            pods: context.caches.of(),
            orphans: Orphans::default(),
            history: History::new(context, POD_REVISION_LABEL),
            control: PodControl::new(context, "daemonset-controller"),
            pace: CreationPace::default(),
            failures: FailedPodBackOff::new(BackoffPolicy {
                initial: timings.daemon_pod_back_off_initial.0,
                max: timings.daemon_pod_back_off_max.0,
            }),
            last_writes: LastWrites::default(),
            queue,
        })
        .for_::<DaemonSet>()
        .watches::<Node, _>(DaemonSets::node_changed)
        .watches::<Pod, _>(DaemonSets::pod_changed)
        .watches::<ControllerRevision, _>(DaemonSets::revision_changed)
        .workers(2)
        .run(&context.tasks);
}

struct DaemonSets {
    api: Api,
    sets: Cache<DaemonSet>,
    nodes: Cache<Node>,
    pods: Cache<Pod>,
    /// Pods without a controller.
    orphans: Orphans,
    history: History,
    control: PodControl,
    pace: CreationPace,
    failures: FailedPodBackOff,
    last_writes: LastWrites<DaemonSetStatus>,
    queue: WorkQueue<Key>,
}

impl Reconciler for DaemonSets {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        // Read from the store: pods created from an outdated cached template would have to be replaced at once.
        let Some(set) = optional(self.api.get_as::<DaemonSet>(key))? else { return Ok(()) };
        Ok(self.sync(&set)?)
    }

    fn forget(&self, uid: &str) {
        self.control.forget(uid);
        self.pace.forget(uid);
        self.failures.forget(uid);
        self.last_writes.forget(uid);
    }
}

impl DaemonSets {
    /// Ignores changes that do not affect eligibility, since nodes change with every report.
    fn node_changed(&self, change: &Change) -> Vec<Key> {
        let node = change.object.get::<Node>();
        let before = change.previous.as_ref().and_then(|b| b.get::<Node>());
        let facts = |node: &Node| {
            (node.metadata.labels.clone(), node.spec.as_ref().and_then(|spec| spec.taints.clone()))
        };
        let is_modified = change.kind == ChangeKind::Modified;
        if is_modified && node.map(facts) == before.map(facts) {
            return Vec::new();
        }
        let concerned = |set: &SharedObject<DaemonSet>| {
            let placement = Placement::of(set);
            let fit = |node: Option<&Node>| node.map_or(NodeFit::Never, |node| placement.fit(node));
            let concerns = if is_modified { fit(node) != fit(before) } else { fit(node) != NodeFit::Never };
            concerns || change.kind == ChangeKind::Deleted
        };
        self.sets.list().iter().filter(|set| concerned(set)).map(SharedObject::key).collect()
    }

    fn pod_changed(&self, change: &Change) -> Vec<Key> {
        self.orphans.observe(change);
        self.control.observe(change, Kind::DaemonSet);
        self.sets_concerned(change)
    }

    fn revision_changed(&self, change: &Change) -> Vec<Key> {
        self.history.observe(change);
        self.sets_concerned(change)
    }

    fn sets_concerned(&self, change: &Change) -> Vec<Key> {
        owners_concerned(change, &self.sets, |set| Selector::from_field(&set.spec.selector))
    }
}
