//! VolumeZone: a bound volume with labels of a zone or a region can be used only on nodes of that zone or region. Newer
//! volumes have a node affinity instead, which `VolumeBinding` checks.

use k8s_openapi::api::core::v1::PersistentVolume;

use super::volume_changes;
use crate::framework::{ChangeType, ClusterChange, NodeCheck, Plugin, PluginId, PreFilter};
use crate::reason::{Reason, Refusal};
use crate::state::node_info::NodeInfo;
use crate::state::pod_info::PodInfo;
use crate::state::snapshot::Snapshot;
use object::SharedObject;
use object::storage::volume_name;
use object::well_known::label;

/// Location labels of volumes and nodes, each with its other name: old for new, new for old.
const TOPOLOGY: [(&str, &str); 4] = [
    (label::ZONE, label::BETA_ZONE),
    (label::REGION, label::BETA_REGION),
    (label::BETA_ZONE, label::ZONE),
    (label::BETA_REGION, label::REGION),
];

/// Separates the zones in the label of a volume that is in several.
const SEPARATOR: &str = "__";

pub(super) struct VolumeZone;

/// The location of one volume of the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeTopology {
    /// The location label.
    pub(crate) label: &'static str,
    /// Another name of the same label.
    other: &'static str,
    /// The label's value on the volume.
    pub(crate) value: String,
    pub(crate) volume: String,
}

impl VolumeTopology {
    /// Returns true if a node can use the volume. A node without location labels can.
    pub(crate) fn allows(&self, node: &NodeInfo) -> bool {
        if !TOPOLOGY.iter().any(|(label, _)| node.label(label).is_some()) {
            return true;
        }
        let there = node.label(self.label).or_else(|| node.label(self.other));
        there.is_some_and(|there| self.value.split(SEPARATOR).any(|value| value == there))
    }
}

/// Returns the locations of the pod's bound volumes.
pub(crate) fn located(pod: &PodInfo, snapshot: &Snapshot) -> Vec<VolumeTopology> {
    let storage = snapshot.storage();
    let volumes = pod.claims.iter().filter_map(|used| {
        let claim = storage.claim(&pod.claim_key(used))?;
        storage.volume(volume_name(claim)?)
    });
    volumes.flat_map(labels).collect()
}

fn labels(volume: &SharedObject<PersistentVolume>) -> Vec<VolumeTopology> {
    let of = |label: &str| volume.metadata.labels.as_ref()?.get(label).cloned();
    let located = |(label, other): &(&'static str, &'static str)| {
        Some(VolumeTopology { label, other, value: of(label)?, volume: volume.name().to_string() })
    };
    TOPOLOGY.iter().filter_map(located).collect()
}

struct Check(Vec<VolumeTopology>);

impl NodeCheck for Check {
    fn check(&self, node: &NodeInfo) -> Result<(), Refusal> {
        if self.0.iter().all(|located| located.allows(node)) {
            Ok(())
        } else {
            Err(Refusal::unresolvable(Reason::VolumeZone))
        }
    }
}

impl Plugin for VolumeZone {
    fn id(&self) -> PluginId {
        PluginId::VolumeZone
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> PreFilter<'a> {
        // VolumeBinding, which runs first, refuses missing and unbound claims.
        let located = located(pod, snapshot);
        if located.is_empty() { PreFilter::Skip } else { PreFilter::Check(Box::new(Check(located))) }
    }

    fn wakes_on(&self) -> &'static [ChangeType] {
        volume_changes::TYPES
    }

    fn is_schedulable_after(&self, pod: &PodInfo, change: &ClusterChange<'_>, _snapshot: &Snapshot) -> bool {
        volume_changes::help(pod, change)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::{Value, json};

    use crate::plugins::test_volumes::{claim, with_claim};
    use crate::test_cluster::Cluster;
    use crate::test_objects::node;
    use object::SharedObject;

    fn labelled(name: &str, labels: &Value) -> SharedObject<Node> {
        node(json!({"metadata": {"name": name, "labels": labels},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}))
    }

    #[test]
    fn a_pod_goes_to_the_zone_of_its_volume_vol_2_sch_3() {
        const NEW: &str = super::label::ZONE;
        const OLD: &str = super::label::BETA_ZONE;
        let refused = "p: 0/1 nodes are available: 1 node(s) had no available volume zone. preemption: 0/1 nodes are \
            available: 1 Preemption is not helpful for scheduling.";
        for (rule, of_volume, of_node, expected) in [
            ("the same zone", json!({NEW: "a"}), json!({NEW: "a"}), "p -> n"),
            ("another", json!({NEW: "a"}), json!({NEW: "b"}), refused),
            ("one of several", json!({NEW: "a__b"}), json!({NEW: "b"}), "p -> n"),
            ("the volume's label is old", json!({OLD: "a"}), json!({NEW: "a"}), "p -> n"),
            ("the node's is", json!({NEW: "a"}), json!({OLD: "b"}), refused),
            ("the node is anywhere", json!({NEW: "a"}), json!({}), "p -> n"),
            (
                "the node says its region only",
                json!({NEW: "a"}),
                json!({"topology.kubernetes.io/region": "r"}),
                refused,
            ),
            ("the volume is anywhere", json!({"disk": "ssd"}), json!({NEW: "b"}), "p -> n"),
        ] {
            let mut cluster = Cluster::new(&[labelled("n", &of_node)]);
            cluster.claim(&claim("c", &json!({"spec": {"volumeName": "v"}})));
            cluster.volume(&json!({"metadata": {"name": "v", "labels": of_volume}, "spec": {}}));
            cluster.pod("p", with_claim("c"));
            assert_eq!(cluster.step(), expected, "{rule}");
        }
    }
}
