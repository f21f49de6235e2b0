//! `podium.dev/v1alpha1` Fault: breaks something on purpose, for as long as the object exists or for a time.
//!
//! The type of a fault decides which other fields apply: faults of [`NETWORK_TYPES`] are between two sides, the
//! [others](OTHER_TYPES) have a [target](FaultTarget).

mod side_text;
mod target;
mod target_text;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::podium_kind::{own_kind, text};
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
    /// Breaks something on purpose.
    Fault "Fault" "faults" "FaultList",
    "Fault breaks something on purpose, until the object is deleted or its duration is over.",
    FaultSpec: "spec selects what the fault breaks; it is immutable.",
    FaultStatus: "status reports the state of the fault.",
}

/// The parameters of a fault.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultSpec {
    /// The fault's type.
    #[serde(default, rename = "type")]
    pub type_: String,
    /// The target of a fault that is not of the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<FaultTarget>,
    /// One side; if not set, everything that is not on the other side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<FaultPeer>,
    /// The other side; if not set, everything that is not on the first side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<FaultPeer>,
    /// `Both`, or `OneWay`: only packets from `from` to `to`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// For type Latency: the delay of packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<FaultLatency>,
    /// For type Loss: the share of packets dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<FaultLoss>,
    /// For type Rate: the bandwidth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<FaultRate>,
    /// For type Refuse: the response to the sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuse: Option<FaultRefuse>,
    /// For type Disk: the disk's failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<FaultDisk>,
    /// For type ClockSkew: the clock's offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skew: Option<FaultSkew>,
    /// For type ImagePull: the effect on pulls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<FaultImage>,
    /// The time for which the fault is in force, such as `30s`; if not set, it is in force until it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<String>,
}

/// One side of a network fault. Exactly one way to select it is set: node, nodeSelector, pod, podSelector and/or
/// namespaceSelector, or cidr.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultPeer {
    /// A node by its name: its own addresses and all its pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Nodes by their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// A pod by its name, in `namespace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The namespace of `pod` and `podSelector`; `default` if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Pods by their labels, in `namespace` or in the namespaces that `namespaceSelector` selects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
    /// Namespaces by their labels; all their pods if there is no `podSelector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// A range of addresses, inside or outside the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cidr: Option<String>,
}

/// The delay of packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FaultLatency {
    /// The least delay, such as `50ms`.
    #[serde(default)]
    pub delay: String,
    /// The largest random addition to the delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<String>,
}

/// The share of packets dropped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultLoss {
    /// The number per thousand, at random.
    #[serde(default)]
    pub per_mille: i32,
}

/// The bandwidth.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultRate {
    /// The bytes per second in each direction; packets beyond this rate are dropped.
    #[serde(default)]
    pub bytes_per_second: i64,
}

/// The response to the sender of a refused packet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FaultRefuse {
    /// `Reset`: a reset for TCP, ICMP for all else; `Unreachable` or `Prohibited`: ICMP for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<String>,
}

/// The state of a fault.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultStatus {
    /// The generation of the spec that this status reflects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The time at which the fault came into force; its duration counts from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// The time at which it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// A description of the targets it affects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meets: Option<String>,
    /// [`ACTIVE`] and [`SELECTED`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

impl JsonSchema for FaultSpec {
    fn schema_name() -> Cow<'static, str> {
        "io.k8s.api.podium.v1alpha1.FaultSpec".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "FaultSpec selects what a fault breaks; it is immutable.",
            "type": "object",
            "properties": {
                "type": text("type is the type of the fault. Partition, Latency, Loss, Rate and Refuse affect the pods' network between two sides; Crash, Pause, PowerOff, Disk, VolumeFull, ClockSkew, OutOfMemory, Webhook and ImagePull affect a target."),
                "target": generator.subschema_for::<FaultTarget>(),
                "from": generator.subschema_for::<FaultPeer>(),
                "to": generator.subschema_for::<FaultPeer>(),
                "direction": text("direction is Both, or OneWay for packets from `from` to `to` only. Defaults to Both."),
                "latency": generator.subschema_for::<FaultLatency>(),
                "loss": generator.subschema_for::<FaultLoss>(),
                "rate": generator.subschema_for::<FaultRate>(),
                "refuse": generator.subschema_for::<FaultRefuse>(),
                "disk": generator.subschema_for::<FaultDisk>(),
                "skew": generator.subschema_for::<FaultSkew>(),
                "image": generator.subschema_for::<FaultImage>(),
                "duration": text("duration ends the fault after this time, such as 30s or 1h30m. Without it, the fault lasts until it is deleted."),
            },
            "required": ["type"],
        })
    }
}

