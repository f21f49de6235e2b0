//! A pod in the scheduler's form: the relevant parts of its spec, read once when it is first seen.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec, PreferredSchedulingTerm, Toleration};

use crate::state::domain_terms::DomainCountKey;
use crate::state::pod_affinity::{ExistingTerm, PodAffinity};
use crate::state::requests::Resources;
use crate::state::spread::Spread;
use object::host_ports::HostPort;
use object::node_selector::{NodeTerm, RequiredNodes};
use object::owner::is_terminating;
use object::pod::disruption::{self, DisruptionReason};
use object::pod::{node_name, nominated_node_name};
use object::resources::count_alike;
use object::storage::claims_of;
use object::{Key, SharedObject};

/// The scheduler of pods that name none.
pub(crate) const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// A pod with the parts that scheduling reads.
#[derive(Clone)]
pub(crate) struct PodInfo {
    /// The pod's version this was read from.
    pub(crate) pod: SharedObject<Pod>,
    /// `spec.priority`; 0 if it has none.
    pub(crate) priority: i32,
    pub(crate) requests: Resources,
    /// Its resources for scoring, with assumed values for missing requests.
    pub(crate) assumed: Resources,
    /// The node's ports it listens on.
    pub(crate) ports: Vec<HostPort>,
    /// The nodes on one of which it must run.
    pub(crate) required_nodes: RequiredNodes,
    /// The nodes it prefers, with the weight of each preference.
    pub(crate) preferred_nodes: Vec<(i64, NodeTerm)>,
    /// Its spread constraints.
    pub(crate) spread: Vec<Spread>,
    /// Its terms about existing pods.
    pub(crate) affinity: Arc<PodAffinity>,
    /// Its terms about new pods, once it is placed.
    pub(crate) existing_terms: Vec<Arc<ExistingTerm>>,
    /// The claims it uses.
    pub(crate) claims: Vec<PodClaim>,
    /// `status.startTime`: the time at which its kubelet accepted it.
    pub(crate) started: Option<Timestamp>,
    /// The pod is being deleted by preemption.
    pub(crate) preempted: bool,
}

/// The extent to which another version of a pod differs in the fields that decisions read. Its node is not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodDifference {
    /// No difference.
    None,
    /// Only its status: start time, allocated resources, DisruptionTarget.
    Status,
    /// Its spec or metadata.
    Whole,
}

/// A claim that a pod uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodClaim {
    /// The claim's name; it is in the pod's namespace.
    pub(crate) name: String,
    /// The claim is created for the pod.
    pub(crate) ephemeral: bool,
}

impl PodInfo {
    /// Reads a pod.
    pub(crate) fn new(pod: SharedObject<Pod>) -> Self {
        let spec = pod.spec.as_ref();
        Self {
            priority: spec.and_then(|s| s.priority).unwrap_or(0),
            requests: Resources::requested_by(&pod),
            assumed: Resources::assumed_for(&pod),
            ports: HostPort::of(&pod),
            required_nodes: spec.map(RequiredNodes::of).unwrap_or_default(),
            preferred_nodes: spec.map(preferred_nodes).unwrap_or_default(),
            spread: Spread::of(&pod),
            affinity: Arc::new(PodAffinity::of(&pod)),
            existing_terms: ExistingTerm::of(&pod),
            claims: claims_of(&pod)
                .map(|used| PodClaim { name: used.claim, ephemeral: used.ephemeral })
                .collect(),
            started: started(&pod),
            preempted: was_preempted(&pod),
            pod,
        }
    }

    /// Returns the same pod with the [status](PodDifference::Status) of another version.
    #[must_use]
    pub(crate) fn with_status_of(&self, pod: SharedObject<Pod>) -> Self {
        let (mut requests, mut assumed) = (self.requests.clone(), self.assumed.clone());
        if !count_alike(self.pod.status.as_ref(), pod.status.as_ref()) {
            (requests, assumed) = (Resources::requested_by(&pod), Resources::assumed_for(&pod));
        }
        let (started, preempted) = (started(&pod), was_preempted(&pod));
        Self { pod, requests, assumed, started, preempted, ..self.clone() }
    }

