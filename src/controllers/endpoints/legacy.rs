//! The old form: one Endpoints object a service, its addresses grouped by their ports.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::member::{Member, Port};
use crate::object::Shared;

/// More addresses than this are cut off, ready ones last.
const CAPACITY: usize = 1000;
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
const HEADLESS: &str = "service.kubernetes.io/headless";
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";

/// Whether Endpoints were written by this controller rather than by hand.
pub(super) fn is_ours(endpoints: &Endpoints) -> bool {
    endpoints.metadata.labels.as_ref().is_some_and(|l| l.contains_key(MANAGED_BY))
}

/// The Endpoints of a service with these members.
pub(super) fn endpoints(service: &Shared<Service>, members: &[Member]) -> Endpoints {
    let (mut ready, mut not_ready): (Vec<&Member>, Vec<&Member>) =
        members.iter().filter(|m| m.in_legacy).partition(|m| m.ready);
    let is_cut = ready.len() + not_ready.len() > CAPACITY;
    ready.truncate(CAPACITY);
    not_ready.truncate(CAPACITY - ready.len());
    let mut by_ports: BTreeMap<&[Port], (Vec<&Member>, Vec<&Member>)> = BTreeMap::new();
    for member in ready {
        by_ports.entry(&member.ports).or_default().0.push(member);
    }
    for member in not_ready {
        by_ports.entry(&member.ports).or_default().1.push(member);
    }
    let has_ports = service.spec.as_ref().is_some_and(|s| s.ports.as_ref().is_some_and(|p| !p.is_empty()));
    let subsets: Vec<EndpointSubset> = by_ports
        .into_iter()
        // A pod that has none of the service's ports cannot be reached through it.
        .filter(|(ports, _)| !has_ports || !ports.is_empty())
        .map(|(ports, (ready, not_ready))| EndpointSubset {
            addresses: addresses(ready),
            not_ready_addresses: addresses(not_ready),
            ports: (!ports.is_empty()).then(|| ports.iter().map(endpoint_port).collect()),
        })
        .collect();
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(MANAGED_BY.into(), "endpoint-controller".into());
    if super::is_headless(service) {
        labels.insert(HEADLESS.into(), String::new());
    } else {
        labels.remove(HEADLESS);
    }
    let annotations = is_cut.then(|| BTreeMap::from([(OVER_CAPACITY.into(), "truncated".into())]));
    Endpoints {
        metadata: ObjectMeta {
            name: Some(service.name().to_string()),
            namespace: Some(service.namespace().to_string()),
            labels: Some(labels),
            annotations,
            ..ObjectMeta::default()
        },
        subsets: (!subsets.is_empty()).then_some(subsets),
    }
}

fn addresses(mut members: Vec<&Member>) -> Option<Vec<EndpointAddress>> {
    members.sort_by(|a, b| (&a.address, &a.target.uid).cmp(&(&b.address, &b.target.uid)));
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

    use super::super::member::member;
    use super::super::member::testing::{pod, service};
    use super::*;

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
        .filter_map(|pod| member(&service, pod))
        .collect();
        let endpoints = endpoints(&service, &members);
        let told: Vec<String> = endpoints
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
        assert_eq!(told, ["8080: 10.0.0.1,10.0.0.2 not 10.0.0.3", "9090: 10.0.0.4 not "]);
        let labels = endpoints.metadata.labels.unwrap();
        assert_eq!((labels["l"].as_str(), labels[HEADLESS].as_str()), ("1", ""));
    }
}
