//! Node-pressure eviction (NODE-4): a node under pressure reports it and evicts pods, one at a time, first those that
//! use more than they requested.
//!
//! `pressure` decides when to evict, `reclaim` frees what no pod needs before, `rank` orders the candidates, and
//! `message` words the reason; this file measures the machine, evicts the victim and reports. All nodes of one machine come under pressure together, so only one of
//! them evicts a pod at a time.

mod disk;
mod local_storage;
mod message;
mod rank;
mod reclaim;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::node::{Node, report};
use super::pod_workers::{PodEvent, PodWorkers};
use super::pressure::{self, Condition, Observations, Signal, Threshold};
use super::runtime::PodUid;
use super::spec;
use base::clock::since;
use base::sort::{CollectMap, SliceOrder};
use object::pod::{is_from_file, is_terminal};
use object::{Key, Kind, SharedObject};
use rank::Candidate;
use reconcile::{EventType, reference_to};

/// Grace period of containers in a hard eviction.
const HARD_GRACE: std::time::Duration = std::time::Duration::from_secs(1);
/// The maximum wait for the end of one victim before the next is chosen.
const VICTIM_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);
/// Pods of this priority and above are never evicted.
pub(crate) const SYSTEM_CRITICAL: i32 = 2_000_000_000;

/// Checks the machine periodically.
pub(super) async fn watch(workers: Arc<PodWorkers>) {
    loop {
        workers.context.clock.sleep(workers.context.timings.eviction_monitoring_period.0).await;
        let nodes = workers.nodes();
        local_storage::enforce(&workers, &nodes).await;
        // A disk that a fault fills affects its node alone.
        let is_alone = |node: &Arc<Node>| node.config.hollow || node.disk.is_full();
        let (alone, together): (Vec<_>, Vec<_>) = nodes.into_iter().partition(is_alone);
        control(&workers, &together).await;
        for node in alone {
            control(&workers, &[node]).await;
        }
    }
}

/// Measures the machine of a node; `None` for a hollow node without simulated values.
fn observe(node: &Node) -> Option<Observations> {
    let seen = node
        .eviction
        .pretended()
        .or_else(|| (!node.config.hollow).then(|| pressure::read(&node.config.pods_dir)));
    if !node.disk.is_full() {
        // Plenty of disk space withdraws the conditions that a fault on a hollow node has left.
        let is_left = seen.is_none() && !node.eviction.conditions().is_empty();
        return seen.or_else(|| is_left.then(|| pressure::ample(Signal::NodefsAvailable)));
    }
    let mut seen = seen.unwrap_or_default();
    pressure::exhaust(&mut seen, Signal::NodefsAvailable);
    Some(seen)
}

/// Updates the conditions of the nodes of one machine and evicts a pod if necessary.
async fn control(workers: &Arc<PodWorkers>, nodes: &[Arc<Node>]) {
    let mut short: Option<(Threshold, Observations)> = None;
    for node in nodes {
        let Some(observations) = observe(node) else { continue };
        let now = workers.context.clock.steady();
        let (changed, threshold) = {
            let mut thresholds = node.eviction.thresholds.lock();
            let before = thresholds.conditions().to_vec();
            let config = &node.config.eviction;
            // A disk that a fault fills counts as full even if disks are not watched.
            let threshold = if node.disk.is_full() {
                thresholds.update(&config.watching(Signal::NodefsAvailable), &observations, now)
            } else {
                thresholds.update(config, &observations, now)
            };
            (differences(&before, thresholds.conditions()), threshold)
        };
        if !changed.is_empty() {
            record_conditions(workers, node, &changed);
        }
        if let Some(threshold) = threshold {
            record_event(
                workers,
                node,
                EventType::Warning,
                "EvictionThresholdMet",
                &format!("Attempting to reclaim {}", threshold.signal.resource()),
            );
            short.get_or_insert((threshold, observations));
        }
    }
    let Some((threshold, observations)) = short else { return };
    let now = workers.context.clock.steady();
    if nodes.iter().any(|node| is_victim_terminating(workers, node, now)) {
        return;
    }
    if !reclaim::suffices(workers, nodes, &threshold).await {
        evict_one(workers, nodes, &threshold, &observations, now).await;
    }
}

/// Returns the conditions that were added (true) and removed (false).
fn differences(before: &[Condition], now: &[Condition]) -> Vec<(Condition, bool)> {
    let added = now.iter().filter(|c| !before.contains(c)).map(|c| (*c, true));
    added.chain(before.iter().filter(|c| !now.contains(c)).map(|c| (*c, false))).collect()
}

