//! Decides whether a node accepts a pod that was bound to it. The kubelet repeats the scheduler's checks, since pods
//! can be bound by hand. Pure.

use std::cmp::Reverse;
use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};

use super::runtime::PodUid;
use super::spec;
use base::sort::SliceOrder;
use object::host_ports::{HostPort, conflict};
use object::node_selector::RequiredNodes;
use object::quantity::{Amount, ResourceList};
use object::resources::{Amounts, allocated_requests, pod_requests, spec_requests};
use object::taint::effect::NO_EXECUTE;
use object::taint::is_tolerated;

/// The requests of the pods that a node has accepted.
#[derive(Debug, Default)]
pub(super) struct AdmittedPods {
    pods: HashMap<PodUid, PodAllocation>,
    /// Pods whose resize waits for resources, by priority and waiting time.
    waiting: HashMap<PodUid, (Reverse<i32>, Timestamp)>,
}

/// The resources and ports that one pod holds on its node.
#[derive(Debug, Default)]
struct PodAllocation {
    amounts: Amounts,
    ports: Vec<HostPort>,
}

/// The reason why a pod is not allocated its current spec's resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResizeRefusal {
    /// `Infeasible` on this node, or `Deferred` until other pods leave.
    pub(super) reason: &'static str,
    /// The reason as the event gives it: `Infeasible`, `OutOfcpu` …
    pub(super) event_reason: String,
    /// Names the resource that is short.
    pub(super) message: String,
}

/// The reason why a pod is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AdmitRejection {
    /// `status.reason`.
    pub(super) reason: String,
    /// The rest of `status.message`, after its fixed first words.
    pub(super) message: String,
}

impl AdmittedPods {
    /// Adds a pod without checks: it runs already, or is critical for the cluster.
    pub(super) fn add(&mut self, uid: &str, pod: &Pod) {
        let held = PodAllocation { amounts: allocated_requests(pod), ports: HostPort::of(pod) };
        self.pods.insert(uid.to_string(), held);
    }

    /// Adds a pod if the node has enough resources for it and may run it.
    pub(super) fn try_add(
        &mut self,
        uid: &str,
        pod: &Pod,
        allocatable: &ResourceList,
        node: Option<&Node>,
    ) -> Result<(), AdmitRejection> {
        let others = || self.pods.iter().filter(|(other, _)| other.as_str() != uid).map(|(_, held)| held);
        let count = others().count() as i64;
        let most = allocatable.get("pods").map(|q| Amount::of(q).units());
        if let Some(most) = most.filter(|most| count >= *most) {
            return Err(short("pods", 1, count, most));
        }
        for (resource, requested) in pod_requests(pod) {
            let Some(all) = allocatable.get(&resource).map(Amount::of) else { continue };
            let mut used = Amount::ZERO;
            for other in others() {
                used += other.amounts.get(&resource).copied().unwrap_or_default();
            }
            if !requested.is_zero() && used + requested > all {
                let number = |amount| number(&resource, amount);
                return Err(short(&resource, number(requested), number(used), number(all)));
            }
        }
        if node.is_some_and(|node| !RequiredNodes::of(spec::spec(pod)).matches(node)) {
            let message = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
            return Err(AdmitRejection { reason: "NodeAffinity".into(), message: message.into() });
        }
        let ports = HostPort::of(pod);
        if others().any(|other| conflict(&ports, &other.ports)) {
            let message =
                "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
            return Err(AdmitRejection { reason: "NodePorts".into(), message: message.into() });
        }
        let taints = node.and_then(|node| node.spec.as_ref()?.taints.as_ref()).into_iter().flatten();
        let tolerations = spec::spec(pod).tolerations.as_ref();
        // The other effects concern the scheduler alone.
        if taints.filter(|taint| taint.effect == NO_EXECUTE).any(|taint| !is_tolerated(tolerations, taint)) {
            let message = "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate";
            return Err(AdmitRejection { reason: "TaintToleration".into(), message: message.into() });
        }
        self.add(uid, pod);
        Ok(())
    }

