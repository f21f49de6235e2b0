//! Node lifecycle: a node without heartbeats becomes Unknown and is tainted, and its pods stop serving.
//!
//! A heartbeat is a renewed Lease or a reported status, timed by this controller's own monotonic clock: a wrong clock
//! of a node, or a jump of ours, evicts no pod. An unreachable node gets no new pods; its existing pods are evicted
//! when its zone's rate allows ([`zones`]).

mod conditions;
mod zones;

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod, Taint};
use parking_lot::Mutex;

use super::context::Context;
use api::{Api, ApiError};
use api::{Change, ChangeKind};
use object::conditions::{Condition as _, ConditionStatus};
use object::node::{condition_status, is_ready};

use object::pod::{self, node_name};
use object::well_known::condition::READY;
use object::{Key, Kind, Object, SharedObject};
use reconcile::{
    Cache, ReconcileError, Reconciler, Recorder, WorkQueue, ignore_not_found, optional, preconditions,
};
use zones::{Health, Transition, Zones, zone_of};

/// The namespace of the kubelets' Leases.
const LEASES: &str = "kube-node-lease";

/// The keys of the queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Request {
    /// One node: its heartbeats and its taints.
    Node(Key),
    /// All zones: selects the next nodes to evict from.
    Zones,
}

impl Request {
    fn object(&self) -> Option<(Kind, Key)> {
        match self {
            Self::Node(key) => Some((Kind::Node, key.clone())),
            Self::Zones => None,
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(key) => write!(f, "Node {key}"),
            Self::Zones => f.write_str("zones"),
        }
    }
}

/// The interval at which the pods of a node are marked as not ready again: Kubernetes' node monitor period.
const POD_RECHECK_INTERVAL: Duration = Duration::from_secs(5);

pub(super) fn start(context: &Context) {
    let nodes = context.caches.of::<Node>();
    context
        .controller(|queue| NodeController {
            api: context.api.clone(),
            nodes: nodes.clone(),
            pods: context.caches.of(),
            heartbeats: Mutex::default(),
            zones: Mutex::new(Zones::new(context.settings.node_lifecycle.clone())),
            recorder: Recorder::new(&context.api, "node-controller"),
            queue,
        })
        .keys_are(Request::object)
        .watches::<Node, _>(NodeController::node_changed)
        .watches::<Lease, _>(NodeController::lease_changed)
        .watches::<Pod, _>(NodeController::pod_changed)
        .run(&context.tasks);
}

struct NodeController {
    api: Api,
    nodes: Cache<Node>,
    pods: Cache<Pod>,
    /// The time of each node's last heartbeat on the monotonic clock.
    heartbeats: Mutex<HashMap<String, Duration>>,
    zones: Mutex<Zones>,
    recorder: Recorder,
    queue: WorkQueue<Request>,
}

impl Reconciler for NodeController {
    type Key = Request;

    fn reconcile(&self, work: &Request) -> Result<(), ReconcileError> {
        match work {
            Request::Node(key) => self.sync_node(key)?,
            Request::Zones => self.sync_zones()?,
        }
        Ok(())
    }
}

/// Returns the newest time at which the kubelet reported a condition.
fn reported(node: &Object) -> Option<jiff::Timestamp> {
    let conditions = node.get::<Node>()?.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().filter_map(|c| c.last_heartbeat_time.as_ref()).map(|t| t.0).max()
}

/// Returns the parts of a node that determine its zone's health.
fn health(node: &Object) -> Option<Health> {
    node.get::<Node>().map(Health::of)
}

