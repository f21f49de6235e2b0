//! The message of an eviction, in the kubelet's words, which end with a blank.

use std::fmt::Write;

use super::rank::{Candidate, requested_as};
use crate::pressure::{Condition, Threshold};
use crate::pressure::{Observations, Signal};
use crate::spec;
use object::quantity::Amount;

/// Formats an amount as a quantity: `64Mi`, `1500Ki`, `17`.
fn format_amount(signal: Signal, amount: i64) -> String {
    let amount = Amount::from_units(amount);
    match signal {
        Signal::MemoryAvailable | Signal::NodefsAvailable => amount.to_binary().0,
        Signal::NodefsInodesFree | Signal::PidAvailable => amount.to_decimal().0,
    }
}

pub(super) fn node_was_low(threshold: &Threshold, seen: &Observations, victim: &Candidate) -> String {
    let signal = threshold.signal;
    let resource = signal.resource();
    let mut text = format!("The node was low on resource: {resource}. ");
    if let Some(seen) = seen.get(&signal) {
        let (limit, left) = (threshold.limit.of(seen.capacity), seen.available);
        let (limit, left) = (format_amount(signal, limit), format_amount(signal, left));
        let _ = write!(text, "Threshold quantity: {limit}, available: {left}. ");
    }
    let Some(requested) = requested_as(signal).filter(|_| signal != Signal::NodefsInodesFree) else {
        return text;
    };
    for (name, used) in victim.used.iter().flatten() {
        let Some((_, container)) = spec::container(&victim.pod, name) else { continue };
        let requests = container.resources.as_ref().and_then(|r| r.requests.as_ref());
        let request = requests.and_then(|r| r.get(requested));
        if *used > request.map_or(0, |q| Amount::of(q).units()) {
            let used = format_amount(signal, *used);
            let request = request.map_or("0", |q| q.0.as_str());
            let _ = write!(
                text,
                "Container {name} was using {used}, request is {request}, \
                 has larger consumption of {resource}. "
            );
        }
    }
    text
}

pub(super) fn node_had_conditions(conditions: &[Condition]) -> String {
    let names: Vec<&str> = conditions.iter().map(|c| c.text()).collect();
    format!("The node had condition: [{}]. ", names.join(", "))
}

pub(super) fn empty_dir_full(volume: &str, limit: &str) -> String {
    format!("Usage of EmptyDir volume \"{volume}\" exceeds the limit \"{limit}\". ")
}

pub(super) fn container_full(container: &str, limit: &str) -> String {
    format!("Container {container} exceeded its local ephemeral storage limit \"{limit}\". ")
}

pub(super) fn pod_full(limit: &str) -> String {
    format!("Pod ephemeral local storage usage exceeds the total limit of containers {limit}. ")
}
