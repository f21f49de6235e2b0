//! `podium.dev/v1alpha1` Fault: breaks something on purpose, for as long as the object exists or for a time.
//!
//! The type of a fault decides which other fields apply: faults of [`NETWORK_TYPES`] are between two sides, the
//! [others](OTHER_TYPES) have a [target](FaultTarget).

mod rules;
mod side_text;
mod target;
mod target_text;

use std::fmt;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::CustomResource;
use object::conditions;
use object::custom_kind;
use object::time::read_go_duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schemas;

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

/// FaultSpec selects what a fault breaks; it is immutable.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "podium.dev",
    version = "v1alpha1",
    kind = "Fault",
    plural = "faults",
    doc = "Fault breaks something on purpose, until the object is deleted or its duration is over.",
    status = "FaultStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(
        name = "Type",
        type_ = "string",
        json_path = ".spec.type",
        description = "The type of the fault."
    ),
    printcolumn(
        name = "From",
        type_ = "string",
        json_path = ".status.from",
        description = "One side of a network fault, or the target."
    ),
    printcolumn(
        name = "To",
        type_ = "string",
        json_path = ".status.to",
        description = "The other side of a network fault."
    ),
    printcolumn(
        name = "Active",
        type_ = "string",
        json_path = ".status.active",
        description = "Whether the fault is in force."
    ),
    printcolumn(
        name = "Duration",
        type_ = "string",
        json_path = ".status.duration",
        description = "The duration of the fault."
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Meets",
        type_ = "string",
        json_path = ".status.meets",
        description = "The objects that the fault affects.",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = rules::of_spec)]
pub struct FaultSpec {
    /// type is the type of the fault. Partition, Latency, Loss, Rate and Refuse affect the pods' network between two
    /// sides; Crash, Pause, PowerOff, Disk, VolumeFull, ClockSkew, OutOfMemory, Webhook and ImagePull affect a target.
    #[serde(default, rename = "type")]
    #[schemars(!default, extend("enum" = rules::all_types()))]
    pub type_: String,
    /// target is what a fault that is not of the network affects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<FaultTarget>,
    /// from is one side of a network fault. Defaults to everything that is not on the other side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<FaultPeer>,
    /// to is the other side of a network fault. Defaults to everything that is not on the first side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<FaultPeer>,
    /// direction is Both, or OneWay for packets from `from` to `to` only. Defaults to Both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = DIRECTIONS))]
    pub direction: Option<String>,
    /// latency is the delay of packets. For Latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<FaultLatency>,
    /// loss is the share of packets dropped. For Loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<FaultLoss>,
    /// rate is the bandwidth. For Rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<FaultRate>,
    /// refuse is the answer to the sender. For Refuse; defaults to Reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuse: Option<FaultRefuse>,
    /// disk is the failure of the disk. For Disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<FaultDisk>,
    /// skew is the error of the clock. For ClockSkew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skew: Option<FaultSkew>,
    /// image is the effect on image pulls. For ImagePull.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<FaultImage>,
    /// duration ends the fault after this time, such as 30s or 1h30m. Without it, the fault lasts until it is
    /// deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::of_duration()))]
    pub duration: Option<String>,
}

custom_kind!(Fault, "podium.dev", "v1alpha1", "faults", "Fault", Cluster);

/// FaultPeer is one side of a network fault; exactly one way to select it must be set. A side that is left out is
/// everything that is not on the other side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = rules::of_peer)]
pub struct FaultPeer {
    /// node is the name of a node: its addresses and all its pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::of_subdomain()))]
    pub node: Option<String>,
    /// nodeSelector selects nodes by their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::selector")]
    pub node_selector: Option<LabelSelector>,
    /// pod is the name of a pod in `namespace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::of_subdomain()))]
    pub pod: Option<String>,
    /// namespace is the namespace of `pod` or `podSelector`. Defaults to default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), extend("x-kubernetes-validations" = rules::of_label()))]
    pub namespace: Option<String>,
    /// podSelector selects pods by their labels, in `namespace` or in the namespaces that `namespaceSelector` selects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::selector")]
    pub pod_selector: Option<LabelSelector>,
    /// namespaceSelector selects namespaces by their labels; all their pods if there is no `podSelector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::selector")]
    pub namespace_selector: Option<LabelSelector>,
    /// cidr is a range of addresses, inside or outside the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::of_cidr()))]
    pub cidr: Option<String>,
}

