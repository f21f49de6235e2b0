//! Counts the end of each pod exactly once, even if the controller stops in between.
//!
//! A pod's end is first noted in the status by its uid, then the pod loses its finalizer, then the note becomes part
//! of a counter. A controller restarted after any of these steps continues from the pod and the note. For a success
//! of an indexed Job the index itself is the note.

use std::collections::HashSet;

use k8s_openapi::api::batch::v1::{JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;

use super::counts::Counts;
use super::failure_policy::action_for;
use super::outcome::JobOutcome;
use super::view::{Member, View};
use base::sort::SliceOrder;
use object::SharedObject;
use object::owner::is_terminating;

/// The maximum number of notes in one status; further ones follow once these have been counted.
const MAX_UNCOUNTED: usize = 500;

/// The result of [`track_finished_pods`].
pub(super) struct TrackResult {
    /// The pods that may lose their finalizer once the status is written.
    pub(super) release: Vec<SharedObject<Pod>>,
    /// Not everything fitted.
    pub(super) full: bool,
}

/// Notes every end that is not noted yet. If the Job's end is decided, every pod counts as ended.
pub(super) fn track_finished_pods(
    view: &View<'_>,
    counts: &Counts<'_>,
    ending: Option<&JobOutcome>,
    status: &mut JobStatus,
) -> TrackResult {
    let mut uncounted = status.uncounted_terminated_pods.take().unwrap_or_default();
    let known = view.uncounted();
    let mut completed = counts.indexes.as_ref().map(|indexes| indexes.completed_before.clone());
    let mut result = TrackResult { release: Vec::new(), full: false };
    let mut recorded_indexes = 0;
    let mut tracked: Vec<&Member> = view.members.iter().filter(|m| m.tracked).collect();
    tracked.order_by_key(|m| m.index);
    for member in tracked.into_iter().filter(|m| may_release(view, counts, ending, m)) {
        let length = |uids: &Option<Vec<String>>| uids.as_ref().map_or(0, Vec::len);
        if length(&uncounted.succeeded) + length(&uncounted.failed) + recorded_indexes >= MAX_UNCOUNTED {
            result.full = true;
            break;
        }
        result.release.push(member.pod.clone());
        let failed = view.is_failed(member) || ending.is_some_and(|e| !e.success);
        let countable = view.can_count(member) && !known.failed.contains(member.uid());
        let uid = member.uid().to_string();
        if member.succeeded() {
            match (&mut completed, member.index.filter(|_| countable)) {
                (Some(completed), Some(index)) => {
                    recorded_indexes += usize::from(!completed.contains(index));
                    completed.add(index);
                }
                (None, _) if countable && !known.succeeded.contains(member.uid()) => {
                    uncounted.succeeded.get_or_insert_default().push(uid);
                }
                _ => {}
            }
        } else if failed
            && countable
            && action_for(view.spec.pod_failure_policy.as_ref(), &member.pod).counts()
        {
            uncounted.failed.get_or_insert_default().push(uid);
        }
    }
    status.uncounted_terminated_pods = Some(uncounted);
    if let (Some(completed), Some(indexes)) = (completed, &counts.indexes) {
        status.succeeded = some(completed.len());
        status.completed_indexes = Some(completed.to_string()).filter(|text| !text.is_empty());
        status.failed_indexes = indexes.failed.as_ref().map(ToString::to_string);
    }
    result
}

/// Returns true if a pod's finalizer is no longer needed.
fn may_release(view: &View<'_>, counts: &Counts<'_>, ending: Option<&JobOutcome>, member: &Member) -> bool {
    if is_terminating(&view.job.metadata) || ending.is_some() || member.succeeded() {
        return true;
    }
    let waiting = counts.indexes.as_ref().and_then(|indexes| indexes.replaceable.get(&member.index?));
    view.is_failed(member) && waiting.is_none_or(|waiting| waiting.uid() != member.uid())
}

/// Turns the notes about pods without a finalizer into counts.
pub(super) fn count_released(status: &mut JobStatus, tracked: &HashSet<String>) {
    let uncounted = status.uncounted_terminated_pods.get_or_insert_with(UncountedTerminatedPods::default);
    let counters =
        [(&mut uncounted.succeeded, &mut status.succeeded), (&mut uncounted.failed, &mut status.failed)];
    for (uids, counter) in counters {
        let Some(noted) = uids else { continue };
        let before = noted.len();
        noted.retain(|uid| tracked.contains(uid));
        let counted = i32::try_from(before - noted.len()).unwrap_or(i32::MAX);
        *counter = some(counter.unwrap_or(0).saturating_add(counted));
        if noted.is_empty() {
            *uids = None;
        }
    }
}

/// Returns true if a note is left.
pub(super) fn has_notes(status: &JobStatus) -> bool {
    uncounted_uids(status).next().is_some()
}

/// Returns the uids of the noted pods.
pub(super) fn uncounted_uids(status: &JobStatus) -> impl Iterator<Item = &String> {
    let uncounted = status.uncounted_terminated_pods.iter();
    uncounted.flat_map(|u| u.succeeded.iter().flatten().chain(u.failed.iter().flatten()))
}

/// Returns a counter in the status' form: `None` for zero.
pub(super) fn some(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}
