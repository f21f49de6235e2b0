//! The life cycle of Fault objects of every type: their start and end, their status, and the events for both (FAULT-1).
//!
//! Architecture Invariant: nothing here knows what a fault's type does. Objects are the only state: a restarted process
//! reads its whole state from them again.

use std::collections::{BTreeSet, HashMap};

use base::clock::{ClockReading, saturating_after};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use api::Api;
use extension::fault::{ACTIVE, EXPIRED, Fault, FaultStatus, SELECTED};
use object::SharedObject;
use object::conditions::{self};
use object::time::go_duration;

use reconcile::{Recorder, ignore_not_found, preconditions};

/// A fault's state, as its status reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultState {
    /// The fault is in force.
    pub is_active: bool,
    /// The reason of the Active condition.
    pub reason: &'static str,
    /// The message of the Active condition.
    pub message: String,
    /// A description of the targets the fault affects.
    pub meets: Option<String>,
    /// The Selected condition: true if any target exists, with reason and message; `None` if targets are not checked.
    pub selected: Option<(bool, &'static str, String)>,
    /// The fault has ended and will not start again.
    pub is_over: bool,
}

impl FaultState {
    /// Creates the state of a fault that is not in force.
    pub fn inactive(reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { is_active: false, reason, message, meets: None, selected: None, is_over: false }
    }

    /// Creates the state of a fault that has reached the end of its duration.
    pub fn expired(fault: &Fault) -> Self {
        let lasted = fault.duration().map(go_duration).unwrap_or_default();
        Self { is_over: true, ..Self::inactive(EXPIRED, format!("the fault was in force for {lasted}")) }
    }

    fn status(&self, fault: &Fault, now: &Time) -> FaultStatus {
        let mut status = fault.status.clone().unwrap_or_default();
        status.observed_generation = fault.metadata.generation;
        if self.is_active {
            status.started_at.get_or_insert_with(|| now.clone());
        }
        if self.meets.is_some() {
            status.meets.clone_from(&self.meets);
        }
        if self.is_over {
            status.ended_at.get_or_insert_with(|| now.clone());
        }
        let condition = |type_: &str, holds: bool, reason: &str, message: &str| Condition {
            observed_generation: fault.metadata.generation,
            ..conditions::new(type_, holds, reason, message, now.clone())
        };
        let all = status.conditions.get_or_insert_default();
        conditions::set(all, condition(ACTIVE, self.is_active, self.reason, &self.message));
        if let Some((has_targets, reason, message)) = &self.selected {
            conditions::set(all, condition(SELECTED, *has_targets, reason, message));
        }
        status.from = Some(fault.first_side_text());
        status.to = Some(fault.second_side_text());
        status.duration = Some(fault.spec.duration.clone().unwrap_or_else(|| "<none>".to_owned()));
        status.active = Some(status.active_text());
        status
    }

    /// Writes the state into the fault's status. Returns false if the status has it already or the write failed.
    fn write(&self, api: &Api, fault: &SharedObject<Fault>) -> bool {
        let now = api.clock().time();
        if Some(&self.status(fault, &now)) == fault.status.as_ref() {
            return false;
        }
        let written = preconditions::modify_status(api, fault, |fault| {
            fault.status = Some(self.status(fault, &now));
        });
        match ignore_not_found(written) {
            Ok(()) => true,
            Err(error) => {
                // The next change that the caller handles tries again.
                tracing::warn!("cannot write the status of fault {}: {error}", fault.name());
                false
            }
        }
    }
}

/// The faults of one component, and the ones in force.
pub struct FaultTracker {
    api: Api,
    recorder: Recorder,
    /// The start of each fault on the steady clock, by uid.
    began: HashMap<String, Timestamp>,
    /// The faults in force, by uid; events about deleted ones need their objects.
    active: HashMap<String, SharedObject<Fault>>,
}

impl FaultTracker {
    /// Creates a tracker without faults, which records its events as `component`.
    pub fn new(api: &Api, component: &'static str) -> Self {
        Self {
            api: api.clone(),
            recorder: Recorder::new(api, component),
            began: HashMap::new(),
            active: HashMap::new(),
        }
    }

    /// Takes the list of all faults. A fault that an earlier process started continues from its recorded start.
    pub fn observe(&mut self, all: &[SharedObject<Fault>], now: ClockReading) {
        for fault in all {
            if let Some(at) = fault.status.as_ref().and_then(|status| status.started_at.as_ref()) {
                self.began.entry(fault.uid().to_owned()).or_insert_with(|| now.steady_of(at.0));
            }
        }
        self.began.retain(|uid, _| all.iter().any(|fault| fault.uid() == uid));
    }

    /// Returns the end of a fault's duration on the steady clock; `None` if it has no duration or has not started.
    fn deadline(&self, fault: &Fault) -> Option<Timestamp> {
        let began = self.began.get(fault.metadata.uid.as_deref()?)?;
        Some(saturating_after(*began, fault.duration()?))
    }

    /// Returns true if a fault's duration has passed.
    pub fn is_over(&self, fault: &Fault, now: ClockReading) -> bool {
        self.deadline(fault).is_some_and(|at| at <= now.steady)
    }

    /// Returns the next end of a fault in force, on the steady clock.
    pub fn soonest(&self) -> Option<Timestamp> {
        self.active.values().filter_map(|fault| self.deadline(fault)).min()
    }

    /// Returns true if the fault is in force according to the last reports.
    pub fn is_in_force(&self, fault: &Fault) -> bool {
        fault.metadata.uid.as_ref().is_some_and(|uid| self.active.contains_key(uid))
    }

    /// Reports a fault's state: writes its status, and records an event if the state is new. `ended` makes the
    /// message of the event for a fault that has ended.
    pub fn report(
        &mut self,
        fault: &SharedObject<Fault>,
        state: &FaultState,
        ended: impl FnOnce() -> String,
    ) {
        let uid = fault.uid().to_owned();
        if state.is_active {
            self.began.entry(uid.clone()).or_insert_with(|| self.api.clock().steady());
            self.active.insert(uid, fault.clone());
        } else {
            self.active.remove(&uid);
        }
        let conditions = fault.status.as_ref().and_then(|status| status.conditions.as_ref());
        let was_active = conditions::is_true(conditions, ACTIVE);
        let was = conditions::get(conditions, ACTIVE).map(|active| active.reason.clone());
        if !state.write(&self.api, fault) {
            return;
        }
        let about = fault.object();
        if state.is_active && !was_active {
            self.recorder.normal(about, "FaultStarted", state.message.clone());
        } else if state.is_over {
            self.recorder.normal(about, "FaultEnded", ended());
        } else if !state.is_active && was.as_deref() != Some(state.reason) {
            self.recorder.warning(about, state.reason, state.message.clone());
        }
    }

    /// Takes the list of all faults and records an event for each deleted one that was in force, with the message
    /// that `ended` makes.
    pub fn remove_deleted(
        &mut self,
        all: &[SharedObject<Fault>],
        ended: impl Fn(&SharedObject<Fault>) -> String,
    ) {
        let uids: BTreeSet<&str> = all.iter().map(SharedObject::uid).collect();
        let deleted: Vec<String> =
            self.active.keys().filter(|uid| !uids.contains(uid.as_str())).cloned().collect();
        for uid in deleted {
            if let Some(fault) = self.active.remove(&uid) {
                self.recorder.normal(fault.object(), "FaultEnded", ended(&fault));
            }
        }
    }
}
