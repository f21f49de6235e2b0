//! The objects that represent service addresses: an IPAddress for each assigned one, and the ServiceCIDR of their
//! range. Kubernetes writes IPAddresses with the service; here they follow immediately, because the allocator is the
//! API's own and does not depend on these objects.

use std::collections::HashMap;
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::{
    IPAddress, IPAddressSpec, ParentReference, ServiceCIDR, ServiceCIDRSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use parking_lot::Mutex;

use super::context::Context;
use api::{Api, Change, ChangeKind, DeleteOptions};
use base::clock::time;
use object::conditions;
use object::owner::is_terminating;
use object::{Key, Kind, Object, SharedObject};
use reconcile::{ReconcileError, Reconciler, WorkQueue, ignore_not_found, optional};

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
                let this = DeleteOptions::uid(there.uid());
                ignore_not_found(self.api.delete(Kind::IPAddress, key, &this).map(drop))?;
                desired.map_or(Ok(()), |desired| self.make(key, desired))
            }
            _ => Ok(()),
        }
    }
}

impl Addresses {
    fn make(&self, key: &Key, parent_ref: ParentReference) -> Result<(), ReconcileError> {
        let family = if key.name.contains(':') { "IPv6" } else { "IPv4" };
        let labels = [(FAMILY, family), MANAGED_BY].map(|(key, value)| (key.to_string(), value.to_string()));
        let made = self.api.create_as(IPAddress {
            metadata: ObjectMeta {
                name: Some(key.name.clone()),
                labels: Some(labels.into()),
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
    let listed = spec.cluster_ips.as_deref().filter(|all| !all.is_empty());
    let all = listed.unwrap_or(spec.cluster_ip.as_slice());
    let parsed = all.iter().filter_map(|ip| ip.parse::<IpAddr>().ok());
    parsed.map(|ip| ip.to_string()).collect()
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
                let this = DeleteOptions::uid(there.uid());
                ignore_not_found(self.api.delete(Kind::ServiceCIDR, key, &this).map(drop))?;
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
        Ok(ignore_not_found(written.map(drop))?)
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
