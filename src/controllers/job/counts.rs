//! A Job's progress: the counts in its status, and the pods that ended since.

use std::collections::{BTreeMap, BTreeSet};

use super::back_off::ended_at;
use super::failure_policy::{FailureAction, action_for};
use super::view::{Member, View, count};
use object::completion_indexes::CompletionIndexes;

/// The annotation with the number of earlier failures of the pod's index that count towards its limit.
pub(super) const FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-failure-count";
/// The annotation with the number of earlier failures of the pod's index that the failure policy ignores.
pub(super) const IGNORED_FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// The counts, including those not in the status yet.
pub(super) struct Counts<'a> {
    pub(super) succeeded: i32,
    pub(super) failed: i32,
    /// Succeeded pods that are not in the status.
    pub(super) new_succeeded: Vec<&'a Member>,
    /// Failed pods that are not in the status, including those that the failure policy ignores.
    pub(super) new_failed: Vec<&'a Member>,
    /// `None` if the Job is not indexed.
    pub(super) indexes: Option<IndexCounts<'a>>,
}

/// The indexes of an indexed Job.
pub(super) struct IndexCounts<'a> {
    /// The completed indexes in the status.
    pub(super) completed_before: CompletionIndexes,
    pub(super) completed: CompletionIndexes,
    /// The indexes that have failed for good, if each has a limit.
    pub(super) failed: Option<CompletionIndexes>,
    /// Failed pods that stay until they are replaced: the new pod takes over the index's failure count.
    pub(super) replaceable: BTreeMap<i32, &'a Member>,
}

impl<'a> Counts<'a> {
    pub(super) fn of(view: &View<'a>) -> Self {
        let status = view.job.status.clone().unwrap_or_default();
        let uncounted = view.uncounted();
        let countable = || view.members.iter().filter(|m| m.tracked && view.can_count(m));
        let new_succeeded: Vec<&Member> =
            countable().filter(|m| m.succeeded() && !uncounted.succeeded.contains(m.uid())).collect();
        let new_failed: Vec<&Member> =
            countable().filter(|m| view.is_failed(m) && !uncounted.failed.contains(m.uid())).collect();
        let policy = view.spec.pod_failure_policy.as_ref();
        let counting = new_failed.iter().filter(|m| action_for(policy, &m.pod).counts());
        let indexes = view.indexes().map(|indexes| IndexCounts::of(view, indexes));
        Self {
            succeeded: indexes.as_ref().map_or_else(
                || total(status.succeeded, &[count(&new_succeeded), count(&uncounted.succeeded)]),
                |indexes| indexes.completed.len(),
            ),
            failed: total(status.failed, &[count(counting), count(&uncounted.failed)]),
            new_succeeded,
            new_failed,
            indexes,
        }
    }
}

/// Adds to a counter of the status, which any client may have written, without overflow.
fn total(counted: Option<i32>, more: &[i32]) -> i32 {
    more.iter().fold(counted.unwrap_or(0), |total, count| total.saturating_add(*count))
}

impl<'a> IndexCounts<'a> {
    fn of(view: &View<'a>, indexes: i32) -> Self {
        let status = view.job.status.as_ref();
        let read = |text: Option<&String>| CompletionIndexes::read(text.map_or("", String::as_str), indexes);
        let countable = || view.members.iter().filter(|m| m.tracked && view.can_count(m));
        let completed_before = read(status.and_then(|s| s.completed_indexes.as_ref()));
        let mut completed = completed_before.clone();
        for index in countable().filter(|m| m.succeeded()).filter_map(|m| m.index) {
            completed.add(index);
        }
        let failed = view.limit_per_index().map(|limit| {
            let mut failed = read(status.and_then(|s| s.failed_indexes.as_ref()));
            for index in countable().filter(|m| fails_index(view, m, limit)).filter_map(|m| m.index) {
                // A completed index stays completed.
                if !completed.contains(index) {
                    failed.add(index);
                }
            }
            failed
        });
        let replaceable =
            failed.as_ref().map_or_else(BTreeMap::new, |failed| replaceable(view, &completed, failed));
        Self { completed_before, completed, failed, replaceable }
    }
}

/// Returns true if a pod's failure exceeds its index's limit.
fn fails_index(view: &View<'_>, member: &Member, limit: i32) -> bool {
    if !view.is_failed(member) {
        return false;
    }
    match action_for(view.spec.pod_failure_policy.as_ref(), &member.pod) {
        FailureAction::FailIndex => true,
        FailureAction::Ignore => false,
        FailureAction::Count | FailureAction::FailJob(_) => number(member, FAILURE_COUNT) >= limit,
    }
}

/// Returns, for each incomplete index without a pod, its last failed pod.
fn replaceable<'a>(
    view: &View<'a>,
    completed: &CompletionIndexes,
    failed: &CompletionIndexes,
) -> BTreeMap<i32, &'a Member> {
    let active: BTreeSet<i32> = view.active().filter_map(|m| m.index).collect();
    let mut last: BTreeMap<i32, &Member> = BTreeMap::new();
    let rank = |m: &Member| (failures(m), ended_at(&m.pod));
    for member in view.members.iter().filter(|m| m.tracked && view.can_count(m) && view.is_failed(m)) {
        let Some(index) = member.index else { continue };
        if completed.contains(index) || failed.contains(index) || active.contains(&index) {
            continue;
        }
        let other = last.entry(index).or_insert(member);
        if rank(member) >= rank(other) {
            *other = member;
        }
    }
    last
}

/// Returns the number of failures of the pod's index before this pod, including ignored ones.
pub(super) fn failures(member: &Member) -> i32 {
    number(member, FAILURE_COUNT).saturating_add(number(member, IGNORED_FAILURE_COUNT))
}

/// Returns a number from the annotations; zero if it is invalid.
pub(super) fn number(member: &Member, annotation: &str) -> i32 {
    let annotations = member.pod.metadata.annotations.as_ref();
    annotations.and_then(|a| a.get(annotation)).and_then(|n| n.parse().ok()).filter(|n| *n >= 0).unwrap_or(0)
}
