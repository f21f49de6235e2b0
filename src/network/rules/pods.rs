//! Host ports: addresses of nodes at which pods are served.

use std::net::{IpAddr, SocketAddr};

use fabric::nft::{Element, Family, Key, Statement, Verdict};
use k8s_openapi::api::core::v1::Pod;

use super::base::{HAIRPIN, SERVICES, TCP, UDP};
use super::names::short;
use super::nodes::NodesByName;
use super::owner_rules::OwnerRules;
use ::services::proxy::host_ports::includes;
use ::services::proxy::table::Protocol;
use object::pod::{addresses, is_terminal, node_name};
use object::{host_ports, port_number};

/// Returns the rules of a pod with host ports.
pub(super) fn rules_of(namespace: &str, pod: &Pod, places: &NodesByName) -> OwnerRules {
    let mut piece = OwnerRules::default();
    let Some(place) = node_name(pod).and_then(|node| places.get(node)).filter(|_| !is_terminal(pod)) else {
        return piece;
    };
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let own = addresses(pod);
    for port in host_ports::ports(pod) {
        let Some(protocol) = Protocol::of(port.protocol.as_deref()) else { continue };
        let numbers = (port.host_port.and_then(port_number), port_number(port.container_port));
        let (Some(host), Some(inside)) = numbers else { continue };
        let host_ip = port.host_ip.as_ref().and_then(|ip| ip.parse::<IpAddr>().ok());
        for target in own.iter().copied() {
            let family = Family::of(target);
            let at = place.ips.iter().copied().filter(|ip| Family::of(*ip) == family);
            let at = at.filter(|ip| host_ip.is_none_or(|host_ip| includes(host_ip, *ip)));
            for ip in at {
                let (word, number) = if protocol == Protocol::Tcp { ("tcp", TCP) } else { ("udp", UDP) };
                let chain = short(format!("pod/{namespace}/{name}/{word}/{host}"));
                let half = piece.half(family);
                half.chain(chain.clone(), vec![vec![Statement::Dnat(SocketAddr::new(target, inside))]]);
                let element = Element::new(Key::new().ip(ip).protocol(number).port(host));
                half.element(SERVICES, element.to(Verdict::Goto(chain)));
                half.element(HAIRPIN, Element::new(Key::new().ip(target).ip(target)));
            }
        }
    }
    piece
}
