//! The state of a rollout: the old and the new side, the limits, the deadline and the cause of a delay.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;

use super::cause::{self, Cause};
use super::history::{images, is_current, revision_of};
use super::limits::Limits;
use base::sort::SliceOrder;
use console_data::pod_status;
use console_data::store::StoredObject;
use console_toolkit::health::Health;
use object::well_known::annotation::DEPLOYMENT_REVISION;

/// One ReplicaSet of the rollout.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReplicaSetProgress {
    pub(crate) name: String,
    pub(crate) revision: Option<i64>,
    /// The images of its template.
    pub(crate) images: Vec<String>,
    /// Desired number of pods.
    pub(crate) desired: i32,
    /// Its pods: ready ones first, terminating ones last.
    pub(crate) pods: Vec<PodMark>,
}

/// One pod of a side.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PodMark {
    pub(crate) health: Health,
    /// True if all its containers are ready.
    pub(crate) ready: bool,
    /// The latest time of its removal, if it is being deleted.
    pub(crate) deletion_timestamp: Option<Timestamp>,
}

impl ReplicaSetProgress {
    /// Returns the number of ready pods that are not terminating.
    pub(crate) fn ready(&self) -> usize {
        self.pods.iter().filter(|pod| pod.ready && pod.deletion_timestamp.is_none()).count()
    }

    /// Returns `6 ready, 2 starting, 1 terminating (27s left)`.
    pub(crate) fn summary(&self, now: Timestamp) -> String {
        let going: Vec<&PodMark> = self.pods.iter().filter(|pod| pod.deletion_timestamp.is_some()).collect();
        let staying = self.pods.len() - going.len();
        let ready = self.ready();
        let bad = self
            .pods
            .iter()
            .filter(|pod| pod.deletion_timestamp.is_none() && !pod.ready && pod.health.is_fault())
            .count();
        let mut parts = Vec::new();
        if ready > 0 || self.pods.is_empty() {
            parts.push(format!("{ready} ready"));
        }
        if staying > ready + bad {
            parts.push(format!("{} starting", staying - ready - bad));
        }
        if bad > 0 {
            parts.push(format!("{bad} failing"));
        }
        if let Some(last) = going.iter().filter_map(|pod| pod.deletion_timestamp).max() {
            let left = (last.as_second() - now.as_second()).max(0);
            parts.push(format!("{} terminating ({left}s left)", going.len()));
        }
        parts.join(", ")
    }
}

/// The phase of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The controller has not observed the last change yet.
    Unobserved,
    /// In progress.
    Moving,
    Complete,
    Paused,
    /// The progress deadline has passed.
    Stuck,
}

/// A pod, as a rollout sees it.
pub(crate) trait Replica {
    /// Returns the pod's state.
    fn mark(&self) -> PodMark;

    /// Returns the reason why the pod is not ready; `None` if no problem is known.
    fn cause(&self) -> Option<Cause>;
}

impl Replica for &Pod {
    fn mark(&self) -> PodMark {
        let status = pod_status::of(self);
        PodMark {
            health: status.health,
            ready: status.total > 0 && status.ready == status.total,
            // The deletion timestamp includes the grace period.
            deletion_timestamp: self.metadata.deletion_timestamp.as_ref().map(|time| time.0),
        }
    }

    fn cause(&self) -> Option<Cause> {
        cause::of(self)
    }
}

impl Replica for StoredObject<'_, Pod> {
    fn mark(&self) -> PodMark {
        let seen = &self.summary;
        PodMark {
            health: seen.health,
            ready: seen.total > 0 && seen.ready == seen.total,
            deletion_timestamp: seen.deletion_timestamp,
        }
    }

    fn cause(&self) -> Option<Cause> {
        // Most pods are healthy, and need not be unpacked.
        let is_well = self.summary.health == Health::Running && self.summary.ready > 0;
        if is_well { None } else { cause::of(self.whole()) }
    }
}

