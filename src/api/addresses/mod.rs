//! Cluster addresses and node ports of services, each held by one service.

#[cfg(test)]
mod tests;

mod allocator;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::api::networking::v1::IPAddress;

use super::{Api, ApiError, Cause, object_checks};
use allocator::Allocator;
use kinds::ip_families::{self, IPV4, IPV6};
use kinds::load_balancer::{health_port, needs_health_check};
use object::{Kind, Object};

/// Allocates addresses of services, in the cluster's IP families.
#[derive(Debug)]
pub(super) struct Allocators {
    v4: Allocator,
    v6: Option<Allocator>,
}

impl Allocators {
    pub(super) fn new(v4: Ipv4Net, v6: Option<Ipv6Net>) -> Self {
        Self { v4: Allocator::new(v4.into()), v6: v6.map(|range| Allocator::new(range.into())) }
    }

    fn all(&self) -> impl Iterator<Item = &Allocator> {
        std::iter::once(&self.v4).chain(&self.v6)
    }

    /// Returns the cluster's families, its default one first.
    fn families(&self) -> &'static [&'static str] {
        if self.v6.is_some() { &[IPV4, IPV6] } else { &[IPV4] }
    }

    fn of_family(&self, family: &str) -> Option<&Allocator> {
        if family == IPV6 { self.v6.as_ref() } else { Some(&self.v4) }
    }

    fn of(&self, address: IpAddr) -> Option<&Allocator> {
        if address.is_ipv6() { self.v6.as_ref() } else { Some(&self.v4) }
    }

    /// Allocates this address; false if it is in use, or of a family that the cluster lacks.
    fn allocate(&self, address: IpAddr) -> bool {
        self.of(address).is_some_and(|allocator| allocator.allocate(address))
    }
}

/// The addresses and ports of a service, exclusively its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Allocation {
    addresses: BTreeSet<IpAddr>,
    node_ports: BTreeSet<i32>,
}

impl Allocation {
    /// Returns the addresses and ports that an object holds: a service, or an IPAddress that does not belong
    /// to a service. Other objects hold none.
    fn by(object: &Object) -> Self {
        if let Some(address) = object.get::<IPAddress>() {
            return Self { addresses: reserved(address).into_iter().collect(), ..Self::default() };
        }
        let Some(spec) = object.get::<Service>().and_then(|service| service.spec.as_ref()) else {
            return Self::default();
        };
        let node_ports = spec.ports.iter().flatten().filter_map(|p| p.node_port).filter(|n| *n != 0);
        Self {
            addresses: object::service::cluster_ips(spec).collect(),
            node_ports: node_ports.chain(health_port(spec)).collect(),
        }
    }

    fn without(self, other: &Self) -> Self {
        Self {
            addresses: self.addresses.difference(&other.addresses).copied().collect(),
            node_ports: self.node_ports.difference(&other.node_ports).copied().collect(),
        }
    }
}

/// Returns the address; `None` if it belongs to a service, because the service's own allocation holds it.
fn reserved(address: &IPAddress) -> Option<IpAddr> {
    let parent = &address.spec.parent_ref;
    let of_service = parent.resource == "services" && parent.group.as_ref().is_none_or(String::is_empty);
    address.metadata.name.as_ref().filter(|_| !of_service)?.parse().ok()
}

impl Api {
    /// Returns the range of services' cluster addresses.
    pub fn service_range(&self) -> Ipv4Net {
        self.config().service_range
    }

    /// Returns the ranges of all families, the default one first.
    pub fn service_ranges(&self) -> Vec<IpNet> {
        self.inner.addresses.all().map(Allocator::range).collect()
    }

    /// Sets a service's IP families, and refuses families that the cluster lacks.
    pub(super) fn resolve_families(
        &self,
        former: Option<&Object>,
        object: &mut Object,
    ) -> Result<(), ApiError> {
        let before = former.and_then(|former| former.get::<Service>()?.spec.as_ref());
        let Some(spec) = object.get_mut::<Service>().map(|service| service.spec.get_or_insert_default())
        else {
            return Ok(());
        };
        let errors = ip_families::resolve_families(spec, before, self.inner.addresses.families());
        object_checks::refuse(object, errors)
    }

