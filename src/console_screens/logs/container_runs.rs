//! The readable runs of a pod's containers, and the notes for containers without one. Pure.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::selection::LogSelection;
use console_data::container_state::statuses;
use console_operations::effect::ContainerFilter;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContainerRun {
    /// Unique among all runs that were ever read.
    pub(super) key: String,
    pub(super) pod: String,
    pub(super) container: String,
    restarts: i32,
    pub(super) source: Arc<str>,
}

/// A note that is shown once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    /// Unique among all notes that were ever shown.
    pub(super) key: String,
    pub(super) source: Arc<str>,
    pub(super) text: String,
}

/// The work that a pod's state requires.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// Read a log, and show the note at its end.
    Read(ContainerRun, Option<Note>),
    /// Show a note now.
    Tell(Note),
}

/// Returns the logs to read and notes to show for a pod; the keys ensure that each happens once.
pub(super) fn jobs(pod: &Pod, follow: &LogSelection) -> Vec<Job> {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let Some(status) = &pod.status else { return Vec::new() };
    let statuses = status
        .init_container_statuses
        .iter()
        .chain(&status.container_statuses)
        .chain(&status.ephemeral_container_statuses)
        .flatten();
    statuses
        .filter(|status| match &follow.which {
            ContainerFilter::All => true,
            ContainerFilter::One(container) => status.name == *container,
        })
        .flat_map(|status| jobs_of(&name, &uid, status, follow.previous))
        .collect()
}

/// Returns the work for one container: its run, or why there is none. The log of an ended run is still read.
fn jobs_of(pod: &str, uid: &str, status: &ContainerStatus, previous: bool) -> Vec<Job> {
    let container = &status.name;
    let source: Arc<str> = Arc::from(format!("{pod}/{container}"));
    let run = |key: String| {
        let restarts = status.restart_count;
        ContainerRun {
            key,
            pod: pod.to_owned(),
            container: container.clone(),
            restarts,
            source: source.clone(),
        }
    };
    let note = |key: String, text: String| Note { key, source: source.clone(), text };
    let state = status.state.as_ref();
    let has_ended = status.last_state.as_ref().is_some_and(|state| state.terminated.is_some());
    if previous {
        return vec![if has_ended {
            Job::Read(run(format!("{uid}/{container}/before/{}", status.restart_count)), None)
        } else {
            let text = format!("{container} was not restarted: it has no previous run");
            Job::Tell(note(format!("{uid}/{container}/none"), text))
        }];
    }
    if state.is_some_and(|state| state.running.is_some() || state.terminated.is_some()) {
        return vec![Job::Read(run(format!("{uid}/{container}/{}", status.restart_count)), None)];
    }
    let Some(waiting) = state.and_then(|state| state.waiting.as_ref()) else { return Vec::new() };
    let reason = waiting.reason.clone().unwrap_or_else(|| "Waiting".to_owned());
    let message = waiting.message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
    let wait = note(
        format!("{uid}/{container}/{}/{reason}", status.restart_count),
        format!("{container} waits: {reason}{message}"),
    );
    vec![if has_ended {
        Job::Read(run(format!("{uid}/{container}/{}", status.restart_count)), Some(wait))
    } else {
        Job::Tell(wait)
    }]
}

/// Returns whether the container was not started again after this run.
pub(super) fn is_latest(pod: &Pod, run: &ContainerRun) -> bool {
    status_of(pod, run).is_some()
}

/// Returns whether this run is still in progress.
pub(super) fn still_runs(pod: &Pod, run: &ContainerRun) -> bool {
    let state = status_of(pod, run).and_then(|status| status.state.as_ref());
    state.is_some_and(|state| state.running.is_some())
}

fn status_of<'a>(pod: &'a Pod, run: &ContainerRun) -> Option<&'a ContainerStatus> {
    statuses(pod).find(|status| status.name == run.container && status.restart_count == run.restarts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::Pods;
    use console_operations::effect::LogStart;
    use serde_json::json;

    #[expect(clippy::needless_pass_by_value, reason = "a literal reads best at the call")]
    fn pod(statuses: serde_json::Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": "web", "uid": "u1" },
            "status": { "containerStatuses": statuses },
        }))
        .unwrap()
    }

    fn follow_of(which: ContainerFilter, previous: bool) -> LogSelection {
        LogSelection {
            namespace: "default".to_owned(),
            pods: Pods::Named("web".to_owned()),
            which,
            start: LogStart::Tail(100),
            previous,
        }
    }

    fn describe(job: Job) -> String {
        match job {
            Job::Read(run, None) => run.key,
            Job::Read(run, Some(note)) => format!("{}, then: {}", run.key, note.text),
            Job::Tell(note) => note.text,
        }
    }

    /// CON-10: each run of a container is read once, and a run that cannot be read has a note with the reason.
    #[test]
    fn container_runs_are_read_once_and_waiting_ones_give_a_note() {
        let pod = pod(json!([
            { "name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 2,
              "state": { "running": {} }, "lastState": { "terminated": { "exitCode": 1 } } },
            { "name": "b", "image": "", "imageID": "", "ready": false, "restartCount": 0,
              "state": { "waiting": { "reason": "ImagePullBackOff", "message": "Back-off" } } },
            { "name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 3,
              "state": { "waiting": { "reason": "CrashLoopBackOff" } },
              "lastState": { "terminated": { "exitCode": 1 } } },
        ]));
        let described: Vec<String> =
            jobs(&pod, &follow_of(ContainerFilter::All, false)).into_iter().map(describe).collect();
        assert_eq!(
            described,
            ["u1/a/2", "b waits: ImagePullBackOff: Back-off", "u1/c/3, then: c waits: CrashLoopBackOff"]
        );
        let previous: Vec<String> =
            jobs(&pod, &follow_of(ContainerFilter::All, true)).into_iter().map(describe).collect();
        assert_eq!(
            previous,
            ["u1/a/before/2", "b was not restarted: it has no previous run", "u1/c/before/3"]
        );
        assert_eq!(jobs(&pod, &follow_of(ContainerFilter::One("nosuch".to_owned()), false)), []);
    }
}
