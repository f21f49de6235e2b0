//! Decides on a node's pressure: the thresholds passed, for how long, and the resources to reclaim. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::config::{EvictionConfig, Limit};
use super::machine_signals::{Observations, Signal};
use base::clock::since;
use base::sort::SliceOrder;

/// A node condition for pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Condition {
    Memory,
    Disk,
    Pid,
}

impl Condition {
    pub(crate) const ALL: [Self; 3] = [Self::Memory, Self::Disk, Self::Pid];

    /// The condition's type.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Memory => "MemoryPressure",
            Self::Disk => "DiskPressure",
            Self::Pid => "PIDPressure",
        }
    }

    /// Reason and message of the condition.
    pub(crate) fn reason_and_message(self, holds: bool) -> (&'static str, &'static str) {
        match (self, holds) {
            (Self::Memory, true) => {
                ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available")
            }
            (Self::Memory, false) => {
                ("KubeletHasSufficientMemory", "kubelet has sufficient memory available")
            }
            (Self::Disk, true) => ("KubeletHasDiskPressure", "kubelet has disk pressure"),
            (Self::Disk, false) => ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            (Self::Pid, true) => ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
            (Self::Pid, false) => ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        }
    }

    fn of(signal: Signal) -> Self {
        match signal {
            Signal::MemoryAvailable => Self::Memory,
            Signal::NodefsAvailable | Signal::NodefsInodesFree => Self::Disk,
            Signal::PidAvailable => Self::Pid,
        }
    }
}

/// One threshold of one resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Threshold {
    pub(crate) signal: Signal,
    pub(crate) limit: Limit,
    /// The time for which the limit may be exceeded; `None` for a hard threshold.
    grace: Option<Duration>,
}

impl Threshold {
    /// Returns true if less than the limit is available.
    pub(crate) fn is_passed(self, observations: &Observations) -> bool {
        let observed = observations.get(&self.signal);
        observed.is_some_and(|observed| observed.available < self.limit.of(observed.capacity))
    }

    /// Evicts at once.
    pub(crate) fn is_hard(self) -> bool {
        self.grace.is_none()
    }
}

/// Returns the thresholds: hard ones before soft ones, and memory before other resources.
fn thresholds(config: &EvictionConfig) -> Vec<Threshold> {
    let hard =
        config.hard.iter().map(|(signal, limit)| Threshold { signal: *signal, limit: *limit, grace: None });
    let soft = config.soft.iter().map(|(signal, limit)| {
        let grace = config.soft_grace_period.get(signal).map_or(Duration::ZERO, |s| s.0);
        Threshold { signal: *signal, limit: *limit, grace: Some(grace) }
    });
    let mut all: Vec<Threshold> = hard.chain(soft).collect();
    all.order_by_key(|t| (t.signal, t.grace));
    all
}

/// A node's memory between two observations.
#[derive(Debug, Default)]
pub(crate) struct Thresholds {
    /// The time since which each threshold is exceeded: by signal, and by true for the hard threshold or false for the
    /// soft one.
    passed_since: BTreeMap<(Signal, bool), Timestamp>,
    /// The time at which each condition was last observed true.
    last_observed: BTreeMap<Condition, Timestamp>,
    conditions: Vec<Condition>,
}

