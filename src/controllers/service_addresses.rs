//! The objects that represent service addresses: an IPAddress for each assigned one, and the ServiceCIDR of their
//! range. Kubernetes writes IPAddresses with the service; here they follow immediately, because the allocator is the
//! API's own and does not depend on these objects.

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::{
    IPAddress, IPAddressSpec, ParentReference, ServiceCIDR, ServiceCIDRSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use parking_lot::Mutex;

use super::context::Context;
use api::{Api, Change, ChangeKind};
use base::clock::time;
use base::sort::CollectMap;
use object::conditions;
use object::owner::is_terminating;
use object::service::cluster_ips;
use object::{Key, Kind, Object, SharedObject};
use reconcile::{ReconcileError, Reconciler, WorkQueue, ignore_not_found, optional, preconditions};

/// The range with which the cluster was started.
const DEFAULT_RANGE: &str = "kubernetes";
const FAMILY: &str = "ipaddress.kubernetes.io/ip-family";
const MANAGED_BY: (&str, &str) = ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");

/// Starts the controller of addresses.
pub(super) fn start_addresses(context: &Context) {
    context
        .controller(|_| Addresses { api: context.api.acting_as("kube-apiserver"), holders: Mutex::default() })
        .watches::<Service, _>(Addresses::service_changed)
        .for_::<IPAddress>()
        .run(&context.tasks);
}

/// Starts the controller of ranges.
pub(super) fn start_ranges(context: &Context) {
    let new = |queue: WorkQueue<Key>| {
        queue.add(Key::new("", DEFAULT_RANGE));
        ServiceCidrController { api: context.api.acting_as("kube-apiserver") }
    };
    context.controller(new).for_::<ServiceCIDR>().run(&context.tasks);
}

struct Addresses {
    api: Api,
    /// The service of each address.
    holders: Mutex<HashMap<String, Key>>,
}

impl Addresses {
    /// Returns every address that the service has or had.
    fn service_changed(&self, change: &Change) -> Vec<Key> {
        let service = change.object.key();
        let held = addresses_of(&change.object);
        let (now, before) = match change.kind {
            ChangeKind::Deleted => (Vec::new(), held),
            _ => (held, change.previous.as_deref().map(addresses_of).unwrap_or_default()),
        };
        if now == before && !now.is_empty() {
            return Vec::new();
        }
        let mut holders = self.holders.lock();
        for address in &before {
            if holders.get(address) == Some(&service) {
                holders.remove(address);
            }
        }
        for address in &now {
            holders.insert(address.clone(), service.clone());
        }
        before.into_iter().chain(now).map(|address| Key::new("", &address)).collect()
    }

    /// Returns the service that has this address now. The remembered one may be outdated.
    fn holder(&self, address: &str) -> Option<Key> {
        let holds = |key: &Key| {
            let service = self.api.get(Kind::Service, key).ok();
            service.is_some_and(|service| addresses_of(&service).iter().any(|held| held == address))
        };
        let known = self.holders.lock().get(address).cloned();
        known.filter(holds).or_else(|| {
            let services = self.api.list_as::<Service>(None);
            services.iter().map(SharedObject::key).find(holds)
        })
    }
}

impl Reconciler for Addresses {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let desired = self.holder(&key.name).map(|service| parent(&service));
        let there = optional(self.api.get_as::<IPAddress>(key))?;
        match (desired, there) {
            (Some(desired), None) => self.make(key, desired),
            (desired, Some(there))
                if is_of_service(&there) && desired.as_ref() != Some(&there.spec.parent_ref) =>
            {
                preconditions::delete(&self.api, &there)?;
                desired.map_or(Ok(()), |desired| self.make(key, desired))
            }
            _ => Ok(()),
        }
    }
}

