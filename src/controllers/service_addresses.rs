//! What the API says of the addresses of services: an IPAddress for each that is given away, and the ServiceCIDR that
//! they are of. Kubernetes writes the former with the service; here they follow it at once, as the allocator is the
//! API's own and needs no objects to be exact.

use std::collections::HashMap;

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
use object::{Key, Kind, Object, Shared};
use reconcile::{ReconcileError, Reconciler, WorkQueue, found, ignore_not_found};

/// The range that the cluster was started with.
const DEFAULT_RANGE: &str = "kubernetes";
const LABELS: [(&str, &str); 2] = [
    ("ipaddress.kubernetes.io/ip-family", "IPv4"),
    ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io"),
];

/// Starts the controller of addresses.
pub(super) fn start_addresses(context: &Context) {
    let controller = Addresses { api: context.api.acting_as("kube-apiserver"), holders: Mutex::default() };
    context
        .controller(controller, context.queue())
        .watches::<Service, _>(Addresses::service_changed)
        .for_::<IPAddress>()
        .run(&context.tasks);
}

/// Starts the controller of ranges.
pub(super) fn start_ranges(context: &Context) {
    let queue: WorkQueue<Key> = context.queue();
    queue.add(Key::new("", DEFAULT_RANGE));
    let controller = Ranges { api: context.api.acting_as("kube-apiserver") };
    context.controller(controller, queue).for_::<ServiceCIDR>().run(&context.tasks);
}

struct Addresses {
    api: Api,
    /// Which service has an address.
    holders: Mutex<HashMap<String, Key>>,
}

impl Addresses {
    /// Every address that the service has or had.
    fn service_changed(&self, change: &Change) -> Vec<Key> {
        let service = change.object.key();
        let now = (change.kind != ChangeKind::Deleted).then(|| address_of(&change.object)).flatten();
        let before = match change.kind {
            ChangeKind::Deleted => address_of(&change.object),
            _ => change.previous.as_deref().and_then(address_of),
        };
        if now == before && now.is_some() {
            return Vec::new();
        }
        let mut holders = self.holders.lock();
        if let Some(before) = &before
            && holders.get(before) == Some(&service)
        {
            holders.remove(before);
        }
        if let Some(now) = &now {
            holders.insert(now.clone(), service);
        }
        before.into_iter().chain(now).map(|address| Key::new("", &address)).collect()
    }

    /// The service that has this address now. What is remembered may be behind.
    fn holder(&self, address: &str) -> Option<Key> {
        let holds = |key: &Key| {
            let service = self.api.get(Kind::Service, key).ok();
            service.as_deref().and_then(address_of).is_some_and(|held| held == address)
        };
        let known = self.holders.lock().get(address).cloned();
        known.filter(holds).or_else(|| {
            let services = self.api.list_as::<Service>(None);
            services.iter().map(Shared::key).find(holds)
        })
    }
}

impl Reconciler for Addresses {
    type Key = Key;

    fn name(&self) -> &'static str {
        "ipallocator-repair-controller"
    }

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let wanted = self.holder(&key.name).map(|service| parent(&service));
        let there = found(self.api.get_as::<IPAddress>(key))?;
        match (wanted, there) {
            (Some(wanted), None) => self.make(key, wanted),
            (wanted, Some(there))
                if is_of_service(&there) && wanted.as_ref() != Some(&there.spec.parent_ref) =>
            {
                let this = DeleteOptions::uid(there.uid());
                ignore_not_found(self.api.delete(Kind::IPAddress, key, &this).map(drop))?;
                wanted.map_or(Ok(()), |wanted| self.make(key, wanted))
            }
            _ => Ok(()),
        }
    }
}

impl Addresses {
    fn make(&self, key: &Key, parent_ref: ParentReference) -> Result<(), ReconcileError> {
        let labels = LABELS.map(|(key, value)| (key.to_string(), value.to_string()));
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

fn address_of(service: &Object) -> Option<String> {
    let address = service.get::<Service>()?.spec.as_ref()?.cluster_ip.clone()?;
    (!address.is_empty() && address != "None").then_some(address)
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

struct Ranges {
    api: Api,
}

impl Reconciler for Ranges {
    type Key = Key;

    fn name(&self) -> &'static str {
        "service-cidr-controller"
    }

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let range = self.api.service_range().to_string();
        let is_default = key.name == DEFAULT_RANGE;
        match found(self.api.get_as::<ServiceCIDR>(key))? {
            Some(there) if is_terminating(&there.metadata) => return Ok(()),
            // The cluster was started with another range than before, and a range never changes.
            Some(there) if is_default && ranges(&there) != [range.as_str()] => {
                let this = DeleteOptions::uid(there.uid());
                ignore_not_found(self.api.delete(Kind::ServiceCIDR, key, &this).map(drop))?;
                self.make(&range)?;
            }
            Some(_) => {}
            None if is_default => self.make(&range)?,
            None => return Ok(()),
        }
        let now = self.api.clock().now();
        let written = self.api.modify_status::<ServiceCIDR>(key, |object| {
            let next = ready(is_default, &range, now);
            conditions::set(object.status.get_or_insert_default().conditions.get_or_insert_default(), next);
            Ok(())
        });
        Ok(ignore_not_found(written.map(drop))?)
    }
}

impl Ranges {
    fn make(&self, range: &str) -> Result<(), ReconcileError> {
        let made = self.api.create_as(ServiceCIDR {
            metadata: ObjectMeta { name: Some(DEFAULT_RANGE.into()), ..ObjectMeta::default() },
            spec: Some(ServiceCIDRSpec { cidrs: Some(vec![range.into()]) }),
            status: None,
        });
        Ok(made.map(drop)?)
    }
}

fn ranges(range: &ServiceCIDR) -> &[String] {
    range.spec.as_ref().and_then(|spec| spec.cidrs.as_deref()).unwrap_or_default()
}

fn ready(is_default: bool, range: &str, now: Timestamp) -> Condition {
    let (status, reason, message) = if is_default {
        ("True", "", "Kubernetes Service CIDR is ready".to_string())
    } else {
        ("False", "NotUsed", format!("services get addresses of {range} only"))
    };
    Condition {
        type_: "Ready".into(),
        status: status.into(),
        reason: reason.into(),
        message,
        last_transition_time: time(now),
        observed_generation: None,
    }
}
