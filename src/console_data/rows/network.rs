//! Services, namespaces and disruption budgets as rows.

use compact_str::ToCompactString;
use k8s_openapi::api::core::v1::{Namespace, Service, ServiceSpec};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::column_cells::{RowColumn, age, name};
use super::{Cell, Column, Row};
use console_toolkit::health::Health;
use console_toolkit::text::clean;

/// Returns kubectl's columns.
pub(crate) fn service_columns() -> Vec<RowColumn<Service>> {
    vec![
        Column::text("NAME").weight(9).cell(|service| name(&service.metadata)),
        Column::text("TYPE").weight(7).cell(|service| Cell::server_text(service_type(service))),
        Column::text("CLUSTER-IP")
            .weight(7)
            .cell(|service| Cell::or_none(service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()))),
        Column::text("EXTERNAL-IP").weight(4).cell(|service| Cell::or_none(external(service).as_deref())),
        Column::text("PORT(S)").weight(6).cell(|service| Cell::or_none(Some(&ports(service.spec.as_ref())))),
        Column::text("SELECTOR").weight(2).cell(|service| {
            let selector = service.spec.iter().flat_map(|spec| spec.selector.iter().flatten());
            let selector: Vec<String> = selector.map(|(key, value)| format!("{key}={value}")).collect();
            Cell::or_none(Some(&selector.join(",")))
        }),
        Column::text("AGE").weight(8).cell(|service| age(&service.metadata)),
    ]
}

fn service_type(service: &Service) -> &str {
    service.spec.as_ref().and_then(|spec| spec.type_.as_deref()).unwrap_or("ClusterIP")
}

fn external(service: &Service) -> Option<String> {
    let spec = service.spec.as_ref();
    match service_type(service) {
        "ExternalName" => spec?.external_name.clone(),
        "LoadBalancer" => {
            let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
            let ingress = balancer.into_iter().flat_map(|balancer| balancer.ingress.iter().flatten());
            let ingress = ingress.filter_map(|one| one.ip.as_deref().or(one.hostname.as_deref()));
            let external = spec.into_iter().flat_map(|spec| spec.external_ips.iter().flatten());
            let all: Vec<&str> = ingress.chain(external.map(String::as_str)).collect();
            Some(if all.is_empty() { "<pending>".into() } else { all.join(",") })
        }
        _ => spec?.external_ips.as_ref().map(|ips| ips.join(",")),
    }
}

fn ports(spec: Option<&ServiceSpec>) -> String {
    let ports = spec.into_iter().flat_map(|spec| spec.ports.iter().flatten()).map(|port| {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        match port.node_port.filter(|node| *node > 0) {
            Some(node) => format!("{}:{node}/{protocol}", port.port),
            None => format!("{}/{protocol}", port.port),
        }
    });
    ports.collect::<Vec<_>>().join(",")
}

pub(crate) fn service_row(service: &Service) -> Option<Row> {
    Row::of(service, None, &service_columns())
}

/// Returns kubectl's columns.
pub(crate) fn namespace_columns() -> Vec<RowColumn<Namespace>> {
    vec![
        Column::text("NAME").weight(9).cell(|namespace| name(&namespace.metadata)),
        Column::text("STATUS").weight(8).cell(|namespace| {
            let (phase, health) = namespace_state(namespace);
            Cell::Status(clean(phase).into(), health)
        }),
        Column::text("AGE").weight(8).cell(|namespace| age(&namespace.metadata)),
    ]
}

fn namespace_state(namespace: &Namespace) -> (&str, Health) {
    let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Active");
    (phase, if phase == "Active" { Health::Running } else { Health::Terminating })
}

pub(crate) fn namespace_row(namespace: &Namespace) -> Option<Row> {
    Row::of(namespace, Some(namespace_state(namespace).1), &namespace_columns())
}

/// Returns kubectl's columns, and the counts of pods.
pub(crate) fn budget_columns() -> Vec<RowColumn<PodDisruptionBudget>> {
    vec![
        Column::text("NAME").weight(9).cell(|budget| name(&budget.metadata)),
        Column::text("MIN AVAILABLE").weight(7).cell(|budget| {
            number_or_share(budget.spec.as_ref().and_then(|spec| spec.min_available.as_ref()))
        }),
        Column::text("MAX UNAVAILABLE").weight(7).cell(|budget| {
            number_or_share(budget.spec.as_ref().and_then(|spec| spec.max_unavailable.as_ref()))
        }),
        Column::number("ALLOWED DISRUPTIONS")
            .weight(8)
            .cell(|budget| Cell::Number(i64::from(allowed_disruptions(budget)))),
        Column::text("HEALTHY").weight(5).cell(|budget| {
            let status = budget.status.as_ref();
            Cell::Ratio(
                status.and_then(|status| status.current_healthy).unwrap_or(0).into(),
                status.and_then(|status| status.expected_pods).unwrap_or(0).into(),
            )
        }),
        Column::text("AGE").weight(8).cell(|budget| age(&budget.metadata)),
    ]
}

fn number_or_share(value: Option<&IntOrString>) -> Cell {
    match value {
        Some(IntOrString::Int(number)) => Cell::Text(number.to_compact_string()),
        Some(IntOrString::String(text)) => Cell::server_text(text),
        None => Cell::Dim("N/A".into()),
    }
}

fn allowed_disruptions(budget: &PodDisruptionBudget) -> i32 {
    budget.status.as_ref().and_then(|status| status.disruptions_allowed).unwrap_or(0)
}

pub(crate) fn budget_row(budget: &PodDisruptionBudget) -> Option<Row> {
    let health = if allowed_disruptions(budget) > 0 { Health::Running } else { Health::Pending };
    Row::of(budget, Some(health), &budget_columns())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_external_addresses_of_a_service_are_those_that_kubectl_shows_con_2() {
        let ips = ["192.0.2.7", "192.0.2.8"];
        let ingress = json!([{"ip": "192.0.2.1"}, {"hostname": "lb.example"}]);
        for (spec, ingress, text) in [
            (json!({"type": "LoadBalancer"}), json!([]), Some("<pending>")),
            (json!({"type": "LoadBalancer"}), ingress.clone(), Some("192.0.2.1,lb.example")),
            (json!({"type": "LoadBalancer", "externalIPs": ips}), json!([]), Some("192.0.2.7,192.0.2.8")),
            (
                json!({"type": "LoadBalancer", "externalIPs": ips}),
                ingress,
                Some("192.0.2.1,lb.example,192.0.2.7,192.0.2.8"),
            ),
            (json!({"type": "ClusterIP", "externalIPs": ips}), json!([]), Some("192.0.2.7,192.0.2.8")),
            (json!({"type": "NodePort"}), json!([]), None),
            (json!({"type": "ExternalName", "externalName": "db.example"}), json!([]), Some("db.example")),
        ] {
            let service = json!({"metadata": {"name": "web", "uid": "web"}, "spec": spec,
                "status": {"loadBalancer": {"ingress": ingress}}});
            let row = service_row(&serde_json::from_value(service).unwrap()).unwrap();
            assert_eq!(row.cells[3], Cell::or_none(text), "{spec}");
        }
    }
}
