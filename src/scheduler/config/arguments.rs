//! `pluginConfig`: the arguments of plugins.

use std::time::Duration;

use k8s_openapi::api::core::v1::NodeAffinity;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ConfigError;
use super::names::{PluginName, all_names, named};
use super::spread_arguments;
use crate::framework::PluginId;
use crate::plugins::PluginSettings;
use crate::plugins::scoring::{MAX_POINT, ResourceWeight, Strategy};
use crate::state::default_spread::DefaultConstraints;
use object::node_selector::RequiredNodes;

/// The settings of the plugins of one profile.
pub(super) struct Arguments {
    pub(super) plugins: PluginSettings,
    pub(super) default_constraints: DefaultConstraints,
}

impl Default for Arguments {
    fn default() -> Self {
        Self { plugins: PluginSettings::default(), default_constraints: DefaultConstraints::system() }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FitArgs {
    #[serde(flatten)]
    _type: TypeMeta,
    #[serde(default)]
    ignored_resources: Vec<String>,
    #[serde(default)]
    ignored_resource_groups: Vec<String>,
    scoring_strategy: Option<ScoringStrategy>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct TypeMeta {
    #[serde(rename = "apiVersion")]
    _api_version: Option<String>,
    #[serde(rename = "kind")]
    _kind: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ScoringStrategy {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    resources: Vec<ResourceSpec>,
    requested_to_capacity_ratio: Option<Shape>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResourceSpec {
    name: String,
    weight: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    #[serde(default)]
    shape: Vec<Point>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Point {
    #[serde(default)]
    utilization: i64,
    #[serde(default)]
    score: i64,
}

/// The arguments of the former score plugins: a list of resources, and a shape.
#[derive(Deserialize)]
struct OldScoreArgs {
    #[serde(default)]
    resources: Vec<ResourceSpec>,
    #[serde(default)]
    shape: Vec<Point>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AffinityArgs {
    hard_pod_affinity_weight: Option<i64>,
    ignore_preferred_terms_of_existing_pods: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PreemptionArgs {
    min_candidate_nodes_percentage: Option<i64>,
    min_candidate_nodes_absolute: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeAffinityArgs {
    added_affinity: Option<NodeAffinity>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct VolumeArgs {
    #[serde(flatten)]
    _type: TypeMeta,
    bind_timeout_seconds: Option<i64>,
    #[serde(rename = "shape")]
    _shape: Option<Value>,
}

impl Arguments {
    /// Reads the arguments of one plugin.
    pub(super) fn read(&mut self, name: &str, args: &Value, path: &str) -> Result<(), ConfigError> {
        let at = format!("{path}.args");
        match named(name) {
            None => {
                let message = format!("Unsupported value: \"{name}\": supported values: {}", all_names());
                return Err(ConfigError::new(format!("{path}.name"), message));
            }
            Some(_) if args.is_null() => {}
            // The arguments of DynamicResources concern the allocation of devices, which it does not do here.
            Some(PluginName::Unsupported | PluginName::Plugin(PluginId::DynamicResources)) => {}
            Some(PluginName::Strategy(strategy)) => self.old_score(&strategy, parse(args, &at)?, &at)?,
            Some(PluginName::Plugin(PluginId::NodeResourcesFit)) => self.fit(parse(args, &at)?, &at)?,
            Some(PluginName::Plugin(PluginId::VolumeBinding)) => self.volumes(&parse(args, &at)?, &at)?,
            Some(PluginName::Plugin(PluginId::NodeResourcesBalancedAllocation)) => {
                let args: OldScoreArgs = parse(args, &at)?;
                if !args.resources.is_empty() {
                    self.plugins.balanced.resources = weighed(args.resources, &at)?;
                }
            }
            Some(PluginName::Plugin(PluginId::InterPodAffinity)) => {
                let args: AffinityArgs = parse(args, &at)?;
                if let Some(weight) = args.hard_pod_affinity_weight {
                    self.set_hard_weight(weight, &format!("{at}.hardPodAffinityWeight"))?;
                }
                self.plugins.affinity.ignore_preferred_of_existing =
                    args.ignore_preferred_terms_of_existing_pods.unwrap_or(false);
            }
            Some(PluginName::Plugin(PluginId::PodTopologySpread)) => {
                self.default_constraints = spread_arguments::read(&parse(args, &at)?, &at)?;
            }
            Some(PluginName::Plugin(PluginId::DefaultPreemption)) => {
                self.preemption(&parse(args, &at)?, &at)?;
            }
            Some(PluginName::Plugin(PluginId::NodeAffinity)) => {
                let args: NodeAffinityArgs = parse(args, &at)?;
                self.plugins.added_affinity =
                    args.added_affinity.as_ref().map(RequiredNodes::of_affinity).unwrap_or_default();
            }
            Some(PluginName::Plugin(other)) => {
                let message = format!("Forbidden: {} takes no arguments", other.name());
                return Err(ConfigError::new(at, message));
            }
        }
        Ok(())
    }

    pub(super) fn set_hard_weight(&mut self, weight: i64, path: &str) -> Result<(), ConfigError> {
        self.plugins.affinity.hard_weight = within(weight, 0, 100, path)?;
        Ok(())
    }

    fn fit(&mut self, args: FitArgs, at: &str) -> Result<(), ConfigError> {
        self.plugins.fit.ignored =
            args.ignored_resources.into_iter().chain(args.ignored_resource_groups).collect();
        let Some(strategy) = args.scoring_strategy else { return Ok(()) };
        let at = format!("{at}.scoringStrategy");
        if !strategy.resources.is_empty() {
            self.plugins.fit.resources = weighed(strategy.resources, &at)?;
        }
        self.plugins.fit.strategy = match strategy.kind.as_deref().unwrap_or("LeastAllocated") {
            "LeastAllocated" => Strategy::LeastAllocated,
            "MostAllocated" => Strategy::MostAllocated,
            "RequestedToCapacityRatio" => {
                let points =
                    strategy.requested_to_capacity_ratio.map(|ratio| ratio.shape).unwrap_or_default();
                shape(&points, &format!("{at}.requestedToCapacityRatio.shape"))?
            }
            other => {
                let message = format!(
                    "Unsupported value: \"{other}\": supported values: \"LeastAllocated\", \"MostAllocated\", \
                     \"RequestedToCapacityRatio\""
                );
                return Err(ConfigError::new(format!("{at}.type"), message));
            }
        };
        Ok(())
    }

    fn old_score(&mut self, strategy: &Strategy, args: OldScoreArgs, at: &str) -> Result<(), ConfigError> {
        if self.plugins.fit.strategy != *strategy {
            // These arguments belong to a scoring strategy that is not enabled: they have no effect.
            return Ok(());
        }
        if !args.resources.is_empty() {
            self.plugins.fit.resources = weighed(args.resources, at)?;
        }
        if matches!(strategy, Strategy::RequestedToCapacityRatio(_)) {
            self.plugins.fit.strategy = shape(&args.shape, &format!("{at}.shape"))?;
        }
        Ok(())
    }

    fn preemption(&mut self, args: &PreemptionArgs, at: &str) -> Result<(), ConfigError> {
        if let Some(percentage) = args.min_candidate_nodes_percentage {
            let percentage = within(percentage, 0, 100, &format!("{at}.minCandidateNodesPercentage"))?;
            self.plugins.preemption.least_percentage = percentage as usize;
        }
        if let Some(nodes) = args.min_candidate_nodes_absolute {
            let nodes = within(nodes, 0, i64::from(i32::MAX), &format!("{at}.minCandidateNodesAbsolute"))?;
            self.plugins.preemption.least_nodes = nodes as usize;
        }
        if self.plugins.preemption.least_nodes == 0 && self.plugins.preemption.least_percentage == 0 {
            let message = "Invalid value: both minCandidateNodesPercentage and minCandidateNodesAbsolute cannot be zero";
            return Err(ConfigError::new(at, message));
        }
        Ok(())
    }

    fn volumes(&mut self, args: &VolumeArgs, at: &str) -> Result<(), ConfigError> {
        let Some(seconds) = args.bind_timeout_seconds else { return Ok(()) };
        let Ok(seconds) = u64::try_from(seconds) else {
            let message = format!(
                "Invalid value: {seconds}: invalid BindTimeoutSeconds, should not be a negative value"
            );
            return Err(ConfigError::new(format!("{at}.bindTimeoutSeconds"), message));
        };
        self.plugins.volumes.bind_timeout = Duration::from_secs(seconds);
        Ok(())
    }
}

fn parse<T: DeserializeOwned>(args: &Value, at: &str) -> Result<T, ConfigError> {
    base::json::from_value(args.clone()).map_err(|error| ConfigError::new(at, error.to_string()))
}

fn within(value: i64, least: i64, most: i64, path: &str) -> Result<i64, ConfigError> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(ConfigError::new(path, format!("Invalid value: {value}: not in valid range [{least}-{most}]")))
}

fn weighed(resources: Vec<ResourceSpec>, at: &str) -> Result<Vec<ResourceWeight>, ConfigError> {
    let read = |(n, resource): (usize, ResourceSpec)| {
        // A weight that is missing or 0 means 1.
        let weight = resource.weight.filter(|weight| *weight != 0).unwrap_or(1);
        let weight = within(weight, 1, 100, &format!("{at}.resources[{n}].weight"))?;
        Ok((resource.name.as_str().into(), weight))
    };
    resources.into_iter().enumerate().map(read).collect()
}

fn shape(points: &[Point], at: &str) -> Result<Strategy, ConfigError> {
    if points.is_empty() {
        return Err(ConfigError::new(at, "Required value: at least one point must be specified"));
    }
    for (n, point) in points.iter().enumerate() {
        within(point.utilization, 0, 100, &format!("{at}[{n}].utilization"))?;
        within(point.score, 0, MAX_POINT, &format!("{at}[{n}].score"))?;
        if n > 0 && points[n - 1].utilization >= point.utilization {
            let message = format!(
                "Invalid value: {}: utilization values must be sorted in increasing order",
                point.utilization
            );
            return Err(ConfigError::new(format!("{at}[{n}].utilization"), message));
        }
    }
    Ok(Strategy::RequestedToCapacityRatio(points.iter().map(|p| (p.utilization, p.score)).collect()))
}
