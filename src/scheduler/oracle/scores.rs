//! The scores of feasible nodes by the formulas of the Kubernetes pages, from the objects alone.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Pod, PodAffinityTerm};

use super::model::{Model, constraints, counts, is_about, label, required_terms};
use object::node_selector::NodeTerm;
use object::quantity::Amount;
use object::resources::{pod_requests, pod_requests_or};
use object::taint::tolerates;
use object::well_known::label::HOSTNAME;

type Scores = BTreeMap<String, f64>;

/// Returns the nodes with the highest sum of weighted scores.
pub(super) fn best(model: &Model, pod: &Pod, feasible: &BTreeSet<String>) -> BTreeSet<String> {
    let mut totals: BTreeMap<String, i64> = BTreeMap::new();
    for (weight, scores) in [
        (3, avoided_taints(model, pod, feasible)),
        (2, preferred_nodes(model, pod, feasible)),
        (1, free_share(model, pod, feasible)),
        (2, spread(model, pod, feasible)),
        (2, company(model, pod, feasible)),
        (1, balance(model, pod, feasible)),
        (1, images(model, pod, feasible)),
    ] {
        for (node, score) in scores {
            // Kubernetes' scores are truncated to whole numbers.
            *totals.entry(node).or_default() += weight * (score + 1e-9) as i64;
        }
    }
    let highest = totals.values().max().copied();
    totals.into_iter().filter(|(_, total)| Some(*total) == highest).map(|(node, _)| node).collect()
}

fn each(model: &Model, feasible: &BTreeSet<String>, score: impl Fn(&str, &Node) -> f64) -> Scores {
    feasible.iter().map(|name| (name.clone(), score(name, &model.nodes[name]))).collect()
}

fn max_score(scores: &Scores) -> f64 {
    scores.values().copied().fold(f64::MIN, f64::max)
}

fn least(scores: &Scores) -> f64 {
    scores.values().copied().fold(f64::MAX, f64::min)
}

/// Untolerated PreferNoSchedule taints: 100 for none, 0 for the most.
fn avoided_taints(model: &Model, pod: &Pod, feasible: &BTreeSet<String>) -> Scores {
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.clone()).unwrap_or_default();
    let avoided = each(model, feasible, |_, node| {
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        let avoided = taints.iter().filter(|taint| taint.effect == "PreferNoSchedule");
        avoided.filter(|taint| !tolerations.iter().any(|t| tolerates(t, taint))).count() as f64
    });
    let most = max_score(&avoided).max(1.0);
    avoided.into_iter().map(|(node, count)| (node, 100.0 - (count * 100.0 / most).floor())).collect()
}

/// The weights of the terms that match, 100 for the highest sum.
fn preferred_nodes(model: &Model, pod: &Pod, feasible: &BTreeSet<String>) -> Scores {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let node_affinity = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
    let wishes = node_affinity.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.clone());
    let wishes = wishes.unwrap_or_default();
    let sums = each(model, feasible, |_, node| {
        let matching = wishes.iter().filter(|wish| NodeTerm::new(&wish.preference).matches(node));
        matching.map(|wish| f64::from(wish.weight)).sum()
    });
    let most = max_score(&sums).max(1.0);
    sums.into_iter().map(|(node, sum)| (node, (sum * 100.0 / most).floor())).collect()
}

fn has(node: &Node, resource: &str) -> f64 {
    let list = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let amount = Amount::in_list(list, resource);
    if resource == "cpu" { amount.millis() as f64 } else { amount.units() as f64 }
}

fn request_of(pod: &Pod, resource: &str, at_least_a_little: bool) -> f64 {
    let little = [("cpu", Amount::from_millis(100)), ("memory", Amount::from_units(200 << 20))];
    let all = if at_least_a_little { pod_requests_or(pod, &little) } else { pod_requests(pod) };
    let amount = all.get(resource).copied().unwrap_or_default();
    if resource == "cpu" { amount.millis() as f64 } else { amount.units() as f64 }
}

fn used(model: &Model, pod: &Pod, name: &str, resource: &str, at_least_a_little: bool) -> f64 {
    let there: f64 = model.on(name).map(|other| request_of(other, resource, at_least_a_little)).sum();
    there + request_of(pod, resource, at_least_a_little)
}

/// LeastAllocated: the mean of the free shares of cpu and memory, each truncated.
fn free_share(model: &Model, pod: &Pod, feasible: &BTreeSet<String>) -> Scores {
    each(model, feasible, |name, node| {
        let free = ["cpu", "memory"].map(|resource| {
            let (has, used) = (has(node, resource), used(model, pod, name, resource, true));
            if used > has { 0.0 } else { ((has - used) * 100.0 / has).floor() }
        });
        (f64::midpoint(free[0], free[1])).floor()
    })
}