impl NodeController {
    fn sync_node(&self, key: &Key) -> Result<(), ApiError> {
        let Some(mut node) = self.nodes.get(key) else { return Ok(()) };
        let last_heartbeat = self.last_heartbeat(&key.name);
        let timings = self.api.timings();
        let reported = condition_status(&node, READY).is_some();
        let grace =
            if reported { timings.node_monitor_grace_period.0 } else { timings.node_startup_grace_period.0 };
        let silent = self.api.clock().monotonic().saturating_sub(last_heartbeat);
        if silent < grace {
            let left = grace.checked_sub(silent).unwrap_or_default();
            self.queue.add_after(Request::Node(key.clone()), left);
        } else {
            // A new node of the name gets a sync of its own.
            let Some(unknown) = self.make_unknown(&node, last_heartbeat)? else { return Ok(()) };
            node = unknown;
            if self.last_heartbeat(&key.name) != last_heartbeat {
                // A heartbeat has arrived meanwhile. The next one must not be waited for: it may never come.
                self.queue.add(Request::Node(key.clone()));
            }
        }
        self.set_taints(&node, conditions::taints)?;
        if conditions::should_evict(&node) {
            if self.zones.lock().enqueue_taint(node.name(), &zone_of(&node)) {
                self.enqueue_zones();
            }
        } else {
            self.zones.lock().cancel(node.name());
        }
        if !is_ready(&node) && condition_status(&node, READY).is_some() {
            self.pods_not_ready(&node)?;
        }
        Ok(())
    }

    /// Enqueues the zones with a delay, so that nodes that stop reporting together are handled together.
    fn enqueue_zones(&self) {
        self.queue.add_after(Request::Zones, self.api.timings().node_eviction_interval.0);
    }

    fn sync_zones(&self) -> Result<(), ApiError> {
        let nodes = self.nodes.list();
        let healths: Vec<Health> = nodes.iter().map(|node| Health::of(node)).collect();
        let now = self.api.clock().monotonic();
        let transition = self.zones.lock().observe(&healths, now);
        match transition {
            Some(Transition::AllNotReady) => {
                tracing::warn!("no node is ready; no pod is evicted until a node is ready");
                for node in &nodes {
                    self.set_taints(node, |fresh, _| conditions::without_eviction_taint(fresh))?;
                }
            }
            Some(Transition::SomeReady) => {
                tracing::info!("nodes are ready again; their grace periods start again");
                self.heartbeats.lock().values_mut().for_each(|heard| *heard = now);
            }
            None => {}
        }
        self.taint_nodes(&nodes, now)?;
        if let Some(delay) = self.zones.lock().wait(now) {
            self.queue.add_after(Request::Zones, delay);
        }
        Ok(())
    }

    /// Taints the nodes selected for eviction now.
    fn taint_nodes(&self, nodes: &[SharedObject<Node>], now: Duration) -> Result<(), ApiError> {
        loop {
            let transition = self.zones.lock().next(now);
            let Some(name) = transition else { return Ok(()) };
            let Some(node) = nodes.iter().find(|node| node.name() == name) else { continue };
            if let Err(error) = self.set_taints(node, conditions::with_eviction_taint) {
                self.zones.lock().enqueue_taint(&name, &zone_of(node));
                return Err(error);
            }
        }
    }

    fn lease_changed(&self, change: &Change) {
        if change.kind != ChangeKind::Deleted && change.object.namespace() == LEASES {
            self.record_heartbeat(change.object.name());
        }
    }

    fn last_heartbeat(&self, node: &str) -> Duration {
        self.heartbeats.lock().get(node).copied().unwrap_or_default()
    }

    fn record_heartbeat(&self, node: &str) {
        self.heartbeats.lock().insert(node.to_string(), self.api.clock().monotonic());
    }

    fn node_changed(&self, change: &Change) {
        let (node, key) = (&change.object, change.object.key());
        match change.kind {
            ChangeKind::Deleted => {
                self.heartbeats.lock().remove(&key.name);
                self.zones.lock().cancel(&key.name);
                self.enqueue_zones();
                let message = format!("Node {} event: Removing Node {} from Controller", key.name, key.name);
                self.recorder.normal(node, "RemovingNode", message);
                return;
            }
            // A new watch gives every node its full time.
            ChangeKind::Added => {
                self.record_heartbeat(&key.name);
                self.enqueue_zones();
                let message = format!("Node {} event: Registered Node {} in Controller", key.name, key.name);
                self.recorder.normal(node, "RegisteredNode", message);
            }
            ChangeKind::Modified => {
                if change.previous.as_ref().is_none_or(|before| reported(before) != reported(node)) {
                    self.record_heartbeat(&key.name);
                }
                if change.previous.as_ref().is_none_or(|before| health(before) != health(node)) {
                    self.enqueue_zones();
                }
            }
        }
        self.queue.add(Request::Node(key));
    }

