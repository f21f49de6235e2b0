//! Profiles: which plugins take part at which extension point, with which weight.

use std::sync::Arc;

use super::default_spread::DefaultConstraints;
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
    /// How pods spread that do not say so themselves.
    pub default_constraints: DefaultConstraints,
    plugins: Vec<Arc<dyn Plugin>>,
    filters: Vec<Arc<dyn Plugin>>,
    post_filters: Vec<Arc<dyn Plugin>>,
    scores: Vec<(Arc<dyn Plugin>, i64)>,
}

impl Default for Profile {
    /// Kubernetes' default profile, as far as its plugins are here.
    fn default() -> Self {
        Self::of(plugins::all())
    }
}

impl Profile {
    /// These plugins, all at every extension point they know, with their default weights.
    pub fn of(plugins: Vec<Arc<dyn Plugin>>) -> Self {
        let scores = plugins
            .iter()
            .map(|plugin| (plugin.clone(), plugin.id().default_weight()))
            .filter(|(_, weight)| *weight > 0)
            .collect();
        Self {
            scheduler_name: DEFAULT_SCHEDULER.into(),
            percentage_of_nodes_to_score: None,
            default_constraints: DefaultConstraints::system(),
            filters: plugins.clone(),
            post_filters: plugins.clone(),
            scores,
            plugins,
        }
    }

    /// The same without some plugins anywhere.
    #[must_use]
    pub fn without(mut self, disabled: PluginSet) -> Self {
        self.plugins.retain(|plugin| !disabled.contains(plugin.id()));
        let left: PluginSet = self.plugins.iter().map(|plugin| plugin.id()).collect();
        self.filtering(left)
            .post_filtering(left)
            .scoring(|plugin, weight| left.contains(plugin).then_some(weight))
    }

    /// The same where of the plugins that filter only these do.
    #[must_use]
    pub fn filtering(mut self, enabled: PluginSet) -> Self {
        self.filters.retain(|plugin| enabled.contains(plugin.id()));
        self
    }

    /// The same where of the plugins that make room only these do.
    #[must_use]
    pub fn post_filtering(mut self, enabled: PluginSet) -> Self {
        self.post_filters.retain(|plugin| enabled.contains(plugin.id()));
        self
    }

    /// The same with other weights of the scores; none leaves a score out. Asked of every plugin, with its
    /// weight so far.
    #[must_use]
    pub fn scoring(mut self, weight: impl Fn(PluginId, i64) -> Option<i64>) -> Self {
        let so_far = |id: PluginId| self.scores.iter().find(|(p, _)| p.id() == id).map_or(0, |(_, w)| *w);
        let weighed = self.plugins.iter().filter_map(|plugin| {
            let weight = weight(plugin.id(), so_far(plugin.id()))?;
            (weight > 0).then(|| (plugin.clone(), weight))
        });
        self.scores = weighed.collect();
        self
    }

    /// All plugins.
    fn plugins(&self) -> impl Iterator<Item = &dyn Plugin> {
        self.plugins.iter().map(AsRef::as_ref)
    }

    /// The plugins that may filter nodes, in the order in which they are asked.
    pub fn filters(&self) -> impl Iterator<Item = &dyn Plugin> {
        self.filters.iter().map(AsRef::as_ref)
    }

    /// The plugins that may make room, in the order in which they are asked.
    pub fn post_filters(&self) -> impl Iterator<Item = &dyn Plugin> {
        self.post_filters.iter().map(AsRef::as_ref)
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
        self.filters().filter(|plugin| plugin.wakes_on().contains(&change)).map(Plugin::id).collect()
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
        self.filters()
            .filter(|plugin| rejected_by.contains(plugin.id()) && plugin.wakes_on().contains(&kind))
            .any(|plugin| plugin.helped_by(pod, change, snapshot))
    }
}
