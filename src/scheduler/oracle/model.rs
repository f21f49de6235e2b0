//! The naive cluster: objects only, with every question answered by a search through all of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, PodAffinityTerm, TopologySpreadConstraint};

use crate::state::pod_info::PodInfo;
use crate::state::snapshot::Snapshot;
use object::SharedObject;
use object::node_selector::RequiredNodes;
use object::quantity::Amount;
use object::resources::pod_requests;
use object::selector::Selector;
use object::taint::untolerated;

/// The objects, without any totals.
#[derive(Clone, Default)]
pub(super) struct Model {
    pub(super) nodes: BTreeMap<String, SharedObject<Node>>,
    /// Each with the name of its node, which may not exist.
    pub(super) pods: BTreeMap<String, (SharedObject<Pod>, String)>,
    /// The number of pods of app `a` in `default` that may be evicted; `None` without a budget.
    pub(super) allowed_disruptions: Option<i64>,
}

pub(super) fn label<'n>(node: &'n Node, key: &str) -> Option<&'n String> {
    node.metadata.labels.as_ref()?.get(key)
}

fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Returns the required terms of `podAffinity` or, if `anti`, of `podAntiAffinity`.
pub(super) fn required_terms(pod: &Pod, anti: bool) -> Vec<&PodAffinityTerm> {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let terms = if anti {
        affinity
            .and_then(|a| a.pod_anti_affinity.as_ref())
            .and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref())
    } else {
        affinity
            .and_then(|a| a.pod_affinity.as_ref())
            .and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref())
    };
    terms.into_iter().flatten().collect()
}

/// Returns true if a term of `owner` matches `other`.
pub(super) fn is_about(term: &PodAffinityTerm, owner: &Pod, other: &Pod) -> bool {
    let namespace = other.metadata.namespace.clone().unwrap_or_default();
    let named = term.namespaces.iter().flatten().any(|name| *name == namespace);
    let own = term.namespaces.is_none()
        && term.namespace_selector.is_none()
        && owner.metadata.namespace.as_ref() == Some(&namespace);
    // The only namespace selector in these tests selects all.
    let in_scope = named || own || term.namespace_selector.is_some();
    in_scope && Selector::from_optional(term.label_selector.as_ref()).matches(other.metadata.labels.as_ref())
}

pub(super) fn counts(constraint: &TopologySpreadConstraint, pod: &Pod, other: &Pod) -> bool {
    let labels = |pod: &Pod, key: &String| pod.metadata.labels.as_ref().and_then(|l| l.get(key)).cloned();
    let keys = constraint.match_label_keys.iter().flatten();
    Selector::from_optional(constraint.label_selector.as_ref()).matches(other.metadata.labels.as_ref())
        && keys.into_iter().all(|key| labels(pod, key).is_none() || labels(pod, key) == labels(other, key))
        && pod.metadata.namespace == other.metadata.namespace
        && !is_terminating(other)
}

pub(super) fn constraints(pod: &Pod, when: &str) -> Vec<TopologySpreadConstraint> {
    let all = pod.spec.as_ref().and_then(|spec| spec.topology_spread_constraints.clone()).unwrap_or_default();
    all.into_iter().filter(|constraint| constraint.when_unsatisfiable == when).collect()
}

/// Returns true if a node is, or belongs to, a domain of a constraint of the pod, given its other constraints.
pub(super) fn is_included(
    constraint: &TopologySpreadConstraint,
    beside: &[TopologySpreadConstraint],
    pod: &Pod,
    node: &Node,
) -> bool {
    let spec = pod.spec.as_ref().expect("every pod has one");
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    beside.iter().all(|other| label(node, &other.topology_key).is_some())
        && (constraint.node_affinity_policy.as_deref() == Some("Ignore")
            || RequiredNodes::of(spec).matches(node))
        && (constraint.node_taints_policy.as_deref() != Some("Honor")
            || untolerated(&taints, spec.tolerations.as_ref()).is_none())
}

type HostPort = (i32, String, String);

fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    ports
        .filter_map(|port| {
            let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".into());
            Some((port.host_port?, protocol, port.host_ip.clone().unwrap_or_else(|| "0.0.0.0".into())))
        })
        .collect()
}

fn clash(a: &HostPort, b: &HostPort) -> bool {
    (a.0, &a.1) == (b.0, &b.1) && (a.2 == b.2 || a.2 == "0.0.0.0" || b.2 == "0.0.0.0")
}

fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0)
}

/// Returns the start time; a pod not started yet counts as the youngest.
fn started(pod: &Pod) -> jiff::Timestamp {
    let status = pod.status.as_ref();
    status.and_then(|status| status.start_time.as_ref()).map_or(jiff::Timestamp::MAX, |time| time.0)
}

impl Model {
    /// Builds a snapshot from scratch.
    pub(super) fn rebuilt(&self) -> Snapshot {
        let mut snapshot = Snapshot::new();
        for node in self.nodes.values() {
            snapshot.set_node(node.clone());
        }
        for (pod, node) in self.pods.values() {
            snapshot.add_pod(Arc::new(PodInfo::new(pod.clone())), node);
        }
        snapshot.refresh();
        snapshot
    }

    /// Returns the pods on existing nodes, with these nodes.
    pub(super) fn placed(&self) -> impl Iterator<Item = (&SharedObject<Pod>, &SharedObject<Node>)> {
        self.pods.values().filter_map(|(pod, on)| Some((pod, self.nodes.get(on)?)))
    }

    pub(super) fn on<'m>(&'m self, node: &'m str) -> impl Iterator<Item = &'m SharedObject<Pod>> {
        self.pods.values().filter(move |(_, on)| on == node).map(|(pod, _)| pod)
    }

    /// Returns the number of pods that a constraint counts, by domain.
    pub(super) fn spread_counts(
        &self,
        constraint: &TopologySpreadConstraint,
        beside: &[TopologySpreadConstraint],
        pod: &Pod,
    ) -> BTreeMap<String, usize> {
        let mut domains = BTreeMap::new();
        for (name, node) in &self.nodes {
            let Some(domain) = label(node, &constraint.topology_key) else { continue };
            if is_included(constraint, beside, pod, node) {
                *domains.entry(domain.clone()).or_insert(0) +=
                    self.on(name).filter(|other| counts(constraint, pod, other)).count();
            }
        }
        domains
    }

    fn spreads(&self, pod: &Pod, node: &Node) -> bool {
        let required = constraints(pod, "DoNotSchedule");
        required.iter().all(|constraint| {
            let Some(domain) = label(node, &constraint.topology_key) else { return false };
            let domains = self.spread_counts(constraint, &required, pod);
            let enough = domains.len() as i32 >= constraint.min_domains.unwrap_or(1);
            let fewest = if enough { domains.values().min().copied().unwrap_or(0) } else { 0 };
            let own = usize::from(counts(constraint, pod, pod));
            domains.get(domain).unwrap_or(&0) + own <= fewest + constraint.max_skew as usize
        })
    }

    /// Returns true if a pod matching the term is in the node's domain; `None` if the node is in no domain.
    fn in_domain(&self, term: &PodAffinityTerm, owner: &Pod, node: &Node) -> Option<bool> {
        let domain = label(node, &term.topology_key)?;
        Some(
            self.placed().any(|(other, on)| {
                label(on, &term.topology_key) == Some(domain) && is_about(term, owner, other)
            }),
        )
    }

    fn finds_company(&self, pod: &Pod, node: &Node) -> bool {
        required_terms(pod, false).iter().all(|term| {
            let anywhere = self.nodes.values().any(|node| self.in_domain(term, pod, node) == Some(true));
            match self.in_domain(term, pod, node) {
                None => false,
                Some(there) => there || (!anywhere && is_about(term, pod, pod)),
            }
        })
    }

    fn is_welcome(&self, pod: &Pod, node: &Node) -> bool {
        let avoids =
            required_terms(pod, true).iter().all(|term| self.in_domain(term, pod, node) != Some(true));
        avoids
            && self.placed().all(|(other, on)| {
                required_terms(other, true).iter().all(|term| {
                    let domain = label(on, &term.topology_key);
                    domain.is_none()
                        || domain != label(node, &term.topology_key)
                        || !is_about(term, other, pod)
                })
            })
    }

