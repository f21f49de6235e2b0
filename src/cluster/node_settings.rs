//! The number of a cluster's nodes, and the config file's settings of single ones.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use serde::{Deserialize, Serialize};

use base::sort::CollectMap;
use object::quantity::ResourceList;
pub(super) use object::well_known::label::{REGION, ZONE};

/// The numbers of counted nodes; the config file's `nodes` may declare others by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeCounts {
    /// `node-1`, `node-2` …, which run processes.
    pub nodes: usize,
    /// `hollow-00001` …, which run none.
    pub hollow: usize,
}

/// A node in the config file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct NodeSettings {
    /// The node's name: that of a counted node, e.g. `node-1`, or any other.
    pub name: String,
    /// The node's label topology.kubernetes.io/zone.
    pub zone: Option<String>,
    /// The node's label topology.kubernetes.io/region.
    pub region: Option<String>,
    /// Labels in addition to those of every node, which they may override.
    pub labels: BTreeMap<String, String>,
    /// Taints in addition to those that describe the node's state.
    pub taints: Vec<Taint>,
    /// Resources that replace or extend the default capacity of a process node or hollow node.
    pub capacity: ResourceList,
    /// True if the node runs no processes. Unnecessary for a counted node, whose count decides; another value is an
    /// error.
    pub hollow: Option<bool>,
}

impl NodeSettings {
    /// The node's labels, including `zone` and `region`.
    pub(super) fn all_labels(&self) -> BTreeMap<String, String> {
        let topology = [(ZONE, &self.zone), (REGION, &self.region)];
        let topology =
            topology.into_iter().filter_map(|(key, value)| Some((key.to_string(), value.clone()?)));
        self.labels.clone().into_iter().chain(topology).collect_map()
    }
}