    /// Allocates the resources of the pod's current spec, or defers the resize; returns the waiting pods that may fit
    /// if the resize releases resources.
    pub(super) fn resize(
        &mut self,
        uid: &str,
        pod: &Pod,
        allocatable: &ResourceList,
        now: Timestamp,
    ) -> Result<Vec<PodUid>, ResizeRefusal> {
        let requests = spec_requests(pod);
        let has = self.pods.get(uid).map(|held| held.amounts.clone()).unwrap_or_default();
        let of = |amounts: &Amounts, resource: &str| amounts.get(resource).copied().unwrap_or_default();
        for resource in ["memory", "cpu"] {
            let Some(all) = allocatable.get(resource).map(Amount::of) else { continue };
            let (requested, all) = (number(resource, of(&requests, resource)), number(resource, all));
            if requested > all {
                self.waiting.remove(uid);
                let message = format!(
                    "Node didn't have enough capacity: {resource}, requested: {requested}, capacity: {all}"
                );
                return Err(ResizeRefusal {
                    reason: "Infeasible",
                    event_reason: "Infeasible".into(),
                    message,
                });
            }
        }
        let mut gives_back = false;
        for resource in ["cpu", "memory"] {
            let (requested, held) = (of(&requests, resource), of(&has, resource));
            gives_back |= requested < held;
            let Some(all) = allocatable.get(resource).map(Amount::of).filter(|_| requested > held) else {
                continue;
            };
            let mut used = Amount::ZERO;
            for (_, other) in self.pods.iter().filter(|(other, _)| other.as_str() != uid) {
                used += of(&other.amounts, resource);
            }
            if used + requested > all {
                let number = |amount| number(resource, amount);
                let AdmitRejection { reason, message } =
                    short(resource, number(requested), number(used), number(all));
                let priority = spec::spec(pod).priority.unwrap_or(0);
                self.waiting.entry(uid.to_string()).or_insert((Reverse(priority), now));
                return Err(ResizeRefusal { reason: "Deferred", event_reason: reason, message });
            }
        }
        self.waiting.remove(uid);
        self.pods.entry(uid.to_string()).or_default().amounts = requests;
        Ok(if gives_back { self.waiting() } else { Vec::new() })
    }

    /// Releases the resources of a pod that has ended or was deleted; returns the pods that wait for resources, the
    /// most important first.
    pub(super) fn release(&mut self, uid: &str) -> Vec<PodUid> {
        self.waiting.remove(uid);
        if self.pods.remove(uid).is_some() { self.waiting() } else { Vec::new() }
    }

    fn waiting(&self) -> Vec<PodUid> {
        let mut waiting: Vec<_> = self.waiting.iter().map(|(uid, order)| (*order, uid.clone())).collect();
        waiting.order();
        waiting.into_iter().map(|(_, uid)| uid).collect()
    }
}

/// Converts an amount to the scheduler's unit: cpu in thousandths.
fn number(resource: &str, amount: Amount) -> i64 {
    if resource == "cpu" { amount.millis() } else { amount.units() }
}

