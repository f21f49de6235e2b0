//! Ending a pod for others' sake: it gets the DisruptionTarget condition and is then deleted.

use k8s_openapi::api::core::v1::Pod;

use super::outcome::found;
use crate::api::{Api, ApiError, DeleteOptions};
use crate::object::pod::disruption::{self, Cause};
use crate::object::pod::{Phase, is_terminal};
use crate::object::{Kind, Shared};

/// How a pod is ended.
#[derive(Clone, Copy, Debug)]
pub struct Disruption<'d> {
    /// Who ends it.
    pub cause: Cause,
    /// Why, for people.
    pub message: &'d str,
    /// Whether it counts as failed at once: nobody is left who could end it. One that has ended is not marked.
    pub fails: bool,
    /// The time it is left to end, in seconds; none = its own.
    pub grace_seconds: Option<i64>,
}

/// Puts the DisruptionTarget condition on the pod and deletes it. False for one that is gone, or another of its name
/// by now.
pub fn disrupt(api: &Api, pod: &Shared<Pod>, disruption: &Disruption<'_>) -> Result<bool, ApiError> {
    let now = api.clock().time();
    let marked = api.modify_status::<Pod>(&pod.key(), |fresh| {
        let is_same = fresh.metadata.uid.as_deref() == Some(pod.uid());
        if is_same && !(disruption.fails && is_terminal(fresh)) {
            if disruption.fails {
                fresh.status.get_or_insert_default().phase = Some(Phase::Failed.into());
            }
            disruption::mark(fresh, disruption.cause, disruption.message, &now);
        }
        Ok(())
    });
    if found(marked)?.is_none() {
        return Ok(false);
    }
    let options =
        DeleteOptions { grace_period_seconds: disruption.grace_seconds, ..DeleteOptions::uid(pod.uid()) };
    match api.delete(Kind::Pod, &pod.key(), &options) {
        Ok(_) => Ok(true),
        Err(error) if error.is_gone() => Ok(false),
        Err(error) => Err(error),
    }
}
