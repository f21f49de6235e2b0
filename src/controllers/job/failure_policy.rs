//! Evaluates a Job's pod failure policy for a failed pod.

use k8s_openapi::api::batch::v1::{
    PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern,
};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition};

use object::conditions::Condition as _;

/// The consequence of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FailureAction {
    /// It counts towards the limits.
    Count,
    /// It is ignored.
    Ignore,
    /// The pod's index has failed for good; it counts.
    FailIndex,
    /// The Job has failed, with this message; it counts.
    FailJob(String),
}

impl FailureAction {
    /// Returns true if the failure counts.
    pub(super) fn counts(&self) -> bool {
        *self != Self::Ignore
    }
}

/// Returns the action of the first matching rule; without one the failure counts.
pub(super) fn action_for(policy: Option<&PodFailurePolicy>, pod: &Pod) -> FailureAction {
    for (i, rule) in policy.into_iter().flat_map(|p| &p.rules).enumerate() {
        let name = || {
            let text = |field: &Option<String>| field.clone().unwrap_or_default();
            format!("{}/{}", text(&pod.metadata.namespace), text(&pod.metadata.name))
        };
        let matched = if let Some(codes) = &rule.on_exit_codes {
            exit_that_fits(pod, codes).map(|(container, code)| {
                format!("Container {container} for pod {} failed with exit code {code}", name())
            })
        } else {
            let patterns = rule.on_pod_conditions.as_deref().unwrap_or_default();
            condition_that_fits(pod, patterns)
                .map(|condition| format!("Pod {} has condition {}", name(), condition.type_))
        };
        let Some(what) = matched else { continue };
        return match rule.action.as_str() {
            "Ignore" => FailureAction::Ignore,
            "FailIndex" => FailureAction::FailIndex,
            "FailJob" => FailureAction::FailJob(format!("{what} matching FailJob rule at index {i}")),
            _ => FailureAction::Count,
        };
    }
    FailureAction::Count
}

/// Returns the matching container and its exit code. A container that succeeded never matches.
fn exit_that_fits<'a>(
    pod: &'a Pod,
    codes: &PodFailurePolicyOnExitCodesRequirement,
) -> Option<(&'a str, i32)> {
    let fits = |container: &'a ContainerStatus| {
        let code = container.state.as_ref()?.terminated.as_ref()?.exit_code;
        let named = codes.container_name.as_ref().is_none_or(|name| *name == container.name);
        let desired = match codes.operator.as_str() {
            "In" => codes.values.contains(&code),
            "NotIn" => !codes.values.contains(&code),
            _ => false,
        };
        (named && code != 0 && desired).then_some((container.name.as_str(), code))
    };
    let status = pod.status.as_ref()?;
    let apps = status.container_statuses.iter().flatten();
    apps.chain(status.init_container_statuses.iter().flatten()).find_map(fits)
}

fn condition_that_fits<'a>(
    pod: &'a Pod,
    patterns: &[PodFailurePolicyOnPodConditionsPattern],
) -> Option<&'a PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.iter().flatten();
    let desired = |pattern: &PodFailurePolicyOnPodConditionsPattern, condition: &PodCondition| {
        pattern.type_ == condition.type_
            && pattern.status.as_ref().map_or(condition.is_true(), |status| *status == condition.status)
    };
    conditions.into_iter().find(|condition| patterns.iter().any(|pattern| desired(pattern, condition)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The policy from the Kubernetes page on pod failure policies, with additional rules.
    fn policy() -> PodFailurePolicy {
        serde_json::from_value(json!({"rules": [
            {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
            {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [7]}},
            {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [1, 2]}},
            {"action": "FailJob", "onPodConditions": [{"type": "ConfigIssue", "status": "False"}]},
            {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [9]}},
        ]}))
        .unwrap()
    }

    #[test]
    fn the_first_rule_that_fits_decides_job_1() {
        let ended = |name: &str, code: i32| {
            json!({"name": name, "image": "", "imageID": "", "ready": false,
            "restartCount": 0, "state": {"terminated": {"exitCode": code}}})
        };
        let running = json!({"name": "main", "image": "", "imageID": "", "ready": true, "restartCount": 0,
            "state": {"running": {}}});
        let condition = |type_: &str, status: &str| json!([{"type": type_, "status": status}]);
        let fail = |message: &str| FailureAction::FailJob(message.into());
        let none = json!([]);
        let cases: [(Value, Value, Value, FailureAction); 10] = [
            (
                json!([ended("main", 42)]),
                none.clone(),
                none.clone(),
                fail(
                    "Container main for pod default/p failed with exit code 42 matching FailJob rule at index 0",
                ),
            ),
            (json!([ended("other", 42)]), none.clone(), none.clone(), FailureAction::Count),
            (
                json!([ended("main", 1)]),
                none.clone(),
                condition("DisruptionTarget", "True"),
                FailureAction::Ignore,
            ),
            (
                json!([ended("main", 1)]),
                none.clone(),
                condition("DisruptionTarget", "False"),
                FailureAction::Count,
            ),
            (json!([ended("main", 7)]), none.clone(), none.clone(), FailureAction::FailIndex),
            (json!([ended("main", 9)]), none.clone(), none.clone(), FailureAction::Count),
            (
                json!([ended("main", 2)]),
                none.clone(),
                condition("ConfigIssue", "False"),
                fail("Pod default/p has condition ConfigIssue matching FailJob rule at index 4"),
            ),
            (json!([ended("main", 0)]), none.clone(), none.clone(), FailureAction::Count),
            (json!([running]), json!([ended("prepare", 7)]), none.clone(), FailureAction::FailIndex),
            (none.clone(), none.clone(), none, FailureAction::Count),
        ];
        for (containers, inits, conditions, expected) in cases {
            let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "default"},
                "status": {"phase": "Failed", "containerStatuses": containers,
                    "initContainerStatuses": inits, "conditions": conditions}}))
            .unwrap();
            assert_eq!(action_for(Some(&policy()), &pod), expected, "{pod:?}");
            assert_eq!(action_for(None, &pod), FailureAction::Count);
        }
    }
}
