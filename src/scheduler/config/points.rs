//! `plugins`: enabled and disabled plugins at the extension points.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::ConfigError;
use super::names::{PluginName, all_names, extends_only_in_kubernetes, named};
use crate::framework::{PluginId, PluginSet, Point};
use crate::plugins::scoring::Strategy;
use base::sort::CollectMap;

/// The `plugins` section of a profile, as the configuration has it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Points {
    multi_point: Changes,
    pre_enqueue: Changes,
    queue_sort: Changes,
    pre_filter: Changes,
    filter: Changes,
    post_filter: Changes,
    pre_score: Changes,
    score: Changes,
    reserve: Changes,
    unreserve: Changes,
    permit: Changes,
    pre_bind: Changes,
    bind: Changes,
    post_bind: Changes,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Changes {
    enabled: Vec<Entry>,
    disabled: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    name: String,
    weight: Option<i64>,
}

/// The plugins of each extension point.
#[derive(Debug, PartialEq)]
pub(super) struct ResolvedPoints {
    /// Indexed by [`Point`]; the scoring plugins are in `scores`.
    at: [PluginSet; Point::ALL.len()],
    pub(super) scores: BTreeMap<PluginId, i64>,
    /// The scoring strategy set by naming an old plugin.
    pub(super) strategy: Option<Strategy>,
}

impl Default for ResolvedPoints {
    fn default() -> Self {
        let all = |point: Point| PluginId::ALL.iter().copied().filter(move |id| id.points().contains(&point));
        let weights = all(Point::Score).map(|id| (id, id.default_weight()));
        Self {
            at: Point::ALL.map(|point| all(point).collect()),
            scores: weights.collect_map(),
            strategy: None,
        }
    }
}

/// The scope of a set of changes: all points (`multiPoint`), or one.
type Target = Option<Point>;

impl Points {
    /// Applies the changes to the defaults: `multiPoint` first, because the more specific settings take precedence.
    pub(super) fn resolve(&self, path: &str) -> Result<ResolvedPoints, ConfigError> {
        let mut resolved = ResolvedPoints::default();
        for (target, name, changes) in [
            (None, "multiPoint", &self.multi_point),
            (Some(Point::PreEnqueue), "preEnqueue", &self.pre_enqueue),
            (Some(Point::QueueSort), "queueSort", &self.queue_sort),
            (Some(Point::Filter), "preFilter", &self.pre_filter),
            (Some(Point::Filter), "filter", &self.filter),
            (Some(Point::PostFilter), "postFilter", &self.post_filter),
            (Some(Point::Score), "preScore", &self.pre_score),
            (Some(Point::Score), "score", &self.score),
            (Some(Point::Reserve), "reserve", &self.reserve),
            (Some(Point::Reserve), "unreserve", &self.unreserve),
            (Some(Point::Permit), "permit", &self.permit),
            (Some(Point::PreBind), "preBind", &self.pre_bind),
            (Some(Point::Bind), "bind", &self.bind),
            (Some(Point::PostBind), "postBind", &self.post_bind),
        ] {
            resolved.change(target, changes, &format!("{path}plugins.{name}"))?;
        }
        Ok(resolved)
    }
}

impl ResolvedPoints {
    /// Returns the plugins of a point other than Score.
    pub(super) fn at(&self, point: Point) -> PluginSet {
        self.at[point as usize]
    }

    /// Checks that there are plugins to sort and to bind pods, without which no pod is scheduled.
    pub(super) fn check(&self, scheduler_name: &str, path: &str) -> Result<(), ConfigError> {
        let profile = format!("for profile with scheduler name \"{scheduler_name}\"");
        let lacks = |point: Point, message: String| {
            let field = format!("{path}plugins.{}", point.name());
            Err(ConfigError::new(field, format!("Required value: {message}")))
        };
        if self.at(Point::QueueSort).is_empty() {
            return lacks(Point::QueueSort, format!("one queue sort plugin required {profile}, but got 0"));
        }
        if self.at(Point::Bind).is_empty() {
            return lacks(Point::Bind, format!("at least one bind plugin is needed {profile}"));
        }
        Ok(())
    }

    fn change(&mut self, target: Target, changes: &Changes, path: &str) -> Result<(), ConfigError> {
        for (n, entry) in changes.disabled.iter().enumerate() {
            if entry.name == "*" {
                self.disable(target, |_| true);
                continue;
            }
            match read(entry, &format!("{path}.disabled[{n}].name"))? {
                PluginName::Plugin(plugin) => self.disable(target, |id| id == plugin),
                PluginName::Strategy(strategy)
                    if self.strategy.as_ref().unwrap_or(&Strategy::LeastAllocated) == &strategy =>
                {
                    self.disable(target, |id| id == PluginId::NodeResourcesFit);
                }
                PluginName::Strategy(_) | PluginName::Unsupported => {}
            }
        }
        for (n, entry) in changes.enabled.iter().enumerate() {
            let weight = entry.weight.unwrap_or(0);
            if !(0..=MAX_WEIGHT).contains(&weight) {
                let message = format!("Invalid value: {weight}: not in valid range [0-{MAX_WEIGHT}]");
                return Err(ConfigError::new(format!("{path}.enabled[{n}].weight"), message));
            }
            let at = format!("{path}.enabled[{n}].name");
            let plugin = match read(entry, &at)? {
                PluginName::Plugin(plugin) => plugin,
                PluginName::Strategy(strategy) => {
                    self.strategy = Some(strategy);
                    PluginId::NodeResourcesFit
                }
                PluginName::Unsupported => {
                    tracing::warn!("{path}: plugin {} is not supported and is ignored", entry.name);
                    continue;
                }
            };
            if let Some(point) = target.filter(|point| !plugin.points().contains(point)) {
                if extends_only_in_kubernetes(plugin, point) {
                    tracing::warn!("{path}: plugin {} has no effect there", entry.name);
                    continue;
                }
                let message = format!("Invalid value: \"{}\": does not extend {}", entry.name, point.name());
                return Err(ConfigError::new(at, message));
            }
            self.enable(target, plugin, weight);
        }
        Ok(())
    }

    fn disable(&mut self, target: Target, which: impl Fn(PluginId) -> bool) {
        for point in Point::ALL.into_iter().filter(|point| target.is_none_or(|t| t == *point)) {
            let set = &mut self.at[point as usize];
            *set = set.iter().filter(|id| !which(*id)).collect();
            if point == Point::Score {
                self.scores.retain(|id, _| !which(*id));
            }
        }
    }

    /// A weight of 0 counts as missing: the default weight at `multiPoint`, 1 at `score`.
    fn enable(&mut self, target: Target, plugin: PluginId, weight: i64) {
        for point in plugin.points().iter().copied().filter(|point| target.is_none_or(|t| t == *point)) {
            self.at[point as usize] = self.at[point as usize].with(plugin);
            if point == Point::Score {
                let unsaid = if target.is_none() { plugin.default_weight() } else { 1 };
                self.scores.insert(plugin, if weight > 0 { weight } else { unsaid });
            }
        }
    }
}

/// The maximum weight, with which the sum of weighted scores of 100 fits easily into 64 bits.
const MAX_WEIGHT: i64 = 1 << 40;

fn read(entry: &Entry, path: &str) -> Result<PluginName, ConfigError> {
    named(&entry.name).ok_or_else(|| {
        ConfigError::new(
            path,
            format!("Unsupported value: \"{}\": supported values: {}", entry.name, all_names()),
        )
    })
}
