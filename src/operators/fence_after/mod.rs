//! Requests the fencing of nodes with pods of StatefulSets that have the annotation `podium.dev/fence-after`
//! (SAFE-5).
//!
//! Creates only the NodeFence; the component that runs the nodes executes it and reports its progress.

mod plan;

use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Pod};

use api::{Api, Change, ChangeKind};
use base::task::Tasks;
use extension::node_fence::{NodeFence, NodeFenceSpec};
use object::SharedObject;
use object::node::is_ready;
use object::owner::controller_of;
use object::pod::{is_terminal, node_name};
use object::time::go_duration;
use object::well_known::annotation::PODIUM_FENCE_AFTER;
use object::{Key, Kind};
use plan::FenceDecision;
use reconcile::{Cache, Caches, Controller, ReconcileError, Reconciler, Recorder, WorkQueue, controller_key};

/// The interval of further checks while no other node is Ready.
const RECHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Starts the controller with this name; it ends with `tasks`.
pub fn start(name: &'static str, api: &Api, caches: &Caches, tasks: &Tasks) {
    let new = |queue| FenceAfter {
        api: api.clone(),
        nodes: caches.of(),
        pods: caches.of(),
        sets: caches.of(),
        recorder: Recorder::new(api, name),
        queue,
    };
    Controller::new(name, caches, new)
        .keys_are(|name| Some((Kind::Node, Key::new("", name.as_str()))))
        .watches::<Node, _>(FenceAfter::node_changed)
        .watches::<StatefulSet, _>(FenceAfter::set_changed)
        .watches::<Pod, _>(FenceAfter::pod_changed)
        .run(tasks);
}

/// The queue holds nodes by name.
struct FenceAfter {
    api: Api,
    nodes: Cache<Node>,
    pods: Cache<Pod>,
    sets: Cache<StatefulSet>,
    recorder: Recorder,
    queue: WorkQueue<String>,
}

impl Reconciler for FenceAfter {
    type Key = String;

    fn reconcile(&self, name: &String) -> Result<(), ReconcileError> {
        let Some(node) = self.nodes.get(&Key::new("", name.as_str())).filter(|node| !is_ready(node)) else {
            return Ok(());
        };
        let Some((patience, set)) = self.shortest_delay(name) else { return Ok(()) };
        let another = self.nodes.list().iter().any(|other| other.name() != name && is_ready(other));
        match plan::verdict(&node, patience, self.api.clock().now(), another) {
            FenceDecision::Leave => Ok(()),
            FenceDecision::Wait(after) => Err(ReconcileError::After(after)),
            FenceDecision::Alone => Err(ReconcileError::After(RECHECK_INTERVAL)),
            FenceDecision::Fence => self.fence(name, patience, &set),
        }
    }
}

impl FenceAfter {
    fn node_changed(&self, change: &Change) {
        let ready = |object: &object::Object| object.get::<Node>().is_some_and(is_ready);
        let was_ready = change.previous.as_ref().is_none_or(|previous| ready(previous));
        if change.kind != ChangeKind::Deleted && was_ready && !ready(&change.object) {
            self.queue.add(change.object.name().into());
        }
    }

    /// Handles a change of a set, whose annotation may have changed.
    fn set_changed(&self, change: &Change) {
        let Some(set) = change.object.get::<StatefulSet>() else { return };
        let before = change.previous.as_ref().and_then(|previous| previous.get::<StatefulSet>());
        if change.kind == ChangeKind::Deleted
            || before.is_some_and(|before| toleration_annotation(before) == toleration_annotation(set))
        {
            return;
        }
        if let Some(Err(why)) = toleration_annotation(set).map(plan::parse_toleration) {
            let message = format!("Annotation {PODIUM_FENCE_AFTER} is ignored: {why}");
            self.recorder.warning(&change.object, "InvalidFenceAfter", message);
        }
        for pod in self.pods.controlled_by(change.object.uid()) {
            self.enqueue_silent_node_of(&pod);
        }
    }

    fn pod_changed(&self, change: &Change) {
        if let Some(pod) = change.object.get::<Pod>().filter(|_| change.kind != ChangeKind::Deleted) {
            self.enqueue_silent_node_of(pod);
        }
    }

    fn enqueue_silent_node_of(&self, pod: &Pod) {
        if let Some(name) = node_name(pod)
            && self.nodes.get(&Key::new("", name)).is_some_and(|node| !is_ready(&node))
        {
            self.queue.add(name.into());
        }
    }

    /// Returns the shortest delay of the StatefulSets that have pods on the node which have not ended, and the set it
    /// belongs to.
    fn shortest_delay(&self, node: &str) -> Option<(Duration, SharedObject<StatefulSet>)> {
        let pods = self.pods.on_node(node);
        let sets = pods.iter().filter(|pod| !is_terminal(pod)).filter_map(|pod| {
            let set = self.sets.get(&controller_key(pod.object(), Kind::StatefulSet)?)?;
            let owner = controller_of(&pod.metadata)?;
            (set.uid() == owner.uid).then_some(set)
        });
        let patient =
            sets.filter_map(|set| Some((plan::parse_toleration(toleration_annotation(&set)?).ok()?, set)));
        patient.min_by_key(|(patience, set)| (*patience, set.key()))
    }

    fn fence(
        &self,
        node: &str,
        delay: Duration,
        set: &SharedObject<StatefulSet>,
    ) -> Result<(), ReconcileError> {
        let delay = go_duration(delay);
        let reason = format!(
            "the node was not Ready for {delay}, the limit of StatefulSet {} ({PODIUM_FENCE_AFTER})",
            set.key()
        );
        let metadata = Key::new("", node).metadata();
        let fence = NodeFence { metadata, spec: NodeFenceSpec { reason: Some(reason) }, status: None };
        match self.api.create_as(fence) {
            Ok(_) => {
                let message = format!("Fencing Node {node}, which was not Ready for {delay}");
                self.recorder.warning(set.object(), "FencingNode", message);
                Ok(())
            }
            Err(error) if error.is_already_exists() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the value of a set's annotation.
fn toleration_annotation(set: &StatefulSet) -> Option<&str> {
    set.metadata.annotations.as_ref()?.get(PODIUM_FENCE_AFTER).map(String::as_str)
}
