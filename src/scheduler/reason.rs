//! The reasons why a node does not take a pod: a closed set, in Kubernetes' words.

use std::fmt;
use std::sync::Arc;

/// One reason, cheap to create and compare: a big cluster produces thousands in one cycle.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// `spec.nodeName` names another node.
    NodeName,
    /// The node is cordoned.
    Unschedulable,
    /// The pod does not tolerate this taint.
    Taint {
        /// The taint's key.
        key: Arc<str>,
        /// The taint's value.
        value: Arc<str>,
    },
    /// `nodeSelector` or the required node affinity does not match.
    NodeAffinity,
    /// The affinity that the scheduler's configuration adds does not match.
    EnforcedNodeAffinity,
    /// The node names in the pod's terms contradict each other.
    AffinityConflict,
    /// A host port is taken.
    Ports,
    /// The node has reached its pod limit.
    TooManyPods,
    /// Not enough of a resource is free.
    Insufficient(ResourceName),
    /// The node's domain would exceed the skew.
    Spread,
    /// The node lacks a label that a spread constraint names.
    SpreadLabelMissing,
    /// No pod matching the required affinity is in the node's domain.
    PodAffinity,
    /// A pod matching the anti-affinity is in the node's domain.
    PodAntiAffinity,
    /// A pod in the node's domain has anti-affinity against this one.
    ExistingAntiAffinity,
    /// Another pod uses a ReadWriteOncePod claim of this one.
    ClaimInUse,
    /// A claim of the pod is not bound, although its class binds at once.
    UnboundClaims,
    /// A problem with a claim of the pod, in Kubernetes' words.
    Claim(Arc<str>),
    /// A volume of the pod cannot be reached from the node.
    VolumeNodeAffinityConflict,
    /// A volume of the pod is in another zone or region than the node.
    VolumeZone,
    /// There is no volume on the node for a pending claim, and none can be provisioned.
    NoVolumeToBind,
    /// A claim is bound to a missing volume.
    VolumeMissing,
    /// A plugin has restricted the nodes to evaluate, and this is none of them.
    NotNamedBy(&'static str),
    /// Evicting pods would not change the verdict.
    PreemptionNotHelpful,
    /// The node has no pod of lower priority.
    NoVictims,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ResourceName {
    /// `cpu`
    Cpu,
    /// `memory`
    Memory,
    /// `ephemeral-storage`
    EphemeralStorage,
    /// An extended resource, or huge pages.
    Extended(Arc<str>),
}

impl From<&str> for ResourceName {
    fn from(name: &str) -> Self {
        match name {
            "cpu" => Self::Cpu,
            "memory" => Self::Memory,
            "ephemeral-storage" => Self::EphemeralStorage,
            other => Self::Extended(other.into()),
        }
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::EphemeralStorage => "ephemeral-storage",
            Self::Extended(name) => name,
        })
    }
}

impl Reason {
    /// Returns a reason about a claim.
    pub(crate) fn claim(text: impl Into<Arc<str>>) -> Self {
        Self::Claim(text.into())
    }

    /// Returns the reason for a missing claim.
    pub(crate) fn claim_not_found(name: &str) -> Self {
        Self::claim(format!("persistentvolumeclaim \"{name}\" not found"))
    }
}

/// Formats the reason as kube-scheduler does in events and conditions.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Taint { key, value } => {
                return write!(f, "node(s) had untolerated taint {{{key}: {value}}}");
            }
            Self::Insufficient(resource) => return write!(f, "Insufficient {resource}"),
            Self::NotNamedBy(plugin) => return write!(f, "node(s) didn't satisfy plugin(s) [{plugin}]"),
            Self::Claim(text) => text,
            Self::ClaimInUse => {
                "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
            }
            Self::UnboundClaims => "pod has unbound immediate PersistentVolumeClaims",
            Self::VolumeNodeAffinityConflict => "node(s) had volume node affinity conflict",
            Self::VolumeZone => "node(s) had no available volume zone",
            Self::NoVolumeToBind => "node(s) didn't find available persistent volumes to bind",
            Self::VolumeMissing => {
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
            }
            Self::NodeName => "node(s) didn't match the requested node name",
            Self::Unschedulable => "node(s) were unschedulable",
            Self::NodeAffinity => "node(s) didn't match Pod's node affinity/selector",
            Self::EnforcedNodeAffinity => "node(s) didn't match scheduler-enforced node affinity",
            Self::AffinityConflict => "pod affinity terms conflict",
            Self::Ports => "node(s) didn't have free ports for the requested pod ports",
            Self::TooManyPods => "Too many pods",
            Self::Spread => "node(s) didn't match pod topology spread constraints",
            Self::SpreadLabelMissing => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
            }
            Self::PodAffinity => "node(s) didn't match pod affinity rules",
            Self::PodAntiAffinity => "node(s) didn't match pod anti-affinity rules",
            Self::ExistingAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
            Self::PreemptionNotHelpful => "Preemption is not helpful for scheduling",
            Self::NoVictims => "No preemption victims found for incoming pod",
        })
    }
}

/// A plugin's refusal of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Refusal {
    /// At least one reason.
    pub reasons: Reasons,
    /// True if evicting pods from the node could help.
    pub(crate) resolvable: bool,
}

/// Reasons; a single one, the usual case, needs no allocation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reasons {
    /// One reason.
    One(Reason),
    /// Several reasons, for example if both cpu and memory are insufficient.
    Many(Box<[Reason]>),
}

impl Reasons {
    pub(crate) fn as_slice(&self) -> &[Reason] {
        match self {
            Self::One(reason) => std::slice::from_ref(reason),
            Self::Many(reasons) => reasons,
        }
    }
}

impl Refusal {
    /// Creates a refusal that evictions could resolve.
    pub(crate) fn resolvable(reason: Reason) -> Self {
        Self { reasons: Reasons::One(reason), resolvable: true }
    }

    /// Creates a refusal that evictions cannot resolve.
    pub(crate) fn unresolvable(reason: Reason) -> Self {
        Self { reasons: Reasons::One(reason), resolvable: false }
    }
}
