//! What the containers of a node use: rates from two looks at the counters.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::runtime::Usage;
use api::usage::{NodeUsage, PodUsage, ResourceUsage};

/// What the containers of a node used up to one moment.
pub(crate) use crate::runtime::UsageByPod as Counters;

/// The last two looks at a node's counters.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// When and what the last look saw.
    last: Option<(Duration, Counters)>,
}

impl Meter {
    /// What was in use when it was last looked.
    pub(crate) fn counters(&self) -> Option<&Counters> {
        self.last.as_ref().map(|(_, counters)| counters)
    }

    /// Takes a new look at `now` on the monotonic clock; gives what was used since the one before. A
    /// container that was not there then has no rate yet.
    pub(crate) fn take(&mut self, counters: Counters, now: Duration, at: Timestamp) -> Option<NodeUsage> {
        let (before, old) = self.last.replace((now, counters))?;
        let window = now.saturating_sub(before);
        if window.is_zero() {
            return None;
        }
        let mut usage = NodeUsage { at, window, total: ResourceUsage::default(), pods: BTreeMap::new() };
        let (_, new) = self.last.as_ref()?;
        for (uid, containers) in new {
            let earlier = old.get(uid);
            let mut pod = PodUsage::new();
            for (name, now_used) in containers {
                let Some(then_used) = earlier.and_then(|pod| pod.get(name)) else { continue };
                let used = rate(then_used, now_used, window);
                usage.total += used;
                pod.insert(name.clone(), used);
            }
            // A pod is reported once all that runs of it was seen twice, as the metrics server does.
            if pod.len() == containers.len() && !pod.is_empty() {
                usage.pods.insert(uid.clone(), pod);
            }
        }
        Some(usage)
    }
}

/// A counter that went back belongs to a new attempt: all it counted came since.
fn rate(then: &Usage, now: &Usage, window: Duration) -> ResourceUsage {
    let spent = now.cpu_time.checked_sub(then.cpu_time).unwrap_or(now.cpu_time);
    let nanocores = spent.as_nanos().saturating_mul(1_000_000_000) / window.as_nanos().max(1);
    ResourceUsage {
        cpu_nanocores: u64::try_from(nanocores).unwrap_or(u64::MAX),
        memory_bytes: now.memory_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(list: &[(&str, &str, u64, u64)]) -> Counters {
        let mut all = Counters::new();
        for (pod, container, cpu_millis, memory_bytes) in list {
            let cpu_time = Duration::from_millis(*cpu_millis);
            let usage = Usage { cpu_time, memory_bytes: *memory_bytes, processes: 1 };
            all.entry((*pod).into()).or_default().insert((*container).into(), usage);
        }
        all
    }

    /// POD-12: cpu is a rate over the window; what is new, or has started anew, is not mistaken for busy.
    #[test]
    fn rates_come_from_two_looks_pod_12() {
        let mut meter = Meter::default();
        let seconds = Duration::from_secs;
        let at = Timestamp::UNIX_EPOCH;
        assert_eq!(meter.take(counters(&[("p", "a", 1000, 1)]), seconds(10), at), None);
        let second = counters(&[("p", "a", 2500, 7), ("q", "b", 9000, 5)]);
        let usage = meter.take(second, seconds(20), at).unwrap();
        assert_eq!(usage.window, seconds(10));
        let a = ResourceUsage { cpu_nanocores: 150_000_000, memory_bytes: 7 };
        assert_eq!(usage.pods, BTreeMap::from([("p".to_string(), PodUsage::from([("a".to_string(), a)]))]));
        assert_eq!(usage.total, a, "a pod seen once has no rate");
        let restarted = counters(&[("p", "a", 500, 3), ("p", "late", 1, 1), ("q", "b", 9000, 5)]);
        let usage = meter.take(restarted, seconds(30), at).unwrap();
        assert_eq!(usage.pods.keys().collect::<Vec<_>>(), ["q"], "p has a container without a rate");
        assert_eq!(usage.total.cpu_nanocores, 50_000_000);
    }
}
