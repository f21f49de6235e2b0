//! What runs pods from a template.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{PodSpec, PodTemplate, PodTemplateSpec, ReplicationController};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

use super::{NONE, labels_text, or_none};
use crate::object::owner;
use crate::object::time::{human_age, human_age_of};

pub(super) fn deployment(name: Value, age: Value, deployment: &Deployment) -> Vec<Value> {
    let spec = &deployment.spec;
    let status = deployment.status.as_ref();
    let desired = spec.replicas.unwrap_or(0);
    let ready = status.and_then(|s| s.ready_replicas).unwrap_or(0);
    let [containers, images] = containers_and_images(Some(&spec.template));
    vec![
        name,
        json!(format!("{ready}/{desired}")),
        json!(status.and_then(|s| s.updated_replicas).unwrap_or(0)),
        json!(status.and_then(|s| s.available_replicas).unwrap_or(0)),
        age,
        containers,
        images,
        json!(selector_text(&spec.selector)),
    ]
}

pub(super) fn replica_set(name: Value, age: Value, set: &ReplicaSet) -> Vec<Value> {
    let spec = &set.spec;
    let status = set.status.as_ref();
    let [containers, images] = containers_and_images(spec.template.as_ref());
    vec![
        name,
        json!(spec.replicas.unwrap_or(0)),
        json!(status.map_or(0, |s| s.replicas)),
        json!(status.and_then(|s| s.ready_replicas).unwrap_or(0)),
        age,
        containers,
        images,
        json!(selector_text(&spec.selector)),
    ]
}

fn containers_and_images(template: Option<&PodTemplateSpec>) -> [Value; 2] {
    let containers = template.and_then(|t| t.spec.as_ref()).map_or(&[][..], |s: &PodSpec| &s.containers);
    let names: Vec<&str> = containers.iter().map(|c| c.name.as_str()).collect();
    let images: Vec<&str> = containers.iter().map(|c| c.image.as_deref().unwrap_or_default()).collect();
    [json!(names.join(",")), json!(images.join(","))]
}

/// As `kubectl` writes a selector: `app=web,tier in (a,b)`.
fn selector_text(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let expressions = selector.match_expressions.iter().flatten().map(|e| {
        let mut values = e.values.clone().unwrap_or_default();
        values.sort();
        let values = values.join(",");
        match e.operator.as_str() {
            "In" => format!("{} in ({values})", e.key),
            "NotIn" => format!("{} notin ({values})", e.key),
            "DoesNotExist" => format!("!{}", e.key),
            _ => e.key.clone(),
        }
    });
    let mut parts: Vec<String> = labels.chain(expressions).collect();
    parts.sort();
    if parts.is_empty() { NONE.into() } else { parts.join(",") }
}

pub(super) fn replication_controller(
    name: Value,
    age: Value,
    controller: &ReplicationController,
) -> Vec<Value> {
    let spec = controller.spec.as_ref();
    let status = controller.status.as_ref();
    let [containers, images] = containers_and_images(spec.and_then(|s| s.template.as_ref()));
    vec![
        name,
        json!(spec.and_then(|s| s.replicas).unwrap_or(0)),
        json!(status.map_or(0, |s| s.replicas)),
        json!(status.and_then(|s| s.ready_replicas).unwrap_or(0)),
        age,
        containers,
        images,
        labels_text(spec.and_then(|s| s.selector.as_ref())),
    ]
}

pub(super) fn pod_template(name: Value, object: &PodTemplate) -> Vec<Value> {
    let template = object.template.as_ref();
    let [containers, images] = containers_and_images(template);
    let labels = template.and_then(|t| t.metadata.as_ref()).and_then(|m| m.labels.as_ref());
    vec![name, containers, images, labels_text(labels)]
}

pub(super) fn revision(name: Value, age: Value, revision: &ControllerRevision) -> Vec<Value> {
    let controller = owner::controller_of(&revision.metadata).map(|owner| {
        let group = owner.api_version.split_once('/').map(|(group, _)| format!(".{group}"));
        format!("{}{}/{}", owner.kind.to_lowercase(), group.unwrap_or_default(), owner.name)
    });
    vec![name, or_none(controller.as_deref()), json!(revision.revision.unwrap_or(0)), age]
}

pub(super) fn stateful_set(name: Value, age: Value, set: &StatefulSet) -> Vec<Value> {
    let ready = set.status.as_ref().and_then(|s| s.ready_replicas).unwrap_or(0);
    let [containers, images] = containers_and_images(Some(&set.spec.template));
    vec![name, json!(format!("{ready}/{}", set.spec.replicas.unwrap_or(0))), age, containers, images]
}

pub(super) fn daemon_set(name: Value, age: Value, set: &DaemonSet) -> Vec<Value> {
    let spec = &set.spec;
    let status = set.status.clone().unwrap_or_default();
    let [containers, images] = containers_and_images(Some(&spec.template));
    vec![
        name,
        json!(status.desired_number_scheduled),
        json!(status.current_number_scheduled),
        json!(status.number_ready),
        json!(status.updated_number_scheduled.unwrap_or(0)),
        json!(status.number_available.unwrap_or(0)),
        labels_text(spec.template.spec.as_ref().and_then(|s| s.node_selector.as_ref())),
        age,
        containers,
        images,
        json!(selector_text(&spec.selector)),
    ]
}

pub(super) fn job(name: Value, age: Value, job: &Job, now: Timestamp) -> Vec<Value> {
    let spec = job.spec.clone().unwrap_or_default();
    let status = job.status.as_ref();
    let succeeded = status.and_then(|s| s.succeeded).unwrap_or(0);
    let completions = match (spec.completions, spec.parallelism.unwrap_or(0)) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, workers) if workers > 1 => format!("{succeeded}/1 of {workers}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let started = status.and_then(|s| s.start_time.as_ref());
    let ended = status.and_then(|s| s.completion_time.as_ref()).map_or(now, |t| t.0);
    let [containers, images] = containers_and_images(Some(&spec.template));
    vec![
        name,
        json!(job_status(job)),
        json!(completions),
        json!(started.map_or_else(String::new, |started| human_age(started.0, ended))),
        age,
        containers,
        images,
        json!(spec.selector.as_ref().map_or_else(|| NONE.into(), selector_text)),
    ]
}

fn job_status(job: &Job) -> &'static str {
    let conditions = job.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let has = |type_: &str| conditions.iter().any(|c| c.type_ == type_ && c.status == "True");
    match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if owner::is_terminating(&job.metadata) => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

pub(super) fn cron_job(name: Value, age: Value, job: &CronJob, now: Timestamp) -> Vec<Value> {
    let spec = &job.spec;
    let status = job.status.as_ref();
    let template = spec.job_template.spec.as_ref();
    let last = status.and_then(|s| s.last_schedule_time.as_ref());
    let [containers, images] = containers_and_images(template.map(|s| &s.template));
    vec![
        name,
        json!(spec.schedule),
        or_none(spec.time_zone.as_deref()),
        json!(if spec.suspend == Some(true) { "True" } else { "False" }),
        json!(status.and_then(|s| s.active.as_ref()).map_or(0, Vec::len)),
        json!(last.map_or_else(|| NONE.into(), |last| human_age_of(Some(last), now))),
        age,
        containers,
        images,
        json!(template.and_then(|s| s.selector.as_ref()).map_or_else(|| NONE.into(), selector_text)),
    ]
}
