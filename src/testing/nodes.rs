//! Nodes of a test's cluster that run no processes, in any number and of any size.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use cluster::NodeSettings;

/// A node without processes: its pods pass through their lifecycle only in the API.
///
/// By default it has the cpu, memory and pod capacity of a large machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HollowNode {
    name: String,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    capacity: BTreeMap<String, Quantity>,
}

impl HollowNode {
    /// Returns a node with this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Adds a taint; an empty value means none.
    #[must_use]
    pub fn taint(
        mut self,
        key: impl Into<String>,
        value: impl Into<String>,
        effect: impl Into<String>,
    ) -> Self {
        let value = Some(value.into()).filter(|value| !value.is_empty());
        self.taints.push(Taint { key: key.into(), value, effect: effect.into(), time_added: None });
        self
    }

    /// Sets the capacity of a resource: `cpu`, `memory`, `pods`, `example.com/gpu`.
    #[must_use]
    pub fn capacity(mut self, resource: impl Into<String>, quantity: impl Into<String>) -> Self {
        self.capacity.insert(resource.into(), Quantity(quantity.into()));
        self
    }

    pub(super) fn settings(self) -> NodeSettings {
        NodeSettings {
            name: self.name,
            labels: self.labels,
            taints: self.taints,
            capacity: self.capacity,
            hollow: Some(true),
            ..NodeSettings::default()
        }
    }
}
