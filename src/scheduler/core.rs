//! The scheduler without I/O: takes in what changed, says what to do with one pod after another.
//!
//! Architecture Invariant: whoever calls [`Core::step`] does what it says before the next call, and tells
//! when a binding failed; the room of a decided pod is taken at once.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use parking_lot::Mutex;

use super::advice::advise;
use super::cycle::{Decision, Rejection, Room, Search, schedule};
use super::default_spread::Selectors;
use super::framework::{ChangeType, ClusterChange, PluginSet};
use super::node_info::NodeName;
use super::pod_info::{PodInfo, nominated_node};
use super::profile::Profile;
use super::queue::{Attempt, Queue, QueueTimes, Waiting};
use super::snapshot::{NodeChange, Snapshot};
use super::verdict::{Verdict, Verdicts};
use crate::base::task::panic_text;
use crate::object::selector::Labels;
use crate::object::{Key, Object, Shared, Uid};

/// What is to be done with one pod.
#[derive(Debug)]
pub enum Step {
    /// Bind it to the node; should that fail, give the attempt to [`Core::bind_failed`].
    Bind {
        /// The pod and what the queue knows of it.
        attempt: Attempt,
        /// Its node.
        node: NodeName,
    },
    /// Tell that no node takes it, and make room for it if that helps.
    Unschedulable {
        /// The pod.
        pod: Arc<PodInfo>,
        /// Why.
        message: String,
        /// What becomes of the room kept for it.
        room: Room,
        /// Pods of lower priority for which the node is kept no longer.
        outranked: Vec<Arc<PodInfo>>,
    },
    /// Tell that the scheduler failed at it.
    Failed {
        /// The pod.
        pod: Arc<PodInfo>,
        /// What happened.
        message: String,
    },
}

/// A pod that may not be tried yet, to be told so.
#[derive(Debug)]
pub struct Gated {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// Why.
    pub message: &'static str,
}

/// See the file's head.
pub struct Core {
    snapshot: Snapshot,
    queue: Queue,
    profiles: Arc<[Profile]>,
    search: Search,
    selectors: Selectors,
    verdicts: Arc<Mutex<Verdicts>>,
}

impl Core {
    /// A scheduler that knows of no node and no pod.
    pub fn new(
        profiles: Arc<[Profile]>,
        times: QueueTimes,
        seed: u64,
        verdicts: Arc<Mutex<Verdicts>>,
    ) -> Self {
        Self {
            snapshot: Snapshot::new(),
            queue: Queue::new(times),
            profiles,
            search: Search::seeded(seed),
            selectors: Selectors::default(),
            verdicts,
        }
    }

    /// The nodes and what is placed on them.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// How many pods wait where.
    pub fn waiting(&self) -> Waiting {
        self.queue.waiting()
    }

    /// When to call [`Core::step`] again although nothing changed.
    pub fn next_wake(&self) -> Option<Duration> {
        self.queue.next_wake()
    }

    /// A pod is new or has a new version.
    pub fn pod_changed(&mut self, pod: Shared<Pod>, now: Duration) -> Option<Gated> {
        let spec = pod.spec.as_ref();
        let node = spec.and_then(|s| s.node_name.clone()).filter(|name| !name.is_empty());
        if has_ended(&pod) {
            self.pod_gone(pod.uid(), now);
            return None;
        }
        match node {
            Some(node) => {
                self.pod_assigned(pod, &node, now);
                None
            }
            None => self.pod_waits(pod, now),
        }
    }

    fn pod_assigned(&mut self, pod: Shared<Pod>, node: &str, now: Duration) {
        self.stop_waiting(pod.uid());
        let before = self.snapshot.placed(pod.uid()).cloned();
        if let Some(placed) = before.as_ref().filter(|p| *p.node == *node && p.pod.decides_like(&pod)) {
            if placed.assumed {
                self.snapshot.confirm(pod.uid());
                self.arrived(node, &placed.pod, now);
            }
            return;
        }
        let pod = Arc::new(PodInfo::new(pod));
        self.snapshot.place(pod.clone(), node);
        if let Some(placed) = before {
            // It takes less than before, or was expected elsewhere.
            self.left(&placed.node, &placed.pod, now);
        }
        self.arrived(node, &pod, now);
    }