/// (1 − the standard deviation of the used shares) · 100; nothing for a pod that requests neither.
fn balance(model: &Model, pod: &Pod, feasible: &BTreeSet<String>) -> Scores {
    if request_of(pod, "cpu", false) == 0.0 && request_of(pod, "memory", false) == 0.0 {
        return Scores::new();
    }
    each(model, feasible, |name, node| {
        let share = |resource| (used(model, pod, name, resource, false) / has(node, resource)).min(1.0);
        let (cpu, memory) = (share("cpu"), share("memory"));
        (1.0 - (cpu - memory).abs() / 2.0) * 100.0
    })
}

/// For each constraint `count · ln(domains + 2) + (maxSkew − 1)`, then `100 · (max + min − s) / max`.
fn spread(model: &Model, pod: &Pod, feasible: &BTreeSet<String>) -> Scores {
    let wishes = constraints(pod, "ScheduleAnyway");
    if wishes.is_empty() {
        return Scores::new();
    }
    let complete = |node: &Node| wishes.iter().all(|wish| label(node, &wish.topology_key).is_some());
    let raw = each(model, feasible, |name, node| {
        if !complete(node) {
            return -1.0;
        }
        let sum: f64 = wishes
            .iter()
            .map(|wish| {
                let domains: BTreeSet<&String> = feasible
                    .iter()
                    .map(|name| &model.nodes[name])
                    .filter(|node| complete(node))
                    .filter_map(|node| label(node, &wish.topology_key))
                    .collect();
                let count = if wish.topology_key == HOSTNAME {
                    model.on(name).filter(|other| counts(wish, pod, other)).count()
                } else {
                    let domain = label(node, &wish.topology_key).expect("it is complete");
                    model.spread_counts(wish, &wishes, pod).get(domain).copied().unwrap_or(0)
                };
                count as f64 * (domains.len() as f64 + 2.0).ln() + f64::from(wish.max_skew - 1)
            })
            .sum();
        sum.round()
    });
    let valid: Scores = raw.iter().filter(|(_, s)| **s >= 0.0).map(|(n, s)| (n.clone(), *s)).collect();
    let (most, least) = (max_score(&valid), least(&valid));
    let normal = |score: f64| match score {
        s if s < 0.0 => 0.0,
        _ if most == 0.0 => 100.0,
        s => (100.0 * (most + least - s) / most).floor(),
    };
    raw.into_iter().map(|(node, score)| (node, normal(score))).collect()
}

/// The weights of all preferences between the pod and existing ones, scaled from 0 to 100.
fn company(model: &Model, pod: &Pod, feasible: &BTreeSet<String>) -> Scores {
    let raw = each(model, feasible, |_, node| {
        let in_its_domain = |term: &PodAffinityTerm, on: &Node| {
            let domain = label(node, &term.topology_key);
            domain.is_some() && domain == label(on, &term.topology_key)
        };
        let mut sum = 0.0;
        for (other, on) in model.placed() {
            for (weight, term) in wishes(pod) {
                sum += if in_its_domain(term, on) && is_about(term, pod, other) { weight } else { 0.0 };
            }
            let hard = required_terms(other, false).into_iter().map(|term| (1.0, term));
            for (weight, term) in wishes(other).into_iter().chain(hard) {
                sum += if in_its_domain(term, on) && is_about(term, other, pod) { weight } else { 0.0 };
            }
        }
        sum
    });
    let (most, least) = (max_score(&raw), least(&raw));
    let stretch = |score: f64| if most > least { 100.0 * ((score - least) / (most - least)) } else { 0.0 };
    // Truncated from the float division: its error must not be corrected here.
    raw.into_iter().map(|(node, score)| (node, stretch(score).trunc())).collect()
}

/// Returns the preferred terms of a pod; those of anti-affinity have a negative weight.
fn wishes(pod: &Pod) -> Vec<(f64, &PodAffinityTerm)> {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let to = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let against = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let to = to.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
    let against = against.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
    let to = to.into_iter().flatten().map(|wish| (f64::from(wish.weight), &wish.pod_affinity_term));
    let against =
        against.into_iter().flatten().map(|wish| (-f64::from(wish.weight), &wish.pod_affinity_term));
    to.chain(against).collect()
}

/// The size of the pod's image on nodes that have it, scaled by the share of such nodes, from 23 MiB to 1000.
fn images(model: &Model, pod: &Pod, feasible: &BTreeSet<String>) -> Scores {
    let has_it =
        |node: &Node| node.status.as_ref().and_then(|s| s.images.as_ref()).is_some_and(|i| !i.is_empty());
    let uses_image =
        pod.spec.iter().flat_map(|spec| &spec.containers).any(|c| c.image.as_deref() == Some("big:1"));
    let share = model.nodes.values().filter(|node| has_it(node)).count() as f64 / model.nodes.len() as f64;
    each(model, feasible, |_, node| {
        let size =
            if uses_image && has_it(node) { (800.0 * f64::from(1 << 20) * share).floor() } else { 0.0 };
        let (from, to) = (23.0 * f64::from(1 << 20), 1000.0 * f64::from(1 << 20));
        (100.0 * (size.clamp(from, to) - from) / (to - from)).floor()
    })
}
