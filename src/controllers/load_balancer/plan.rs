//! Decides a service's load balancer address: a pure function of the service and the assigned addresses.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::Service;

use crate::balancer_pool::{BalancerPool, points_of};
use object::owner::is_terminating;
use object::well_known::controller::PODIUM_POOL;
use object::{Key, SharedObject};

/// A service with an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tenant {
    pub(super) key: Key,
    /// The creation time, and a tie-breaker for equal times.
    age: (Option<jiff::Timestamp>, String),
}

impl Tenant {
    pub(super) fn of(service: &SharedObject<Service>) -> Self {
        let created = service.metadata.creation_timestamp.as_ref().map(|time| time.0);
        Self { key: service.key(), age: (created, service.uid().to_owned()) }
    }
}

/// The action for a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Nothing: it has an address, or belongs to another controller.
    Leave,
    /// Assign this address.
    Give(Ipv4Addr),
    /// Release its address.
    TakeBack,
    /// Report that none can be assigned, for this reason.
    Refuse(String),
}

/// Returns true if a service needs a load balancer of this pool.
pub(super) fn is_balancer(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    let class = spec.and_then(|spec| spec.load_balancer_class.as_deref());
    spec.is_some_and(|spec| spec.type_.as_deref() == Some("LoadBalancer"))
        && class.is_none_or(|class| class == PODIUM_POOL)
}

/// Decides the action for a service; `tenants` are all services with addresses, including itself.
pub(super) fn plan(
    service: &SharedObject<Service>,
    tenants: &BTreeMap<Ipv4Addr, Vec<Tenant>>,
    pool: &BalancerPool,
) -> Plan {
    let has = pool.address_of(service);
    if !is_balancer(service) {
        return if has.is_some() { Plan::TakeBack } else { Plan::Leave };
    }
    // A terminating service keeps its address until it is deleted; another controller's address is left alone.
    if is_terminating(&service.metadata) || (has.is_none() && !points_of(service).is_empty()) {
        return Plan::Leave;
    }
    let spec = service.spec.as_ref();
    let families = spec.and_then(|spec| spec.ip_families.as_deref()).unwrap_or_default();
    if !families.is_empty() && families.iter().all(|family| family != "IPv4") {
        return Plan::Refuse("the address pool has only IPv4 addresses".to_owned());
    }
    let itself = Tenant::of(service);
    let is_free =
        |address: &Ipv4Addr| tenants.get(address).is_none_or(|all| all.iter().all(|one| *one == itself));
    let requested = spec.and_then(|spec| spec.load_balancer_ip.as_deref()).filter(|text| !text.is_empty());
    let preferred = match requested.map(|text| (text, pool.parse(text))) {
        None => has.filter(|address| !yields(&itself, tenants.get(address))),
        Some((text, None)) => {
            return Plan::Refuse(format!("{text} is not in the address pool {}", pool.addresses));
        }
        Some((_, Some(address))) if is_free(&address) => Some(address),
        Some((text, Some(_))) => return Plan::Refuse(format!("{text} is used by another service")),
    };
    let Some(address) = preferred.or_else(|| pool.all().find(is_free)) else {
        return Plan::Refuse(format!("all addresses of the pool {} are in use", pool.addresses));
    };
    if points_of(service) == pool.points(address) { Plan::Leave } else { Plan::Give(address) }
}