impl Addresses {
    fn make(&self, key: &Key, parent_ref: ParentReference) -> Result<(), ReconcileError> {
        let family = if key.name.contains(':') { "IPv6" } else { "IPv4" };
        let labels = [(FAMILY, family), MANAGED_BY].into_iter();
        let labels = labels.map(|(key, value)| (key.to_string(), value.to_string()));
        let made = self.api.create_as(IPAddress {
            metadata: ObjectMeta {
                name: Some(key.name.clone()),
                labels: Some(labels.collect_map()),
                ..ObjectMeta::default()
            },
            spec: IPAddressSpec { parent_ref },
        });
        Ok(made.map(drop)?)
    }
}

/// Returns the cluster addresses of a service in canonical form.
fn addresses_of(service: &Object) -> Vec<String> {
    let Some(spec) = service.get::<Service>().and_then(|service| service.spec.as_ref()) else {
        return Vec::new();
    };
    cluster_ips(spec).map(|ip| ip.to_string()).collect()
}

fn parent(service: &Key) -> ParentReference {
    ParentReference {
        group: None,
        resource: "services".into(),
        namespace: service.namespace().map(Into::into),
        name: service.name.clone(),
    }
}

fn is_of_service(address: &IPAddress) -> bool {
    let parent = &address.spec.parent_ref;
    parent.resource == "services" && parent.group.as_ref().is_none_or(String::is_empty)
}

struct ServiceCidrController {
    api: Api,
}

impl Reconciler for ServiceCidrController {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let all: Vec<String> = self.api.service_ranges().iter().map(ToString::to_string).collect();
        let is_default = key.name == DEFAULT_RANGE;
        match optional(self.api.get_as::<ServiceCIDR>(key))? {
            Some(there) if is_terminating(&there.metadata) => return Ok(()),
            // The cluster was started with another range than before, and a range is immutable.
            Some(there) if is_default && ranges(&there) != all.as_slice() => {
                preconditions::delete(&self.api, &there)?;
                self.make(&all)?;
            }
            Some(_) => {}
            None if is_default => self.make(&all)?,
            None => return Ok(()),
        }
        let now = self.api.clock().now();
        let written = self.api.modify_status::<ServiceCIDR>(key, |object| {
            let next = ready(is_default, &all.join(", "), now);
            conditions::set(object.status.get_or_insert_default().conditions.get_or_insert_default(), next);
            Ok(())
        });
        Ok(ignore_not_found(written)?)
    }
}

impl ServiceCidrController {
    fn make(&self, ranges: &[String]) -> Result<(), ReconcileError> {
        let made = self.api.create_as(ServiceCIDR {
            metadata: Key::new("", DEFAULT_RANGE).metadata(),
            spec: Some(ServiceCIDRSpec { cidrs: Some(ranges.to_vec()) }),
            status: None,
        });
        Ok(made.map(drop)?)
    }
}

fn ranges(range: &ServiceCIDR) -> &[String] {
    range.spec.as_ref().and_then(|spec| spec.cidrs.as_deref()).unwrap_or_default()
}

