//! KubeSchedulerConfiguration: the profiles and the settings of their plugins (SCH-6).
//!
//! Reads the fields of `kubescheduler.config.k8s.io/v1`, and those of older versions. Fields that only concern
//! kube-scheduler as a process of its own (leader election, addresses, client limits) are accepted and ignored.

mod arguments;
mod names;
mod points;
mod spread_arguments;

use serde::Deserialize;
use serde_json::Value;

use crate::framework::{PluginSet, Point};
use crate::plugins;
use crate::profile::Profile;
use crate::state::pod_info::DEFAULT_SCHEDULER;
use arguments::Arguments;
use points::Points;

/// An error in a configuration with its position: `profiles[0].plugins.score: …`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct ConfigError {
    /// The field's path.
    pub(crate) field: String,
    /// The error message.
    pub(crate) message: String,
}

impl ConfigError {
    fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    api_version: Option<String>,
    kind: Option<String>,
    #[serde(default)]
    profiles: Vec<Section>,
    percentage_of_nodes_to_score: Option<u32>,
    // v1alpha1 and Policy describe one scheduler, with its fields at the top level.
    scheduler_name: Option<String>,
    #[serde(default)]
    plugins: Points,
    #[serde(default)]
    plugin_config: Vec<PluginConfig>,
    disable_preemption: Option<bool>,
    hard_pod_affinity_symmetric_weight: Option<i64>,
    // These fields concern the kube-scheduler process and are ignored.
    #[serde(rename = "leaderElection")]
    _leader_election: Option<Value>,
    #[serde(rename = "clientConnection")]
    _client_connection: Option<Value>,
    #[serde(rename = "healthzBindAddress")]
    _healthz: Option<Value>,
    #[serde(rename = "metricsBindAddress")]
    _metrics: Option<Value>,
    #[serde(rename = "enableProfiling")]
    _profiling: Option<Value>,
    #[serde(rename = "enableContentionProfiling")]
    _contention: Option<Value>,
    #[serde(rename = "bindTimeoutSeconds")]
    _bind_timeout: Option<Value>,
    #[serde(rename = "algorithmSource")]
    _algorithm: Option<Value>,
    #[serde(rename = "parallelism")]
    _parallelism: Option<Value>,
    #[serde(rename = "delayCacheUntilActive")]
    _delay_cache: Option<Value>,
    #[serde(rename = "podInitialBackoffSeconds")]
    _initial_back_off: Option<Value>,
    #[serde(rename = "podMaxBackoffSeconds")]
    _max_back_off: Option<Value>,
    #[serde(default)]
    extenders: Vec<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Section {
    scheduler_name: Option<String>,
    percentage_of_nodes_to_score: Option<u32>,
    #[serde(default)]
    plugins: Points,
    #[serde(default)]
    plugin_config: Vec<PluginConfig>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PluginConfig {
    name: String,
    #[serde(default)]
    args: Value,
}

/// Returns the profiles of a configuration; at least one.
pub fn profiles(configuration: &Value) -> Result<Vec<Profile>, ConfigError> {
    let document: Document = base::json::from_value(configuration.clone())
        .map_err(|error| ConfigError::new("", error.to_string()))?;
    let version = document.api_version.as_deref().unwrap_or("kubescheduler.config.k8s.io/v1");
    if !version.starts_with("kubescheduler.config.k8s.io/") {
        let message = format!("Unsupported value: \"{version}\": expected kubescheduler.config.k8s.io/v1");
        return Err(ConfigError::new("apiVersion", message));
    }
    if document.kind.as_deref().is_some_and(|kind| kind != "KubeSchedulerConfiguration") {
        return Err(ConfigError::new("kind", "Unsupported value: expected KubeSchedulerConfiguration"));
    }
    if !document.extenders.is_empty() {
        return Err(ConfigError::new("extenders", "Forbidden: scheduler extenders are not supported"));
    }
    let percentage = document.percentage_of_nodes_to_score;
    check_percentage("percentageOfNodesToScore", percentage)?;
    let old = Section {
        scheduler_name: document.scheduler_name,
        percentage_of_nodes_to_score: None,
        plugins: document.plugins,
        plugin_config: document.plugin_config,
    };
    let sections =
        if document.profiles.is_empty() { vec![(old, String::new())] } else { numbered(document.profiles) };
    let mut profiles: Vec<Profile> = Vec::new();
    for (section, path) in sections {
        let mut profile = read(section, &path, document.hard_pod_affinity_symmetric_weight)?;
        if document.disable_preemption == Some(true) {
            profile = profile.only_at(Point::PostFilter, PluginSet::default());
        }
        profile.percentage_of_nodes_to_score = profile.percentage_of_nodes_to_score.or(percentage);
        if profiles.iter().any(|other| other.scheduler_name == profile.scheduler_name) {
            let message = format!("Duplicate value: \"{}\"", profile.scheduler_name);
            return Err(ConfigError::new(format!("{path}schedulerName"), message));
        }
        profiles.push(profile);
    }
    Ok(profiles)
}

fn numbered(sections: Vec<Section>) -> Vec<(Section, String)> {
    sections.into_iter().enumerate().map(|(n, section)| (section, format!("profiles[{n}]."))).collect()
}

fn check_percentage(field: &str, percentage: Option<u32>) -> Result<(), ConfigError> {
    match percentage {
        Some(percentage) if percentage > 100 => {
            Err(ConfigError::new(field, format!("Invalid value: {percentage}: not in valid range [0-100]")))
        }
        _ => Ok(()),
    }
}

fn read(section: Section, path: &str, hard_weight: Option<i64>) -> Result<Profile, ConfigError> {
    check_percentage(&format!("{path}percentageOfNodesToScore"), section.percentage_of_nodes_to_score)?;
    let points = section.plugins.resolve(path)?;
    let mut arguments = Arguments::default();
    if let Some(weight) = hard_weight {
        arguments.set_hard_weight(weight, "hardPodAffinitySymmetricWeight")?;
    }
    if let Some(strategy) = points.strategy.clone() {
        arguments.plugins.fit.strategy = strategy;
    }
    for (n, config) in section.plugin_config.iter().enumerate() {
        arguments.read(&config.name, &config.args, &format!("{path}pluginConfig[{n}]"))?;
    }
    let scheduler_name = section.scheduler_name.unwrap_or_else(|| DEFAULT_SCHEDULER.into());
    points.check(&scheduler_name, path)?;
    let whole = Profile::of(plugins::with(arguments.plugins));
    let whole = whole.scoring(|plugin| points.scores.get(&plugin).copied());
    let narrow = |profile: Profile, point: Point| profile.only_at(point, points.at(point));
    let mut profile = Point::ALL.into_iter().filter(|point| *point != Point::Score).fold(whole, narrow);
    profile.scheduler_name = scheduler_name;
    profile.percentage_of_nodes_to_score = section.percentage_of_nodes_to_score;
    profile.default_constraints = arguments.default_constraints;
    if profile.scheduler_name.is_empty() {
        return Err(ConfigError::new(format!("{path}schedulerName"), "Required value"));
    }
    Ok(profile)
}

#[cfg(test)]
mod tests;
