//! The changes that can make a node take a pod: a closed set, in an operator's words.

use std::fmt;

use crate::reason::ResourceName;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequiredChange {
    /// Uncordon the node.
    Uncordon,
    /// Remove the taint, or tolerate it.
    RemoveTaint(String),
    /// Pods that request this much of a resource must be removed, or the pod must request less.
    Free(ResourceName, i64),
    /// The node as a whole is too small.
    Enlarge {
        resource: ResourceName,
        /// The missing amount.
        missing: i64,
        /// The node's amount.
        has: i64,
    },
    /// One of the node's pods must be removed, because the node has reached its pod limit.
    RemoveAnyPod,
    /// The pod with this host port must be removed.
    FreePort(i32),
    /// The node needs these labels for the pod's node selector.
    AddLabels(String),
    /// The node's labels, or the pod's affinity, must change so that they match.
    MeetNodeAffinity,
    /// The constraint on this topology must allow this skew.
    RaiseMaxSkew(String, i64),
    /// The node needs this topology label for spreading.
    Label(String),
    /// A pod matching the affinity must run in the node's domain of this topology.
    PlaceMatchingPod(String),
    /// The pods that conflict with the pod's anti-affinity, or that have anti-affinity against it, must leave the
    /// node's domain of this topology.
    RemoveConflictingPods(String),
    /// The pod names another node.
    ChangeNodeName,
    /// The pod names a missing claim.
    CreateClaim(String),
    /// The claim's volume is lost, or the claim is terminating: it must be recreated.
    ReplaceClaim(String),
    /// Another pod uses this ReadWriteOncePod claim and must be removed.
    FreeClaim(String),
    /// A claim needs a volume that this node can reach.
    ProvideVolume {
        claim: String,
        /// The claim's storage class; empty if it requests none.
        class: String,
        /// The required size.
        size: String,
    },
    /// The node's labels must meet this volume's node affinity.
    MeetVolumeAffinity(String),
    /// The volume is in another zone or region.
    MoveToVolume {
        volume: String,
        /// The label with the location.
        label: String,
    },
}

impl RequiredChange {
    /// Returns the effort of the change, to compare changes: less is better.
    pub(crate) fn effort(&self) -> u32 {
        match self {
            Self::Uncordon | Self::RaiseMaxSkew(..) | Self::CreateClaim(_) => 1,
            Self::RemoveTaint(_) | Self::Label(_) | Self::AddLabels(_) | Self::MeetNodeAffinity => 2,
            Self::Free(..)
            | Self::RemoveAnyPod
            | Self::FreePort(_)
            | Self::FreeClaim(_)
            | Self::ProvideVolume { .. } => 3,
            Self::PlaceMatchingPod(_) | Self::RemoveConflictingPods(_) | Self::ChangeNodeName => 4,
            // The volume's data would have to be moved, or given up.
            Self::MeetVolumeAffinity(_) | Self::MoveToVolume { .. } | Self::ReplaceClaim(_) => 5,
            Self::Enlarge { .. } => 6,
        }
    }

    /// Returns the amount, for changes that have one.
    pub(crate) fn amount(&self) -> i64 {
        match self {
            Self::Free(_, amount) | Self::RaiseMaxSkew(_, amount) => *amount,
            Self::Enlarge { missing, .. } => *missing,
            _ => 0,
        }
    }
}

/// Formats the change in an operator's words.
impl fmt::Display for RequiredChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uncordon => f.write_str("uncordon the node"),
            Self::RemoveTaint(taint) => write!(f, "remove the taint {taint}, or tolerate it"),
            Self::Free(resource, amount) => write!(f, "free {} {resource}", format_amount(resource, *amount)),
            Self::Enlarge { resource, has, .. } => {
                write!(
                    f,
                    "request at most {} {resource}, all that the node has",
                    format_amount(resource, *has)
                )
            }
            Self::RemoveAnyPod => f.write_str("remove a pod: the node is at its pod limit"),
            Self::FreePort(port) => write!(f, "free host port {port}"),
            Self::AddLabels(labels) => write!(f, "label the node {labels}"),
            Self::MeetNodeAffinity => f.write_str("label the node as the pod's node affinity requires"),
            Self::RaiseMaxSkew(key, skew) => write!(f, "raise maxSkew of {key} to {skew}"),
            Self::Label(key) => write!(f, "give the node the label {key}"),
            Self::PlaceMatchingPod(key) => {
                write!(f, "run a pod that matches the pod affinity in the node's {key}")
            }
            Self::RemoveConflictingPods(key) => {
                write!(f, "remove the pods that anti-affinity excludes from the node's {key}")
            }
            Self::ChangeNodeName => f.write_str("set spec.nodeName of the pod to this node"),
            Self::CreateClaim(claim) => write!(f, "create the claim {claim}"),
            Self::ReplaceClaim(claim) => {
                write!(f, "recreate the claim {claim}: its volume is deleted or terminating")
            }
            Self::FreeClaim(claim) => write!(f, "remove the pod that uses the claim {claim} exclusively"),
            Self::ProvideVolume { claim, class, size } if class.is_empty() => {
                write!(f, "create a volume of {size} or more without a class for the claim {claim}")
            }
            Self::ProvideVolume { claim, class, size } => {
                write!(f, "create a volume of {size} or more of class {class} for the claim {claim}")
            }
            Self::MeetVolumeAffinity(volume) => {
                write!(f, "label the node as the node affinity of volume {volume} requires")
            }
            Self::MoveToVolume { volume, label } => write!(f, "move volume {volume} here from {label}"),
        }
    }
}

fn format_amount(resource: &ResourceName, amount: i64) -> String {
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
