//! Services and what is behind them.

use k8s_openapi::api::core::v1::{Endpoints, Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};

use super::{NONE, labels_text, or_none};

/// How many endpoints are written out.
const SHOWN_ENDPOINTS: usize = 3;

pub(super) fn service(name: Value, age: Value, service: &Service) -> Vec<Value> {
    let spec = service.spec.as_ref();
    vec![
        name,
        json!(spec.and_then(|s| s.type_.as_deref()).unwrap_or_default()),
        or_none(spec.and_then(|s| s.cluster_ip.as_deref())),
        json!(external_addresses(service)),
        json!(ports_text(spec.and_then(|s| s.ports.as_deref()).unwrap_or_default())),
        age,
        labels_text(spec.and_then(|s| s.selector.as_ref())),
    ]
}

fn external_addresses(service: &Service) -> String {
    let Some(spec) = service.spec.as_ref() else { return NONE.into() };
    let external = |spec: &ServiceSpec| spec.external_ips.clone().unwrap_or_default();
    match spec.type_.as_deref() {
        Some("ExternalName") => spec.external_name.clone().unwrap_or_default(),
        Some("LoadBalancer") => {
            let ingress = service.status.as_ref().and_then(|s| s.load_balancer.as_ref());
            let ingress = ingress.and_then(|b| b.ingress.as_deref()).unwrap_or_default();
            let mut addresses: Vec<String> =
                ingress.iter().filter_map(|i| i.ip.clone().or_else(|| i.hostname.clone())).collect();
            addresses.extend(external(spec));
            if addresses.is_empty() { "<pending>".into() } else { addresses.join(",") }
        }
        _ => {
            let addresses = external(spec);
            if addresses.is_empty() { NONE.into() } else { addresses.join(",") }
        }
    }
}

fn ports_text(ports: &[ServicePort]) -> String {
    if ports.is_empty() {
        return NONE.into();
    }
    let port = |p: &ServicePort| {
        let protocol = p.protocol.as_deref().unwrap_or("TCP");
        match p.node_port {
            Some(node_port) if node_port > 0 => format!("{}:{node_port}/{protocol}", p.port),
            _ => format!("{}/{protocol}", p.port),
        }
    };
    ports.iter().map(port).collect::<Vec<_>>().join(",")
}

/// `10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 2 more...`
pub(super) fn endpoints_text(endpoints: &Endpoints) -> String {
    let mut all = Vec::new();
    for subset in endpoints.subsets.iter().flatten() {
        let addresses = subset.addresses.as_deref().unwrap_or_default();
        match subset.ports.as_deref() {
            Some(ports) if !ports.is_empty() => {
                for port in ports {
                    all.extend(addresses.iter().map(|a| format!("{}:{}", a.ip, port.port)));
                }
            }
            _ => all.extend(addresses.iter().map(|a| a.ip.clone())),
        }
    }
    shortened(&all, NONE)
}

fn shortened(all: &[String], none: &str) -> String {
    if all.is_empty() {
        return none.into();
    }
    let shown = all[..all.len().min(SHOWN_ENDPOINTS)].join(",");
    match all.len().saturating_sub(SHOWN_ENDPOINTS) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

pub(super) fn endpoint_slice(name: Value, age: Value, slice: &EndpointSlice) -> Vec<Value> {
    let ports: Vec<String> = slice
        .ports
        .iter()
        .flatten()
        .map(|p| p.port.map_or_else(|| "*".into(), |port| port.to_string()))
        .collect();
    let addresses: Vec<String> =
        slice.endpoints.iter().flatten().flat_map(|e| e.addresses.iter().cloned()).collect();
    vec![
        name,
        json!(slice.address_type),
        json!(shortened(&ports, "<unset>")),
        json!(shortened(&addresses, "<unset>")),
        age,
    ]
}
