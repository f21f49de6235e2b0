//! One pod behind one service: its address, ports and conditions as an endpoint.

use std::hash::{Hash, Hasher};

use k8s_openapi::api::core::v1::{ContainerPort, ObjectReference, Pod, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use base::sort::SliceOrder;
use object::SharedObject;
use object::host_ports::declared_ports;
use object::owner::is_terminating;
use object::pod::{Phase, is_ready, is_terminal, node_name, phase};

/// Address families, as in services and slices.
pub(super) const IPV4: &str = "IPv4";
pub(super) const IPV6: &str = "IPv6";
const FAMILIES: [&str; 2] = [IPV4, IPV6];

/// A port of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Port {
    pub(super) name: Option<String>,
    pub(super) number: i32,
    pub(super) protocol: Option<String>,
    pub(super) app_protocol: Option<String>,
}

/// A pod as an endpoint of a service.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member {
    pub(super) address: String,
    pub(super) hostname: Option<String>,
    pub(super) node: Option<String>,
    pub(super) target: ObjectReference,
    /// Sorted; named ports that the pod lacks are omitted.
    pub(super) ports: Vec<Port>,
    /// Accepts new requests.
    pub(super) ready: bool,
    /// True if the pod passes its probes, even while terminating.
    pub(super) serving: bool,
    pub(super) terminating: bool,
    /// True if the old Endpoints list it.
    pub(super) in_legacy: bool,
}

/// Hashes only the pod's identity, which determines the rest of the reference.
impl Hash for Member {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { address, hostname, node, target, ports, ready, serving, terminating, in_legacy } = self;
        (address, hostname, node, &target.uid, ports).hash(state);
        (ready, serving, terminating, in_legacy).hash(state);
    }
}

/// Returns the address families of a service's endpoints, its primary one first.
pub(super) fn families(service: &Service) -> Vec<&'static str> {
    let Some(spec) = service.spec.as_ref() else { return vec![IPV4] };
    let known = |family: &String| FAMILIES.into_iter().find(|known| known == family);
    let listed: Vec<_> = spec.ip_families.iter().flatten().filter_map(known).collect();
    if listed.is_empty() { vec![family_of(spec.cluster_ip.as_deref().unwrap_or_default())] } else { listed }
}

fn family_of(ip: &str) -> &'static str {
    if ip.contains(':') { IPV6 } else { IPV4 }
}

/// Returns the pod's address of a family.
fn address_of(pod: &Pod, family: &str) -> Option<String> {
    let status = pod.status.as_ref()?;
    let all = status.pod_ips.iter().flatten().map(|own| &own.ip).chain(&status.pod_ip);
    all.filter(|ip| !ip.is_empty()).find(|ip| family_of(ip) == family).cloned()
}

/// Returns the pod as the service's endpoint; `None` while it has no address of this family, and after it has ended.
pub(super) fn member(
    service: &SharedObject<Service>,
    pod: &SharedObject<Pod>,
    family: &str,
) -> Option<Member> {
    let spec = service.spec.as_ref()?;
    let publish_not_ready = spec.publish_not_ready_addresses == Some(true);
    let address = address_of(pod, family)?;
    if is_terminal(pod) {
        return None;
    }
    let (serving, terminating) = (is_ready(pod), is_terminating(&pod.metadata));
    let pod_spec = pod.spec.as_ref()?;
    let hostname = pod_spec
        .hostname
        .clone()
        .filter(|h| !h.is_empty() && pod_spec.subdomain.as_deref() == Some(service.name()));
    let may_come_back = match pod_spec.restart_policy.as_deref() {
        Some("Never") => !is_terminal(pod),
        Some("OnFailure") => phase(pod) != Phase::Succeeded,
        _ => true,
    };
    let mut ports: Vec<Port> = spec.ports.iter().flatten().filter_map(|port| resolve(port, pod)).collect();
    ports.order();
    ports.dedup();
    Some(Member {
        address,
        hostname,
        node: node_name(pod).map(str::to_string),
        target: ObjectReference {
            kind: Some("Pod".into()),
            namespace: Some(pod.namespace().to_string()),
            name: Some(pod.name().to_string()),
            uid: Some(pod.uid().to_string()),
            ..ObjectReference::default()
        },
        ports,
        ready: publish_not_ready || (serving && !terminating),
        serving,
        terminating,
        in_legacy: if terminating {
            publish_not_ready
        } else {
            publish_not_ready || serving || may_come_back
        },
    })
}

