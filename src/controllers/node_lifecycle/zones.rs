//! Limits the rate of eviction from unreachable nodes by zone: the more nodes of a zone are unreachable, the more
//! likely the fault is in this controller's own connection.
//!
//! A sans-I/O core: nodes wait to be tainted, and their zones release them one after the other.
//!
//! Invariant: a node waits in at most one zone.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;

use base::sort::CollectMap;
use object::config::NodeLifecycleConfig;
use object::node::is_ready;
use object::well_known::label;

/// A node with this label does not count for its zone's health.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";
const ZONE_LABELS: [(&str, &str); 2] = [(label::REGION, label::BETA_REGION), (label::ZONE, label::BETA_ZONE)];

/// Region and zone, empty where a node has none.
pub(super) type Zone = [String; 2];

pub(super) fn zone_of(node: &Node) -> Zone {
    let label = |key: &str| node.metadata.labels.as_ref().and_then(|labels| labels.get(key));
    ZONE_LABELS.map(|(key, former)| label(key).or_else(|| label(former)).cloned().unwrap_or_default())
}

/// A node's contribution to its zone's health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Health {
    pub(super) node: String,
    pub(super) zone: Zone,
    pub(super) ready: bool,
    /// It counts for its zone.
    pub(super) counted: bool,
}

impl Health {
    pub(super) fn of(node: &Node) -> Self {
        let labels = node.metadata.labels.as_ref();
        Self {
            node: node.metadata.name.clone().unwrap_or_default(),
            zone: zone_of(node),
            ready: is_ready(node),
            counted: labels.is_none_or(|labels| !labels.contains_key(EXCLUDED)),
        }
    }
}

/// The state of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not evaluated yet.
    Initial,
    Normal,
    PartialDisruption,
    FullDisruption,
}

/// A change for the whole cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transition {
    /// No node of any zone is ready: no pod is evicted, and evictions under way are cancelled.
    AllNotReady,
    /// Some nodes are ready again: every node gets its full time again.
    SomeReady,
}

/// The existing zones.
#[derive(Debug)]
pub(super) struct Zones {
    config: NodeLifecycleConfig,
    zones: BTreeMap<Zone, ZoneQueue>,
}

/// The nodes of a zone that wait to be tainted.
#[derive(Debug)]
struct ZoneQueue {
    state: State,
    /// Nodes per second; 0 stops it.
    rate: f64,
    /// The time at which the next node may be tainted.
    next: Duration,
    waiting: VecDeque<String>,
}

impl ZoneQueue {
    fn new(rate: f64) -> Self {
        Self { state: State::Initial, rate, next: Duration::ZERO, waiting: VecDeque::new() }
    }

    fn interval(&self) -> Option<Duration> {
        Duration::try_from_secs_f64(1.0 / self.rate).ok().filter(|_| self.rate > 0.0)
    }

    fn is_open(&self, now: Duration) -> bool {
        self.rate > 0.0 && now >= self.next
    }

    /// Sets the rate. If the next node still had to wait, its wait starts over: the change itself must not release it.
    fn set_rate(&mut self, rate: f64, now: Duration) {
        if (self.rate - rate).abs() < f64::EPSILON {
            return;
        }
        let was_open = self.is_open(now);
        self.rate = rate;
        self.next = now;
        if !was_open {
            self.next = now.saturating_add(self.interval().unwrap_or_default());
        }
    }
}

impl Zones {
    pub(super) fn new(config: NodeLifecycleConfig) -> Self {
        Self { config, zones: BTreeMap::new() }
    }

