//! DaemonSets: one pod on every node that is eligible, bound there by the scheduler.
//!
//! [`fleet`] is what the decisions see, with [`placement`] saying which nodes are eligible; [`manage`] and
//! [`rolling`] decide which pods come and go, [`status`] counts; [`pod`] is a daemon's template made for its
//! node; [`sync`] carries it out.

mod fleet;
mod manage;
mod placement;
mod pod;
mod revisions;
mod rolling;
mod status;
mod sync;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};

use super::claim::Orphans;
use super::context::Context;
use super::failures::Failures;
use super::history::{History, POD_REVISION_LABEL};
use super::pod_control::PodControl;
use crate::api::{Api, Change, ChangeKind};
use crate::base::backoff::BackoffPolicy;
use crate::object::owner::controller_of;
use crate::object::selector::Selector;
use crate::object::{Key, Kind, Object};
use crate::reconcile::{Cache, ReconcileError, Reconciler, WorkQueue, found};
use placement::{Fit, Placement};

/// Starts the controller.
pub(super) fn start(context: &Context) {
    let queue = context.queue();
    let timings = context.api.timings();
    let controller = Arc::new(DaemonSets {
        api: context.api.clone(),
        sets: context.caches.of(),
        nodes: context.caches.of(),
        pods: context.caches.of(),
        orphans: Orphans::default(),
        history: History::new(context, POD_REVISION_LABEL),
        control: PodControl::new(context, "daemonset-controller"),
        failures: Failures::new(BackoffPolicy {
            initial: timings.daemon_pod_back_off_initial.0,
            max: timings.daemon_pod_back_off_max.0,
        }),
        queue: queue.clone(),
    });
    let caches = vec![
        context.follow::<DaemonSet, _>(&controller, DaemonSets::set_changed),
        context.follow::<Node, _>(&controller, DaemonSets::node_changed),
        context.follow::<Pod, _>(&controller, DaemonSets::pod_changed),
        context.follow::<ControllerRevision, _>(&controller, DaemonSets::revision_changed),
    ];
    context.run(controller, queue, caches);
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
    failures: Failures,
    queue: WorkQueue<Key>,
}

impl Reconciler for DaemonSets {
    type Key = Key;

    fn name(&self) -> &'static str {
        "daemonset"
    }

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        // From the store: pods of an older template would only have to be replaced.
        let Some(set) = found(self.api.get_as::<DaemonSet>(key))? else { return Ok(()) };
        Ok(self.sync(&set)?)
    }
}

impl DaemonSets {
    fn set_changed(&self, change: &Change) {
        if change.kind == ChangeKind::Deleted {
            self.control.forget(change.object.uid());
            self.failures.forget(change.object.uid());
        }
        self.queue.add(change.object.key());
    }

    /// Only what can make a node eligible, or no longer, is of interest: nodes report all the time.
    fn node_changed(&self, change: &Change) {
        let node = change.object.get::<Node>();
        let before = change.previous.as_ref().and_then(|b| b.get::<Node>());
        let facts = |node: &Node| {
            (node.metadata.labels.clone(), node.spec.as_ref().and_then(|spec| spec.taints.clone()))
        };
        let is_modified = change.kind == ChangeKind::Modified;
        if is_modified && node.map(facts) == before.map(facts) {
            return;
        }
        for set in self.sets.list() {
            let placement = Placement::of(&set);
            let fit = |node: Option<&Node>| node.map_or(Fit::Never, |node| placement.fit(node));
            let concerns = if is_modified { fit(node) != fit(before) } else { fit(node) != Fit::Never };
            if concerns || change.kind == ChangeKind::Deleted {
                self.queue.add(set.key());
            }
        }
    }

    fn pod_changed(&self, change: &Change) {
        self.orphans.observe(change);
        self.control.observe(change, Kind::DaemonSet);
        let before = change.previous.as_ref().and_then(|p| owner_key(p));
        self.queue_owners(change, before);
    }

    fn revision_changed(&self, change: &Change) {
        self.history.observe(change);
        let before = change.previous.as_ref().and_then(|p| owner_key(p));
        self.queue_owners(change, before);
    }

    /// The set an object belongs to and belonged to; of an orphan those that may want it.
    fn queue_owners(&self, change: &Change, before: Option<Key>) {
        let object = &change.object;
        for owner in owner_key(object).into_iter().chain(before) {
            self.queue.add(owner);
        }
        if controller_of(object.meta()).is_none() && change.kind != ChangeKind::Deleted {
            for set in self.sets.in_namespace(object.namespace()) {
                if Selector::from_field(&set.spec.selector).matches(object.meta().labels.as_ref()) {
                    self.queue.add(set.key());
                }
            }
        }
    }
}

/// The DaemonSet that controls an object.
fn owner_key(object: &Object) -> Option<Key> {
    let owner = controller_of(object.meta()).filter(|r| r.kind == Kind::DaemonSet.info().name)?;
    Some(Key::new(object.namespace(), owner.name.as_str()))
}