/// The state of a rollout.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RolloutView {
    /// The Deployment's revision.
    pub(crate) revision: Option<i64>,
    pub(crate) limits: Limits,
    /// Total number of pods.
    pub(crate) total: i32,
    /// Number of pods with the new template.
    pub(crate) updated: i32,
    /// Number of available pods.
    pub(crate) available: i32,
    /// The new side; `None` before its ReplicaSet exists.
    pub(crate) new: Option<ReplicaSetProgress>,
    /// Old sides that still have or need pods, newest first.
    pub(crate) old: Vec<ReplicaSetProgress>,
    pub(crate) progress: Progress,
    /// Time of the last progress.
    pub(crate) since: Option<Timestamp>,
    /// Time of the deadline, if there is one.
    pub(crate) deadline: Option<Timestamp>,
    /// The progress deadline in seconds.
    pub(crate) deadline_seconds: i64,
    /// The reason why the new pods are not ready.
    pub(crate) cause: Option<Cause>,
    /// A condition of the Deployment with a problem that pods do not report: quota, failing creation.
    pub(crate) failure: Option<String>,
}

impl RolloutView {
    /// Computes the state from the objects. The pods are those of the given ReplicaSets.
    pub(crate) fn of<R: Replica>(deployment: &Deployment, sets: &[(&ReplicaSet, Vec<R>)]) -> Self {
        let limits = Limits::of(deployment);
        let status = deployment.status.as_ref();
        let count = |value: Option<i32>| value.unwrap_or(0);
        let mut new: Option<(&ReplicaSet, &Vec<R>)> = None;
        for (set, pods) in sets {
            let newer = new.is_none_or(|(best, _)| revision_of(set) > revision_of(best));
            if is_current(deployment, set) && newer {
                new = Some((set, pods));
            }
        }
        let mut old: Vec<ReplicaSetProgress> = sets
            .iter()
            .filter(|(set, _)| new.is_none_or(|(new, _)| !std::ptr::eq(new, *set)))
            .map(|(set, pods)| side(set, pods))
            .filter(|side| side.desired > 0 || !side.pods.is_empty())
            .collect();
        old.order_by_key(|side| std::cmp::Reverse(side.revision));
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let progressing =
            conditions.iter().find(|condition| condition.type_.as_deref() == Some("Progressing"));
        let failure = conditions
            .iter()
            .find(|condition| {
                condition.type_.as_deref() == Some("ReplicaFailure")
                    && condition.status.as_deref() == Some("True")
            })
            .and_then(|condition| condition.message.clone());
        let spec = &deployment.spec;
        let total = count(status.and_then(|status| status.replicas));
        let updated = count(status.and_then(|status| status.updated_replicas));
        let available = count(status.and_then(|status| status.available_replicas));
        let observed = status.and_then(|status| status.observed_generation).unwrap_or(0)
            >= deployment.metadata.generation.unwrap_or(0);
        let progress = if spec.paused == Some(true) {
            Progress::Paused
        } else if !observed {
            Progress::Unobserved
        } else if progressing.and_then(|condition| condition.reason.as_deref())
            == Some("ProgressDeadlineExceeded")
        {
            Progress::Stuck
        } else if updated == limits.desired && total == updated && available == updated {
            Progress::Complete
        } else {
            Progress::Moving
        };
        let since = progressing.and_then(|condition| condition.last_update_time.as_ref()).map(|time| time.0);
        let deadline_seconds = i64::from(spec.progress_deadline_seconds.unwrap_or(600));
        let deadline = (progress == Progress::Moving)
            .then(|| since?.checked_add(SignedDuration::from_secs(deadline_seconds)).ok())
            .flatten();
        let cause = new.filter(|_| progress != Progress::Complete).and_then(|(_, pods)| {
            pods.iter().filter(|pod| pod.mark().deletion_timestamp.is_none()).filter_map(Replica::cause).max()
        });
        let annotations = deployment.metadata.annotations.as_ref();
        Self {
            revision: annotations.and_then(|all| all.get(DEPLOYMENT_REVISION)?.parse().ok()),
            limits,
            total,
            updated,
            available,
            new: new.map(|(set, pods)| side(set, pods)),
            old,
            progress,
            since,
            deadline,
            deadline_seconds,
            cause,
            failure,
        }
    }
}