    /// Returns the keys of all counts needed to decide about it.
    pub(crate) fn domain_counts(&self) -> impl Iterator<Item = &Arc<DomainCountKey>> {
        self.spread.iter().map(|spread| &spread.domain_count).chain(self.affinity.domain_counts())
    }

    /// Returns the node from which pods were evicted to make room for it.
    pub(crate) fn nominated_node(&self) -> Option<&str> {
        nominated_node_name(&self.pod)
    }

    /// `metadata.uid`.
    pub(crate) fn uid(&self) -> &str {
        self.pod.uid()
    }

    pub(crate) fn claim_key(&self, claim: &PodClaim) -> Key {
        Key::new(self.pod.namespace(), claim.name.as_str())
    }

    pub(crate) fn uses_claim(&self, claim: &Key) -> bool {
        self.pod.namespace() == claim.namespace && self.claims.iter().any(|used| used.name == claim.name)
    }

    /// `namespace/name`.
    pub(crate) fn key(&self) -> Key {
        self.pod.key()
    }

    /// Returns the node it is bound to.
    pub(crate) fn node_name(&self) -> Option<&str> {
        node_name(&self.pod)
    }

    pub(crate) fn scheduler_name(&self) -> &str {
        let name = self.pod.spec.as_ref().and_then(|s| s.scheduler_name.as_deref());
        name.filter(|n| !n.is_empty()).unwrap_or(DEFAULT_SCHEDULER)
    }

    pub(crate) fn tolerations(&self) -> Option<&Vec<Toleration>> {
        self.pod.spec.as_ref()?.tolerations.as_ref()
    }

    /// Returns true if it has scheduling gates.
    pub(crate) fn is_gated(&self) -> bool {
        self.pod.spec.as_ref().and_then(|s| s.scheduling_gates.as_ref()).is_some_and(|g| !g.is_empty())
    }

    pub(crate) fn is_terminating(&self) -> bool {
        is_terminating(&self.pod.metadata)
    }

    /// Compares the pod with another version of it. Everything that a decision reads must be compared here.
    pub(crate) fn difference(&self, version: &Pod) -> PodDifference {
        if !self.is_same_pod(version) {
            PodDifference::Whole
        } else if self.started != started(version)
            || self.preempted != was_preempted(version)
            || !count_alike(self.pod.status.as_ref(), version.status.as_ref())
        {
            PodDifference::Status
        } else {
            PodDifference::None
        }
    }

    fn is_same_pod(&self, version: &Pod) -> bool {
        let (Some(a), Some(b)) = (&self.pod.spec, &version.spec) else { return false };
        self.pod.metadata.labels == version.metadata.labels
            // The owner determines default spreading.
            && self.pod.metadata.owner_references == version.metadata.owner_references
            && self.is_terminating() == is_terminating(&version.metadata)
            && a.containers == b.containers
            && a.init_containers == b.init_containers
            && a.overhead == b.overhead
            && a.resources == b.resources
            && a.priority == b.priority
            && a.preemption_policy == b.preemption_policy
            && a.scheduler_name == b.scheduler_name
            && a.scheduling_gates == b.scheduling_gates
            && a.node_selector == b.node_selector
            && a.affinity == b.affinity
            && a.tolerations == b.tolerations
            && a.topology_spread_constraints == b.topology_spread_constraints
            && a.volumes == b.volumes
    }
}

fn started(pod: &Pod) -> Option<Timestamp> {
    pod.status.as_ref()?.start_time.as_ref().map(|time| time.0)
}

fn was_preempted(pod: &Pod) -> bool {
    disruption::is_by(pod, DisruptionReason::Preemption)
}

fn preferred_nodes(spec: &PodSpec) -> Vec<(i64, NodeTerm)> {
    let affinity = spec.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
    let wishes = affinity.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
    let read = |wish: &PreferredSchedulingTerm| (i64::from(wish.weight), NodeTerm::new(&wish.preference));
    wishes.into_iter().flatten().filter(|wish| wish.weight != 0).map(read).collect()
}

impl fmt::Debug for PodInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pod.fmt(f)
    }
}
