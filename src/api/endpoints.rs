//! The endpoints of a service, as stored.

use std::net::SocketAddr;

use k8s_openapi::api::core::v1::{Endpoints, Node, Service};
use rand::seq::IndexedRandom;

use crate::{Api, ApiError};
use object::Key;
use object::low_ports::LowPorts;

/// Returns one of a service's ready endpoints, chosen at random.
pub fn of_service(api: &Api, key: &Key, requested: &str, port: &str) -> Result<SocketAddr, ApiError> {
    let service = api.get_as::<Service>(key)?;
    let none = |name: &str| ApiError::Unavailable(format!("no endpoints available for service \"{name}\""));
    let mut port_name = port.to_string();
    if let Ok(number) = port.parse::<i64>() {
        let mut ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
        let known = ports.find(|known| i64::from(known.port) == number).ok_or_else(|| {
            ApiError::Unavailable(format!("no service port {number} found for service \"{}\"", key.name))
        })?;
        port_name = known.name.clone().unwrap_or_default();
    }
    let endpoints = api.get_as::<Endpoints>(key)?;
    let subsets = endpoints.subsets.as_deref().unwrap_or_default();
    if subsets.is_empty() {
        return Err(none(&key.name));
    }
    let mut found = Vec::new();
    for subset in subsets {
        let port = subset.ports.iter().flatten().find(|p| p.name.clone().unwrap_or_default() == port_name);
        if let Some(port) = port.and_then(|port| u16::try_from(port.port).ok()) {
            found.extend(subset.addresses.iter().flatten().map(|address| (address, port)));
        }
    }
    let (address, port) = found.choose(&mut base::random::rng()).ok_or_else(|| none(requested))?;
    let ip = address.ip.parse().map_err(|_| none(requested))?;
    Ok(SocketAddr::new(ip, served(api, address.node_name.as_deref(), *port)))
}

/// Returns the port under which a node serves a pod's port: low ports may be mapped.
pub fn served(api: &Api, node: Option<&str>, port: u16) -> u16 {
    let node = node.and_then(|name| api.get_as::<Node>(&Key::new("", name)).ok());
    node.map_or(LowPorts::default(), |node| LowPorts::of_node(&node)).served(port)
}
