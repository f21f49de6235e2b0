//! What can be changed so that a node takes a pod: a closed set, as an operator would say it.

use std::fmt;

use crate::reason::ResourceName;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequiredChange {
    /// Take the cordon off.
    Uncordon,
    /// Remove the taint, or tolerate it.
    RemoveTaint(String),
    /// Pods that request this much of a resource must go, or the pod must request less.
    Free(ResourceName, i64),
    /// The node as a whole has too little: by so much, of so much.
    Enlarge {
        /// What there is too little of.
        resource: ResourceName,
        /// By how much.
        missing: i64,
        /// How much there is.
        has: i64,
    },
    /// One of the node's pods must go: it takes no more of them.
    RemoveAnyPod,
    /// The pod that has this host port must go.
    FreePort(i32),
    /// The node needs these labels, which the pod's node selector asks for.
    AddLabels(String),
    /// The node's labels must meet the pod's affinity, or the other way round.
    MeetNodeAffinity,
    /// The constraint on this topology must allow this skew.
    RaiseMaxSkew(String, i64),
    /// The node needs a label that spreading goes by.
    Label(String),
    /// A pod that the affinity asks for must run in the node's domain of this topology.
    BringSoughtPod(String),
    /// The pods that shun the pod, or that it shuns, must leave the node's domain of this topology.
    RemoveShunnedPods(String),
    /// The pod names another node.
    ChangeNodeName,
    /// The pod names a claim that is not there.
    CreateClaim(String),
    /// The claim's volume is lost, or the claim is about to go: it must be made anew.
    ReplaceClaim(String),
    /// The pod that has this claim to itself must go.
    FreeClaim(String),
    /// A claim needs a volume that this node can reach.
    ProvideVolume {
        /// The claim.
        claim: String,
        /// Its class; empty when it asks for none.
        class: String,
        /// How large the volume must be.
        size: String,
    },
    /// The node's labels must meet this volume's node affinity.
    MeetVolumeAffinity(String),
    /// The volume is in another zone or region.
    MoveToVolume {
        /// The volume.
        volume: String,
        /// Its label that says so.
        label: String,
    },
}

impl RequiredChange {
    /// How hard it is to do: smaller is better.
    pub(crate) fn effort(&self) -> u32 {
        match self {
            Self::Uncordon | Self::RaiseMaxSkew(..) | Self::CreateClaim(_) => 1,
            Self::RemoveTaint(_) | Self::Label(_) | Self::AddLabels(_) | Self::MeetNodeAffinity => 2,
            Self::Free(..)
            | Self::RemoveAnyPod
            | Self::FreePort(_)
            | Self::FreeClaim(_)
            | Self::ProvideVolume { .. } => 3,
            Self::BringSoughtPod(_) | Self::RemoveShunnedPods(_) | Self::ChangeNodeName => 4,
            // The volume's data would have to come along, or be given up.
            Self::MeetVolumeAffinity(_) | Self::MoveToVolume { .. } | Self::ReplaceClaim(_) => 5,
            Self::Enlarge { .. } => 6,
        }
    }

    /// How much of it, of things that have an amount.
    pub(crate) fn amount(&self) -> i64 {
        match self {
            Self::Free(_, amount) | Self::RaiseMaxSkew(_, amount) => *amount,
            Self::Enlarge { missing, .. } => *missing,
            _ => 0,
        }
    }
}

/// As an operator would say it.
impl fmt::Display for RequiredChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uncordon => f.write_str("uncordon it"),
            Self::RemoveTaint(taint) => write!(f, "remove the taint {taint}, or tolerate it"),
            Self::Free(resource, amount) => write!(f, "free {} {resource}", shown(resource, *amount)),
            Self::Enlarge { resource, has, .. } => {
                write!(f, "request at most {} {resource}: it has no more in all", shown(resource, *has))
            }
            Self::RemoveAnyPod => f.write_str("remove a pod: it takes no more of them"),
            Self::FreePort(port) => write!(f, "free host port {port}"),
            Self::AddLabels(labels) => write!(f, "label it {labels}"),
            Self::MeetNodeAffinity => f.write_str("label it as the pod's node affinity asks"),
            Self::RaiseMaxSkew(key, skew) => write!(f, "raise maxSkew of {key} to {skew}"),
            Self::Label(key) => write!(f, "give it the label {key}"),
            Self::BringSoughtPod(key) => write!(f, "run a pod that the affinity asks for in its {key}"),
            Self::RemoveShunnedPods(key) => {
                write!(f, "remove the pods that anti-affinity keeps apart from its {key}")
            }
            Self::ChangeNodeName => f.write_str("name this node in the pod's spec"),
            Self::CreateClaim(claim) => write!(f, "create the claim {claim}"),
            Self::ReplaceClaim(claim) => {
                write!(f, "make the claim {claim} anew: its volume is gone or going")
            }
            Self::FreeClaim(claim) => write!(f, "remove the pod that has the claim {claim} to itself"),
            Self::ProvideVolume { claim, class, size } if class.is_empty() => {
                write!(f, "create a volume without a class of {size} or more for the claim {claim}")
            }
            Self::ProvideVolume { claim, class, size } => {
                write!(f, "create a volume of class {class} of {size} or more for the claim {claim}")
            }
            Self::MeetVolumeAffinity(volume) => {
                write!(f, "label it as the node affinity of volume {volume} asks, which is elsewhere")
            }
            Self::MoveToVolume { volume, label } => write!(f, "bring volume {volume} here: it is in {label}"),
        }
    }
}

fn shown(resource: &ResourceName, amount: i64) -> String {
    match resource {
        ResourceName::Cpu if amount % 1000 == 0 => format!("{}", amount / 1000),
        ResourceName::Cpu => format!("{amount}m"),
        ResourceName::Extended(_) => amount.to_string(),
        _ => {
            const MIB: i64 = 1 << 20;
            const GIB: i64 = 1 << 30;
            if amount % GIB == 0 && amount > 0 {
                format!("{}Gi", amount / GIB)
            } else if amount % MIB == 0 || amount > 10 * MIB {
                format!("{}Mi", (amount + MIB - 1) / MIB)
            } else {
                amount.to_string()
            }
        }
    }
}