    /// Runs the filters that come before affinity.
    fn passes_filters(&self, pod: &Pod, name: &str, node: &Node) -> bool {
        let spec = pod.spec.as_ref().expect("every pod has one");
        let there: Vec<&SharedObject<Pod>> = self.on(name).collect();
        let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
        let node_spec = node.spec.as_ref().expect("every node has one");
        let tolerates_all = spec.tolerations.iter().flatten().any(|t| t.key.is_none());
        let enough = pod_requests(pod).iter().filter(|(_, requested)| !requested.is_zero()).all(
            |(name, requested)| {
                let mut used = *requested;
                for other in &there {
                    used += pod_requests(other).get(name).copied().unwrap_or_default();
                }
                used <= Amount::in_list(allocatable, name)
            },
        );
        let taints = node_spec.taints.as_deref().unwrap_or_default();
        let ports = host_ports(pod);
        let taken =
            there.iter().flat_map(|other| host_ports(other)).any(|a| ports.iter().any(|b| clash(&a, b)));
        (tolerates_all || node_spec.unschedulable != Some(true))
            && untolerated(taints, spec.tolerations.as_ref()).is_none()
            && RequiredNodes::of(spec).matches(node)
            && there.len() < 4
            && enough
            && !taken
            && self.spreads(pod, node)
    }

    fn takes(&self, pod: &Pod, name: &str) -> bool {
        let node = &self.nodes[name];
        self.passes_filters(pod, name, node) && self.finds_company(pod, node) && self.is_welcome(pod, node)
    }

    /// Returns the feasible nodes.
    pub(super) fn feasible(&self, pod: &Pod) -> BTreeSet<String> {
        self.nodes.keys().filter(|name| self.takes(pod, name)).cloned().collect()
    }

    fn without(&self, pods: &[&SharedObject<Pod>]) -> Self {
        let mut less = self.clone();
        for pod in pods {
            less.pods.remove(pod.uid());
        }
        less
    }

    /// Returns every node where evictions do the least harm, with its victims.
    pub(super) fn least_harmful_evictions(&self, pod: &Pod) -> Vec<(String, BTreeSet<String>)> {
        let candidates: Vec<_> = self.nodes.keys().filter_map(|node| self.evictions(pod, node)).collect();
        let least = candidates.iter().map(|(harm, ..)| *harm).min();
        let best = candidates.into_iter().filter(|(harm, ..)| Some(harm) == least.as_ref());
        best.map(|(_, node, victims)| (node, victims)).collect()
    }

    fn evictions(&self, pod: &Pod, name: &str) -> Option<(PreemptionCost, String, BTreeSet<String>)> {
        let node = &self.nodes[name];
        // Evicting does not help with an unmet affinity, even if the pod could be the first of its group.
        if self.passes_filters(pod, name, node) && !self.finds_company(pod, node) {
            return None;
        }
        let mut lower: Vec<&SharedObject<Pod>> =
            self.on(name).filter(|other| priority(other) < priority(pod)).collect();
        lower.sort_by_key(|other| (Reverse(priority(other)), started(other), other.uid().to_string()));
        if lower.is_empty() || !self.without(&lower).takes(pod, name) {
            return None;
        }
        let mut left = self.allowed_disruptions.unwrap_or(i64::MAX);
        let breaks: Vec<bool> = lower
            .iter()
            .map(|other| {
                let guarded = other.metadata.labels.as_ref().is_some_and(|labels| labels["app"] == "a")
                    && other.metadata.namespace.as_deref() == Some("default");
                left = if guarded { left.saturating_sub(1) } else { left };
                guarded && left < 0
            })
            .collect();
        let mut removed: Vec<&SharedObject<Pod>> = lower.clone();
        let mut violations = 0;
        let order = lower.iter().zip(&breaks).filter(|(_, b)| **b);
        let order = order.chain(lower.iter().zip(&breaks).filter(|(_, b)| !**b));
        for (other, breaks) in order {
            let spared: Vec<&SharedObject<Pod>> =
                removed.iter().copied().filter(|pod| pod.uid() != other.uid()).collect();
            if self.without(&spared).takes(pod, name) {
                removed = spared;
            } else {
                violations += usize::from(*breaks);
            }
        }
        let highest = removed.first().map_or(i32::MIN, |victim| priority(victim));
        let sum = removed.iter().map(|victim| i64::from(priority(victim)) - i64::from(i32::MIN)).sum();
        let most_important = removed.iter().filter(|victim| priority(victim) == highest);
        let earliest = most_important.map(|victim| started(victim)).min().unwrap_or(jiff::Timestamp::MAX);
        let victims = removed.iter().map(|victim| victim.uid().to_string()).collect();
        Some(((violations, highest, sum, removed.len(), Reverse(earliest)), name.to_string(), victims))
    }
}

/// Budgets violated, the highest priority, the sum of priorities, the number, the start of the first of them.
type PreemptionCost = (usize, i32, i64, usize, Reverse<jiff::Timestamp>);
