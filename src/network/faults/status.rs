//! The status of a network fault, and texts for events.

use fabric::DelayCounts;

use extension::fault::Fault;
use operators::faults::{FaultState, NO_TARGET};

use super::plan::FaultDecision;

/// Returns the state of a fault from the decision about it and from whether the kernel refuses its rules.
pub(super) fn state(fault: &Fault, planned: &FaultDecision, is_refused: bool) -> FaultState {
    match planned {
        FaultDecision::InForce(_) if is_refused => {
            FaultState::inactive("RulesRefused", "the kernel refused the fault's rules; retrying")
        }
        FaultDecision::InForce(met) => {
            let selected = if met.missing.is_empty() {
                (true, "Found", "each side has an address".to_owned())
            } else {
                let message = format!(
                    "{}: not found, or without an address in the pod network; the fault has no effect until it has one",
                    met.missing.join(", ")
                );
                (false, NO_TARGET, message)
            };
            // A fault begins when its sides exist; one that has started continues while pods are replaced.
            let has_started = fault.status.as_ref().is_some_and(|status| status.started_at.is_some());
            if !selected.0 && !has_started {
                let message = selected.2.clone();
                return FaultState { selected: Some(selected), ..FaultState::inactive(NO_TARGET, message) };
            }
            FaultState {
                is_active: true,
                reason: "InForce",
                message: format!("{} between {}", describe_fault(fault), met.description),
                meets: Some(met.description.clone()),
                selected: Some(selected),
                is_over: false,
            }
        }
        FaultDecision::Inactive { reason, message } => FaultState::inactive(reason, message.clone()),
        FaultDecision::Expired => FaultState::expired(fault),
    }
}

/// Describes the effect: `Loss of 100 of 1000 packets`.
fn describe_fault(fault: &Fault) -> String {
    let spec = &fault.spec;
    if let Some(latency) = &spec.latency {
        let jitter =
            latency.jitter.as_ref().map(|jitter| format!(" and up to {jitter} more")).unwrap_or_default();
        return format!("Latency of {}{jitter}", latency.delay);
    }
    if let Some(loss) = &spec.loss {
        return format!("Loss of {} of 1000 packets", loss.per_mille);
    }
    match (&spec.rate, spec.refuse.as_ref().and_then(|refuse| refuse.with.as_ref())) {
        (Some(rate), _) => format!("Rate of {} bytes a second", rate.bytes_per_second),
        (None, Some(with)) => format!("Refusal ({with})"),
        (None, None) => spec.type_.clone(),
    }
}

/// Returns the event message about a fault that ended.
pub(super) fn ended(how: &str, fault: &Fault, counts: Option<&DelayCounts>) -> String {
    let packets = counts.map(|counts| {
        format!(
            ": {} packets were delayed, {} were dropped because the queue was full",
            counts.delayed, counts.dropped
        )
    });
    format!("{} {how}{}", describe_fault(fault), packets.unwrap_or_default())
}