    /// Syncs the node again if a pod is ready while its node is not. This is delayed: the kubelet may know better than
    /// this controller, and without a delay each would overwrite the other's status at once.
    fn pod_changed(&self, change: &Change) {
        let Some(pod) = change.object.get::<Pod>().filter(|pod| pod::is_ready(pod)) else { return };
        let Some(name) = node_name(pod) else { return };
        let key = Key::new("", name);
        if self.nodes.get(&key).is_some_and(|node| !is_ready(&node)) {
            self.queue.add_after(Request::Node(key), POD_RECHECK_INTERVAL);
        }
    }

    /// Sets the conditions to Unknown, unless a heartbeat has arrived meanwhile; `None` if the node was deleted or
    /// replaced.
    fn make_unknown(
        &self,
        node: &SharedObject<Node>,
        last_heartbeat: Duration,
    ) -> Result<Option<SharedObject<Node>>, ApiError> {
        let was_ready = is_ready(node);
        let now = self.api.clock().now();
        let written = preconditions::modify_status(&self.api, node, |fresh| {
            if self.last_heartbeat(node.name()) == last_heartbeat {
                let created = fresh.metadata.creation_timestamp.as_ref().map(|t| t.0);
                let status = fresh.status.get_or_insert_default();
                let of_node: &mut Vec<NodeCondition> = status.conditions.get_or_insert_default();
                conditions::mark_unknown(of_node, created, now);
            }
        });
        let Some(written) = optional(written)? else { return Ok(None) };
        if was_ready && !is_ready(&written) {
            let message = format!("Node {} status is now: NodeNotReady", node.name());
            self.recorder.normal(node.object(), "NodeNotReady", message);
        }
        Ok(Some(written))
    }

    /// Writes the taints that a rule returns, if they differ.
    fn set_taints(
        &self,
        node: &SharedObject<Node>,
        rule: impl Fn(&Node, Timestamp) -> Vec<Taint>,
    ) -> Result<(), ApiError> {
        let now = self.api.clock().now();
        let of_node = node.spec.as_ref().and_then(|s| s.taints.as_deref()).unwrap_or_default();
        if rule(node, now) == of_node {
            return Ok(());
        }
        let tainted = self.api.modify::<Node>(&node.key(), |fresh| {
            let taints = rule(fresh, now);
            fresh.spec.get_or_insert_default().taints = (!taints.is_empty()).then_some(taints);
            Ok(())
        });
        ignore_not_found(tainted)
    }

    /// Marks the node's pods as not ready, so that they get no requests: no kubelet reports about them.
    fn pods_not_ready(&self, node: &SharedObject<Node>) -> Result<(), ApiError> {
        let now = self.api.clock().time();
        let (reason, message) = conditions::of_pods(node);
        for pod in self.pods.on_node(node.name()).iter().filter(|pod| pod::is_ready(pod)) {
            let marked = self.api.modify_status::<Pod>(&pod.key(), |fresh| {
                let conditions = fresh.status.iter_mut().flat_map(|s| s.conditions.iter_mut().flatten());
                for condition in conditions.filter(|c| c.type_ == READY && c.is_true()) {
                    condition.status = ConditionStatus::False.into();
                    condition.last_transition_time = Some(now.clone());
                    condition.reason = Some(reason.into());
                    condition.message = Some(message.clone());
                }
                Ok(())
            });
            ignore_not_found(marked)?;
            self.recorder.warning(pod.object(), "NodeNotReady", "Node is not ready");
        }
        Ok(())
    }
}
