//! What an object counts for in the quotas of its namespace, resource by resource.
//!
//! The names are Kubernetes' (page "Resource Quotas"): `pods`, `requests.memory`, `count/deployments.apps`,
//! `gold.storageclass.storage.k8s.io/requests.storage` … Nothing here knows how much there may be.

mod pod;
mod scope;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::quantity::{Amount, ResourceList};
use super::storage::claim_class;
use super::{Body, Kind, Object};
pub use pod::{named_resources, requests_and_limits};
pub use scope::{covers, scopes_of};

const OF_CLASS: &str = ".storageclass.storage.k8s.io/";

/// What the object uses of every resource that quotas know.
pub fn usage(object: &Object, now: Timestamp) -> ResourceList {
    let mut used = ResourceList::new();
    let kind = object.kind();
    if !is_counted(kind) {
        return used;
    }
    let one = || Quantity("1".into());
    used.insert(format!("count/{}", kind.info().qualified_plural()), one());
    match object.body() {
        Body::Pod(pod) => used.extend(pod::usage(pod, now)),
        Body::Service(service) => used.extend(of_service(service)),
        Body::PersistentVolumeClaim(claim) => used.extend(of_claim(claim)),
        _ if has_short_count(kind) => drop(used.insert(kind.info().plural.into(), one())),
        _ => {}
    }
    used
}

/// The kind whose objects use this resource; none when the name means nothing to a quota.
pub fn kind_using(resource: &str) -> Option<Kind> {
    if let Some(counted) = resource.strip_prefix("count/") {
        let is_it = |kind: &&Kind| is_counted(**kind) && kind.info().qualified_plural() == counted;
        return Kind::ALL.iter().find(is_it).copied();
    }
    match resource {
        "services" | "services.nodeports" | "services.loadbalancers" => Some(Kind::Service),
        "persistentvolumeclaims" | "requests.storage" => Some(Kind::PersistentVolumeClaim),
        _ if resource.contains(OF_CLASS) => Some(Kind::PersistentVolumeClaim),
        _ if pod::is_of_pods(resource) => Some(Kind::Pod),
        _ => Kind::ALL.iter().find(|k| has_short_count(**k) && k.info().plural == resource).copied(),
    }
}

/// Only what lives in a namespace can be counted there; events come and go unbidden.
fn is_counted(kind: Kind) -> bool {
    kind.namespaced() && kind != Kind::Event
}

/// Kinds that were counted by their bare plural before `count/…` came.
fn has_short_count(kind: Kind) -> bool {
    matches!(kind, Kind::ConfigMap | Kind::Secret | Kind::ReplicationController | Kind::ResourceQuota)
}

fn of_service(service: &Service) -> ResourceList {
    let spec = service.spec.as_ref();
    let ports = || spec.iter().flat_map(|s| s.ports.iter().flatten());
    let (node_ports, balancers) = match spec.and_then(|s| s.type_.as_deref()) {
        Some("NodePort") => (ports().count(), 0),
        Some("LoadBalancer") if spec.and_then(|s| s.allocate_load_balancer_node_ports) == Some(false) => {
            (ports().filter(|p| p.node_port.is_some_and(|n| n != 0)).count(), 1)
        }
        Some("LoadBalancer") => (ports().count(), 1),
        _ => (0, 0),
    };
    let entry = |name: &str, count: usize| (name.to_string(), Quantity(count.to_string()));
    ResourceList::from([
        entry("services", 1),
        entry("services.nodeports", node_ports),
        entry("services.loadbalancers", balancers),
    ])
}

fn of_claim(claim: &PersistentVolumeClaim) -> ResourceList {
    let spec = claim.spec.as_ref();
    let asked = spec.and_then(|s| s.resources.as_ref()?.requests.as_ref()?.get("storage"));
    let given = claim.status.as_ref().and_then(|s| s.allocated_resources.as_ref()?.get("storage"));
    // A claim that shrinks holds what it was given until that is true.
    let storage = asked.into_iter().chain(given).max_by_key(|quantity| Amount::of(quantity));
    let class = Some(claim_class(claim)).filter(|class| !class.is_empty());
    let mut used = ResourceList::new();
    let mut note = |name: &str, quantity: Quantity| {
        if let Some(class) = class {
            used.insert(format!("{class}{OF_CLASS}{name}"), quantity.clone());
        }
        used.insert(name.to_string(), quantity);
    };
    note("persistentvolumeclaims", Quantity("1".into()));
    if let Some(storage) = storage {
        note("requests.storage", storage.clone());
    }
    used
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn used(kind: Kind, value: Value) -> String {
        let now = "2026-11-21T00:00:00Z".parse().unwrap();
        let used = usage(&Object::from_value(kind, value).unwrap(), now);
        used.iter().map(|(name, q)| format!("{name}={}", q.0)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_kind_is_counted_and_some_by_more_quo_1() {
        for (kind, value, expected) in [
            (Kind::ConfigMap, json!({}), "configmaps=1 count/configmaps=1"),
            (Kind::Deployment, json!({"spec": {"selector": {}, "template": {}}}), "count/deployments.apps=1"),
            (Kind::Event, json!({"involvedObject": {}, "metadata": {}}), ""),
            (Kind::Node, json!({}), ""),
            (
                Kind::Service,
                json!({"spec": {"type": "NodePort", "ports": [{"port": 1}, {"port": 2}]}}),
                "count/services=1 services=1 services.loadbalancers=0 services.nodeports=2",
            ),
            (
                Kind::Service,
                json!({"spec": {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false,
                    "ports": [{"port": 1}, {"port": 2, "nodePort": 30000}]}}),
                "count/services=1 services=1 services.loadbalancers=1 services.nodeports=1",
            ),
            (
                Kind::PersistentVolumeClaim,
                json!({"spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "1Gi"}}},
                    "status": {"allocatedResources": {"storage": "2Gi"}}}),
                "count/persistentvolumeclaims=1 gold.storageclass.storage.k8s.io/persistentvolumeclaims=1 \
                 gold.storageclass.storage.k8s.io/requests.storage=2Gi persistentvolumeclaims=1 \
                 requests.storage=2Gi",
            ),
        ] {
            assert_eq!(used(kind, value), expected, "{kind}");
        }
    }

    #[test]
    fn every_resource_belongs_to_one_kind_quo_1() {
        for (resource, kind) in [
            ("pods", Some(Kind::Pod)),
            ("requests.example.com/gpu", Some(Kind::Pod)),
            ("limits.ephemeral-storage", Some(Kind::Pod)),
            ("requests.storage", Some(Kind::PersistentVolumeClaim)),
            ("gold.storageclass.storage.k8s.io/requests.storage", Some(Kind::PersistentVolumeClaim)),
            ("count/jobs.batch", Some(Kind::Job)),
            ("count/jobs", None),
            ("count/events", None),
            ("secrets", Some(Kind::Secret)),
            ("resourcequotas", Some(Kind::ResourceQuota)),
            ("deployments", None),
            ("example.com/gpu", None),
        ] {
            assert_eq!(kind_using(resource), kind, "{resource}");
        }
    }
}
