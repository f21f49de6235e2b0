//! Evaluates a model like a kernel: it knows addresses, but no policies, labels or namespaces.

use std::net::IpAddr;

use crate::{Direction, Isolation, Member, Model, Peers, Protocol};

/// The first packet of a connection.
pub(super) struct Packet<'a> {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    /// The nodes that these addresses belong to.
    pub(super) nodes: [Option<&'a str>; 2],
    pub(super) protocol: Protocol,
    pub(super) port: u16,
}

/// Returns whether each end accepts the packet: egress and ingress.
pub(super) fn evaluate(model: &Model, packet: &Packet<'_>) -> [bool; 2] {
    let [source_node, destination_node] = packet.nodes;
    [
        passes(model, Direction::Egress, packet.source, packet.destination, destination_node, packet),
        passes(model, Direction::Ingress, packet.destination, packet.source, source_node, packet),
    ]
}

fn passes(
    model: &Model,
    direction: Direction,
    own: IpAddr,
    other: IpAddr,
    others_node: Option<&str>,
    packet: &Packet<'_>,
) -> bool {
    let Some(pod) = model.pods.values().find(|pod| pod.ips.contains(&own)) else { return true };
    if pod.ips.contains(&other) || (others_node.is_some() && others_node == pod.node.as_deref()) {
        return true;
    }
    pod.isolation(direction).is_none_or(|isolation| allows(model, isolation, other, packet))
}

fn allows(model: &Model, isolation: &Isolation, other: IpAddr, packet: &Packet<'_>) -> bool {
    let (protocol, port) = (packet.protocol, packet.port);
    let is_peer = |peers: &Peers| match peers {
        Peers::Any => true,
        Peers::Set(id) => model.sets[id].contains(&Member::Address(other)),
        Peers::Block(block) => block.contains(other),
    };
    let endpoint = Member::Endpoint(packet.destination, protocol, port);
    isolation.peers.iter().any(|(peers, ports)| is_peer(peers) && ports.contains(protocol, port))
        || isolation.endpoints.iter().any(|id| model.sets[id].contains(&endpoint))
}