    /// Evaluates all zones.
    pub(super) fn observe(&mut self, healths: &[Health], now: Duration) -> Option<Transition> {
        let mut sizes: BTreeMap<Zone, (usize, usize)> = BTreeMap::new();
        for health in healths.iter().filter(|h| h.counted) {
            let (ready, silent) = sizes.entry(health.zone.clone()).or_default();
            *(if health.ready { ready } else { silent }) += 1;
        }
        for zone in healths.iter().map(|h| &h.zone) {
            if !self.zones.contains_key(zone) {
                self.zones.insert(zone.clone(), ZoneQueue::new(self.config.node_eviction_rate));
            }
        }
        self.zones.retain(|zone, lane| sizes.contains_key(zone) || !lane.waiting.is_empty());
        let found: BTreeMap<Zone, State> = sizes
            .iter()
            .map(|(zone, (ready, silent))| (zone.clone(), self.zone_state(*ready, *silent)))
            .collect_map();
        let all_are = found.values().all(|state| *state == State::FullDisruption);
        // A zone that has not been evaluated before has no earlier state to compare.
        let (new, known): (Vec<State>, Vec<State>) = (self.zones.iter())
            .filter_map(|(zone, lane)| found.contains_key(zone).then_some(lane.state))
            .partition(|state| *state == State::Initial);
        let all_were = !known.is_empty() && known.iter().all(|state| *state == State::FullDisruption);
        if found.is_empty() || (all_are && all_were && new.is_empty()) {
            return None;
        }
        for (zone, state) in &found {
            let (ready, silent) = sizes[zone];
            let rate = if all_are { 0.0 } else { self.rate(*state, ready + silent) };
            if let Some(lane) = self.zones.get_mut(zone)
                && (lane.state != *state || all_are || all_were)
            {
                lane.state = *state;
                lane.set_rate(rate, now);
            }
        }
        match (all_are, all_were) {
            (true, _) => Some(Transition::AllNotReady),
            (_, true) => Some(Transition::SomeReady),
            _ => None,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "no zone has 2^52 nodes")]
    fn zone_state(&self, ready: usize, silent: usize) -> State {
        let share = silent as f64 / (ready + silent).max(1) as f64;
        match () {
            () if ready == 0 && silent > 0 => State::FullDisruption,
            () if silent > 2 && share >= self.config.unhealthy_zone_threshold => State::PartialDisruption,
            () => State::Normal,
        }
    }

    fn rate(&self, state: State, size: usize) -> f64 {
        match state {
            State::Initial | State::Normal | State::FullDisruption => self.config.node_eviction_rate,
            State::PartialDisruption if size > self.config.large_cluster_size_threshold => {
                self.config.secondary_node_eviction_rate
            }
            State::PartialDisruption => 0.0,
        }
    }

    /// Makes an unreachable node wait to be tainted; returns false if it waits already.
    pub(super) fn enqueue_taint(&mut self, node: &str, zone: &Zone) -> bool {
        let there = self.zones.get(zone).is_some_and(|lane| lane.waiting.iter().any(|n| n == node));
        if there {
            return false;
        }
        self.cancel(node);
        let rate = self.config.node_eviction_rate;
        self.zones.entry(zone.clone()).or_insert_with(|| ZoneQueue::new(rate)).waiting.push_back(node.into());
        true
    }

    /// Removes a node that is ready again, or deleted.
    pub(super) fn cancel(&mut self, node: &str) {
        for lane in self.zones.values_mut() {
            lane.waiting.retain(|n| n != node);
        }
    }

    /// Returns the next node to be tainted and removes it from the waiting ones.
    pub(super) fn next(&mut self, now: Duration) -> Option<String> {
        let lane = self.zones.values_mut().find(|lane| lane.is_open(now) && !lane.waiting.is_empty())?;
        lane.next = now.saturating_add(lane.interval()?);
        lane.waiting.pop_front()
    }

