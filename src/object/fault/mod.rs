//! `podium.dev/v1alpha1` Fault: breaks something on purpose, for as long as the object exists or for a time.
//!
//! The type of a fault decides which other fields apply: faults of [`NETWORK_TYPES`] are between two sides, the
//! [others](OTHER_TYPES) have a [target](FaultTarget).

mod side_text;
mod target;
mod target_text;

use std::fmt;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};

use crate::podium_kind::{own_kind, own_types};
use crate::time::read_go_duration;

pub use side_text::read_side;
pub use target::{Component, DISK_FAILURES, FaultDisk, FaultImage, FaultSkew, FaultTarget};
pub use target_text::{read_disk, read_node, read_target, read_volume};

/// The condition that reports whether a fault is in force.
pub const ACTIVE: &str = "Active";
/// The condition that reports whether a fault has any target.
pub const SELECTED: &str = "Selected";
/// The reason of a fault that is no longer in force because its duration has passed.
pub const EXPIRED: &str = "Expired";

/// Faults between two sides of the pods' network.
pub const NETWORK_TYPES: &[&str] = &["Latency", "Loss", "Partition", "Rate", "Refuse"];
/// Faults with one target each.
pub const OTHER_TYPES: &[&str] =
    &["ClockSkew", "Crash", "Disk", "ImagePull", "OutOfMemory", "Pause", "PowerOff", "VolumeFull", "Webhook"];
/// The directions in which a network fault affects packets: both, or only from `from` to `to`.
pub const DIRECTIONS: &[&str] = &["Both", "OneWay"];
/// The responses to a refused packet. `Reset` means a TCP reset, and ICMP for other protocols; the other two always
/// mean ICMP.
pub const REFUSALS: &[&str] = &["Prohibited", "Reset", "Unreachable"];

own_kind! {
    /// Fault breaks something on purpose, until the object is deleted or its duration is over.
    Fault "faults", "podium.dev" podium ClusterResourceScope, FaultSpec FaultStatus
}

own_types! { podium
    /// FaultSpec selects what a fault breaks; it is immutable.
    FaultSpec requires "type" {
        /// type is the type of the fault. Partition, Latency, Loss, Rate and Refuse affect the pods' network
        /// between two sides; Crash, Pause, PowerOff, Disk, VolumeFull, ClockSkew, OutOfMemory, Webhook and
        /// ImagePull affect a target.
        #[serde(rename = "type")]
        type_: String,
        /// The target of a fault that is not of the network.
        target: Option<FaultTarget>,
        /// One side; if not set, everything that is not on the other side.
        from: Option<FaultPeer>,
        /// The other side; if not set, everything that is not on the first side.
        to: Option<FaultPeer>,
        /// direction is Both, or OneWay for packets from `from` to `to` only. Defaults to Both.
        direction: Option<String>,
        /// For type Latency: the delay of packets.
        latency: Option<FaultLatency>,
        /// For type Loss: the share of packets dropped.
        loss: Option<FaultLoss>,
        /// For type Rate: the bandwidth.
        rate: Option<FaultRate>,
        /// For type Refuse: the response to the sender.
        refuse: Option<FaultRefuse>,
        /// For type Disk: the disk's failure.
        disk: Option<FaultDisk>,
        /// For type ClockSkew: the clock's offset.
        skew: Option<FaultSkew>,
        /// For type ImagePull: the effect on pulls.
        image: Option<FaultImage>,
        /// duration ends the fault after this time, such as 30s or 1h30m. Without it, the fault lasts until
        /// it is deleted.
        duration: Option<String>,
    }

    /// FaultPeer is one side of a network fault; exactly one way to select it must be set. A side that is
    /// left out is everything that is not on the other side.
    FaultPeer {
        /// node is the name of a node: its addresses and all its pods.
        node: Option<String>,
        /// Nodes by their labels.
        node_selector: Option<LabelSelector>,
        /// pod is the name of a pod in `namespace`.
        pod: Option<String>,
        /// namespace is the namespace of `pod` or `podSelector`. Defaults to default.
        namespace: Option<String>,
        /// Pods by their labels, in `namespace` or in the namespaces that `namespaceSelector` selects.
        pod_selector: Option<LabelSelector>,
        /// Namespaces by their labels; all their pods if there is no `podSelector`.
        namespace_selector: Option<LabelSelector>,
        /// cidr is a range of addresses, inside or outside the cluster.
        cidr: Option<String>,
    }

    /// FaultLatency delays packets.
    FaultLatency requires "delay" {
        /// delay is the least delay of a packet, such as 50ms; at most 10s.
        delay: String,
        /// jitter is the largest random addition to the delay; at most 10s.
        jitter: Option<String>,
    }

    /// FaultLoss drops packets at random.
    FaultLoss requires "perMille" {
        /// perMille is the number of packets dropped of 1000.
        per_mille: i32,
    }

    /// FaultRate limits the bandwidth.
    FaultRate requires "bytesPerSecond" {
        /// bytesPerSecond is the bandwidth in each direction; packets beyond it are dropped.
        bytes_per_second: i64,
    }

    /// FaultRefuse selects the answer to the sender of a refused packet.
    FaultRefuse {
        /// with is Reset (a reset for TCP, ICMP for other protocols), Unreachable or Prohibited (ICMP for
        /// all). Defaults to Reset.
        with: Option<String>,
    }

    /// FaultStatus reports the state of a fault.
    FaultStatus {
        /// observedGeneration is the generation of the spec that this status reflects.
        observed_generation: Option<i64>,
        /// The time at which the fault came into force; its duration counts from here.
        started_at: Option<Time>,
        /// The time at which it ended.
        ended_at: Option<Time>,
        /// meets describes what the fault affects.
        meets: Option<String>,
        /// conditions has Active (the fault is in force) and Selected (the fault affects at least one object).
        conditions: Option<Vec<Condition>>,
    }
}

