//! Profiles: the plugins of each extension point, with their weights.

use std::sync::Arc;

use crate::framework::{ChangeType, ClusterChange, Plugin, PluginId, PluginSet, Point};
use crate::plugins::{self, PrioritySort};
use crate::state::default_spread::DefaultConstraints;
use crate::state::pod_info::{DEFAULT_SCHEDULER, PodInfo};
use crate::state::snapshot::Snapshot;

/// One scheduler's plugins; pods choose it by `schedulerName`.
pub struct Profile {
    /// The name by which pods choose it.
    pub(crate) scheduler_name: String,
    /// The share of nodes to search; `None` adapts to the cluster's size.
    pub(crate) percentage_of_nodes_to_score: Option<u32>,
    /// The spread constraints of pods that have none of their own.
    pub(crate) default_constraints: DefaultConstraints,
    /// Indexed by [`Point`]; the scoring plugins are in `scores`.
    at: [Vec<Arc<dyn Plugin>>; Point::ALL.len()],
    scores: Vec<(Arc<dyn Plugin>, i64)>,
}

impl Default for Profile {
    /// Returns Kubernetes' default profile with those of its plugins that Podium has.
    fn default() -> Self {
        Self::of(plugins::all())
    }
}

impl Profile {
    /// Creates a profile with these plugins at every extension point they implement, with their default weights.
    pub(crate) fn of(plugins: Vec<Arc<dyn Plugin>>) -> Self {
        let at = Point::ALL
            .map(|point| plugins.iter().filter(|plugin| plugin.points().contains(&point)).cloned().collect());
        let weighed = |plugin: Arc<dyn Plugin>| {
            let weight = plugin.id().default_weight();
            (weight > 0).then_some((plugin, weight))
        };
        Self {
            scheduler_name: DEFAULT_SCHEDULER.into(),
            percentage_of_nodes_to_score: None,
            default_constraints: DefaultConstraints::system(),
            at,
            scores: plugins.into_iter().filter_map(weighed).collect(),
        }
    }

    /// Restricts a point to these plugins. For scores use weights instead.
    #[must_use]
    pub(crate) fn only_at(mut self, point: Point, enabled: PluginSet) -> Self {
        self.at[point as usize].retain(|plugin| enabled.contains(plugin.id()));
        self
    }

    /// Sets the weights of the scores; `None` disables a score.
    #[must_use]
    pub(crate) fn scoring(mut self, weight: impl Fn(PluginId) -> Option<i64>) -> Self {
        let plugins = self.at[Point::Score as usize].iter();
        let weighed = plugins.filter_map(|plugin| {
            let weight = weight(plugin.id()).filter(|weight| *weight > 0)?;
            Some((plugin.clone(), weight))
        });
        self.scores = weighed.collect();
        self
    }

    /// Returns the plugins of a point, in the order in which they run.
    pub(crate) fn at(&self, point: Point) -> impl DoubleEndedIterator<Item = &dyn Plugin> {
        self.at[point as usize].iter().map(AsRef::as_ref)
    }

    /// Returns the plugins that score nodes, with their weights.
    pub(crate) fn scores(&self) -> impl Iterator<Item = (&dyn Plugin, i64)> {
        self.scores.iter().map(|(plugin, weight)| (plugin.as_ref(), *weight))
    }

    /// Returns the plugin that orders the queue.
    pub(super) fn queue_sort(&self) -> Arc<dyn Plugin> {
        self.at[Point::QueueSort as usize].first().cloned().unwrap_or_else(|| Arc::new(PrioritySort))
    }

    /// Checks whether the pod may be tried; the error is the message.
    pub(crate) fn admits(&self, pod: &PodInfo) -> Result<(), &'static str> {
        self.at(Point::PreEnqueue).try_for_each(|plugin| plugin.pre_enqueue(pod))
    }

    /// Returns the plugins that may refuse a pod once it is tried.
    fn refusing(&self) -> impl Iterator<Item = &dyn Plugin> {
        self.at(Point::Filter).chain(self.at(Point::Reserve)).chain(self.at(Point::Permit))
    }

    /// Returns the plugins with refusals that a change of this type can resolve.
    pub(crate) fn woken_by(&self, change: ChangeType) -> PluginSet {
        self.refusing().filter(|plugin| plugin.wakes_on().contains(&change)).map(Plugin::id).collect()
    }

    /// Returns true if the change may have resolved a refusal of the pod by one of these plugins.
    pub(crate) fn is_schedulable_after(
        &self,
        pod: &PodInfo,
        rejected_by: PluginSet,
        change: &ClusterChange<'_>,
        snapshot: &Snapshot,
    ) -> bool {
        let kind = change.change_type();
        self.refusing()
            .filter(|plugin| rejected_by.contains(plugin.id()) && plugin.wakes_on().contains(&kind))
            .any(|plugin| plugin.is_schedulable_after(pod, change, snapshot))
    }
}

/// Returns the profile that a pod chose; `None` if it belongs to another scheduler.
pub(super) fn profile_of<'p>(profiles: &'p [Profile], pod: &PodInfo) -> Option<&'p Profile> {
    profiles.iter().find(|profile| profile.scheduler_name == pod.scheduler_name())
}
