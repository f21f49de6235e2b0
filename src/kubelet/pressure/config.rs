//! The thresholds of node pressure: the eviction part of KubeletConfiguration, with a local cluster's defaults.
//!
//! Memory is as in Kubernetes. Disks are not watched unless the file says so, as in other single-machine clusters: a
//! nearly full disk of the user's is no reason to end the user's pods.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::machine_signals::Signal;
use base::sort::CollectMap;
use object::config::Seconds;
use object::quantity::Amount;

/// The threshold of a resource: an amount, or a share of the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum Limit {
    /// Bytes, inodes or process ids.
    Amount(i64),
    /// Percent of the capacity.
    Percent(f64),
}

impl Limit {
    /// In units.
    pub(crate) fn of(self, capacity: i64) -> i64 {
        match self {
            Self::Amount(amount) => amount,
            Self::Percent(percent) => (capacity as f64 * percent / 100.0) as i64,
        }
    }
}

impl TryFrom<String> for Limit {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bad = || format!("\"{text}\" is neither a quantity nor a percentage from 0% to 100%");
        if let Some(number) = text.strip_suffix('%') {
            let percent: f64 = number.parse().map_err(|_| bad())?;
            return if (0.0..=100.0).contains(&percent) { Ok(Self::Percent(percent)) } else { Err(bad()) };
        }
        let amount = Amount::parse(&text).map_err(|_| bad())?;
        if amount.is_negative() { Err(bad()) } else { Ok(Self::Amount(amount.units())) }
    }
}

impl From<Limit> for String {
    fn from(limit: Limit) -> Self {
        match limit {
            Limit::Amount(amount) => Amount::from_units(amount).to_binary().0,
            Limit::Percent(percent) => format!("{percent}%"),
        }
    }
}

/// The thresholds at which a node evicts pods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct EvictionConfig {
    /// The amounts below which pods are evicted at once.
    pub(crate) hard: BTreeMap<Signal, Limit>,
    /// The amounts below which pods are evicted after `softGracePeriod`.
    pub(crate) soft: BTreeMap<Signal, Limit>,
    /// The time that must pass below each soft limit before pods are evicted, in seconds.
    pub(crate) soft_grace_period: BTreeMap<Signal, Seconds>,
    /// The maximum grace period of a pod evicted for a soft limit, in seconds.
    pub(crate) max_pod_grace_period: u64,
    /// The amount above the limit that must be free before the pressure ends.
    pub(crate) minimum_reclaim: BTreeMap<Signal, Limit>,
    /// The minimum duration of a node condition, in seconds.
    pub(crate) pressure_transition_period: Seconds,
}

impl EvictionConfig {
    /// Returns this configuration with the signal watched: if it has no hard threshold, pods are evicted when nothing
    /// of the resource is left.
    pub(crate) fn watching(&self, signal: Signal) -> Self {
        let mut config = self.clone();
        config.hard.entry(signal).or_insert(Limit::Amount(1));
        config
    }
}

impl Default for EvictionConfig {
    fn default() -> Self {
        Self {
            hard: [(Signal::MemoryAvailable, Limit::Amount(100 << 20))].collect_map(),
            soft: BTreeMap::new(),
            soft_grace_period: BTreeMap::new(),
            max_pod_grace_period: 0,
            minimum_reclaim: BTreeMap::new(),
            pressure_transition_period: Seconds(std::time::Duration::from_mins(5)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_quantities_or_percentages_node_4() {
        let read = |text: &str| {
            let json = format!(r#"{{"hard": {{"memory.available": "{text}"}}}}"#);
            serde_json::from_str::<EvictionConfig>(&json)
                .map(|config| config.hard[&Signal::MemoryAvailable].of(1000))
        };
        for (text, expected) in
            [("100Mi", Some(100 << 20)), ("10%", Some(100)), ("7.5%", Some(75)), ("0%", Some(0))]
        {
            assert_eq!(read(text).ok(), expected, "{text}");
        }
        for text in ["", "%", "101%", "-1%", "much", "-5"] {
            assert!(read(text).unwrap_err().to_string().contains("neither a quantity"), "{text}");
        }
        assert!(serde_json::from_str::<EvictionConfig>(r#"{"hard": {"memory.free": "1"}}"#).is_err());
    }
}