    /// Returns the time until the next node may be tainted.
    pub(super) fn wait(&self, now: Duration) -> Option<Duration> {
        let waiting = self.zones.values().filter(|lane| lane.rate > 0.0 && !lane.waiting.is_empty());
        waiting.map(|lane| lane.next.saturating_sub(now)).min()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Parses `ab:xxo`: zone `ab` with two unreachable nodes and one ready one; `e` is excluded and unreachable.
    fn healths(text: &str) -> Vec<Health> {
        let mut all = Vec::new();
        for word in text.split_whitespace() {
            let (zone, nodes) = word.split_once(':').unwrap();
            for (index, letter) in nodes.chars().enumerate() {
                all.push(Health {
                    node: format!("{zone}{index}"),
                    zone: [String::new(), zone.into()],
                    ready: letter == 'o',
                    counted: letter != 'e',
                });
            }
        }
        all
    }

    /// Returns the nodes released until `until`, with times.
    fn released_nodes(zones: &mut Zones, from: u64, until: u64) -> String {
        let mut actual = Vec::new();
        for second in from..=until {
            while let Some(node) = zones.next(Duration::from_secs(second)) {
                actual.push(format!("{node}@{second}"));
            }
        }
        actual.join(" ")
    }

    fn after(states: &[&str]) -> (Zones, Option<Transition>) {
        let mut zones = Zones::new(NodeLifecycleConfig::default());
        let mut transition = None;
        for state in states {
            transition = zones.observe(&healths(state), Duration::ZERO);
        }
        (zones, transition)
    }

    fn enqueue_all(zones: &mut Zones, zone: &str, nodes: usize) {
        for n in 0..nodes {
            assert!(zones.enqueue_taint(&format!("{zone}{n}"), &[String::new(), zone.into()]));
        }
    }

    #[test]
    fn a_zone_drives_away_as_fast_as_its_health_allows_node_2() {
        let large = |silent: usize, ready: usize| format!("a:{}{}", "x".repeat(silent), "o".repeat(ready));
        for (rule, states, expected) in [
            ("normal: one in ten seconds", vec!["a:xxo b:o".to_string()], "a0@0 a1@10 a2@20"),
            ("a silent zone beside others is believed", vec!["a:xxx b:o".into()], "a0@0 a1@10 a2@20"),
            ("half of a small zone is not", vec!["a:xxxoo b:o".into()], ""),
            ("below the threshold it is", vec!["a:xxxooo b:o".into()], "a0@0 a1@10 a2@20"),
            ("most of a large zone slowly", vec![large(29, 23)], "a0@0 a1@100 a2@200"),
            ("most of one not so large never", vec![large(28, 22)], ""),
            ("excluded nodes do not count", vec!["a:xxooee b:o".into()], "a0@0 a1@10 a2@20"),
            ("no node is ready: no pod is evicted", vec!["a:xxx b:x".into()], ""),
            ("nor in a zone that comes then", vec!["b:x".into(), "b:x a:xxx".into()], ""),
            (
                "no node was ready: the first eviction waits",
                vec!["a:xxx b:x".into(), "a:xxx b:o".into()],
                "a0@10 a1@20 a2@30",
            ),
        ] {
            let states: Vec<&str> = states.iter().map(String::as_str).collect();
            let (mut zones, _) = after(&states);
            enqueue_all(&mut zones, "a", 3);
            assert_eq!(released_nodes(&mut zones, 0, 300), expected, "{rule}");
        }
    }

    #[test]
    fn losing_all_nodes_and_regaining_some_are_reported_once_each_node_2() {
        for (states, expected) in [
            (vec!["a:oo b:o"], None),
            (vec!["a:oo b:o", "a:xx b:o"], None),
            (vec!["a:xx b:o", "a:xx b:x"], Some(Transition::AllNotReady)),
            (vec!["a:xx b:x", "a:xx b:x"], None),
            (vec!["a:xx b:x", "a:xo b:x"], Some(Transition::SomeReady)),
            (vec!["a:xx b:x", "a:xo b:x", "a:oo b:o"], None),
            // A new zone with a ready node ends it too.
            (vec!["a:xx", "a:xx b:o"], Some(Transition::SomeReady)),
            (vec!["a:xx", "a:"], None),
            (vec!["a:xx", "a:xx b:x"], Some(Transition::AllNotReady)),
        ] {
            assert_eq!(after(&states).1, expected, "{states:?}");
        }
    }

    #[test]
    fn a_node_waits_once_and_no_longer_when_it_is_heard_node_2() {
        let (mut zones, _) = after(&["a:xxo b:o"]);
        let zone = |name: &str| [String::new(), name.to_string()];
        enqueue_all(&mut zones, "a", 3);
        assert!(!zones.enqueue_taint("a1", &zone("a")));
        assert_eq!(zones.next(Duration::ZERO).as_deref(), Some("a0"));
        assert_eq!(zones.wait(Duration::from_secs(4)), Some(Duration::from_secs(6)));
        zones.cancel("a1");
        assert!(zones.enqueue_taint("a2", &zone("b")), "it moved");
        assert_eq!(released_nodes(&mut zones, 1, 30), "a2@1");
        assert_eq!(zones.wait(Duration::from_secs(31)), None);
    }

    #[test]
    fn zones_are_regions_and_zones_node_2() {
        let node = |labels: serde_json::Value| -> Node {
            serde_json::from_value(json!({"metadata": {"name": "n", "labels": labels}})).unwrap()
        };
        let of = |labels| zone_of(&node(labels)).join("/");
        assert_eq!(of(json!({})), "/");
        assert_eq!(
            of(json!({"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"})),
            "r/z"
        );
        assert_eq!(of(json!({"failure-domain.beta.kubernetes.io/zone": "z"})), "/z");
    }
}
