//! A Job with its pods, as input of one reconcile.

use std::collections::HashSet;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::Pod;

use object::finalizers::has_finalizer;
use object::job::{COMPLETION_INDEX, TRACKING_FINALIZER, is_indexed};
use object::owner::is_terminating;
use object::pod::{Phase, is_active, is_ready, is_terminal, phase};
use object::{Object, SharedObject};

/// One of the Job's pods.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) pod: SharedObject<Pod>,
    /// Its index in an indexed Job, if it has one.
    pub(super) index: Option<i32>,
    /// It has the finalizer: its end has not been counted, or the count is not written yet.
    pub(super) tracked: bool,
}

impl Member {
    pub(super) fn new(pod: SharedObject<Pod>) -> Self {
        let annotations = pod.metadata.annotations.as_ref();
        let index = annotations.and_then(|a| a.get(COMPLETION_INDEX)).and_then(|text| text.parse().ok());
        let (index, tracked) = (index.filter(|index| *index >= 0), has_tracking_finalizer(pod.object()));
        Self { pod, index, tracked }
    }

    pub(super) fn uid(&self) -> &str {
        self.pod.uid()
    }

    pub(super) fn is_active(&self) -> bool {
        is_active(&self.pod)
    }

    pub(super) fn succeeded(&self) -> bool {
        phase(&self.pod) == Phase::Succeeded
    }

    /// Returns true if the pod is terminating and has not ended.
    pub(super) fn is_going(&self) -> bool {
        is_terminating(&self.pod.metadata) && !is_terminal(&self.pod)
    }
}

/// Returns true if a pod has the finalizer that waits for its end to be counted.
pub(super) fn has_tracking_finalizer(pod: &Object) -> bool {
    has_finalizer(pod.meta(), TRACKING_FINALIZER)
}

/// The input of a decision.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) job: &'a Job,
    pub(super) spec: &'a JobSpec,
    pub(super) members: &'a [Member],
    pub(super) now: Timestamp,
}

impl<'a> View<'a> {
    pub(super) fn active(&self) -> impl Iterator<Item = &'a Member> + use<'a> {
        self.members.iter().filter(|m| m.is_active())
    }

    pub(super) fn active_count(&self) -> i32 {
        count(self.active())
    }

    pub(super) fn ready_count(&self) -> i32 {
        count(self.active().filter(|m| is_ready(&m.pod)))
    }

    /// Returns the number of terminating pods that have not ended.
    pub(super) fn terminating_count(&self) -> i32 {
        count(self.members.iter().filter(|m| m.is_going()))
    }

    /// Returns true if a terminating pod is replaced only once it has ended.
    pub(super) fn replaces_only_failed(&self) -> bool {
        self.spec.pod_replacement_policy.as_deref() == Some("Failed")
    }

    /// Returns true if a pod will not succeed any more. A terminating pod counts at once, because its node may be gone,
    /// unless the Job replaces only pods that have ended.
    pub(super) fn is_failed(&self, member: &Member) -> bool {
        match phase(&member.pod) {
            Phase::Failed => true,
            Phase::Succeeded => false,
            _ => !self.replaces_only_failed() && is_terminating(&member.pod.metadata),
        }
    }

    /// Returns the number of indexes of an indexed Job.
    pub(super) fn indexes(&self) -> Option<i32> {
        is_indexed(self.spec).then(|| self.spec.completions.unwrap_or(0))
    }

    /// Returns true if the pod's end can count: in an indexed Job the pod must have one of the indexes.
    pub(super) fn can_count(&self, member: &Member) -> bool {
        self.indexes().is_none_or(|indexes| member.index.is_some_and(|index| index < indexes))
    }

    /// Returns the failure limit of each index, if there is one.
    pub(super) fn limit_per_index(&self) -> Option<i32> {
        self.spec.backoff_limit_per_index.filter(|_| is_indexed(self.spec))
    }

    /// Returns the pods with ends noted in the status but not in its counters yet.
    pub(super) fn uncounted(&self) -> UncountedPods<'a> {
        let of = |uids: Option<&'a Vec<String>>| uids.into_iter().flatten().map(String::as_str).collect();
        let uncounted = self.job.status.as_ref().and_then(|s| s.uncounted_terminated_pods.as_ref());
        UncountedPods {
            succeeded: of(uncounted.and_then(|u| u.succeeded.as_ref())),
            failed: of(uncounted.and_then(|u| u.failed.as_ref())),
        }
    }
}

/// The uids of pods about to be counted.
pub(super) struct UncountedPods<'a> {
    pub(super) succeeded: HashSet<&'a str>,
    pub(super) failed: HashSet<&'a str>,
}

/// Returns a number of pods in the status' type.
pub(super) fn count<T>(items: impl IntoIterator<Item = T>) -> i32 {
    i32::try_from(items.into_iter().count()).unwrap_or(i32::MAX)
}