/// FaultLatency delays packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FaultLatency {
    /// delay is the least delay of a packet, such as 50ms; at most 10s.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(!default, length(max = 64), extend("x-kubernetes-validations" = rules::of_packet_delay()))]
    pub delay: String,
    /// jitter is the largest random addition to the delay; at most 10s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::of_packet_delay()))]
    pub jitter: Option<String>,
}

/// FaultLoss drops packets at random.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FaultLoss {
    /// perMille is the number of packets dropped of 1000.
    #[serde(default)]
    #[schemars(!default, extend("x-kubernetes-validations" = rules::of_range(0, 1000)))]
    pub per_mille: i32,
}

/// FaultRate limits the bandwidth.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FaultRate {
    /// bytesPerSecond is the bandwidth in each direction; packets beyond it are dropped.
    #[serde(default)]
    #[schemars(!default, extend("x-kubernetes-validations" = rules::of_range(1_000, 100_000_000_000)))]
    pub bytes_per_second: i64,
}

/// FaultRefuse selects the answer to the sender of a refused packet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FaultRefuse {
    /// with is Reset (a reset for TCP, ICMP for other protocols), Unreachable or Prohibited (ICMP for all). Defaults to
    /// Reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = REFUSALS))]
    pub with: Option<String>,
}

/// FaultStatus reports the state of a fault.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FaultStatus {
    /// observedGeneration is the generation of the spec that this status reflects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// startedAt is the time at which the fault came into force; its duration counts from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schemas::Time>")]
    pub started_at: Option<Time>,
    /// endedAt is the time at which the fault ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schemas::Time>")]
    pub ended_at: Option<Time>,
    /// from is one side of a network fault, or the target, in the notation of `podium fault`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// to is the other side of a network fault, in the notation of `podium fault`; `<none>` for other faults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// active is the status of the condition Active, with its reason if that is not True.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Unknown"))]
    pub active: Option<String>,
    /// duration is the duration of the spec; `<none>` if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<String>,
    /// meets describes what the fault affects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = ""))]
    pub meets: Option<String>,
    /// conditions has Active (the fault is in force) and Selected (the fault affects at least one object).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<schemas::Condition>>")]
    pub conditions: Option<Vec<Condition>>,
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

    /// Returns one side of a network fault, or the target, in the notation of `podium fault`.
    pub fn first_side_text(&self) -> String {
        let all = || "<all>".to_owned();
        if self.is_of_network() {
            return self.spec.from.as_ref().map_or_else(all, ToString::to_string);
        }
        self.spec.target.as_ref().map_or_else(all, ToString::to_string)
    }

    /// Returns the other side of a network fault, in the notation of `podium fault`; `<none>` for other faults.
    pub fn second_side_text(&self) -> String {
        if !self.is_of_network() {
            return "<none>".to_owned();
        }
        self.spec.to.as_ref().map_or_else(|| "<all>".to_owned(), ToString::to_string)
    }

    /// Returns true if its duration has passed.
    pub fn has_ended(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.ended_at.is_some())
    }
}

impl FaultStatus {
    /// Returns the status of the condition Active, with its reason if that is not True.
    pub fn active_text(&self) -> String {
        match conditions::get(self.conditions.as_ref(), ACTIVE) {
            Some(active) if active.status == "True" => "True".into(),
            Some(active) => format!("{} ({})", active.status, active.reason),
            None => "Unknown".into(),
        }
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
        let empty: Fault = serde_json::from_value(json!({"metadata": {}, "spec": {}})).unwrap();
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
