//! Profiles: which plugins take part at which extension point, with which weight.

use std::sync::Arc;

use super::framework::{ChangeType, ClusterChange, Plugin, PluginId, PluginSet};
use super::plugins;
use super::pod_info::{DEFAULT_SCHEDULER, PodInfo};
use super::snapshot::Snapshot;

/// One scheduler's plugins; pods choose it by `schedulerName`.
pub struct Profile {
    /// The name pods choose it by.
    pub scheduler_name: String,
    /// How many of the nodes are searched; None adapts to the cluster's size.
    pub percentage_of_nodes_to_score: Option<u32>,
    plugins: Vec<Arc<dyn Plugin>>,
    scores: Vec<(Arc<dyn Plugin>, i64)>,
}

impl Default for Profile {
    /// Kubernetes' default profile, as far as its plugins are here.
    fn default() -> Self {
        let plugins = plugins::all();
        let scores = plugins
            .iter()
            .map(|plugin| (plugin.clone(), plugin.id().default_weight()))
            .filter(|(_, weight)| *weight > 0)
            .collect();
        Self { scheduler_name: DEFAULT_SCHEDULER.into(), percentage_of_nodes_to_score: None, plugins, scores }
    }
}

impl Profile {
    /// The same without some plugins.
    #[must_use]
    pub fn without(mut self, disabled: PluginSet) -> Self {
        self.plugins.retain(|plugin| !disabled.contains(plugin.id()));
        self.scores.retain(|(plugin, _)| !disabled.contains(plugin.id()));
        self
    }

    /// The same with another weight of one plugin's score; 0 leaves it out.
    #[must_use]
    pub fn with_weight(mut self, plugin: PluginId, weight: i64) -> Self {
        self.scores.retain(|(other, _)| other.id() != plugin);
        let found = self.plugins.iter().find(|p| p.id() == plugin).cloned();
        self.scores.extend(found.filter(|_| weight > 0).map(|p| (p, weight)));
        self
    }

    /// All plugins, in the order in which they are asked.
    pub fn plugins(&self) -> impl Iterator<Item = &dyn Plugin> {
        self.plugins.iter().map(AsRef::as_ref)
    }

    /// The plugins that may filter nodes, in the order in which they are asked.
    pub fn filters(&self) -> impl Iterator<Item = &dyn Plugin> {
        self.plugins()
    }

    /// The plugins that score nodes, with their weights.
    pub fn scores(&self) -> impl Iterator<Item = (&dyn Plugin, i64)> {
        self.scores.iter().map(|(plugin, weight)| (plugin.as_ref(), *weight))
    }

    /// Whether the pod may be tried; the text says why not.
    pub fn admits(&self, pod: &PodInfo) -> Result<(), &'static str> {
        self.plugins().try_for_each(|plugin| plugin.pre_enqueue(pod))
    }

    /// The plugins whose refusals a change of this type can turn.
    pub fn woken_by(&self, change: ChangeType) -> PluginSet {
        self.plugins().filter(|plugin| plugin.wakes_on().contains(&change)).map(Plugin::id).collect()
    }

    /// Whether the change may have turned a refusal that one of these plugins gave the pod.
    pub fn helps(
        &self,
        pod: &PodInfo,
        rejected_by: PluginSet,
        change: &ClusterChange<'_>,
        snapshot: &Snapshot,
    ) -> bool {
        let kind = change.change_type();
        self.plugins()
            .filter(|plugin| rejected_by.contains(plugin.id()) && plugin.wakes_on().contains(&kind))
            .any(|plugin| plugin.helped_by(pod, change, snapshot))
    }
}