    /// A pod is on its node for all to see.
    fn arrived(&mut self, node: &str, pod: &PodInfo, now: Duration) {
        if let Some(info) = self.snapshot.node(node) {
            let change = ClusterChange::PodPlaced(info, pod);
            wake(&mut self.queue, &self.profiles, &self.snapshot, &change, now);
        }
    }

    fn pod_waits(&mut self, pod: Shared<Pod>, now: Duration) -> Option<Gated> {
        // An older version of a pod that was decided since.
        if self.snapshot.placed(pod.uid()).is_some() {
            return None;
        }
        let known = self.queue.get(pod.uid()).cloned();
        let same = known.as_ref().is_some_and(|known| known.decides_like(&pod) && !is_terminating(&pod));
        if same && known.as_ref().is_some_and(|known| known.nominated_node() == nominated_node(&pod)) {
            return None;
        }
        let pod = Arc::new(PodInfo::new(pod));
        // The node may have been kept for it, or no longer, by a former scheduler or by hand.
        if known.as_ref().and_then(|known| known.nominated_node()) != pod.nominated_node() {
            self.snapshot.nominate(&pod, pod.nominated_node());
        }
        if same {
            self.queue.replace(pod);
            return None;
        }
        let Some(profile) = profile_of(&self.profiles, &pod).filter(|_| !pod.is_terminating()) else {
            self.stop_waiting(pod.uid());
            return None;
        };
        let admitted = profile.admits(&pod);
        self.queue.put(pod.clone(), admitted.is_err(), now);
        admitted.err().map(|message| Gated { pod, message })
    }

    /// A pod is gone.
    pub fn pod_gone(&mut self, uid: &str, now: Duration) {
        self.stop_waiting(uid);
        if let Some(placed) = self.snapshot.remove_pod(&uid.to_string()) {
            self.left(&placed.node, &placed.pod, now);
        }
    }

    fn stop_waiting(&mut self, uid: &str) {
        self.snapshot.drop_nomination(uid);
        if self.queue.remove(uid) {
            self.verdicts.lock().forget(uid);
        }
    }

    /// A pod holds no room on a node any more.
    fn left(&mut self, node: &str, pod: &PodInfo, now: Duration) {
        if let Some(info) = self.snapshot.node(node) {
            let change = ClusterChange::PodRemoved(info, pod);
            wake(&mut self.queue, &self.profiles, &self.snapshot, &change, now);
        }
    }

    /// A node is new or has a new version.
    pub fn node_changed(&mut self, node: Shared<Node>, now: Duration) {
        let name = node.name().to_string();
        let change = self.snapshot.set_node(node);
        let Some(info) = self.snapshot.node(&name) else { return };
        let change = match change {
            NodeChange::Added => ClusterChange::NodeAdded(info),
            NodeChange::Updated(difference) if difference.any() => {
                ClusterChange::NodeUpdated(info, difference)
            }
            NodeChange::Updated(_) => return,
        };
        wake(&mut self.queue, &self.profiles, &self.snapshot, &change, now);
    }

    /// A node is gone.
    pub fn node_gone(&mut self, name: &str, now: Duration) {
        if let Some(info) = self.snapshot.remove_node(name) {
            let change = ClusterChange::NodeRemoved(&info);
            wake(&mut self.queue, &self.profiles, &self.snapshot, &change, now);
        }
    }

    /// Tries the next pod; none when none is to be tried now.
    pub fn step(&mut self, now: Duration) -> Option<Step> {
        loop {
            let attempt = self.queue.pop(now)?;
            // A pod without a profile never enters the queue.
            if let Some(step) = self.try_pod(attempt, now) {
                return Some(step);
            }
        }
    }

