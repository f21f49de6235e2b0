//! What is said of a fault: its status, and words for events.

use fabric::DelayCounts;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use api::{Api, ApiError};
use object::Shared;
use object::conditions::{self, ConditionStatus};
use object::fault::{ACTIVE, EXPIRED, Fault, FaultStatus, SELECTED};
use object::time::go_duration;
use reconcile::ignore_not_found;

use super::plan::Planned;

/// What is said of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) is_active: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// Whom it meets.
    meets: Option<String>,
    /// Whether there is anybody.
    is_somebody: Option<bool>,
    is_over: bool,
}

impl Said {
    /// Of what was planned, and whether the kernel refuses it.
    pub(super) fn of(fault: &Fault, planned: &Planned, is_refused: bool) -> Self {
        let not = |reason, message: String| Self {
            is_active: false,
            reason,
            message,
            meets: None,
            is_somebody: None,
            is_over: false,
        };
        match planned {
            Planned::InForce(_) if is_refused => {
                not("RulesRefused", "the kernel does not take its rules yet; they are tried again".to_owned())
            }
            Planned::InForce(met) => Self {
                is_active: true,
                reason: "InForce",
                message: format!("{} between {}", what(fault), met.words),
                meets: Some(met.words.clone()),
                is_somebody: Some(met.is_somebody),
                is_over: false,
            },
            Planned::Not { reason, message } => not(reason, message.clone()),
            Planned::Over => {
                let lasted = fault.duration().map(go_duration).unwrap_or_default();
                Self { is_over: true, ..not(EXPIRED, format!("it was in force for {lasted}")) }
            }
        }
    }

    /// Writes it into the status, where that says something else; whether it did.
    pub(super) fn write(&self, api: &Api, fault: &Shared<Fault>) -> bool {
        let now = api.clock().time();
        if Some(&self.status(fault, &now)) == fault.status.as_ref() {
            return false;
        }
        let uid = fault.uid();
        let written = api.modify_status::<Fault>(&fault.key(), |fault| {
            // Another of its name is none of this one's business.
            if fault.metadata.uid.as_deref() == Some(uid) {
                fault.status = Some(self.status(fault, &now));
            }
            Ok::<(), ApiError>(())
        });
        match ignore_not_found(written) {
            Ok(()) => true,
            Err(error) => {
                // The next change of anything tries again.
                tracing::warn!("the status of fault {} was not written: {error}", fault.name());
                false
            }
        }
    }

    fn status(&self, fault: &Fault, now: &Time) -> FaultStatus {
        let mut status = fault.status.clone().unwrap_or_default();
        status.observed_generation = fault.metadata.generation;
        if self.is_active {
            status.started_at.get_or_insert_with(|| now.clone());
            status.meets.clone_from(&self.meets);
        }
        if self.is_over {
            status.ended_at.get_or_insert_with(|| now.clone());
        }
        let condition = |type_: &str, holds: bool, reason: &str, message: &str| Condition {
            type_: type_.to_owned(),
            status: ConditionStatus::from(holds).into(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            observed_generation: fault.metadata.generation,
            last_transition_time: now.clone(),
        };
        let all = status.conditions.get_or_insert_default();
        conditions::set(all, condition(ACTIVE, self.is_active, self.reason, &self.message));
        if let Some(is_somebody) = self.is_somebody {
            let (reason, message) = if is_somebody {
                ("Found", "each side has an address")
            } else {
                ("NobodyFound", "a side has no address in the pods' network: nobody is met until it has one")
            };
            conditions::set(all, condition(SELECTED, is_somebody, reason, message));
        }
        status
    }
}

/// Whether a fault was said to be in force.
pub(super) fn was_active(fault: &Fault) -> bool {
    conditions::is_true(fault.status.as_ref().and_then(|status| status.conditions.as_ref()), ACTIVE)
}

/// Why it was said to be or not to be.
pub(super) fn reason(fault: &Fault) -> Option<String> {
    let conditions = fault.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions::get(conditions, ACTIVE).map(|active| active.reason.clone())
}

/// `Loss of 100 of 1000 packets`
fn what(fault: &Fault) -> String {
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

/// What an event says of a fault that ended.
pub(super) fn ended(how: &str, fault: &Fault, counts: Option<&DelayCounts>) -> String {
    let packets = counts.map(|counts| {
        format!(": {} packets were delayed, {} had no room and were dropped", counts.delayed, counts.dropped)
    });
    format!("{} {how}{}", what(fault), packets.unwrap_or_default())
}
