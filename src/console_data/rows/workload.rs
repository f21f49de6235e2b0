//! Deployments and replica sets as rows.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{Cell, Column, Row};
use console_toolkit::health::Health;
use object::well_known::annotation::DEPLOYMENT_REVISION;

/// Returns kubectl's columns, and a STATUS.
pub(crate) fn deployment_columns() -> Vec<Column> {
    vec![
        Column::text("NAME").weight(9),
        Column::text("READY").weight(8),
        Column::text("STATUS").weight(8).usual(13),
        Column::number("UP-TO-DATE").weight(6),
        Column::number("AVAILABLE").weight(6),
        Column::text("IMAGES").weight(4),
        Column::text("CONTAINERS").wide().weight(2),
        Column::text("SELECTOR").wide().weight(1),
        Column::text("AGE").weight(7),
    ]
}

/// Returns kubectl's columns.
pub(crate) fn replica_set_columns() -> Vec<Column> {
    vec![
        Column::text("NAME").weight(9),
        Column::number("DESIRED").weight(7),
        Column::number("CURRENT").weight(7),
        Column::number("READY").weight(8),
        Column::text("REVISION").weight(4),
        Column::text("IMAGES").weight(4),
        Column::text("SELECTOR").wide().weight(1),
        Column::text("AGE").weight(7),
    ]
}

/// Returns the state of a deployment: a word in the sense of `kubectl rollout status`, and its health.
pub fn deployment_state(deployment: &Deployment) -> (&'static str, Health) {
    let spec = &deployment.spec;
    let status = deployment.status.as_ref();
    let want = spec.replicas.unwrap_or(1);
    let condition = |name: &str| {
        let all = status.and_then(|s| s.conditions.as_ref());
        all.and_then(|all| all.iter().find(|c| c.type_.as_deref() == Some(name)))
    };
    let observed = status.and_then(|s| s.observed_generation) >= deployment.metadata.generation;
    let updated = status.and_then(|s| s.updated_replicas).unwrap_or(0);
    let total = status.and_then(|s| s.replicas).unwrap_or(0);
    let available = status.and_then(|s| s.available_replicas).unwrap_or(0);
    match () {
        () if deployment.metadata.deletion_timestamp.is_some() => ("Terminating", Health::Terminating),
        () if spec.paused == Some(true) => ("Paused", Health::Terminating),
        () if condition("Progressing")
            .is_some_and(|c| c.reason.as_deref() == Some("ProgressDeadlineExceeded")) =>
        {
            ("Stuck", Health::Failed)
        }
        () if condition("ReplicaFailure").is_some_and(|c| c.status.as_deref() == Some("True")) => {
            ("ReplicaFailure", Health::Failed)
        }
        () if !observed || updated < want || total > updated => ("Progressing", Health::Pending),
        () if available < want => ("Unavailable", Health::Pending),
        () if want == 0 => ("Scaled to 0", Health::Succeeded),
        () => ("Available", Health::Running),
    }
}

pub(crate) fn deployment_row(deployment: &Deployment) -> Option<Row> {
    let spec = &deployment.spec;
    let status = deployment.status.as_ref();
    let count = |number: Option<i32>| i64::from(number.unwrap_or(0));
    let want = i64::from(spec.replicas.unwrap_or(1));
    let (word, health) = deployment_state(deployment);
    let (containers, images) = template(Some(&spec.template));
    let cells = vec![
        Cell::server_text(deployment.metadata.name.as_deref().unwrap_or_default()),
        Cell::Ratio(count(status.and_then(|s| s.ready_replicas)), want),
        Cell::Status(word.into(), health),
        Cell::Number(count(status.and_then(|s| s.updated_replicas))),
        Cell::Number(count(status.and_then(|s| s.available_replicas))),
        Cell::server_text(&images),
        Cell::server_text(&containers),
        Cell::server_text(&selector(&spec.selector)),
        Cell::Age(deployment.metadata.creation_timestamp.as_ref().map(|time| time.0)),
    ];
    Row::of(deployment, Some(health), cells)
}

pub(crate) fn replica_set_health(set: &ReplicaSet) -> Health {
    let status = set.status.as_ref();
    let want = set.spec.replicas.unwrap_or(1);
    let ready = status.and_then(|s| s.ready_replicas).unwrap_or(0);
    let current = status.map_or(0, |s| s.replicas);
    match () {
        () if set.metadata.deletion_timestamp.is_some() => Health::Terminating,
        () if want == 0 && current == 0 => Health::Succeeded,
        () if ready < want || current != want => Health::Pending,
        () => Health::Running,
    }
}

pub(crate) fn replica_set_row(set: &ReplicaSet) -> Option<Row> {
    let spec = &set.spec;
    let status = set.status.as_ref();
    let want = spec.replicas.unwrap_or(1);
    let ready = status.and_then(|s| s.ready_replicas).unwrap_or(0);
    let current = status.map_or(0, |s| s.replicas);
    let health = replica_set_health(set);
    let revision = set.metadata.annotations.as_ref().and_then(|all| all.get(DEPLOYMENT_REVISION));
    let (_, images) = template(spec.template.as_ref());
    let cells = vec![
        Cell::server_text(set.metadata.name.as_deref().unwrap_or_default()),
        Cell::Number(i64::from(want)),
        Cell::Number(i64::from(current)),
        Cell::Number(i64::from(ready)),
        Cell::or_none(revision.map(String::as_str)),
        Cell::server_text(&images),
        Cell::server_text(&selector(&spec.selector)),
        Cell::Age(set.metadata.creation_timestamp.as_ref().map(|time| time.0)),
    ];
    Row::of(set, Some(health), cells)
}

fn template(template: Option<&PodTemplateSpec>) -> (String, String) {
    let containers =
        template.and_then(|t| t.spec.as_ref()).map(|s| s.containers.as_slice()).unwrap_or_default();
    let names: Vec<&str> = containers.iter().map(|c| c.name.as_str()).collect();
    let images: Vec<&str> = containers.iter().filter_map(|c| c.image.as_deref()).collect();
    (names.join(","), images.join(","))
}

fn selector(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten();
    let mut parts: Vec<String> = labels.map(|(key, value)| format!("{key}={value}")).collect();
    for rule in selector.match_expressions.iter().flatten() {
        let values = rule.values.clone().unwrap_or_default().join(",");
        parts.push(match rule.operator.as_str() {
            "Exists" => rule.key.clone(),
            "DoesNotExist" => format!("!{}", rule.key),
            operator => format!("{} {} ({values})", rule.key, operator.to_lowercase()),
        });
    }
    parts.join(",")
}
