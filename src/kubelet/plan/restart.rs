//! Decides whether a container that does not run may be started now, must wait, or has ended for good.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::image_pull;
use crate::observed::{ObservedPod, RestartBackOff};
use crate::restart_all::RestartAll;
use crate::runtime::ContainerRecord;
use crate::spec::{self, Role};
use base::clock::{saturating_after, since};
use object::config::Timings;

/// The restart state of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestartState {
    /// It runs.
    Running,
    /// It may be started now; `back_off` applies to the restart after this one.
    Start {
        /// `None` for a first start.
        back_off: Option<RestartBackOff>,
    },
    /// It failed and waits (`CrashLoopBackOff`).
    BackOff {
        /// The end of the wait.
        until: Timestamp,
        /// The whole wait.
        delay: Duration,
    },
    /// Its image, or that of a volume of it, is being pulled.
    Pulling {
        /// The end of the pull; an event reports it if it is `None`.
        until: Option<Timestamp>,
    },
    /// Its image, or that of a volume of it, is not available, and the pull is retried later.
    ImageBackOff {
        /// The time of the next attempt.
        until: Timestamp,
        /// The time from which the status reports `ImagePullBackOff`.
        reported_from: Timestamp,
    },
    /// It could not be created and is retried later.
    ErrorWait {
        /// The time of the next attempt.
        until: Timestamp,
    },
    /// It has ended and does not restart.
    Ended,
}

/// The restart state of a container at `now`, regardless of the order in which containers start.
pub(crate) fn restart_state(
    pod: &Pod,
    role: Role,
    container: &Container,
    observed: &ObservedPod,
    now: Timestamp,
    timings: &Timings,
) -> RestartState {
    let memory = observed.memory(&container.name);
    let mut back_off = None;
    if let Some(record) = observed.latest(&container.name) {
        let Some(exit) = &record.exit else { return RestartState::Running };
        // A record from an earlier sandbox says nothing about an init container's work in the new one.
        let counts = role != Role::Init || observed.latest_in_sandbox(&container.name).is_some();
        let for_change = observed.restarts_for_change(record);
        let restart = RestartAll::of(pod, observed);
        let restart = restart.filter(|restart| role != Role::Ephemeral && restart.replaces(record));
        // Containers that restart because of another container's rule need not wait.
        let waits = restart.is_none_or(|restart| restart.trigger.id == record.id);
        let restarts = restart.is_some() || spec::restarts_after(pod, role, container, exit.exit_code);
        if counts && !for_change && !restarts {
            return RestartState::Ended;
        }
        // As in Kubernetes, another image begins with the initial back-off.
        let is_replaced = has_new_image(container, record);
        if counts && waits && (is_replaced || !for_change) {
            let before = memory.back_off.filter(|_| !is_replaced);
            let finished_at = observed.ended_at(record).unwrap_or(now);
            match restart_wait(before, finished_at, timings) {
                Some((until, delay)) if until > now => return RestartState::BackOff { until, delay },
                _ => back_off = Some(next_back_off(before, finished_at, now, timings)),
            }
        }
    }
    if let Some(image) = image_pull::awaited(pod, container, observed, now) {
        let state = observed.image(&image.user);
        if let Some(pull) = image_pull::running(state, now) {
            return RestartState::Pulling { until: pull.until };
        }
        if let Some((until, shown_from)) = image_pull::back_off(state, now) {
            return RestartState::ImageBackOff { until, reported_from: shown_from };
        }
    }
    match &memory.error {
        Some(error) if error.until > now => RestartState::ErrorWait { until: error.until },
        _ => RestartState::Start { back_off },
    }
}

/// Returns true if the container's next attempt will run another image than this one.
pub(super) fn has_new_image(container: &Container, record: &ContainerRecord) -> bool {
    container.image.as_ref().is_some_and(|image| !image.is_empty() && *image != record.image)
}

/// Returns the end of the wait of a container that ended at `finished_at`; `None` if the container may start at once.
fn restart_wait(
    back_off: Option<RestartBackOff>,
    finished_at: Timestamp,
    timings: &Timings,
) -> Option<(Timestamp, Duration)> {
    let back_off = back_off.filter(|b| !forgotten(*b, finished_at, timings))?;
    Some((saturating_after(finished_at, back_off.delay), back_off.delay))
}

/// The back-off after the restart at `now`: doubled, or the initial one again after a long successful run.
fn next_back_off(
    back_off: Option<RestartBackOff>,
    finished_at: Timestamp,
    now: Timestamp,
    timings: &Timings,
) -> RestartBackOff {
    let delay = back_off
        .filter(|b| !forgotten(*b, finished_at, timings))
        .map_or(timings.container_back_off_initial.0, |b| {
            b.delay.saturating_mul(2).min(timings.container_back_off_max.0)
        });
    RestartBackOff { delay, last_start: now }
}

fn forgotten(back_off: RestartBackOff, finished_at: Timestamp, timings: &Timings) -> bool {
    since(finished_at, back_off.last_start) > timings.container_back_off_reset.0
}

/// The text of the BackOff event of a container that keeps failing.
pub(super) fn restart_event(pod: &Pod, name: &str) -> String {
    format!("Back-off restarting failed container {name} in pod {}", spec::pod_label(pod))
}

/// The number of attempts according to the pod's status, used if the runtime knows none: the restartCount of the next
/// attempt.
pub(super) fn attempts_in_status(pod: &Pod, name: &str) -> u32 {
    let Some(known) = spec::container_status(pod, name) else { return 0 };
    let ran = known.container_id.as_ref().is_some_and(|id| !id.is_empty());
    u32::try_from(known.restart_count).unwrap_or(0) + u32::from(ran)
}
