//! Defaults of services.

use k8s_openapi::api::core::v1::{ClientIPConfig, Service};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{set, set_text};

/// How long a client sticks to its pod.
const CLIENT_IP_SECONDS: i32 = 10800;

pub(super) fn service(service: &mut Service) {
    let spec = service.spec.get_or_insert_default();
    set_text(&mut spec.session_affinity, "None");
    if spec.session_affinity.as_deref() == Some("ClientIP") {
        let config = spec.session_affinity_config.get_or_insert_default();
        let client = config.client_ip.get_or_insert_with(ClientIPConfig::default);
        set(&mut client.timeout_seconds, CLIENT_IP_SECONDS);
    } else {
        spec.session_affinity_config = None;
    }
    set_text(&mut spec.type_, "ClusterIP");
    for port in spec.ports.iter_mut().flatten() {
        set_text(&mut port.protocol, "TCP");
        let unset = match &port.target_port {
            None | Some(IntOrString::Int(0)) => true,
            Some(IntOrString::String(name)) => name.is_empty(),
            Some(IntOrString::Int(_)) => false,
        };
        if unset {
            port.target_port = Some(IntOrString::Int(port.port));
        }
    }
    let kind = spec.type_.as_deref().unwrap_or_default();
    let external = matches!(kind, "NodePort" | "LoadBalancer");
    let has_external_addresses = spec.external_ips.as_ref().is_some_and(|ips| !ips.is_empty());
    if external || (kind == "ClusterIP" && has_external_addresses) {
        set_text(&mut spec.external_traffic_policy, "Cluster");
    }
    if kind == "LoadBalancer" {
        set(&mut spec.allocate_load_balancer_node_ports, true);
    }
    if external || kind == "ClusterIP" {
        set_text(&mut spec.internal_traffic_policy, "Cluster");
        set(&mut spec.ip_families, vec!["IPv4".to_string()]);
        set_text(&mut spec.ip_family_policy, "SingleStack");
    }
}