/// Resolves the service's port on this pod; a name is looked up among its containers' ports.
fn resolve(port: &ServicePort, pod: &Pod) -> Option<Port> {
    let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".into());
    let number = match &port.target_port {
        None | Some(IntOrString::Int(0)) => port.port,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(name)) => {
            let is_named = |p: &&ContainerPort| {
                p.name.as_deref() == Some(name) && p.protocol.as_deref().unwrap_or("TCP") == protocol
            };
            declared_ports(pod).find(is_named)?.container_port
        }
    };
    Some(Port {
        name: port.name.clone().filter(|n| !n.is_empty()),
        number,
        protocol: Some(protocol),
        app_protocol: port.app_protocol.clone(),
    })
}

/// Returns the parts of a pod that affect an endpoint: a change of anything else concerns no service.
pub(super) fn facts(pod: &Pod) -> impl PartialEq + '_ {
    let spec = pod.spec.as_ref();
    (
        pod.status.as_ref().map(|s| (s.pod_ip.as_ref(), s.pod_ips.as_ref())),
        is_ready(pod),
        phase(pod),
        is_terminating(&pod.metadata),
        pod.metadata.labels.as_ref(),
        spec.map(|s| (&s.node_name, &s.hostname, &s.subdomain)),
    )
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "tables of JSON read better without borrows")]
pub(super) mod testing {
    use serde_json::{Value, json};

    use super::*;

    pub(in crate::endpoints) fn service(spec: Value) -> SharedObject<Service> {
        let value = json!({"metadata": {"name": "web", "namespace": "default", "uid": "s", "labels": {"l": "1"}},
            "spec": spec});
        SharedObject::from_value(serde_json::from_value(value).unwrap())
    }

    pub(in crate::endpoints) fn pod(
        name: &str,
        ip: &str,
        ready: bool,
        differences: Value,
    ) -> SharedObject<Pod> {
        let mut value = json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
            "spec": {"nodeName": "n1", "containers": [{"name": "c",
                "ports": [{"name": "http", "containerPort": 8080}]}]},
            "status": {"phase": "Running", "podIP": ip,
                "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}});
        json_patch::merge(&mut value, &differences);
        SharedObject::from_value(serde_json::from_value(value).unwrap())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::testing::{pod, service};
    use super::*;

    #[test]
    fn a_pod_serves_while_ready_and_not_going_svc_1() {
        let plain = service(json!({"ports": [{"port": 80, "targetPort": "http"}]}));
        let publish = service(json!({"publishNotReadyAddresses": true}));
        let going = json!({"metadata": {"deletionTimestamp": "2026-11-21T00:00:00Z"}});
        // (ready, serving, terminating, listed by the old Endpoints)
        for (rule, service, ready, differences, expected) in [
            ("ready", &plain, true, json!({}), Some((true, true, false, true))),
            ("not ready", &plain, false, json!({}), Some((false, false, false, true))),
            ("terminating", &plain, true, going.clone(), Some((false, true, true, false))),
            ("published anyway", &publish, false, going, Some((true, false, true, true))),
            ("ended", &plain, false, json!({"status": {"phase": "Failed"}}), None),
            ("without address", &plain, true, json!({"status": {"podIP": null}}), None),
        ] {
            let member = member(service, &pod("p", "10.0.0.1", ready, differences), IPV4);
            let actual = member.map(|m| (m.ready, m.serving, m.terminating, m.in_legacy));
            assert_eq!(actual, expected, "{rule}");
        }
    }

    #[test]
    fn named_ports_are_the_pods_own_svc_1() {
        let service = service(json!({"ports": [
            {"name": "a", "port": 80, "targetPort": "http", "appProtocol": "kubernetes.io/h2c"},
            {"name": "b", "port": 81},
            {"name": "c", "port": 82, "targetPort": 9000, "protocol": "UDP"},
            {"name": "d", "port": 83, "targetPort": "undeclared"},
            {"name": "e", "port": 84, "targetPort": "http", "protocol": "UDP"}]}));
        let member = member(&service, &pod("p", "10.0.0.1", true, json!({})), IPV4).unwrap();
        let ports: Vec<_> = member.ports.iter().map(|p| (p.name.as_deref().unwrap(), p.number)).collect();
        assert_eq!(ports, [("a", 8080), ("b", 81), ("c", 9000)]);
        assert_eq!(member.ports[0].app_protocol.as_deref(), Some("kubernetes.io/h2c"));
    }
}
