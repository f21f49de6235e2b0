//! Decides the number of pods of a continuing Job, and the ones to create or delete.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::back_off::{BackOff, ended_at, remaining};
use super::counts::{Counts, failures};
use super::view::{View, count};
use crate::deletion_order::pods_to_delete;
use crate::pod_control::BURST;
use base::backoff::BackoffPolicy;
use object::SharedObject;
use object::completion_indexes::CompletionIndexes;
use object::job::is_suspended;

/// The next action.
#[derive(Debug)]
pub(super) enum Action {
    /// Nothing needs to change.
    Nothing,
    /// Sync again after this long: a pod failed not long ago.
    Wait(Duration),
    /// Delete these surplus pods.
    Delete(Vec<SharedObject<Pod>>),
    /// Create a pod for each of these, which are indexes in an indexed Job; others may have to wait.
    Create(Vec<Option<i32>>, Option<Duration>),
}

/// Decides for a Job that continues. Surplus pods are deleted before missing ones are created.
pub(super) fn next(view: &View<'_>, counts: &Counts<'_>, back_off: BackOff, policy: BackoffPolicy) -> Action {
    let active = view.active_count();
    let desired = if is_suspended(view.spec) { 0 } else { desired(view, counts, active) };
    let surplus = surplus(view, active.saturating_sub(desired).max(0));
    if !surplus.is_empty() {
        return Action::Delete(surplus);
    }
    let going = if view.replaces_only_failed() { view.terminating_count() } else { 0 };
    let missing =
        usize::try_from(desired.saturating_sub(active).saturating_sub(going)).unwrap_or(0).min(BURST);
    if missing == 0 {
        return Action::Nothing;
    }
    if view.limit_per_index().is_none() {
        let wait = back_off.remaining(policy, view.now);
        if !wait.is_zero() {
            return Action::Wait(wait);
        }
    }
    match &counts.indexes {
        None => Action::Create(vec![None; missing], None),
        Some(_) => of_indexes(view, counts, missing, policy),
    }
}

fn desired(view: &View<'_>, counts: &Counts<'_>, active: i32) -> i32 {
    let parallelism = view.spec.parallelism.unwrap_or(1);
    match view.spec.completions {
        // A Job without completions is a work queue: after the first success no work is left, and the other pods may
        // finish.
        None if counts.succeeded > 0 => active,
        None => parallelism,
        Some(completions) => {
            let failed =
                counts.indexes.as_ref().and_then(|i| i.failed.as_ref()).map_or(0, CompletionIndexes::len);
            completions.saturating_sub(counts.succeeded).saturating_sub(failed).clamp(0, parallelism)
        }
    }
}

fn of_indexes(view: &View<'_>, counts: &Counts<'_>, missing: usize, policy: BackoffPolicy) -> Action {
    let Some(indexes) = &counts.indexes else { return Action::Nothing };
    let mut taken = indexes.completed.clone();
    taken.add_all(&view.active().filter_map(|m| m.index).collect());
    if view.replaces_only_failed() {
        taken.add_all(&view.members.iter().filter(|m| m.is_going()).filter_map(|m| m.index).collect());
    }
    if let Some(failed) = &indexes.failed {
        taken.add_all(failed);
    }
    let wait = |index: i32| {
        indexes.replaceable.get(&index).map_or(Duration::ZERO, |pod| {
            let failures = u32::try_from(failures(pod)).unwrap_or(0).saturating_add(1);
            remaining(policy, failures, ended_at(&pod.pod), view.now)
        })
    };
    let free = taken.missing(missing, view.spec.completions.unwrap_or(0));
    let (now, later): (Vec<i32>, Vec<i32>) = free.into_iter().partition(|index| wait(*index).is_zero());
    let later = later.into_iter().map(wait).min();
    match (now.is_empty(), later) {
        (true, None) => Action::Nothing,
        (true, Some(wait)) => Action::Wait(wait),
        (false, later) => Action::Create(now.into_iter().map(Some).collect(), later),
    }
}

/// Returns at least this many pods to delete: first useless ones, then the least advanced.
///
/// Useless are pods for no index, pods for an index that another pod has, and pods without the finalizer: a controller
/// stopped while it was deleting those, and their end would not be counted.
fn surplus(view: &View<'_>, at_least: i32) -> Vec<SharedObject<Pod>> {
    let (mut useless, mut rest) = (Vec::new(), Vec::new());
    let mut by_index: BTreeMap<Option<i32>, Vec<SharedObject<Pod>>> = BTreeMap::new();
    for member in view.active() {
        if member.tracked && view.can_count(member) {
            by_index
                .entry(member.index.filter(|_| view.indexes().is_some()))
                .or_default()
                .push(member.pod.clone());
        } else {
            useless.push(member.pod.clone());
        }
    }
    for (index, pods) in by_index {
        if index.is_none() || pods.len() == 1 {
            rest.extend(pods);
            continue;
        }
        let twins = pods.len() - 1;
        let going: Vec<SharedObject<Pod>> =
            pods_to_delete(&pods, &[], twins, view.now).into_iter().cloned().collect();
        rest.extend(pods.into_iter().filter(|pod| !going.iter().any(|g| g.uid() == pod.uid())));
        useless.extend(going);
    }
    let more = usize::try_from(at_least.saturating_sub(count(&useless))).unwrap_or(0);
    if more > 0 {
        useless.extend(pods_to_delete(&rest, &[], more, view.now).into_iter().cloned());
    }
    useless.truncate(BURST);
    useless
}