    fn try_pod(&mut self, attempt: Attempt, now: Duration) -> Option<Step> {
        let profiles = self.profiles.clone();
        let pod = attempt.pod.clone();
        let profile = profile_of(&profiles, &pod)?;
        let spread = profile.default_constraints.apply(&pod, &self.selectors);
        let asked = spread.as_ref().unwrap_or(&pod);
        self.snapshot.prepare(asked);
        // A plugin that panics costs its pod an attempt, and nobody else anything.
        let cycle = || schedule(asked, &self.snapshot, profile, &mut self.search);
        Some(match std::panic::catch_unwind(AssertUnwindSafe(cycle)) {
            Ok(Decision::Place { node, .. }) => {
                self.verdicts.lock().forget(pod.uid());
                self.snapshot.assume(pod, &node);
                Step::Bind { attempt, node }
            }
            Ok(Decision::Unfit(rejection)) => {
                let Rejection { message, rejected_by, verdicts, room } = *rejection;
                let advice = advise(asked, &self.snapshot, &verdicts);
                let verdict = Verdict { table: verdicts, message: message.clone(), advice, at: now };
                self.verdicts.lock().keep(pod.uid(), Arc::new(verdict));
                self.queue.reject(attempt, rejected_by, now);
                let outranked = self.keep_room(&pod, &room);
                Step::Unschedulable { pod, message, room, outranked }
            }
            Err(panic) => {
                self.queue.fail(attempt, now);
                Step::Failed { pod, message: format!("a plugin panicked: {}", panic_text(panic.as_ref())) }
            }
        })
    }

    /// Keeps the node for the pod; answers the pods of lower priority that it is kept for no longer.
    fn keep_room(&mut self, pod: &Arc<PodInfo>, room: &Room) -> Vec<Arc<PodInfo>> {
        let preemption = match room {
            Room::Unchanged => return Vec::new(),
            Room::None => None,
            Room::Made(preemption) => Some(preemption),
        };
        self.snapshot.nominate(pod, preemption.map(|p| &*p.node));
        let Some(preemption) = preemption else { return Vec::new() };
        let on_node = self.snapshot.nominated().on(&preemption.node);
        let outranked: Vec<_> = on_node.iter().filter(|p| p.priority < pod.priority).cloned().collect();
        for lower in &outranked {
            self.snapshot.nominate(lower, None);
        }
        outranked
    }

    /// A namespace is new or has other labels (none: it is gone).
    pub fn namespace_changed(&mut self, name: &str, labels: Option<Labels>, now: Duration) {
        if self.snapshot.set_namespace(name, labels) {
            wake(&mut self.queue, &self.profiles, &self.snapshot, &ClusterChange::NamespaceChanged, now);
        }
    }

    /// A Service or workload is new or changed, or gone: what it selects may be spread by default.
    pub fn workload_changed(&mut self, object: &Object, gone: bool) {
        self.selectors.note(object, gone);
    }

    /// A budget is new or changed.
    pub fn budget_changed(&mut self, budget: &Shared<PodDisruptionBudget>) {
        self.snapshot.budgets_mut().set(budget);
    }

    /// A budget is gone.
    pub fn budget_gone(&mut self, budget: &Key) {
        self.snapshot.budgets_mut().remove(budget);
    }

    /// A decided pod could not be bound: its room is free again, and it is tried again after its back-off.
    pub fn bind_failed(&mut self, attempt: Attempt, now: Duration) {
        let uid: Uid = attempt.pod.uid().to_string();
        if self.snapshot.placed(&uid).is_some_and(|placed| placed.assumed)
            && let Some(placed) = self.snapshot.remove_pod(&uid)
        {
            self.left(&placed.node, &placed.pod, now);
        }
        self.queue.fail(attempt, now);
    }
}

