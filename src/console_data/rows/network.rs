//! Services, namespaces and disruption budgets as rows.

use compact_str::ToCompactString;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Cell, Column, Row};
use console_toolkit::health::Health;

/// Returns kubectl's columns.
pub(crate) fn service_columns() -> Vec<Column> {
    vec![
        Column::text("NAME").weight(9),
        Column::text("TYPE").weight(7),
        Column::text("CLUSTER-IP").weight(7),
        Column::text("EXTERNAL-IP").weight(4),
        Column::text("PORT(S)").weight(6),
        Column::text("SELECTOR").weight(2),
        Column::text("AGE").weight(8),
    ]
}

pub(crate) fn service_row(service: &Service) -> Option<Row> {
    let spec = service.spec.as_ref();
    let kind = spec.and_then(|s| s.type_.as_deref()).unwrap_or("ClusterIP");
    let external = match kind {
        "ExternalName" => spec.and_then(|s| s.external_name.clone()),
        "LoadBalancer" => {
            let ingress = service
                .status
                .as_ref()
                .and_then(|s| s.load_balancer.as_ref())
                .and_then(|l| l.ingress.as_ref());
            let all: Vec<&str> = ingress
                .into_iter()
                .flatten()
                .filter_map(|i| i.ip.as_deref().or(i.hostname.as_deref()))
                .collect();
            Some(if all.is_empty() { "<pending>".into() } else { all.join(",") })
        }
        _ => spec.and_then(|s| s.external_ips.as_ref()).map(|ips| ips.join(",")),
    };
    let ports: Vec<String> = spec
        .into_iter()
        .flat_map(|s| s.ports.iter().flatten())
        .map(|port| {
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            match port.node_port.filter(|node| *node > 0) {
                Some(node) => format!("{}:{node}/{protocol}", port.port),
                None => format!("{}/{protocol}", port.port),
            }
        })
        .collect();
    let selector = spec.and_then(|s| s.selector.as_ref()).into_iter().flatten();
    let selector: Vec<String> = selector.map(|(key, value)| format!("{key}={value}")).collect();
    let cells = vec![
        Cell::server_text(service.metadata.name.as_deref().unwrap_or_default()),
        Cell::server_text(kind),
        Cell::or_none(spec.and_then(|s| s.cluster_ip.as_deref())),
        Cell::or_none(external.as_deref()),
        Cell::or_none(Some(&ports.join(","))),
        Cell::or_none(Some(&selector.join(","))),
        Cell::Age(service.metadata.creation_timestamp.as_ref().map(|time| time.0)),
    ];
    Row::of(service, None, cells)
}

/// Returns kubectl's columns.
pub(crate) fn namespace_columns() -> Vec<Column> {
    vec![Column::text("NAME").weight(9), Column::text("STATUS").weight(8), Column::text("AGE").weight(8)]
}

pub(crate) fn namespace_row(namespace: &Namespace) -> Option<Row> {
    let phase = namespace.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or("Active");
    let health = if phase == "Active" { Health::Running } else { Health::Terminating };
    let cells = vec![
        Cell::server_text(namespace.metadata.name.as_deref().unwrap_or_default()),
        Cell::Status(console_toolkit::text::clean(phase).into(), health),
        Cell::Age(namespace.metadata.creation_timestamp.as_ref().map(|time| time.0)),
    ];
    Row::of(namespace, Some(health), cells)
}

/// Returns kubectl's columns, and the counts of pods.
pub(crate) fn budget_columns() -> Vec<Column> {
    vec![
        Column::text("NAME").weight(9),
        Column::text("MIN AVAILABLE").weight(7),
        Column::text("MAX UNAVAILABLE").weight(7),
        Column::number("ALLOWED DISRUPTIONS").weight(8),
        Column::text("HEALTHY").weight(5),
        Column::text("AGE").weight(8),
    ]
}

pub(crate) fn budget_row(budget: &PodDisruptionBudget) -> Option<Row> {
    let spec = budget.spec.as_ref();
    let status = budget.status.as_ref();
    let number = |value: Option<&IntOrString>| match value {
        Some(IntOrString::Int(number)) => Cell::Text(number.to_compact_string()),
        Some(IntOrString::String(text)) => Cell::server_text(text),
        None => Cell::Dim("N/A".into()),
    };
    let allowed = status.and_then(|s| s.disruptions_allowed).unwrap_or(0);
    let health = if allowed > 0 { Health::Running } else { Health::Pending };
    let cells = vec![
        Cell::server_text(budget.metadata.name.as_deref().unwrap_or_default()),
        number(spec.and_then(|s| s.min_available.as_ref())),
        number(spec.and_then(|s| s.max_unavailable.as_ref())),
        Cell::Number(i64::from(allowed)),
        Cell::Ratio(
            status.and_then(|s| s.current_healthy).unwrap_or(0).into(),
            status.and_then(|s| s.expected_pods).unwrap_or(0).into(),
        ),
        Cell::Age(budget.metadata.creation_timestamp.as_ref().map(|time| time.0)),
    ];
    Row::of(budget, Some(health), cells)
}
