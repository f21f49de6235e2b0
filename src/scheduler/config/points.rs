//! `plugins`: what is enabled and disabled at the extension points.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::ConfigError;
use super::names::{Named, known, named};
use crate::scheduler::framework::{PluginId, PluginSet};
use crate::scheduler::scoring::Strategy;

/// The section as it is written.
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

/// Which plugins take part where.
#[derive(Debug, PartialEq)]
pub(super) struct Resolved {
    pub(super) filters: PluginSet,
    pub(super) post_filters: PluginSet,
    pub(super) scores: BTreeMap<PluginId, i64>,
    /// The strategy that an old plugin of its own stands for.
    pub(super) strategy: Option<Strategy>,
}

impl Default for Resolved {
    fn default() -> Self {
        let all: PluginSet = PluginId::ALL.iter().copied().collect();
        let weights = PluginId::ALL.iter().map(|id| (*id, id.default_weight())).filter(|(_, w)| *w > 0);
        Self { filters: all, post_filters: all, scores: weights.collect(), strategy: None }
    }
}

/// Where a set of changes applies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Point {
    All,
    Filter,
    PostFilter,
    Score,
    /// Nothing there can be changed; only names are checked.
    Fixed,
}

impl Points {
    /// Applies the changes to the defaults: at `multiPoint` first, since what is more specific wins.
    pub(super) fn resolve(&self, path: &str) -> Result<Resolved, ConfigError> {
        let mut resolved = Resolved::default();
        for (point, name, changes) in [
            (Point::All, "multiPoint", &self.multi_point),
            (Point::Fixed, "preEnqueue", &self.pre_enqueue),
            (Point::Fixed, "queueSort", &self.queue_sort),
            (Point::Filter, "preFilter", &self.pre_filter),
            (Point::Filter, "filter", &self.filter),
            (Point::PostFilter, "postFilter", &self.post_filter),
            (Point::Score, "preScore", &self.pre_score),
            (Point::Score, "score", &self.score),
            (Point::Fixed, "reserve", &self.reserve),
            (Point::Fixed, "unreserve", &self.unreserve),
            (Point::Fixed, "permit", &self.permit),
            (Point::Fixed, "preBind", &self.pre_bind),
            (Point::Fixed, "bind", &self.bind),
            (Point::Fixed, "postBind", &self.post_bind),
        ] {
            resolved.change(point, changes, &format!("{path}plugins.{name}"))?;
        }
        Ok(resolved)
    }
}

impl Resolved {
    fn change(&mut self, point: Point, changes: &Changes, path: &str) -> Result<(), ConfigError> {
        for (n, entry) in changes.disabled.iter().enumerate() {
            if entry.name == "*" {
                self.disable_all(point);
                continue;
            }
            match read(entry, &format!("{path}.disabled[{n}].name"))? {
                Named::Plugin(plugin) => self.disable(point, plugin),
                Named::Strategy(strategy)
                    if self.strategy.as_ref().unwrap_or(&Strategy::LeastAllocated) == &strategy =>
                {
                    self.disable(point, PluginId::NodeResourcesFit);
                }
                Named::Strategy(_) | Named::Elsewhere => {}
            }
        }
        for (n, entry) in changes.enabled.iter().enumerate() {
            let weight = entry.weight.unwrap_or(0);
            if !(0..=MAX_WEIGHT).contains(&weight) {
                let message = format!("Invalid value: {weight}: not in valid range [0-{MAX_WEIGHT}]");
                return Err(ConfigError::new(format!("{path}.enabled[{n}].weight"), message));
            }
            match read(entry, &format!("{path}.enabled[{n}].name"))? {
                Named::Plugin(plugin) => self.enable(point, plugin, weight),
                Named::Strategy(strategy) => {
                    self.strategy = Some(strategy);
                    self.enable(point, PluginId::NodeResourcesFit, weight);
                }
                Named::Elsewhere => tracing::warn!("{path}: {} is not in Podium", entry.name),
            }
        }
        Ok(())
    }

    fn disable_all(&mut self, point: Point) {
        if matches!(point, Point::All | Point::Filter) {
            self.filters = PluginSet::default();
        }
        if matches!(point, Point::All | Point::PostFilter) {
            self.post_filters = PluginSet::default();
        }
        if matches!(point, Point::All | Point::Score) {
            self.scores.clear();
        }
    }

    fn disable(&mut self, point: Point, plugin: PluginId) {
        let without = |set: PluginSet| set.iter().filter(|id| *id != plugin).collect();
        if matches!(point, Point::All | Point::Filter) {
            self.filters = without(self.filters);
        }
        if matches!(point, Point::All | Point::PostFilter) {
            self.post_filters = without(self.post_filters);
        }
        if matches!(point, Point::All | Point::Score) {
            self.scores.remove(&plugin);
        }
    }

    /// A weight of 0 is none given: the default at `multiPoint`, 1 at `score`.
    fn enable(&mut self, point: Point, plugin: PluginId, weight: i64) {
        if matches!(point, Point::All | Point::Filter) {
            self.filters = self.filters.with(plugin);
        }
        if matches!(point, Point::All | Point::PostFilter) {
            self.post_filters = self.post_filters.with(plugin);
        }
        let default = plugin.default_weight();
        if default > 0 && matches!(point, Point::All | Point::Score) {
            let unsaid = if point == Point::All { default } else { 1 };
            self.scores.insert(plugin, if weight > 0 { weight } else { unsaid });
        }
    }
}

/// A sum of scores of 100 with such weights stays within 64 bits by far.
const MAX_WEIGHT: i64 = 1 << 40;

fn read(entry: &Entry, path: &str) -> Result<Named, ConfigError> {
    named(&entry.name).ok_or_else(|| {
        ConfigError::new(path, format!("Unsupported value: \"{}\": there are {}", entry.name, known()))
    })
}