impl Fault {
    /// Returns the time for which the fault is in force; `None` means until it is deleted.
    pub fn duration(&self) -> Option<Duration> {
        read_go_duration(self.spec.duration.as_deref()?)
    }

    /// Returns true if it is a fault of the pods' network.
    pub fn is_of_network(&self) -> bool {
        NETWORK_TYPES.contains(&self.spec.type_.as_str())
    }

    /// Returns true if it affects only packets from `from` to `to`.
    pub fn is_one_way(&self) -> bool {
        self.spec.direction.as_deref() == Some("OneWay")
    }

    /// Returns true if its duration has passed.
    pub fn has_ended(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.ended_at.is_some())
    }
}

impl FaultLatency {
    /// Returns delay and jitter; zero for invalid ones.
    pub fn times(&self) -> (Duration, Duration) {
        let jitter = self.jitter.as_deref().and_then(read_go_duration);
        (read_go_duration(&self.delay).unwrap_or_default(), jitter.unwrap_or_default())
    }
}

/// A side in the notation of `podium fault`: `node/a`, `pod/default/web`, `10.0.0.0/8`.
impl fmt::Display for FaultPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = self.namespace.as_deref().unwrap_or("default");
        let text = labels;
        match self {
            Self { node: Some(node), .. } => write!(f, "node/{node}"),
            Self { node_selector: Some(nodes), .. } => write!(f, "nodes:{}", text(nodes)),
            Self { pod: Some(pod), .. } => write!(f, "pod/{namespace}/{pod}"),
            Self { namespace_selector: Some(of), pod_selector, .. } => {
                let pods = pod_selector.as_ref().map(text).unwrap_or_default();
                write!(f, "pods/{{{}}}:{pods}", text(of))
            }
            Self { pod_selector: Some(pods), .. } => write!(f, "pods/{namespace}:{}", text(pods)),
            Self { cidr: Some(cidr), .. } => f.write_str(cidr),
            _ => f.write_str("?"),
        }
    }
}

/// Formats a selector for users: `app=web,tier In (a b)`.
fn labels(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let more = selector.match_expressions.iter().flatten();
    let more = more.map(|one| {
        let values = one.values.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" ");
        format!("{} {} ({values})", one.key, one.operator)
    });
    labels.chain(more).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fault_is_written_as_it_is_read_fault_1() {
        let value = json!({"apiVersion": "podium.dev/v1alpha1", "kind": "Fault", "metadata": {"name": "slow"},
            "spec": {"type": "Latency", "from": {"node": "node-1"}, "to": {"pod": "web", "namespace": "a"},
                "direction": "OneWay", "latency": {"delay": "50ms", "jitter": "5ms"}, "duration": "30s"},
            "status": {"observedGeneration": 1, "startedAt": "2026-11-21T00:00:00Z", "meets": "all",
                "conditions": [{"type": "Active", "status": "True", "reason": "InForce", "message": "",
                    "lastTransitionTime": "2026-11-21T00:00:00Z"}]}});
        let fault: Fault = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(&fault).unwrap(), value);
        assert_eq!(fault.duration(), Some(Duration::from_secs(30)));
        let empty: Fault = serde_json::from_value(json!({"metadata": {}})).unwrap();
        assert_eq!(empty, Fault::default());
    }

    #[test]
    fn a_side_reads_as_the_command_line_takes_it_fault_1() {
        for (peer, text) in [
            (json!({"node": "a"}), "node/a"),
            (json!({"nodeSelector": {"matchLabels": {"zone": "z"}}}), "nodes:zone=z"),
            (json!({"pod": "web"}), "pod/default/web"),
            (
                json!({"podSelector": {"matchLabels": {"app": "web", "b": "c"}}, "namespace": "n"}),
                "pods/n:app=web,b=c",
            ),
            (json!({"namespaceSelector": {"matchLabels": {"a": "b"}}}), "pods/{a=b}:"),
            (json!({"cidr": "10.0.0.0/8"}), "10.0.0.0/8"),
        ] {
            let peer: FaultPeer = serde_json::from_value(peer).unwrap();
            assert_eq!(peer.to_string(), text);
        }
    }
}