    /// Allocates a service's new resources: a cluster address and node ports; and the address of an IPAddress
    /// that a client creates by name. Returns the allocation, to be released if the write fails; a dry run
    /// allocates nothing.
    pub(super) fn allocate_service_resources(
        &self,
        former: Option<&Object>,
        object: &mut Object,
        dry_run: bool,
    ) -> Result<Allocation, ApiError> {
        let name = object.name().to_string();
        if let Some(address) = object.get::<IPAddress>().and_then(reserved).filter(|_| former.is_none()) {
            if dry_run {
                return Ok(Allocation::default());
            }
            if !self.inner.addresses.allocate(address) {
                return Err(ApiError::AlreadyExists { kind: Kind::IPAddress, name });
            }
            return Ok(Allocation { addresses: [address].into(), ..Allocation::default() });
        }
        let Some(mut spec) = object.get::<Service>().and_then(|service| service.spec.clone()) else {
            return Ok(Allocation::default());
        };
        let before = former.map(Allocation::by).unwrap_or_default();
        let health_before = former.and_then(|former| health_port(former.get::<Service>()?.spec.as_ref()?));
        let mut taken = Allocation::default();
        let outcome = self
            .take_cluster_addresses(&mut spec, &before, &mut taken)
            .and_then(|()| self.take_node_ports(&mut spec, &before, health_before, &mut taken))
            .and_then(|()| self.allocate_health_port(&mut spec, health_before, &mut taken));
        if outcome.is_err() || dry_run {
            self.release_allocation(&std::mem::take(&mut taken));
        }
        outcome.map_err(|refused| refused.of_service(&name))?;
        if let Some(service) = object.get_mut::<Service>() {
            service.spec = Some(spec);
        }
        Ok(taken)
    }

    fn take_cluster_addresses(
        &self,
        spec: &mut ServiceSpec,
        before: &Allocation,
        allocated: &mut Allocation,
    ) -> Result<(), AllocationError> {
        if spec.type_.as_deref() == Some("ExternalName") {
            spec.cluster_ip = None;
            spec.cluster_ips = None;
            return Ok(());
        }
        if spec.cluster_ip.as_deref() == Some("None") {
            return Ok(());
        }
        let requested = ip_families::cluster_ips(spec);
        let mut addresses = Vec::new();
        for (i, family) in spec.ip_families.iter().flatten().enumerate() {
            let allocator = self.inner.addresses.of_family(family);
            let Some(text) = requested.get(i).filter(|text| !text.is_empty()) else {
                // The cluster no longer has this family, so the service gets no address of it.
                let Some(allocator) = allocator else { continue };
                let any = allocator.allocate_next().ok_or(AllocationError::RangeFull)?;
                allocated.addresses.insert(any);
                addresses.push(any.to_string());
                continue;
            };
            let refused = |reason: String| {
                let shown = serde_json::to_string(&requested).expect("a list of text is JSON");
                let message = format!("failed to allocate IP {text}: {reason}");
                AllocationError::invalid("spec.clusterIPs", &shown, &message)
            };
            // Validation has checked that it is an address of this family.
            let address: IpAddr = text.parse().map_err(|_| refused("provided IP is not valid".to_owned()))?;
            if !before.addresses.contains(&address) {
                let range = allocator.map(Allocator::range);
                if !range.is_some_and(|range| range.contains(&address)) {
                    let range = range.map(|range| range.to_string()).unwrap_or_default();
                    return Err(refused(format!(
                        "the provided IP is not in the valid range. The range of valid IPs is {range}"
                    )));
                }
                if !self.inner.addresses.allocate(address) {
                    return Err(refused("provided IP is already allocated".to_owned()));
                }
                allocated.addresses.insert(address);
            }
            addresses.push(text.clone());
        }
        spec.cluster_ip = addresses.first().cloned();
        spec.cluster_ips = Some(addresses);
        Ok(())
    }

