//! The reason why a pod is not ready, from its own status: a word and the server's message.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

/// The reason why a pod is not ready, and the certainty that waiting does not help.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    /// Higher is worse: if pods differ, the worst cause is shown.
    pub weight: u8,
    /// `ImagePullBackOff`, `CrashLoopBackOff`, `Unschedulable` …
    pub reason: String,
    /// The image or the exit code, and the server's message.
    pub detail: String,
}

/// Returns the reason why this pod is not ready; `None` if no problem is known.
pub fn of(pod: &Pod) -> Option<Cause> {
    let status = pod.status.as_ref()?;
    let conditions = status.conditions.iter().flatten();
    let unscheduled = conditions
        .clone()
        .find(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
        .map(|condition| Cause {
            weight: 6,
            reason: condition.reason.clone().unwrap_or_else(|| "Unschedulable".to_owned()),
            detail: condition.message.clone().unwrap_or_default(),
        });
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let container = containers.filter_map(of_container).max();
    let failed = (status.phase.as_deref() == Some("Failed")).then(|| Cause {
        weight: 5,
        reason: status.reason.clone().unwrap_or_else(|| "Failed".to_owned()),
        detail: status.message.clone().unwrap_or_default(),
    });
    [unscheduled, container, failed].into_iter().flatten().max()
}

fn of_container(status: &ContainerStatus) -> Option<Cause> {
    let state = status.state.as_ref();
    if let Some(waiting) = state.and_then(|state| state.waiting.as_ref()) {
        let reason = waiting.reason.clone().unwrap_or_default();
        let weight = match reason.as_str() {
            "ContainerCreating" | "PodInitializing" | "" => return None,
            "CrashLoopBackOff" => 8,
            _ => 9,
        };
        let ended = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        let detail = match (reason.contains("Image"), ended) {
            (true, _) => status.image.clone(),
            (false, Some(ended)) => format!("{} exited with {}", status.name, ended.exit_code),
            (false, None) => waiting.message.clone().unwrap_or_default(),
        };
        return Some(Cause { weight, reason, detail });
    }
    if let Some(ended) =
        state.and_then(|state| state.terminated.as_ref()).filter(|ended| ended.exit_code != 0)
    {
        return Some(Cause {
            weight: 7,
            reason: ended.reason.clone().unwrap_or_else(|| "Error".to_owned()),
            detail: format!("{} exited with {}", status.name, ended.exit_code),
        });
    }
    let running = state.is_some_and(|state| state.running.is_some());
    (running && !status.ready).then(|| Cause {
        weight: 1,
        reason: "NotReady".to_owned(),
        detail: format!("{} runs, but its readiness probe does not succeed", status.name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[expect(clippy::needless_pass_by_value, reason = "a literal reads best at the call")]
    fn pod(state: Value) -> Pod {
        serde_json::from_value(json!({ "metadata": {}, "status": { "containerStatuses": [{
            "name": "nginx", "image": "nginx:1.91", "imageID": "", "ready": false, "restartCount": 1,
            "state": state, "lastState": { "terminated": { "exitCode": 3 } } }] } }))
        .unwrap()
    }

    /// CON-5: the cause of a stuck rollout is the reason in the pods' status.
    #[test]
    fn the_worst_cause_is_shown() {
        let pull = pod(json!({ "waiting": { "reason": "ImagePullBackOff", "message": "Back-off" } }));
        let crash = pod(json!({ "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 20s" } }));
        let slow = pod(json!({ "running": {} }));
        let creating = pod(json!({ "waiting": { "reason": "ContainerCreating" } }));
        let described = |pods: &[&Pod]| {
            pods.iter().copied().filter_map(of).max().map(|cause| (cause.reason, cause.detail))
        };
        let pair = |reason: &str, detail: &str| Some((reason.to_owned(), detail.to_owned()));
        assert_eq!(described(&[&slow, &pull, &crash]), pair("ImagePullBackOff", "nginx:1.91"));
        assert_eq!(described(&[&crash, &slow]), pair("CrashLoopBackOff", "nginx exited with 3"));
        assert_eq!(described(&[&creating]), None);
        assert_eq!(described(&[&slow]).unwrap().0, "NotReady");
    }
}