fn short(resource: &str, requested: i64, used: i64, all: i64) -> AdmitRejection {
    let message = format!(
        "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {all}"
    );
    AdmitRejection { reason: format!("OutOf{resource}"), message }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "tables of JSON read better without borrows")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value) -> Pod {
        serde_json::from_value(json!({"spec": spec})).unwrap()
    }

    fn asking(requests: Value) -> Pod {
        pod(json!({"containers": [{"name": "c", "resources": {"requests": requests}}]}))
    }

    #[test]
    fn a_pod_bound_by_hand_is_refused_where_it_does_not_fit_pod_1() {
        let allocatable: ResourceList =
            serde_json::from_value(json!({"cpu": "2", "memory": "1Gi", "pods": "3"})).unwrap();
        let node: Node =
            serde_json::from_value(json!({"metadata": {"name": "n", "labels": {"disk": "ssd"}}})).unwrap();
        let mut taken = AdmittedPods::default();
        let mut take = |uid: &str, pod: &Pod| {
            taken
                .try_add(uid, pod, &allocatable, Some(&node))
                .map_err(|r| format!("{}: {}", r.reason, r.message))
        };
        assert_eq!(take("a", &asking(json!({"cpu": "1500m"}))), Ok(()));
        assert_eq!(take("a", &asking(json!({"cpu": "1500m"}))), Ok(()), "asking twice takes once");
        assert_eq!(
            take("b", &asking(json!({"cpu": "600m"}))).unwrap_err(),
            "OutOfcpu: Node didn't have enough resource: cpu, requested: 600, used: 1500, capacity: 2000"
        );
        assert_eq!(
            take("b", &asking(json!({"memory": "2Gi"}))).unwrap_err(),
            "OutOfmemory: Node didn't have enough resource: memory, requested: 2147483648, used: 0, capacity: 1073741824"
        );
        let picky = |disk: &str| pod(json!({"nodeSelector": {"disk": disk}, "containers": [{"name": "c"}]}));
        assert_eq!(take("b", &picky("ssd")), Ok(()));
        assert!(take("c", &picky("tape")).unwrap_err().starts_with("NodeAffinity: "));
        assert_eq!(
            take("c", &asking(json!({"example.com/gpu": "1"}))),
            Ok(()),
            "unknown resources are not counted"
        );
        assert!(take("d", &asking(json!({}))).unwrap_err().starts_with("OutOfpods: "));
        taken.release("a");
        assert!(taken.try_add("d", &asking(json!({})), &allocatable, Some(&node)).is_ok());
    }

    #[test]
    fn a_pod_bound_by_hand_is_refused_where_it_does_not_tolerate_no_execute_pod_1_node_2() {
        let pod_tolerating =
            |tolerations: Value| pod(json!({"containers": [{"name": "c"}], "tolerations": tolerations}));
        let mut taken = AdmittedPods::default();
        for (effect, tolerations, is_admitted) in [
            ("NoExecute", json!([]), false),
            ("NoExecute", json!([{"key": "crew", "operator": "Exists"}]), false),
            ("NoExecute", json!([{"key": "team", "operator": "Exists", "effect": "NoSchedule"}]), false),
            ("NoExecute", json!([{"key": "team", "operator": "Exists", "tolerationSeconds": 60}]), true),
            ("NoExecute", json!([{"operator": "Exists"}]), true),
            ("NoSchedule", json!([]), true),
            ("PreferNoSchedule", json!([]), true),
        ] {
            let taints = json!([{"key": "team", "value": "a", "effect": effect}]);
            let node: Node = serde_json::from_value(json!({"spec": {"taints": taints}})).unwrap();
            let pod = pod_tolerating(tolerations.clone());
            let expected = if is_admitted {
                Ok(())
            } else {
                Err(AdmitRejection {
                    reason: "TaintToleration".into(),
                    message:
                        "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
                            .into(),
                })
            };
            let admitted = taken.try_add("a", &pod, &ResourceList::new(), Some(&node));
            assert_eq!(admitted, expected, "{effect} {tolerations}");
        }
    }

    /// A pod bound by hand may request a port that another pod holds; the conformance test "Should recreate evicted
    /// statefulset" does so.
    #[test]
    fn a_pod_is_refused_where_another_holds_its_host_port() {
        let listening = |port: i32, address: &str| {
            pod(json!({"containers": [{"name": "c",
                "ports": [{"containerPort": 1, "hostPort": port, "hostIP": address}]}]}))
        };
        let mut taken = AdmittedPods::default();
        let mut take = |uid: &str, pod: &Pod| taken.try_add(uid, pod, &ResourceList::new(), None);
        assert_eq!(take("a", &listening(21_017, "127.0.0.1")), Ok(()));
        assert_eq!(take("a", &listening(21_017, "127.0.0.1")), Ok(()), "it is its own");
        assert_eq!(take("b", &listening(21_017, "127.0.0.2")), Ok(()));
        let refusal = take("c", &listening(21_017, "")).unwrap_err();
        assert_eq!(
            (refusal.reason.as_str(), refusal.message.as_str()),
            (
                "NodePorts",
                "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
            )
        );
        taken.release("a");
        taken.release("b");
        assert!(taken.try_add("c", &listening(21_017, ""), &ResourceList::new(), None).is_ok());
    }

    /// POD-12: a resize that can never fit is infeasible; one that does not fit now waits until other pods release
    /// resources.
    #[test]
    fn a_resize_is_given_refused_or_waits() {
        let allocatable: ResourceList = serde_json::from_value(json!({"cpu": "4", "memory": "1Gi"})).unwrap();
        let mut taken = AdmittedPods::default();
        for (uid, cpu) in [("a", "1"), ("b", "2"), ("c", "1")] {
            taken.try_add(uid, &asking(json!({"cpu": cpu})), &allocatable, None).unwrap();
        }
        let now = Timestamp::UNIX_EPOCH;
        let mut resize = |uid: &str, requests: Value, priority: i32| {
            let mut pod = asking(requests);
            pod.spec.as_mut().unwrap().priority = Some(priority);
            taken
                .resize(uid, &pod, &allocatable, now)
                .map_err(|no| format!("{} {}: {}", no.reason, no.event_reason, no.message))
        };
        assert_eq!(
            resize("a", json!({"cpu": "5"}), 0).unwrap_err(),
            "Infeasible Infeasible: Node didn't have enough capacity: cpu, requested: 5000, capacity: 4000"
        );
        assert_eq!(
            resize("a", json!({"cpu": "2"}), 0).unwrap_err(),
            "Deferred OutOfcpu: Node didn't have enough resource: cpu, requested: 2000, used: 3000, capacity: 4000"
        );
        assert!(resize("c", json!({"cpu": "2"}), 100).is_err());
        assert_eq!(resize("b", json!({"cpu": "1"}), 0).unwrap(), ["c", "a"], "the most important first");
        assert_eq!(resize("c", json!({"cpu": "2"}), 100).unwrap(), [""; 0]);
        assert_eq!(taken.release("b"), ["a"]);
        assert_eq!(taken.release("b"), [""; 0], "once");
    }
}