impl Thresholds {
    /// The conditions that hold.
    pub(crate) fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// Takes a new observation; returns the threshold for which pods must be evicted.
    pub(crate) fn update(
        &mut self,
        config: &EvictionConfig,
        observations: &Observations,
        now: Timestamp,
    ) -> Option<Threshold> {
        let mut due = None;
        for threshold in thresholds(config) {
            let key = (threshold.signal, threshold.is_hard());
            let Some(observed) = observations.get(&threshold.signal) else {
                self.passed_since.remove(&key);
                continue;
            };
            let mut limit = threshold.limit.of(observed.capacity);
            // Once exceeded, a limit counts as met again only with a little more than the limit available.
            if self.passed_since.contains_key(&key)
                && let Some(extra) = config.minimum_reclaim.get(&threshold.signal)
            {
                limit = limit.saturating_add(extra.of(observed.capacity));
            }
            if observed.available >= limit {
                self.passed_since.remove(&key);
                continue;
            }
            let passed = *self.passed_since.entry(key).or_insert(now);
            self.last_observed.insert(Condition::of(threshold.signal), now);
            if since(now, passed) >= threshold.grace.unwrap_or_default() && due.is_none() {
                due = Some(threshold);
            }
        }
        // A condition that changed with every observation would make the scheduler move pods back and forth.
        let lasts = config.pressure_transition_period.0;
        self.last_observed.retain(|_, at| *at == now || since(now, *at) < lasts);
        self.conditions = self.last_observed.keys().copied().collect();
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pressure::machine_signals::Observation;

    fn config(json: &str) -> EvictionConfig {
        serde_json::from_str(json).unwrap()
    }

    /// Observes these amounts of free memory of 1000, one every ten seconds; returns `conditions due` for each.
    fn observe(config: &EvictionConfig, free: &[i64]) -> Vec<String> {
        let mut pressure = Thresholds::default();
        let mut results = Vec::new();
        for (index, available) in free.iter().enumerate() {
            let seen = Observations::from([(
                Signal::MemoryAvailable,
                Observation { available: *available, capacity: 1000 },
            )]);
            let now = Timestamp::from_second(index as i64 * 10).unwrap();
            let due = pressure.update(config, &seen, now);
            let shown: Vec<&str> = pressure.conditions().iter().map(|c| c.text()).collect();
            let due = due.map_or("-", |t| if t.is_hard() { "hard" } else { "soft" });
            results.push(format!("{} {due}", if shown.is_empty() { "-".into() } else { shown.join(",") }));
        }
        results
    }

    #[test]
    fn hard_limits_count_at_once_and_conditions_linger_node_4() {
        let config = config(r#"{"hard": {"memory.available": "10%"}, "pressureTransitionPeriod": 25}"#);
        assert_eq!(
            observe(&config, &[500, 99, 100, 500, 500, 500]),
            ["- -", "MemoryPressure hard", "MemoryPressure -", "MemoryPressure -", "- -", "- -"]
        );
    }

    #[test]
    fn soft_limits_wait_for_their_grace_node_4() {
        let config = config(
            r#"{"hard": {"memory.available": "50"}, "soft": {"memory.available": "300"},
                "softGracePeriod": {"memory.available": 20}, "pressureTransitionPeriod": 0}"#,
        );
        assert_eq!(
            observe(&config, &[200, 400, 200, 200, 200, 40, 400]),
            [
                "MemoryPressure -", "- -", "MemoryPressure -", "MemoryPressure -", "MemoryPressure soft",
                "MemoryPressure hard", "- -"
            ]
        );
    }

    #[test]
    fn a_minimum_must_be_reclaimed_node_4() {
        let config = config(
            r#"{"hard": {"memory.available": "100"}, "minimumReclaim": {"memory.available": "50"},
                "pressureTransitionPeriod": 0}"#,
        );
        assert_eq!(
            observe(&config, &[120, 90, 120, 150, 120]),
            ["- -", "MemoryPressure hard", "MemoryPressure hard", "- -", "- -"]
        );
    }

    #[test]
    fn memory_goes_before_all_else_node_4() {
        let config = config(
            r#"{"hard": {"nodefs.available": "10", "memory.available": "10", "pid.available": "10"},
                "pressureTransitionPeriod": 0}"#,
        );
        let short = |signals: &[Signal]| -> Observations {
            signals.iter().map(|s| (*s, Observation { available: 1, capacity: 100 })).collect()
        };
        let mut pressure = Thresholds::default();
        let all = short(&[Signal::PidAvailable, Signal::NodefsAvailable, Signal::MemoryAvailable]);
        let due = pressure.update(&config, &all, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(due.signal, Signal::MemoryAvailable);
        assert_eq!(pressure.conditions(), Condition::ALL);
        let due = pressure.update(&config, &short(&[Signal::PidAvailable]), Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(due.signal, Signal::PidAvailable);
    }
}
