//! Builds the pods of a Job from its template.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod};

use super::counts::{FAILURE_COUNT, IGNORED_FAILURE_COUNT, number};
use super::failure_policy::action_for;
use super::view::Member;
use crate::pod_control;
use base::sort::CollectMap;
use object::SharedObject;
use object::finalizers::add_finalizer;
use object::job::{COMPLETION_INDEX, TRACKING_FINALIZER};

/// The environment variable with the index, in containers of an indexed Job.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// The longest prefix of a generated name.
const MAX_PREFIX: usize = 58;

/// Builds a pod, without a name yet. If each index has a limit, the pod takes over the failure counts of the failed
/// pod it replaces.
pub(super) fn pod_of(
    job: &SharedObject<Job>,
    spec: &JobSpec,
    index: Option<i32>,
    replaced: Option<&Member>,
) -> Pod {
    let mut pod = pod_control::pod_of(job.object(), &spec.template);
    add_finalizer(&mut pod.metadata, TRACKING_FINALIZER);
    let Some(index) = index else { return pod };
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(COMPLETION_INDEX.into(), index.to_string());
    if spec.backoff_limit_per_index.is_some() {
        annotations.extend(failure_counts(spec, replaced));
    }
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(COMPLETION_INDEX.into(), index.to_string());
    let end = format!("-{index}-");
    let name = &job.name()[..job.name().floor_char_boundary(MAX_PREFIX - end.len())];
    pod.metadata.generate_name = Some(format!("{name}{end}"));
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(format!("{}-{index}", job.name()));
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        add_index_variable(container);
    }
    pod
}

/// Returns the failure counts of the index.
fn failure_counts(spec: &JobSpec, replaced: Option<&Member>) -> BTreeMap<String, String> {
    let (mut failures, mut ignored) = (0, 0);
    if let Some(replaced) = replaced {
        (failures, ignored) = (number(replaced, FAILURE_COUNT), number(replaced, IGNORED_FAILURE_COUNT));
        let counts = action_for(spec.pod_failure_policy.as_ref(), &replaced.pod).counts();
        let counter = if counts { &mut failures } else { &mut ignored };
        *counter = counter.saturating_add(1);
    }
    let mut counts: BTreeMap<_, _> = [(FAILURE_COUNT.to_string(), failures.to_string())].collect_map();
    if ignored > 0 {
        counts.insert(IGNORED_FAILURE_COUNT.into(), ignored.to_string());
    }
    counts
}

fn add_index_variable(container: &mut Container) {
    let variables = container.env.get_or_insert_default();
    if variables.iter().any(|v| v.name == INDEX_VARIABLE) {
        return;
    }
    let field = ObjectFieldSelector {
        field_path: format!("metadata.labels['{COMPLETION_INDEX}']"),
        ..ObjectFieldSelector::default()
    };
    variables.push(EnvVar {
        name: INDEX_VARIABLE.into(),
        value: None,
        value_from: Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() }),
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(name: &str) -> SharedObject<Job> {
        let job = json!({"metadata": {"name": name, "namespace": "default", "uid": "j"},
            "spec": {"completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": 2,
                "podFailurePolicy": {"rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
                    "initContainers": [{"name": "i", "env": [{"name": INDEX_VARIABLE, "value": "mine"}]}],
                    "containers": [{"name": "c"}]}}}});
        SharedObject::from_value(serde_json::from_value(job).unwrap())
    }

    #[test]
    fn an_indexed_pod_knows_its_index_job_1() {
        let job = job("sweep");
        let pod = pod_of(&job, job.spec.as_ref().unwrap(), Some(2), None);
        let value = serde_json::to_value(&pod).unwrap();
        assert_eq!(value["metadata"]["generateName"], "sweep-2-");
        assert_eq!(value["metadata"]["finalizers"], json!([TRACKING_FINALIZER]));
        assert_eq!(value["metadata"]["labels"], json!({"a": "b", COMPLETION_INDEX: "2"}));
        assert_eq!(value["metadata"]["annotations"], json!({COMPLETION_INDEX: "2", FAILURE_COUNT: "0"}));
        assert_eq!(value["spec"]["hostname"], "sweep-2");
        let path = format!("metadata.labels['{COMPLETION_INDEX}']");
        assert_eq!(
            value["spec"]["containers"][0]["env"],
            json!([{"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": path}}}])
        );
        assert_eq!(
            value["spec"]["initContainers"][0]["env"],
            json!([{"name": INDEX_VARIABLE, "value": "mine"}])
        );
        let long = self::job(&"x".repeat(60));
        let pod = pod_of(&long, long.spec.as_ref().unwrap(), Some(11), None);
        assert_eq!(pod.metadata.generate_name.unwrap(), format!("{}-11-", "x".repeat(54)));
    }

    #[test]
    fn a_replacement_takes_over_how_often_its_index_failed_job_1() {
        let job = job("sweep");
        let spec = job.spec.as_ref().unwrap();
        for (before, condition, expected) in [
            (json!({FAILURE_COUNT: "1"}), "Ready", json!({COMPLETION_INDEX: "0", FAILURE_COUNT: "2"})),
            (
                json!({FAILURE_COUNT: "1", IGNORED_FAILURE_COUNT: "4"}),
                "DisruptionTarget",
                json!({COMPLETION_INDEX: "0", FAILURE_COUNT: "1", IGNORED_FAILURE_COUNT: "5"}),
            ),
            (json!({FAILURE_COUNT: "-3"}), "Ready", json!({COMPLETION_INDEX: "0", FAILURE_COUNT: "1"})),
        ] {
            let failed = json!({"metadata": {"name": "p", "annotations": before},
                "status": {"phase": "Failed", "conditions": [{"type": condition, "status": "True"}]}});
            let failed = Member::new(SharedObject::from_value(serde_json::from_value(failed).unwrap()));
            let pod = pod_of(&job, spec, Some(0), Some(&failed));
            assert_eq!(serde_json::to_value(pod.metadata.annotations).unwrap(), expected, "{before}");
        }
    }
}
