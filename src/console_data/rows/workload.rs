//! Deployments and replica sets as rows.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::column_cells::{RowColumn, age, name};
use super::{Cell, Column, Row};
use console_toolkit::health::Health;
use object::well_known::annotation::DEPLOYMENT_REVISION;

/// Returns kubectl's columns, and a STATUS.
pub(crate) fn deployment_columns() -> Vec<RowColumn<Deployment>> {
    vec![
        Column::text("NAME").weight(9).cell(|deployment| name(&deployment.metadata)),
        Column::text("READY").weight(8).cell(|deployment| {
            let ready = deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
            Cell::Ratio(i64::from(ready), i64::from(deployment.spec.replicas.unwrap_or(1)))
        }),
        Column::text("STATUS").weight(8).usual(13).cell(|deployment| {
            let (word, health) = deployment_state(deployment);
            Cell::Status(word.into(), health)
        }),
        Column::number("UP-TO-DATE").weight(6).cell(|deployment| {
            let updated = deployment.status.as_ref().and_then(|status| status.updated_replicas);
            Cell::Number(updated.unwrap_or(0).into())
        }),
        Column::number("AVAILABLE").weight(6).cell(|deployment| {
            let available = deployment.status.as_ref().and_then(|status| status.available_replicas);
            Cell::Number(available.unwrap_or(0).into())
        }),
        Column::text("IMAGES").weight(4).cell(|deployment| images(Some(&deployment.spec.template))),
        Column::text("CONTAINERS").wide().weight(2).cell(|deployment| {
            let names: Vec<&str> =
                containers(Some(&deployment.spec.template)).iter().map(|c| c.name.as_str()).collect();
            Cell::server_text(&names.join(","))
        }),
        Column::text("SELECTOR").wide().weight(1).cell(|deployment| selector(&deployment.spec.selector)),
        Column::text("AGE").weight(7).cell(|deployment| age(&deployment.metadata)),
    ]
}

/// Returns kubectl's columns.
pub(crate) fn replica_set_columns() -> Vec<RowColumn<ReplicaSet>> {
    vec![
        Column::text("NAME").weight(9).cell(|set| name(&set.metadata)),
        Column::number("DESIRED").weight(7).cell(|set| Cell::Number(ReplicaCounts::of(set).want.into())),
        Column::number("CURRENT").weight(7).cell(|set| Cell::Number(ReplicaCounts::of(set).current.into())),
        Column::number("READY").weight(8).cell(|set| Cell::Number(ReplicaCounts::of(set).ready.into())),
        Column::text("REVISION").weight(4).cell(|set| {
            let annotations = set.metadata.annotations.as_ref();
            let revision = annotations.and_then(|all| all.get(DEPLOYMENT_REVISION));
            Cell::or_none(revision.map(String::as_str))
        }),
        Column::text("IMAGES").weight(4).cell(|set| images(set.spec.template.as_ref())),
        Column::text("SELECTOR").wide().weight(1).cell(|set| selector(&set.spec.selector)),
        Column::text("AGE").weight(7).cell(|set| age(&set.metadata)),
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
    Row::of(deployment, Some(deployment_state(deployment).1), &deployment_columns())
}

struct ReplicaCounts {
    want: i32,
    current: i32,
    ready: i32,
}

impl ReplicaCounts {
    fn of(set: &ReplicaSet) -> Self {
        let status = set.status.as_ref();
        Self {
            want: set.spec.replicas.unwrap_or(1),
            current: status.map_or(0, |status| status.replicas),
            ready: status.and_then(|status| status.ready_replicas).unwrap_or(0),
        }
    }
}

pub(crate) fn replica_set_health(set: &ReplicaSet) -> Health {
    let ReplicaCounts { want, current, ready } = ReplicaCounts::of(set);
    match () {
        () if set.metadata.deletion_timestamp.is_some() => Health::Terminating,
        () if want == 0 && current == 0 => Health::Succeeded,
        () if ready < want || current != want => Health::Pending,
        () => Health::Running,
    }
}

pub(crate) fn replica_set_row(set: &ReplicaSet) -> Option<Row> {
    Row::of(set, Some(replica_set_health(set)), &replica_set_columns())
}

fn containers(template: Option<&PodTemplateSpec>) -> &[Container] {
    template.and_then(|template| template.spec.as_ref()).map(|spec| &*spec.containers).unwrap_or_default()
}

fn images(template: Option<&PodTemplateSpec>) -> Cell {
    let images: Vec<&str> = containers(template).iter().filter_map(|c| c.image.as_deref()).collect();
    Cell::server_text(&images.join(","))
}

fn selector(selector: &LabelSelector) -> Cell {
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
    Cell::server_text(&parts.join(","))
}