impl JsonSchema for FaultPeer {
    fn schema_name() -> Cow<'static, str> {
        "io.k8s.api.podium.v1alpha1.FaultPeer".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "FaultPeer is one side of a network fault; exactly one way to select it must be set. A side that is left out is everything that is not on the other side.",
            "type": "object",
            "properties": {
                "node": text("node is the name of a node: its addresses and all its pods."),
                "nodeSelector": generator.subschema_for::<LabelSelector>(),
                "pod": text("pod is the name of a pod in `namespace`."),
                "namespace": text("namespace is the namespace of `pod` or `podSelector`. Defaults to default."),
                "podSelector": generator.subschema_for::<LabelSelector>(),
                "namespaceSelector": generator.subschema_for::<LabelSelector>(),
                "cidr": text("cidr is a range of addresses, inside or outside the cluster."),
            },
        })
    }
}

impl JsonSchema for FaultLatency {
    fn schema_name() -> Cow<'static, str> {
        "io.k8s.api.podium.v1alpha1.FaultLatency".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "FaultLatency delays packets.",
            "type": "object",
            "properties": {
                "delay": text("delay is the least delay of a packet, such as 50ms; at most 10s."),
                "jitter": text("jitter is the largest random addition to the delay; at most 10s."),
            },
            "required": ["delay"],
        })
    }
}

impl JsonSchema for FaultLoss {
    fn schema_name() -> Cow<'static, str> {
        "io.k8s.api.podium.v1alpha1.FaultLoss".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "FaultLoss drops packets at random.",
            "type": "object",
            "properties": {"perMille": {
                "description": "perMille is the number of packets dropped of 1000.", "type": "integer", "format": "int32",
            }},
            "required": ["perMille"],
        })
    }
}

impl JsonSchema for FaultRate {
    fn schema_name() -> Cow<'static, str> {
        "io.k8s.api.podium.v1alpha1.FaultRate".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "FaultRate limits the bandwidth.",
            "type": "object",
            "properties": {"bytesPerSecond": {
                "description": "bytesPerSecond is the bandwidth in each direction; packets beyond it are dropped.",
                "type": "integer", "format": "int64",
            }},
            "required": ["bytesPerSecond"],
        })
    }
}

impl JsonSchema for FaultRefuse {
    fn schema_name() -> Cow<'static, str> {
        "io.k8s.api.podium.v1alpha1.FaultRefuse".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "FaultRefuse selects the answer to the sender of a refused packet.",
            "type": "object",
            "properties": {"with": text(
                "with is Reset (a reset for TCP, ICMP for other protocols), Unreachable or Prohibited (ICMP for all). Defaults to Reset.",
            )},
        })
    }
}

impl JsonSchema for FaultStatus {
    fn schema_name() -> Cow<'static, str> {
        "io.k8s.api.podium.v1alpha1.FaultStatus".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "FaultStatus reports the state of a fault.",
            "type": "object",
            "properties": {
                "observedGeneration": {
                    "description": "observedGeneration is the generation of the spec that this status reflects.",
                    "type": "integer", "format": "int64",
                },
                "startedAt": generator.subschema_for::<Time>(),
                "endedAt": generator.subschema_for::<Time>(),
                "meets": text("meets describes what the fault affects."),
                "conditions": {
                    "description": "conditions has Active (the fault is in force) and Selected (the fault affects at least one object).",
                    "type": "array", "items": generator.subschema_for::<Condition>(),
                },
            },
        })
    }
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
