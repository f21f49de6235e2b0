//! The old form: one Endpoints object for each service, with its addresses grouped by ports.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::member::{Member, Port};
use base::sort::{CollectMap, SliceOrder};
use object::SharedObject;
use object::well_known::label::HEADLESS_SERVICE;

/// The most addresses; unready ones are omitted first.
const CAPACITY: usize = 1000;
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";

/// The ready members, and the others.
type MembersByReadiness<'a> = (Vec<&'a Member>, Vec<&'a Member>);

/// Returns true if Endpoints were written by this controller rather than by a user.
pub(super) fn is_managed(endpoints: &Endpoints) -> bool {
    endpoints.metadata.labels.as_ref().is_some_and(|l| l.contains_key(MANAGED_BY))
}

/// Builds the Endpoints of a service with these members.
pub(super) fn endpoints(service: &SharedObject<Service>, members: &[Member]) -> Endpoints {
    let mut by_ports: BTreeMap<&[Port], MembersByReadiness<'_>> = BTreeMap::new();
    for member in members.iter().filter(|m| m.in_legacy) {
        let (ready, not_ready) = by_ports.entry(&member.ports).or_default();
        if member.ready { ready.push(member) } else { not_ready.push(member) }
    }
    let has_ports = service.spec.as_ref().is_some_and(|s| s.ports.as_ref().is_some_and(|p| !p.is_empty()));
    // A pod without any of the service's ports cannot be reached through it.
    by_ports.retain(|ports, _| !has_ports || !ports.is_empty());
    let is_cut = cut(&mut by_ports);
    let subsets: Vec<EndpointSubset> = by_ports
        .into_iter()
        .map(|(ports, (ready, not_ready))| EndpointSubset {
            addresses: addresses(ready),
            not_ready_addresses: addresses(not_ready),
            ports: (!ports.is_empty()).then(|| ports.iter().map(endpoint_port).collect()),
        })
        .collect();
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(MANAGED_BY.into(), "endpoint-controller".into());
    if super::is_headless(service) {
        labels.insert(HEADLESS_SERVICE.into(), String::new());
    } else {
        labels.remove(HEADLESS_SERVICE);
    }
    let annotations = is_cut.then(|| [(OVER_CAPACITY.into(), "truncated".into())].collect_map());
    Endpoints {
        metadata: ObjectMeta { labels: Some(labels), annotations, ..service.key().metadata() },
        subsets: (!subsets.is_empty()).then_some(subsets),
    }
}

/// Cuts the addresses to the capacity: ready ones take precedence over unready ones, and each subset gets its share.
/// Returns true if any were omitted.
fn cut(by_ports: &mut BTreeMap<&[Port], MembersByReadiness<'_>>) -> bool {
    let total = |members: &mut dyn Iterator<Item = usize>| members.sum::<usize>();
    let ready = total(&mut by_ports.values().map(|(ready, _)| ready.len()));
    let not_ready = total(&mut by_ports.values().map(|(_, not_ready)| not_ready.len()));
    if ready + not_ready <= CAPACITY {
        return false;
    }
    let cut_ready = ready > CAPACITY;
    let (room, all) = if cut_ready { (CAPACITY, ready) } else { (CAPACITY - ready, not_ready) };
    let mut left = room;
    for (ready, not_ready) in by_ports.values_mut() {
        if cut_ready {
            not_ready.clear();
        }
        let list = if cut_ready { ready } else { not_ready };
        let share = (list.len() * room).div_ceil(all).min(left);
        left -= share;
        list.truncate(share);
    }
    by_ports.retain(|_, (ready, not_ready)| !ready.is_empty() || !not_ready.is_empty());
    true
}

fn addresses(mut members: Vec<&Member>) -> Option<Vec<EndpointAddress>> {
    members.order_by(|a, b| (&a.address, &a.target.uid).cmp(&(&b.address, &b.target.uid)));
    let addresses: Vec<EndpointAddress> = members
        .into_iter()
        .map(|m| EndpointAddress {
            hostname: m.hostname.clone(),
            ip: m.address.clone(),
            node_name: m.node.clone(),
            target_ref: Some(m.target.clone()),
        })
        .collect();
    (!addresses.is_empty()).then_some(addresses)
}