fn side<R: Replica>(set: &ReplicaSet, pods: &[R]) -> ReplicaSetProgress {
    let spec = &set.spec;
    let mut marks: Vec<PodMark> = pods.iter().map(Replica::mark).collect();
    marks.order_by_key(|mark| (mark.deletion_timestamp.is_some(), !mark.ready, mark.health));
    ReplicaSetProgress {
        name: set.metadata.name.clone().unwrap_or_default(),
        revision: revision_of(set),
        images: spec.template.as_ref().map(images).unwrap_or_default(),
        desired: spec.replicas.unwrap_or(1),
        pods: marks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[expect(clippy::needless_pass_by_value, reason = "a literal reads best at the call")]
    fn deployment(status: Value) -> Deployment {
        serde_json::from_value(json!({
            "metadata": { "name": "web", "generation": 2, "annotations": { "deployment.kubernetes.io/revision": "2" } },
            "spec": { "replicas": 4, "progressDeadlineSeconds": 600, "selector": {},
                "template": { "spec": { "containers": [{ "name": "nginx", "image": "nginx:1.9.1" }] } } },
            "status": status,
        }))
        .unwrap()
    }

    fn set(name: &str, revision: &str, image: &str, replicas: i32) -> ReplicaSet {
        serde_json::from_value(json!({
            "metadata": { "name": name, "annotations": { "deployment.kubernetes.io/revision": revision } },
            "spec": { "replicas": replicas, "selector": {},
                "template": { "metadata": { "labels": { "pod-template-hash": name } },
                    "spec": { "containers": [{ "name": "nginx", "image": image }] } } },
        }))
        .unwrap()
    }

    #[expect(clippy::needless_pass_by_value, reason = "a literal reads best at the call")]
    fn pod(state: Value, ready: bool, deleted: Option<&str>) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": "p", "deletionTimestamp": deleted },
            "spec": { "containers": [{ "name": "nginx" }] },
            "status": { "phase": "Running", "containerStatuses": [{ "name": "nginx", "image": "i", "imageID": "",
                "ready": ready, "restartCount": 0, "state": state }] },
        }))
        .unwrap()
    }

    /// CON-5: both sides, the deadline and the cause are read.
    #[test]
    fn a_rollout_in_the_middle_is_read_whole() {
        let deployment = deployment(json!({ "observedGeneration": 2, "replicas": 5, "updatedReplicas": 2,
            "availableReplicas": 3, "conditions": [{ "type": "Progressing", "status": "True",
                "reason": "ReplicaSetUpdated", "lastUpdateTime": "2026-11-21T03:00:00Z" }] }));
        let (new, old) = (set("web-2", "2", "nginx:1.9.1", 2), set("web-1", "1", "nginx:1.7.9", 3));
        let ready = pod(json!({ "running": {} }), true, None);
        let pull = pod(json!({ "waiting": { "reason": "ImagePullBackOff" } }), false, None);
        let going = pod(json!({ "running": {} }), true, Some("2026-11-21T03:00:57Z"));
        let sets = [(&old, vec![&ready, &going]), (&new, vec![&pull, &ready])];
        let view = RolloutView::of(&deployment, &sets);
        assert_eq!(view.new.as_ref().map(|side| side.name.as_str()), Some("web-2"));
        assert_eq!(view.progress, Progress::Moving);
        assert_eq!((view.limits.max_total(), view.limits.least_available()), (5, 3));
        assert_eq!(view.deadline, Some("2026-11-21T03:10:00Z".parse().unwrap()));
        assert_eq!(view.cause.map(|cause| cause.reason).as_deref(), Some("ImagePullBackOff"));
        let now = "2026-11-21T03:00:30Z".parse().unwrap();
        assert_eq!(view.old[0].summary(now), "1 ready, 1 terminating (27s left)");
    }

    #[test]
    fn the_state_of_a_rollout_has_one_word() {
        let new = set("web-2", "2", "nginx:1.9.1", 4);
        let progress = |status| RolloutView::of(&deployment(status), &[(&new, Vec::<&Pod>::new())]).progress;
        let done =
            json!({ "observedGeneration": 2, "replicas": 4, "updatedReplicas": 4, "availableReplicas": 4 });
        assert_eq!(progress(done), Progress::Complete);
        assert_eq!(progress(json!({ "observedGeneration": 1 })), Progress::Unobserved);
        let stuck = json!({ "observedGeneration": 2, "conditions": [{ "type": "Progressing", "status": "False",
            "reason": "ProgressDeadlineExceeded" }] });
        assert_eq!(progress(stuck), Progress::Stuck);
    }
}