/// Returns true if a service must give up its address to an older one.
fn yields(itself: &Tenant, tenants: Option<&Vec<Tenant>>) -> bool {
    let oldest = tenants.into_iter().flatten().min_by_key(|tenant| &tenant.age);
    oldest.is_some_and(|oldest| oldest != itself)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pool() -> BalancerPool {
        BalancerPool {
            addresses: "172.20.128.0/29".parse().unwrap(),
            mirrors: Some("127.17.128.0/29".parse().unwrap()),
        }
    }

    fn service(name: &str, spec: &Value, has: &[&str]) -> SharedObject<Service> {
        let points: Vec<Value> = has
            .iter()
            .map(|ip| json!({"ip": ip, "ipMode": if ip.starts_with("127") { "Proxy" } else { "VIP" }}))
            .collect();
        let metadata = json!({"name": name, "namespace": "d", "uid": name,
            "creationTimestamp": if name == "young" { "2026-01-02T00:00:00Z" } else { "2026-01-01T00:00:00Z" }});
        let value =
            json!({"metadata": metadata, "spec": spec, "status": {"loadBalancer": {"ingress": points}}});
        SharedObject::from_value(serde_json::from_value(value).unwrap())
    }

    fn planned(service: &SharedObject<Service>, others: &[SharedObject<Service>]) -> Plan {
        let mut tenants: BTreeMap<Ipv4Addr, Vec<Tenant>> = BTreeMap::new();
        for one in others.iter().chain([service]) {
            if let Some(address) = pool().address_of(one) {
                tenants.entry(address).or_default().push(Tenant::of(one));
            }
        }
        plan(service, &tenants, &pool())
    }

    fn give(last: u8) -> Plan {
        Plan::Give(Ipv4Addr::new(172, 20, 128, last))
    }

    #[test]
    fn load_balancers_get_the_first_free_or_requested_address_net_6() {
        let plain = json!({"type": "LoadBalancer"});
        let with_ip = |ip: &str| json!({"type": "LoadBalancer", "loadBalancerIP": ip});
        let of_class = |class: &str| json!({"type": "LoadBalancer", "loadBalancerClass": class});
        let first = ["127.17.128.1", "172.20.128.1"];
        let old = service("old", &plain, &first);
        for (what, one, others, expected) in [
            ("the first", service("s", &plain, &[]), vec![], give(1)),
            ("the first that is free", service("s", &plain, &[]), vec![old.clone()], give(2)),
            ("its own addresses", old.clone(), vec![], Plan::Leave),
            (
                "only one of its two addresses is reported",
                service("s", &plain, &["172.20.128.3"]),
                vec![],
                give(3),
            ),
            ("the older keeps it", old.clone(), vec![service("young", &plain, &first)], Plan::Leave),
            ("the younger gives way", service("young", &plain, &first), vec![old.clone()], give(2)),
            ("the one it asks for", service("s", &with_ip("172.20.128.5"), &[]), vec![], give(5)),
            ("by what stands for it", service("s", &with_ip("127.17.128.5"), &[]), vec![], give(5)),
            ("another than it has", service("s", &with_ip("172.20.128.5"), &first), vec![], give(5)),
            ("of our class", service("s", &of_class(PODIUM_POOL), &[]), vec![], give(1)),
            ("of another class", service("s", &of_class("metallb.io/x"), &[]), vec![], Plan::Leave),
            ("another's already", service("s", &plain, &["192.0.2.1"]), vec![], Plan::Leave),
            (
                "no balancer any more",
                service("s", &json!({"type": "ClusterIP"}), &first),
                vec![],
                Plan::TakeBack,
            ),
            ("never one", service("s", &json!({"type": "ClusterIP"}), &[]), vec![], Plan::Leave),
        ] {
            assert_eq!(planned(&one, &others), expected, "{what}");
        }
    }

    #[test]
    fn a_load_balancer_without_an_address_reports_the_reason_net_6() {
        let plain = json!({"type": "LoadBalancer"});
        let with_ip = |ip: &str| json!({"type": "LoadBalancer", "loadBalancerIP": ip});
        let all: Vec<_> = (1..=6)
            .map(|last| service(&format!("s{last}"), &plain, &[format!("172.20.128.{last}").as_str()]))
            .collect();
        for (one, others, why) in [
            (service("s", &plain, &[]), &all[..], "all addresses of the pool 172.20.128.0/29 are in use"),
            (
                service("s", &with_ip("192.0.2.1"), &[]),
                &[],
                "192.0.2.1 is not in the address pool 172.20.128.0/29",
            ),
            (service("s", &with_ip("a name"), &[]), &[], "a name is not in the address pool 172.20.128.0/29"),
            (
                service("s", &with_ip("172.20.128.2"), &[]),
                &all[1..2],
                "172.20.128.2 is used by another service",
            ),
            (
                service("s", &json!({"type": "LoadBalancer", "ipFamilies": ["IPv6"]}), &[]),
                &[],
                "the address pool has only IPv4 addresses",
            ),
        ] {
            assert_eq!(planned(&one, others), Plan::Refuse(why.to_owned()));
        }
    }
}
