//! Finds the service and the port that a connection uses.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::destination::Port;
use super::report::{Finding, WalkStep};
use base::sort::SliceOrder;
use network_policy::Protocol;
use object::Key;
use object::service::{cluster_ips, load_balancer_ips};

/// Returns the edit distance of two words.
pub(super) fn distance(one: &str, other: &str) -> usize {
    strsim::osa_distance(one, other)
}

/// The service port that a connection uses.
pub(super) struct SelectedPort {
    /// Its name; empty if it has none.
    pub(super) name: String,
    pub(super) protocol: Protocol,
    /// The port number at the service's address.
    pub(super) number: u16,
    /// The target port at its pods, as written in the service.
    pub(super) target: String,
}

/// Returns the service's cluster IP; `None` for a headless service.
pub(super) fn address(service: &Service) -> Option<IpAddr> {
    service.spec.as_ref()?.cluster_ip.as_ref()?.parse().ok()
}

/// Returns whether clients of the cluster reach the service at this address: its own, one of its `externalIPs` or of
/// its load balancer.
pub(super) fn is_served_at(service: &Service, ip: IpAddr) -> bool {
    let Some(spec) = &service.spec else { return false };
    let external = spec.external_ips.iter().flatten().filter_map(|text| text.parse().ok());
    cluster_ips(spec).chain(load_balancer_ips(service)).chain(external).any(|own| own == ip)
}

/// Finds the requested port.
pub(super) fn choose(service: &Service, requested: Option<&Port>) -> (Finding, Option<SelectedPort>) {
    let key = Key::of(&service.metadata);
    let ports: Vec<&ServicePort> = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten()).collect();
    let listed: Vec<String> = ports.iter().map(|port| described(port)).collect();
    let refused = |text: String, advice: String| {
        (Finding::problem(WalkStep::Port, text, advice).with(listed.clone()), None)
    };
    let found = match requested {
        None if ports.len() == 1 => ports.first(),
        None if ports.is_empty() => {
            return refused(format!("service {key} has no port"), "use DESTINATION:PORT".to_owned());
        }
        None => {
            let text = format!("service {key} has {} ports; choose one", ports.len());
            return refused(text, "use DESTINATION:PORT with one of them".to_owned());
        }
        // If two ports have the same number, TCP takes precedence.
        Some(Port::Number(number)) => {
            let mut same: Vec<_> = ports.iter().filter(|port| port.port == i32::from(*number)).collect();
            same.order_by_key(|port| port.protocol.as_deref().is_some_and(|protocol| protocol != "TCP"));
            same.first().copied()
        }
        Some(Port::Name(name)) => ports.iter().find(|port| port.name.as_ref() == Some(name)),
    };
    match (found, requested) {
        (Some(port), _) => {
            let Some(chosen) = chosen(port) else {
                return refused(
                    format!("port {} has an invalid protocol or number", port.port),
                    "correct the port in the service".into(),
                );
            };
            (Finding::fine(WalkStep::Port, format!("service {key}, {}", described(port))), Some(chosen))
        }
        (None, Some(requested)) => {
            let port_text = requested.to_string();
            let of_pods = ports.iter().find(|port| target(port) == port_text);
            let advice = match (of_pods, ports.as_slice()) {
                (Some(port), _) => {
                    format!("{port_text} is the pods' port (targetPort); clients use {}", port.port)
                }
                (None, [one]) => format!("use {}", one.port),
                (None, _) => "use one of its ports, or add this one".to_owned(),
            };
            refused(format!("service {key} has no port {port_text}"), advice)
        }
        (None, None) => refused(format!("service {key} has no port"), "add one".into()),
    }
}

/// Reads a service port; `None` if its protocol or number is invalid.
pub(super) fn chosen(port: &ServicePort) -> Option<SelectedPort> {
    Some(SelectedPort {
        name: port.name.clone().unwrap_or_default(),
        protocol: Protocol::read(port.protocol.as_deref())?,
        number: u16::try_from(port.port).ok()?,
        target: target(port),
    })
}

fn target(port: &ServicePort) -> String {
    match &port.target_port {
        Some(IntOrString::Int(number)) if *number != 0 => number.to_string(),
        Some(IntOrString::String(name)) if !name.is_empty() => name.clone(),
        _ => port.port.to_string(),
    }
}

/// Formats a port: `8080/TCP (http) to port 80 of its pods`.
fn described(port: &ServicePort) -> String {
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    let name = port.name.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
    format!("{}/{protocol}{name} to port {} of its pods", port.port, target(port))
}
