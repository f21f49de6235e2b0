//! Profiles: which plugins take part at which extension point, with which weight.

use std::sync::Arc;

use crate::framework::{ChangeType, ClusterChange, Plugin, PluginId, PluginSet, Point};
use crate::plugins::{self, PrioritySort};
use crate::state::default_spread::DefaultConstraints;
use crate::state::pod_info::{DEFAULT_SCHEDULER, PodInfo};
use crate::state::snapshot::Snapshot;

/// One scheduler's plugins; pods choose it by `schedulerName`.
pub struct Profile {
    /// The name pods choose it by.
    pub(crate) scheduler_name: String,
    /// How many of the nodes are searched; None adapts to the cluster's size.
    pub(crate) percentage_of_nodes_to_score: Option<u32>,
    /// How pods spread that do not say so themselves.
    pub(crate) default_constraints: DefaultConstraints,
    /// By [`Point`]; those that score are in `scores`.
    at: [Vec<Arc<dyn Plugin>>; Point::ALL.len()],
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

    /// The same where of the plugins of a point only these take part. Scores have weights instead.
    #[must_use]
    pub(crate) fn only_at(mut self, point: Point, enabled: PluginSet) -> Self {
        self.at[point as usize].retain(|plugin| enabled.contains(plugin.id()));
        self
    }

    /// The same with these weights of the scores; none leaves a score out.
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

    /// The plugins of a point, in the order in which they are asked.
    pub(crate) fn at(&self, point: Point) -> impl DoubleEndedIterator<Item = &dyn Plugin> {
        self.at[point as usize].iter().map(AsRef::as_ref)
    }

    /// The plugins that score nodes, with their weights.
    pub(crate) fn scores(&self) -> impl Iterator<Item = (&dyn Plugin, i64)> {
        self.scores.iter().map(|(plugin, weight)| (plugin.as_ref(), *weight))
    }

    /// The plugin that says which pod goes first.
    pub(super) fn queue_sort(&self) -> Arc<dyn Plugin> {
        self.at[Point::QueueSort as usize].first().cloned().unwrap_or_else(|| Arc::new(PrioritySort))
    }

    /// Whether the pod may be tried; the text says why not.
    pub(crate) fn admits(&self, pod: &PodInfo) -> Result<(), &'static str> {
        self.at(Point::PreEnqueue).try_for_each(|plugin| plugin.pre_enqueue(pod))
    }

    /// The plugins that may refuse a pod once it is tried.
    fn refusing(&self) -> impl Iterator<Item = &dyn Plugin> {
        self.at(Point::Filter).chain(self.at(Point::Reserve)).chain(self.at(Point::Permit))
    }

    /// The plugins whose refusals a change of this type can turn.
    pub(crate) fn woken_by(&self, change: ChangeType) -> PluginSet {
        self.refusing().filter(|plugin| plugin.wakes_on().contains(&change)).map(Plugin::id).collect()
    }

    /// Whether the change may have turned a refusal that one of these plugins gave the pod.
    pub(crate) fn helps(
        &self,
        pod: &PodInfo,
        rejected_by: PluginSet,
        change: &ClusterChange<'_>,
        snapshot: &Snapshot,
    ) -> bool {
        let kind = change.change_type();
        self.refusing()
            .filter(|plugin| rejected_by.contains(plugin.id()) && plugin.wakes_on().contains(&kind))
            .any(|plugin| plugin.helped_by(pod, change, snapshot))
    }
}

/// The profile that a pod chose; none when it is another scheduler's.
pub(super) fn profile_of<'p>(profiles: &'p [Profile], pod: &PodInfo) -> Option<&'p Profile> {
    profiles.iter().find(|profile| profile.scheduler_name == pod.scheduler_name())
}