fn endpoint_port(port: &Port) -> EndpointPort {
    EndpointPort {
        app_protocol: port.app_protocol.clone(),
        name: port.name.clone(),
        port: port.number,
        protocol: port.protocol.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::endpoints::member::testing::{pod, service};
    use crate::endpoints::member::{IPV4, member};

    #[test]
    fn addresses_are_grouped_by_their_ports_and_readiness_svc_1() {
        let service = service(json!({"clusterIP": "None", "ports": [{"port": 80, "targetPort": "http"}]}));
        let other_port = json!({"spec": {"containers": [{"name": "c",
            "ports": [{"name": "http", "containerPort": 9090}]}]}});
        let no_port = json!({"spec": {"containers": [{"name": "c"}]}});
        let members: Vec<Member> = [
            pod("b", "10.0.0.2", true, json!({})),
            pod("a", "10.0.0.1", true, json!({})),
            pod("c", "10.0.0.3", false, json!({})),
            pod("d", "10.0.0.4", true, other_port),
            pod("e", "10.0.0.5", true, no_port),
        ]
        .iter()
        .filter_map(|pod| member(&service, pod, IPV4))
        .collect();
        let endpoints = endpoints(&service, &members);
        let actual: Vec<String> = endpoints
            .subsets
            .iter()
            .flatten()
            .map(|s| {
                let ips = |a: &Option<Vec<EndpointAddress>>| {
                    a.iter().flatten().map(|a| a.ip.clone()).collect::<Vec<_>>().join(",")
                };
                let port = s.ports.as_ref().unwrap()[0].port;
                format!("{port}: {} not {}", ips(&s.addresses), ips(&s.not_ready_addresses))
            })
            .collect();
        assert_eq!(actual, ["8080: 10.0.0.1,10.0.0.2 not 10.0.0.3", "9090: 10.0.0.4 not "]);
        let labels = endpoints.metadata.labels.unwrap();
        assert_eq!((labels["l"].as_str(), labels[HEADLESS_SERVICE].as_str()), ("1", ""));
    }

    #[test]
    fn addresses_over_capacity_are_truncated_fairly_svc_1() {
        let service = service(json!({"clusterIP": "None", "ports": [{"port": 80, "targetPort": "http"}]}));
        let group = |prefix: &str, count: usize, port: i32, ready: bool| -> Vec<Member> {
            let ports = json!({"spec": {"containers": [{"name": "c",
                "ports": [{"name": "http", "containerPort": port}]}]}});
            let pod = |n: usize| {
                pod(&format!("{prefix}{n}"), &format!("10.0.{}.{}", n / 250, n % 250), ready, ports.clone())
            };
            (0..count).filter_map(|n| member(&service, &pod(n), IPV4)).collect()
        };
        // (ready and unready on one port, ready and unready on another), the remainder of each
        for (one, other, left, is_cut) in [
            ((500, 250), (250, 0), [(500, 250), (250, 0)], false),
            ((800, 50), (400, 50), [(667, 0), (333, 0)], true),
            ((400, 400), (200, 200), [(400, 267), (200, 133)], true),
            ((1000, 5), (0, 5), [(1000, 0), (0, 0)], true),
        ] {
            let members = [
                group("a", one.0, 8080, true),
                group("b", one.1, 8080, false),
                group("c", other.0, 9090, true),
                group("d", other.1, 9090, false),
            ]
            .concat();
            let endpoints = endpoints(&service, &members);
            let count = |addresses: &Option<Vec<EndpointAddress>>| addresses.as_ref().map_or(0, Vec::len);
            let subsets = endpoints.subsets.iter().flatten();
            let mut actual: Vec<_> =
                subsets.map(|s| (count(&s.addresses), count(&s.not_ready_addresses))).collect();
            actual.resize(2, (0, 0));
            assert_eq!(actual, left, "{one:?} {other:?}");
            assert_eq!(endpoints.metadata.annotations.is_some(), is_cut, "{one:?} {other:?}");
        }
    }
}