fn ready(is_default: bool, range: &str, now: Timestamp) -> Condition {
    let (reason, message) = if is_default {
        ("", "Kubernetes Service CIDR is ready".to_string())
    } else {
        ("NotUsed", format!("services get addresses only from {range}"))
    };
    conditions::new("Ready", is_default, reason, message, time(now))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::test_cluster::TestCluster;
    use api::DeleteOptions;

    fn service(name: &str, spec: &Value) -> Value {
        let mut spec = spec.clone();
        spec["ports"] = json!([{"port": 80}]);
        json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    }

    /// Formats the addresses as `address=resource/namespace/name`, in order.
    fn addresses(cluster: &TestCluster) -> Vec<String> {
        let mut all: Vec<String> = cluster
            .api
            .list_as::<IPAddress>(None)
            .iter()
            .map(|address| {
                let parent = &address.spec.parent_ref;
                let namespace = parent.namespace.as_deref().unwrap_or_default();
                format!("{}={}/{namespace}/{}", address.name(), parent.resource, parent.name)
            })
            .collect();
        all.sort();
        all
    }

    fn delete(cluster: &TestCluster, kind: Kind, key: &Key) {
        cluster.api.delete(kind, key, &DeleteOptions::default()).unwrap();
    }

    fn gateways_address(name: &str) -> Value {
        json!({"metadata": {"name": name}, "spec": {"parentRef": {"group": "a.b", "resource": "gateways",
            "namespace": "default", "name": "web"}}})
    }

    #[tokio::test(start_paused = true)]
    async fn each_address_of_a_service_is_an_object_as_long_as_the_service_has_it_api_17() {
        let cluster = TestCluster::start(&["ipallocator-repair-controller"]);
        let web = cluster.create::<Service>(service("web", &json!({})));
        cluster.create::<Service>(service("headless", &json!({"clusterIP": "None"})));
        cluster.settle().await;
        let address = web.spec.as_ref().unwrap().cluster_ip.clone().unwrap();
        let of_web = vec![format!("{address}=services/default/web")];
        assert_eq!(addresses(&cluster), of_web);
        // A deleted address comes back; an address without a service is deleted.
        delete(&cluster, Kind::IPAddress, &Key::new("", &address));
        let leaked = json!({"metadata": {"name": "127.32.9.9"}, "spec": {"parentRef": {"resource": "services",
            "namespace": "default", "name": "gone"}}});
        cluster.create::<IPAddress>(leaked);
        cluster.settle().await;
        assert_eq!(addresses(&cluster), of_web);
        // Another service takes the address over.
        delete(&cluster, Kind::Service, &web.key());
        cluster.create::<Service>(service("next", &json!({"clusterIP": address})));
        cluster.settle().await;
        assert_eq!(addresses(&cluster), [format!("{address}=services/default/next")]);
        delete(&cluster, Kind::Service, &Key::new("default", "next"));
        cluster.settle().await;
        assert_eq!(addresses(&cluster), Vec::<String>::new());
        cluster.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_of_another_owner_is_assigned_to_no_service_api_17() {
        let cluster = TestCluster::start(&["ipallocator-repair-controller"]);
        let asks = |name: &str, ip: &str| {
            let service = service(name, &json!({"clusterIP": ip}));
            let made = cluster.api.create_as::<Service>(serde_json::from_value(service).unwrap());
            made.map(drop).map_err(|error| error.to_string())
        };
        let key = |name: &str| Key::new("", name);
        cluster.create::<IPAddress>(gateways_address("127.32.1.1"));
        cluster.settle().await;
        assert!(asks("web", "127.32.1.1").unwrap_err().contains("provided IP is already allocated"));
        // The address of a service is not assigned again, even if its object does not exist yet.
        asks("other", "127.32.1.2").unwrap();
        let requested = serde_json::from_value::<IPAddress>(gateways_address("127.32.1.2")).unwrap();
        assert!(cluster.api.create_as(requested).unwrap_err().is_already_exists());
        delete(&cluster, Kind::IPAddress, &key("127.32.1.1"));
        asks("web", "127.32.1.1").unwrap();
        cluster.settle().await;
        assert_eq!(
            addresses(&cluster),
            ["127.32.1.1=services/default/web", "127.32.1.2=services/default/other"]
        );
        cluster.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_service_cidr_of_the_cluster_exists_and_others_are_reported_as_unused_api_17() {
        let cluster = TestCluster::start(&["service-cidr-controller"]);
        let ready = |name: &str| {
            let range = cluster.get::<ServiceCIDR>(name);
            let cidrs = range.spec.as_ref().and_then(|spec| spec.cidrs.clone()).unwrap_or_default();
            let conditions =
                range.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
            (cidrs.join(","), conditions[0].type_.clone(), conditions[0].status.clone())
        };
        cluster.settle().await;
        let own = ("127.32.0.0/16".to_string(), "Ready".to_string(), "True".to_string());
        assert_eq!(ready("kubernetes"), own);
        cluster
            .create::<ServiceCIDR>(json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.0.0.0/24"]}}));
        delete(&cluster, Kind::ServiceCIDR, &Key::new("", "kubernetes"));
        cluster.settle().await;
        assert_eq!(ready("kubernetes"), own);
        assert_eq!(ready("more"), ("10.0.0.0/24".into(), "Ready".into(), "False".into()));
        cluster.stop().await;
    }
}