fn record_conditions(workers: &PodWorkers, node: &Node, changed: &[(Condition, bool)]) {
    for (condition, holds) in changed {
        let (reason, _) = condition.reason_and_message(*holds);
        let reason = reason.replace("Kubelet", "Node");
        let message = format!("Node {} status is now: {reason}", node.config.name);
        record_event(workers, node, EventType::Normal, &reason, &message);
    }
    if let Err(error) = report(&workers.context, node) {
        tracing::warn!(node = node.config.name, "cannot write the node's status: {error}");
    }
}

fn record_event(workers: &PodWorkers, node: &Node, type_: EventType, reason: &str, message: &str) {
    if let Ok(object) = workers.context.api.get(Kind::Node, &Key::new("", node.config.name.as_str())) {
        node.recorder.record(reference_to(&object), type_, reason, message.into());
    }
}

/// Returns true if the last victim of a node is still terminating.
fn is_victim_terminating(workers: &PodWorkers, node: &Node, now: Timestamp) -> bool {
    let victim = node.eviction.victim.lock().clone();
    victim.is_some_and(|(uid, since_when)| {
        let has_ended = workers.pod(&uid).is_none_or(|pod| is_terminal(&pod));
        !has_ended && since(now, since_when) < VICTIM_TIMEOUT
    })
}

async fn evict_one(
    workers: &Arc<PodWorkers>,
    nodes: &[Arc<Node>],
    threshold: &Threshold,
    observations: &Observations,
    now: Timestamp,
) {
    let mut candidates = Vec::new();
    for node in nodes {
        let pods = workers.pods_of(&node.config.name);
        let usage = match threshold.signal {
            Signal::NodefsAvailable | Signal::NodefsInodesFree => disk::usage(node, &pods).await,
            Signal::MemoryAvailable | Signal::PidAvailable => counted(node, threshold.signal),
        };
        for pod in pods.into_iter().filter(|pod| !is_terminal(pod) && !is_critical(pod)) {
            let used = usage.get(pod.uid()).cloned();
            candidates.push((node.clone(), Candidate { pod, used }));
        }
    }
    candidates.order_by(|(_, a), (_, b)| rank::order(threshold.signal, a, b));
    let Some((node, victim)) = candidates.into_iter().next() else {
        tracing::warn!("the machine is short of {}, but no pod can be evicted", threshold.signal.resource());
        return;
    };
    let grace = if threshold.is_hard() {
        HARD_GRACE
    } else {
        let most = std::time::Duration::from_secs(node.config.eviction.max_pod_grace_period);
        spec::grace(&victim.pod).min(most)
    };
    let message = message::node_was_low(threshold, observations, &victim);
    let uid = victim.pod.uid().to_string();
    *node.eviction.victim.lock() = Some((uid.clone(), now));
    workers.push_event(&uid, PodEvent::Evict { message, grace, disrupted: true });
}

/// Returns the memory or process ids that each container of each pod uses, by the last measurement.
fn counted(node: &Node, signal: Signal) -> BTreeMap<PodUid, BTreeMap<String, i64>> {
    let meter = node.meter.lock();
    let Some(counters) = meter.counters() else { return BTreeMap::new() };
    let amount = |usage: &super::runtime::Usage| match signal {
        Signal::PidAvailable => i64::from(usage.processes),
        _ => i64::try_from(usage.memory_bytes).unwrap_or(i64::MAX),
    };
    counters
        .iter()
        .map(|(uid, containers)| {
            (uid.clone(), containers.iter().map(|(name, usage)| (name.clone(), amount(usage))).collect_map())
        })
        .collect_map()
}

/// Returns true for static pods and critical pods, which are never evicted.
pub(super) fn is_critical(pod: &Pod) -> bool {
    is_from_file(pod) || spec::spec(pod).priority.is_some_and(|p| p >= SYSTEM_CRITICAL)
}

/// Returns the reason why a new pod may not start on a node in this state; `None` if it may.
pub(super) fn refusal(conditions: &[Condition], pod: &SharedObject<Pod>) -> Option<String> {
    if conditions.is_empty() || is_critical(pod) {
        return None;
    }
    let only_memory = conditions == [Condition::Memory];
    let best_effort = object::resources::qos_class(pod) == "BestEffort";
    if only_memory && (!best_effort || tolerates_memory_pressure(pod)) {
        return None;
    }
    Some(message::node_had_conditions(conditions))
}

fn tolerates_memory_pressure(pod: &Pod) -> bool {
    let taint = k8s_openapi::api::core::v1::Taint {
        key: object::well_known::taint::MEMORY_PRESSURE.into(),
        effect: object::taint::effect::NO_SCHEDULE.into(),
        ..k8s_openapi::api::core::v1::Taint::default()
    };
    spec::spec(pod).tolerations.iter().flatten().any(|t| object::taint::tolerates(t, &taint))
}
