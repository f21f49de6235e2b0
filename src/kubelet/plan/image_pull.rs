//! The back-off of images that are not available (IMG-1): `sync_pod/pull.rs` tries them, the plan waits between the
//! attempts.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};

use crate::needed_images::{self, NeededImage};
use crate::observed::{ImageState, ObservedPod, PullEnd};
use base::clock::saturating_after;
use object::config::Timings;

/// The time for which the status shows the error of a failed pull; after it, the status shows the back-off.
const PULL_ERROR_DURATION: Duration = Duration::from_secs(1);

/// Returns the first image that keeps a container from starting: it is being pulled, or its pull backs off.
pub(crate) fn awaited(
    pod: &Pod,
    container: &Container,
    observed: &ObservedPod,
    now: Timestamp,
) -> Option<NeededImage> {
    let waits = |image: &NeededImage| is_awaited(observed.image(&image.user), now);
    needed_images::of(pod, container).into_iter().find(waits)
}

/// Returns true if an image is being pulled, or its pull backs off.
pub(crate) fn is_awaited(image: &ImageState, now: Timestamp) -> bool {
    running(image, now).is_some() || back_off(image, now).is_some()
}

/// Returns the end of a failed image's back-off, and the time from which the status reports the back-off instead of the
/// error; `None` if the image may be pulled now.
pub(super) fn back_off(image: &ImageState, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
    let ImageState::Failed { at, delay, .. } = image else { return None };
    let until = saturating_after(*at, *delay);
    (until > now).then(|| (until, saturating_after(*at, PULL_ERROR_DURATION)))
}

/// A pull that runs.
pub(super) struct RunningPull {
    /// Its end; an event reports it if it is `None`.
    pub(super) until: Option<Timestamp>,
}

/// Returns the pull of an image that is being pulled.
pub(super) fn running(image: &ImageState, now: Timestamp) -> Option<RunningPull> {
    match image {
        ImageState::Pulling { end: PullEnd::At(until), .. } => {
            (*until > now).then_some(RunningPull { until: Some(*until) })
        }
        ImageState::Pulling { end: PullEnd::Event { .. }, .. } => Some(RunningPull { until: None }),
        _ => None,
    }
}

/// The delay after one more failed pull.
pub(crate) fn next_delay(before: &ImageState, timings: &Timings) -> Duration {
    let longer = |delay: Duration| delay.saturating_mul(2).min(timings.image_back_off_max.0);
    before.failed_delay().map_or(timings.image_back_off_initial.0, longer)
}
