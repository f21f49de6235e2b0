//! The number of a cluster's nodes, and the config file's settings of single ones.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use serde::{Deserialize, Serialize};

use object::quantity::ResourceList;
pub(super) use object::well_known::label::{REGION, ZONE};

/// The number of nodes besides those with names of their own.
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
    /// The node's name: a counted one, e.g. `node-1`, or another.
    pub name: String,
    /// Its label topology.kubernetes.io/zone.
    pub zone: Option<String>,
    /// Its label topology.kubernetes.io/region.
    pub region: Option<String>,
    /// Its labels besides those of every node; may override these.
    pub labels: BTreeMap<String, String>,
    /// Its taints besides those of its state.
    pub taints: Vec<Taint>,
    /// The resources it offers instead of, or besides, those of its kind of node.
    pub capacity: ResourceList,
    /// True if it runs no processes. Counted nodes have the kind they are counted as.
    pub hollow: Option<bool>,
}

impl NodeSettings {
    /// Its labels, including those with fields of their own.
    pub(super) fn all_labels(&self) -> BTreeMap<String, String> {
        let topology = [(ZONE, &self.zone), (REGION, &self.region)];
        let topology =
            topology.into_iter().filter_map(|(key, value)| Some((key.to_string(), value.clone()?)));
        self.labels.clone().into_iter().chain(topology).collect()
    }
}