fn profile_of<'p>(profiles: &'p [Profile], pod: &PodInfo) -> Option<&'p Profile> {
    profiles.iter().find(|profile| profile.scheduler_name == pod.scheduler_name())
}

/// Lets those waiting pods be tried again that the change may help.
fn wake(
    queue: &mut Queue,
    profiles: &[Profile],
    snapshot: &Snapshot,
    change: &ClusterChange<'_>,
    now: Duration,
) {
    let kind = change.change_type();
    let woken = profiles.iter().map(|p| p.woken_by(kind)).fold(PluginSet::default(), |a, b| b.union(a));
    if woken.is_empty() && kind != ChangeType::NodeAdded {
        return;
    }
    queue.wake(woken, now, |pod, rejected_by| {
        if rejected_by.is_empty() {
            return kind == ChangeType::NodeAdded;
        }
        profile_of(profiles, pod).is_some_and(|p| p.helps(pod, rejected_by, change, snapshot))
    });
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn is_terminating(pod: &Pod) -> bool {
    crate::object::owner::is_terminating(&pod.metadata)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::test_cluster::Cluster;
    use super::super::test_objects::{asking, named_pod, node, sized_node};
    use super::*;

    #[test]
    fn messages_are_kube_schedulers_sch_9() {
        let tainted = node(json!({"metadata": {"name": "t"},
            "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}));
        let cordoned = node(json!({"metadata": {"name": "u"}, "spec": {"unschedulable": true}}));
        let nodes = [tainted, cordoned, sized_node("a", "1"), sized_node("b", "1"), sized_node("c", "2")];
        for (nodes, spec, message) in [
            (&nodes[..0], asking("1"), "no nodes available to schedule pods"),
            (
                &nodes[..],
                asking("3"),
                "0/5 nodes are available: 1 node(s) had untolerated taint {k: v}, 1 node(s) were \
                 unschedulable, 3 Insufficient cpu. preemption: 0/5 nodes are available: 5 Preemption is \
                 not helpful for scheduling.",
            ),
            (
                &nodes[2..],
                json!({"nodeSelector": {"disk": "ssd"}}),
                "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. preemption: \
                 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
            ),
            (
                &nodes[2..],
                json!({"preemptionPolicy": "Never", "nodeSelector": {"disk": "ssd"}}),
                "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. preemption: \
                 not eligible due to preemptionPolicy=Never.",
            ),
            (
                &nodes[2..],
                json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                    {"nodeSelectorTerms": [{"matchFields": [
                        {"key": "metadata.name", "operator": "In", "values": ["gone"]}]}]}}}}),
                "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity]. preemption: \
                 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
            ),
            (
                &nodes[2..],
                json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                    {"nodeSelectorTerms": [{"matchFields": [
                        {"key": "metadata.name", "operator": "In", "values": ["a"]},
                        {"key": "metadata.name", "operator": "In", "values": ["b"]}]}]}}}}),
                "0/3 nodes are available: pod affinity terms conflict. preemption: 0/3 nodes are available: \
                 3 Preemption is not helpful for scheduling.",
            ),
        ] {
            let mut cluster = Cluster::new(nodes);
            cluster.pod("p", spec);
            assert_eq!(cluster.step(), format!("p: {message}"));
        }
    }

    #[test]
    fn room_is_taken_at_once_and_given_back_when_the_binding_fails_sch_1() {
        let mut cluster = Cluster::new(&[sized_node("a", "1")]);
        cluster.pod("first", asking("1"));
        cluster.pod("second", asking("1"));
        let Some(Step::Bind { attempt, node }) = cluster.core.step(cluster.now) else { panic!("first fits") };
        assert_eq!((attempt.pod.uid(), &*node), ("first", "a"));
        assert_eq!(
            cluster.step(),
            "second: 0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: \
             1 No preemption victims found for incoming pod."
        );
        cluster.core.bind_failed(attempt, cluster.now);
        // The room is the other's, whose back-off is cut short: nobody else is to be tried.
        assert_eq!(cluster.step(), "second -> a");
        let bound = || {
            let mut spec = asking("1");
            spec["nodeName"] = json!("a");
            named_pod("second", spec)
        };
        // An older version of the pod arrives late, then it is seen bound, then it goes.
        cluster.pod("second", asking("1"));
        cluster.core.pod_changed(bound(), cluster.now);
        assert!(!cluster.core.snapshot().placed("second").unwrap().assumed);
        assert_eq!(cluster.step(), "-", "a binding that failed waits out its back-off");
        assert!(cluster.after(1).step().starts_with("first: 0/1"));
        cluster.core.pod_gone("second", cluster.now);
        assert_eq!(cluster.step(), "first -> a");
    }

    #[test]
    fn what_cannot_help_wakes_nobody_sch_1() {
        let mut cluster = Cluster::new(&[sized_node("a", "2"), sized_node("b", "1")]);
        cluster.pod("big", asking("4"));
        assert!(cluster.step().starts_with("big: 0/2"));
        cluster.after(60);
        for name in ["x", "y"] {
            cluster.pod(name, asking("500m"));
            assert!(cluster.step().starts_with(&format!("{name} -> ")));
        }
        cluster.core.pod_gone("x", cluster.now);
        cluster.core.node_gone("b", cluster.now);
        cluster.core.node_changed(sized_node("c", "3"), cluster.now);
        assert_eq!(cluster.step(), "-", "a node that is too small, room that is too small");
        assert!(cluster.verdicts.lock().get("big").is_some());
        cluster.core.node_changed(sized_node("c", "4"), cluster.now);
        assert_eq!(cluster.step(), "big -> c");
        assert!(cluster.verdicts.lock().get("big").is_none());
    }

    #[test]
    fn gated_foreign_and_terminating_pods_are_left_alone_sch_1() {
        let mut cluster = Cluster::new(&[sized_node("a", "2")]);
        let gated = cluster
            .core
            .pod_changed(named_pod("p", json!({"schedulingGates": [{"name": "g"}]})), cluster.now);
        assert_eq!(gated.unwrap().message, "Scheduling is blocked due to non-empty scheduling gates");
        cluster.pod("foreign", json!({"schedulerName": "mine"}));
        let mut going = (*named_pod("going", json!({}))).clone();
        cluster.core.pod_changed(Shared::from_value(going.clone()), cluster.now);
        going.metadata.deletion_timestamp = Some(crate::base::clock::time(jiff::Timestamp::UNIX_EPOCH));
        cluster.core.pod_changed(Shared::from_value(going), cluster.now);
        assert_eq!(cluster.step(), "-");
        cluster.pod("p", json!({}));
        assert_eq!(cluster.step(), "p -> a");
    }

    #[test]
    fn verdicts_name_every_filter_on_every_node_con_9() {
        let cordoned = node(json!({"metadata": {"name": "u"}, "spec": {"unschedulable": true}}));
        let mut cluster = Cluster::new(&[cordoned, sized_node("a", "1")]);
        cluster.pod("p", asking("2"));
        cluster.step();
        let table = cluster.verdicts.lock().get("p").unwrap();
        let mut told: Vec<String> = Vec::new();
        for row in table.table.rows() {
            for (plugin, refusal) in row.verdicts() {
                let reasons: Vec<String> = refusal
                    .iter()
                    .flat_map(|refusal| refusal.reasons.as_slice().iter().map(ToString::to_string))
                    .collect();
                told.push(format!("{} {}: {}", row.node(), plugin.name(), reasons.join(" and ")));
            }
        }
        assert_eq!(
            told,
            [
                "u NodeUnschedulable: node(s) were unschedulable",
                "u TaintToleration: ",
                "u NodeResourcesFit: Too many pods and Insufficient cpu",
                "a NodeUnschedulable: ",
                "a TaintToleration: ",
                "a NodeResourcesFit: Insufficient cpu",
            ]
        );
    }
}
