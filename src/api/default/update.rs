//! What an update keeps although it does not name it: addresses, ports and marks the API gave the object.
//!
//! Clients that write whole objects (kubectl replace) leave these out and mean no change.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{Namespace, Secret, Service, ServiceSpec};

use crate::object::{Body, Object};

/// Fills what `new` leaves out with what the API gave `old`; runs before defaulting.
pub fn keep_what_was_given(new: &mut Object, old: &Object) {
    match old.body() {
        Body::Namespace(old) => {
            if let Some(new) = new.get_mut::<Namespace>() {
                new.spec.clone_from(&old.spec);
            }
        }
        Body::Secret(old) => {
            if let Some(new) = new.get_mut::<Secret>()
                && new.type_.as_ref().is_none_or(String::is_empty)
            {
                new.type_.clone_from(&old.type_);
            }
        }
        Body::Service(old) => {
            if let (Some(new), Some(old)) =
                (new.get_mut::<Service>().and_then(|s| s.spec.as_mut()), old.spec.as_ref())
            {
                service(new, old);
            }
        }
        _ => {}
    }
}

fn service(new: &mut ServiceSpec, old: &ServiceSpec) {
    let type_of = |spec: &ServiceSpec| spec.type_.clone().unwrap_or_else(|| "ClusterIP".into());
    let (new_type, old_type) = (type_of(new), type_of(old));
    let missing = |ip: &Option<String>| ip.as_ref().is_none_or(String::is_empty);
    if new_type == "ExternalName" {
        // An address that was only carried along goes with the type.
        if new.cluster_ip == old.cluster_ip {
            new.cluster_ip = None;
            new.cluster_ips = None;
        }
    } else if old_type != "ExternalName" && missing(&new.cluster_ip) {
        new.cluster_ip.clone_from(&old.cluster_ip);
        if new.cluster_ips.as_ref().is_none_or(Vec::is_empty) {
            new.cluster_ips.clone_from(&old.cluster_ips);
        }
    }
    let has_node_ports = |kind: &str| matches!(kind, "NodePort" | "LoadBalancer");
    match (has_node_ports(&new_type), has_node_ports(&old_type)) {
        (true, true) => keep_node_ports(new, old),
        (false, true) => drop_carried_node_ports(new, old),
        _ => {}
    }
}

/// Node ports go with the port and protocol they were given for.
fn keep_node_ports(new: &mut ServiceSpec, old: &ServiceSpec) {
    let mut used: HashSet<i32> = new.ports.iter().flatten().filter_map(|p| p.node_port).collect();
    for port in new.ports.iter_mut().flatten().filter(|p| p.node_port.unwrap_or(0) == 0) {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let given = old
            .ports
            .iter()
            .flatten()
            .find(|old| old.port == port.port && old.protocol.as_deref().unwrap_or("TCP") == protocol);
        if let Some(number) = given.and_then(|old| old.node_port).filter(|n| used.insert(*n)) {
            port.node_port = Some(number);
        }
    }
}

/// A type without node ports drops those that are merely still there from before.
fn drop_carried_node_ports(new: &mut ServiceSpec, old: &ServiceSpec) {
    let before: HashSet<i32> = old.ports.iter().flatten().filter_map(|p| p.node_port).collect();
    for port in new.ports.iter_mut().flatten() {
        port.node_port = port.node_port.filter(|n| *n != 0 && !before.contains(n));
    }
    if new.external_traffic_policy == old.external_traffic_policy {
        new.external_traffic_policy = None;
    }
    new.allocate_load_balancer_node_ports = None;
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::object::Kind;

    fn kept(kind: Kind, new: Value, old: Value) -> Value {
        let mut new = Object::from_value(kind, new).unwrap();
        keep_what_was_given(&mut new, &Object::from_value(kind, old).unwrap());
        new.to_value()
    }

    #[test]
    fn services_keep_their_addresses_and_ports_api_5() {
        let old = json!({"spec": {"type": "NodePort", "clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.4"],
            "externalTrafficPolicy": "Cluster", "ports": [{"port": 80, "nodePort": 30001, "protocol": "TCP"}]}});
        let replaced = kept(
            Kind::Service,
            json!({"spec": {"type": "NodePort", "ports": [{"port": 81}, {"port": 80}]}}),
            old.clone(),
        );
        assert_eq!(
            replaced["spec"],
            json!({"type": "NodePort", "clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.4"],
                "ports": [{"port": 81}, {"port": 80, "nodePort": 30001}]})
        );
        let mut inward = old.clone();
        inward["spec"]["type"] = "ClusterIP".into();
        assert_eq!(
            kept(Kind::Service, inward, old.clone())["spec"],
            json!({"type": "ClusterIP", "clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.4"],
                "ports": [{"port": 80, "protocol": "TCP"}]})
        );
        let mut outward = old.clone();
        outward["spec"]["type"] = "ExternalName".into();
        assert_eq!(kept(Kind::Service, outward, old)["spec"]["clusterIP"], Value::Null);
    }

    #[test]
    fn secrets_keep_their_type_and_namespaces_their_finalizers_api_5() {
        let secret = kept(Kind::Secret, json!({}), json!({"type": "kubernetes.io/tls"}));
        assert_eq!(secret["type"], "kubernetes.io/tls");
        let namespace = kept(Kind::Namespace, json!({}), json!({"spec": {"finalizers": ["kubernetes"]}}));
        assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    }
}
