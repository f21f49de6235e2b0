//! Selects the endpoints for a client, by kube-proxy's rules (`CategorizeEndpoints`).

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::nodes::NodesByName;
use ::services::ServiceEndpoints;
use ::services::proxy::table::{Protocol, port_in};
use object::endpoint::{self, EndpointState};

/// An endpoint of one service port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) node: Option<String>,
    /// It takes new connections.
    pub(crate) ready: bool,
    /// The zones in its topology hints; empty if it has no hints.
    pub(crate) zones: Vec<String>,
    /// The nodes in its topology hints; empty if it has no hints.
    pub(crate) nodes: Vec<String>,
}

/// Returns the endpoints of a port that are ready, or still serve while they terminate; each address once.
pub(crate) fn of_port(
    joined: &ServiceEndpoints,
    address_type: &str,
    (name, protocol): (&str, Protocol),
    node_map: &NodesByName,
    is_service: impl Fn(IpAddr) -> bool,
) -> Vec<Endpoint> {
    let mut all: Vec<Endpoint> = Vec::new();
    let mut known = HashSet::new();
    for slice in joined.slices.values().filter(|slice| slice.address_type == address_type) {
        let Some(port) = port_in(slice, name, protocol) else { continue };
        for endpoint in of_slice(slice, port, node_map) {
            // An endpoint at a service's address would be a loop.
            if !is_service(endpoint.address.ip()) && known.insert(endpoint.address) {
                all.push(endpoint);
            }
        }
    }
    all
}

fn of_slice<'a>(
    slice: &'a EndpointSlice,
    port: u16,
    node_map: &'a NodesByName,
) -> impl Iterator<Item = Endpoint> + 'a {
    slice.endpoints.iter().flatten().filter_map(move |endpoint| {
        let ready = endpoint::state(endpoint)? == EndpointState::Ready;
        // The addresses of one endpoint are interchangeable.
        let ip: IpAddr = endpoint.addresses.first()?.parse().ok()?;
        let node = endpoint.node_name.clone();
        // A pod of a hollow node has no processes.
        if endpoint::pod(endpoint).is_some() && node.as_ref().is_none_or(|node| !node_map.contains_key(node))
        {
            return None;
        }
        let hints = endpoint.hints.clone().unwrap_or_default();
        let zones = hints.for_zones.into_iter().flatten().map(|zone| zone.name).collect();
        let nodes = hints.for_nodes.into_iter().flatten().map(|node| node.name).collect();
        Some(Endpoint { address: SocketAddr::new(ip, port), node, ready, zones, nodes })
    })
}

/// Returns the ready endpoints, or, if there are none, those that still serve.
pub(crate) fn usable<'a>(all: impl IntoIterator<Item = &'a Endpoint>) -> Vec<&'a Endpoint> {
    let (ready, draining): (Vec<_>, Vec<_>) = all.into_iter().partition(|endpoint| endpoint.ready);
    if ready.is_empty() { draining } else { ready }
}

/// Returns the endpoints that topology hints select for clients of a node: those for the node, else those for its zone;
/// all of them if the hints do not help.
pub(crate) fn hinted<'a>(all: &[&'a Endpoint], node: &str, zone: Option<&str>) -> Vec<&'a Endpoint> {
    let ready = || all.iter().copied().filter(|endpoint| endpoint.ready);
    let by = |has: fn(&Endpoint) -> &[String], name: &str| -> Option<Vec<&'a Endpoint>> {
        // If a single endpoint has no hint, all hints are ignored.
        if ready().next().is_none() || ready().any(|endpoint| has(endpoint).is_empty()) {
            return None;
        }
        let own: Vec<_> =
            ready().filter(|endpoint| has(endpoint).iter().any(|known| known == name)).collect();
        (!own.is_empty()).then_some(own)
    };
    by(|endpoint| &endpoint.nodes, node)
        .or_else(|| by(|endpoint| &endpoint.zones, zone?))
        .unwrap_or_else(|| all.to_vec())
}