    fn take_node_ports(
        &self,
        spec: &mut ServiceSpec,
        before: &Allocation,
        health_before: Option<i32>,
        allocated: &mut Allocation,
    ) -> Result<(), AllocationError> {
        let retained_health_port = health_before.filter(|_| health_port(spec) == health_before);
        let wants_them = match spec.type_.as_deref() {
            Some("NodePort") => true,
            Some("LoadBalancer") => spec.allocate_load_balancer_node_ports != Some(false),
            _ => false,
        };
        let allocator = &self.inner.node_ports;
        // Requested ports come first: otherwise a port that is chosen here could be one of them.
        for (index, port) in spec.ports.iter().flatten().enumerate() {
            let Some(requested) = port.node_port.filter(|n| *n != 0) else { continue };
            // A service may use the same number for several protocols.
            let has = before.node_ports.contains(&requested) && retained_health_port != Some(requested);
            if has || allocated.node_ports.contains(&requested) {
                continue;
            }
            allocator.allocate(requested).map_err(|why| {
                AllocationError::invalid(
                    &format!("spec.ports[{index}].nodePort"),
                    &requested.to_string(),
                    &why.to_string(),
                )
            })?;
            allocated.node_ports.insert(requested);
        }
        for port in spec.ports.iter_mut().flatten().filter(|p| wants_them && p.node_port.unwrap_or(0) == 0) {
            let any = allocator.allocate_any().ok_or(AllocationError::PortsFull)?;
            allocated.node_ports.insert(any);
            port.node_port = Some(any);
        }
        Ok(())
    }

    /// Allocates the port for load balancers' health checks on nodes, if the service needs one.
    fn allocate_health_port(
        &self,
        spec: &mut ServiceSpec,
        before: Option<i32>,
        allocated: &mut Allocation,
    ) -> Result<(), AllocationError> {
        if !needs_health_check(spec) || (before.is_some() && health_port(spec) == before) {
            return Ok(());
        }
        let allocator = &self.inner.node_ports;
        let number = match health_port(spec) {
            Some(requested) => {
                allocator
                    .allocate(requested)
                    .map_err(|why| AllocationError::Health(requested, why.to_string()))?;
                requested
            }
            None => allocator.allocate_any().ok_or(AllocationError::PortsFull)?,
        };
        allocated.node_ports.insert(number);
        spec.health_check_node_port = Some(number);
        Ok(())
    }

    /// Releases the allocation of a write that failed.
    pub(super) fn release_allocation(&self, taken: &Allocation) {
        for address in &taken.addresses {
            if let Some(allocator) = self.inner.addresses.of(*address) {
                allocator.release(*address);
            }
        }
        self.inner.node_ports.release(&taken.node_ports);
    }

    /// Releases the resources that `former`, a removed object or an earlier version, held and `now` does not
    /// hold.
    pub(super) fn release_unused_addresses(&self, former: &Object, now: Option<&Object>) {
        let now = now.map(Allocation::by).unwrap_or_default();
        self.release_allocation(&Allocation::by(former).without(&now));
    }

    /// Marks the resources of existing services and IPAddresses as allocated, when the API starts.
    pub(super) fn mark_existing_addresses(&self) {
        let held = [Kind::Service, Kind::IPAddress].map(|kind| self.list(kind, None).objects);
        self.mark_allocated(held.iter().flatten());
    }

    /// Marks the resources of these objects as allocated.
    pub(super) fn mark_allocated<'a>(&self, objects: impl IntoIterator<Item = &'a Arc<Object>>) {
        for object in objects {
            let held = Allocation::by(object);
            for address in held.addresses {
                self.inner.addresses.allocate(address);
            }
            for port in held.node_ports {
                // Fails only for ports outside the range, or ports already marked.
                let _ = self.inner.node_ports.allocate(port);
            }
        }
    }
}

/// The reason why a service does not get a requested resource.
#[derive(Debug)]
enum AllocationError {
    RangeFull,
    PortsFull,
    /// The requested health check port, and the reason why it is not available.
    Health(i32, String),
    Invalid {
        field: String,
        message: String,
    },
}

impl AllocationError {
    fn invalid(field: &str, value: &str, reason: &str) -> Self {
        Self::Invalid { field: field.into(), message: format!("Invalid value: {value}: {reason}") }
    }

    fn of_service(self, name: &str) -> ApiError {
        match self {
            Self::RangeFull => {
                ApiError::Internal("failed to allocate a service address: range is full".into())
            }
            Self::PortsFull => ApiError::Internal("failed to allocate a nodePort: range is full".into()),
            Self::Health(requested, why) => ApiError::Internal(format!(
                "failed to allocate requested HealthCheck NodePort {requested}: {why}"
            )),
            Self::Invalid { field, message } => ApiError::Invalid {
                kind: Kind::Service,
                name: name.into(),
                causes: vec![Cause { reason: "FieldValueInvalid".into(), message, field }],
            },
        }
    }
}
