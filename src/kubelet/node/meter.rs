//! Resource usage of a node's containers: rates between two readings of the counters.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::runtime::Usage;
use api::usage::{NodeUsage, PodUsage, ResourceUsage};

/// The cumulative usage of a node's containers at one moment.
pub(crate) use crate::runtime::UsageByPod as Counters;

/// The last two readings of a node's counters.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// The time and the counters of the last reading.
    last: Option<(Duration, Counters)>,
    /// The sum of all cpu time observed: containers come and go, and it never falls.
    cpu_time: Duration,
    /// The cpu time of each current pod.
    pod_cpu_times: BTreeMap<String, Duration>,
}

impl Meter {
    /// The usage at the last reading.
    pub(crate) fn counters(&self) -> Option<&Counters> {
        self.last.as_ref().map(|(_, counters)| counters)
    }

    /// Takes a new reading at `now` on the monotonic clock; returns the usage since the previous one. A container that
    /// is new has no rate yet.
    pub(crate) fn take(&mut self, counters: Counters, now: Duration, at: Timestamp) -> Option<NodeUsage> {
        self.add_up(&counters);
        let (before, old) = self.last.replace((now, counters))?;
        let window = now.saturating_sub(before);
        if window.is_zero() {
            return None;
        }
        let mut usage = NodeUsage {
            at,
            reported_at: at,
            window,
            total: ResourceUsage::default(),
            pods: BTreeMap::new(),
            pod_cpu_times: BTreeMap::new(),
            volumes: BTreeMap::new(),
        };
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
            // A pod is reported once all its running containers were read twice, as in the metrics server.
            if pod.len() == containers.len() && !pod.is_empty() {
                usage.pods.insert(uid.clone(), pod);
                let spent = self.pod_cpu_times.get(uid).copied().unwrap_or_default();
                usage.pod_cpu_times.insert(uid.clone(), spent);
            }
        }
        usage.total.cpu_time = self.cpu_time;
        Some(usage)
    }

    /// Adds the usage since the last reading; for a new container, its whole usage.
    fn add_up(&mut self, counters: &Counters) {
        self.pod_cpu_times.retain(|uid, _| counters.contains_key(uid));
        for (uid, containers) in counters {
            let earlier = self.last.as_ref().and_then(|(_, last)| last.get(uid));
            let spent = containers.iter().map(|(name, now)| match earlier.and_then(|pod| pod.get(name)) {
                Some(then) => spent(then, now),
                None => now.cpu_time,
            });
            let spent: Duration = spent.sum();
            self.cpu_time += spent;
            *self.pod_cpu_times.entry(uid.clone()).or_default() += spent;
        }
    }
}

/// Returns the cpu time used between two readings. A counter that went back belongs to a new attempt, which used all
/// that it shows.
fn spent(then: &Usage, now: &Usage) -> Duration {
    now.cpu_time.checked_sub(then.cpu_time).unwrap_or(now.cpu_time)
}

fn rate(then: &Usage, now: &Usage, window: Duration) -> ResourceUsage {
    let nanocores = spent(then, now).as_nanos().saturating_mul(1_000_000_000) / window.as_nanos().max(1);
    ResourceUsage {
        cpu_nanocores: u64::try_from(nanocores).unwrap_or(u64::MAX),
        memory_bytes: now.memory_bytes,
        cpu_time: now.cpu_time,
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

    /// POD-12: cpu is a rate over the window; a container that is new or has restarted is not mistaken for a busy one.
    #[test]
    fn rates_come_from_two_looks_pod_12() {
        let mut meter = Meter::default();
        let seconds = Duration::from_secs;
        let at = Timestamp::UNIX_EPOCH;
        assert_eq!(meter.take(counters(&[("p", "a", 1000, 1)]), seconds(10), at), None);
        let second = counters(&[("p", "a", 2500, 7), ("q", "b", 9000, 5)]);
        let usage = meter.take(second, seconds(20), at).unwrap();
        assert_eq!(usage.window, seconds(10));
        let cpu_time = Duration::from_millis(2500);
        let a = ResourceUsage { cpu_nanocores: 150_000_000, memory_bytes: 7, cpu_time };
        assert_eq!(usage.pods, BTreeMap::from([("p".to_string(), PodUsage::from([("a".to_string(), a)]))]));
        let all = ResourceUsage { cpu_time: Duration::from_millis(11_500), ..a };
        assert_eq!(usage.total, all, "a pod seen once has no rate");
        let restarted = counters(&[("p", "a", 500, 3), ("p", "late", 1, 1), ("q", "b", 9000, 5)]);
        let usage = meter.take(restarted, seconds(30), at).unwrap();
        assert_eq!(usage.pods.keys().collect::<Vec<_>>(), ["q"], "p has a container without a rate");
        assert_eq!(usage.total.cpu_nanocores, 50_000_000);
    }

    /// API-19: clients would take a counter that falls when a container ends or restarts for a reset one.
    #[test]
    fn the_cpu_time_of_nodes_and_pods_never_falls_api_19() {
        let mut meter = Meter::default();
        let at = Timestamp::UNIX_EPOCH;
        let mut look = |counted: &[(&str, &str, u64, u64)], second: u64| {
            let usage = meter.take(counters(counted), Duration::from_secs(second), at)?;
            let pods = usage.pod_cpu_times.iter().map(|(uid, time)| (uid.clone(), time.as_millis()));
            Some((usage.total.cpu_time.as_millis(), pods.collect::<Vec<_>>()))
        };
        let pod = |uid: &str, millis: u128| (uid.to_string(), millis);
        assert_eq!(look(&[("p", "a", 1000, 1), ("p", "b", 100, 1), ("q", "c", 10, 1)], 1), None);
        let reported = look(&[("p", "a", 1500, 1), ("p", "b", 100, 1), ("q", "c", 20, 1)], 2);
        assert_eq!(reported, Some((1620, vec![pod("p", 1600), pod("q", 20)])));
        let reported = look(&[("p", "a", 300, 1), ("p", "b", 150, 1)], 3);
        assert_eq!(reported, Some((1970, vec![pod("p", 1950)])), "a began anew, q is gone");
    }
}
