//! What services are given: cluster addresses and node ports, each held by one service as long as it wants it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashSet};
use std::net::Ipv4Addr;

use ipnet::{IpAdd, Ipv4Net};
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::api::networking::v1::IPAddress;
use parking_lot::Mutex;

use super::{Api, ApiError, Cause};
use object::{Kind, Object};

/// Hands out addresses of one range. The first 256 are left for fixed services (API, DNS).
#[derive(Debug)]
pub(super) struct Allocator {
    range: Ipv4Net,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    addresses: HashSet<Ipv4Addr>,
    next: u32,
}

const FIXED: u32 = 256;

impl Allocator {
    pub(super) fn new(range: Ipv4Net) -> Self {
        Self { range, taken: Mutex::default() }
    }

    pub(super) fn range(&self) -> Ipv4Net {
        self.range
    }

    /// Takes any free address; none when the range is used up.
    pub(super) fn take_any(&self) -> Option<Ipv4Addr> {
        let mut taken = self.taken.lock();
        let free = u32::from(self.range.hostmask()).saturating_sub(FIXED);
        for _ in 0..free {
            let address = self.range.network().saturating_add(FIXED + taken.next % free);
            taken.next = taken.next.wrapping_add(1);
            if taken.addresses.insert(address) {
                return Some(address);
            }
        }
        None
    }

    /// Takes this address; false when it is taken.
    pub(super) fn take(&self, address: Ipv4Addr) -> bool {
        self.taken.lock().addresses.insert(address)
    }

    /// Gives an address back.
    pub(super) fn give_back(&self, address: Ipv4Addr) {
        self.taken.lock().addresses.remove(&address);
    }
}

/// What a service holds: nobody else gets it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Allocation {
    address: Option<Ipv4Addr>,
    node_ports: BTreeSet<i32>,
}

impl Allocation {
    /// What an object holds: nothing, unless it is a service, or an address that somebody else than a service has.
    fn by(object: &Object) -> Self {
        if let Some(address) = object.get::<IPAddress>() {
            return Self { address: reserved(address), ..Self::default() };
        }
        let Some(spec) = object.get::<Service>().and_then(|service| service.spec.as_ref()) else {
            return Self::default();
        };
        Self {
            address: spec.cluster_ip.as_ref().and_then(|ip| ip.parse().ok()),
            node_ports: spec.ports.iter().flatten().filter_map(|p| p.node_port).filter(|n| *n != 0).collect(),
        }
    }

    fn without(self, other: &Self) -> Self {
        Self {
            address: self.address.filter(|address| other.address != Some(*address)),
            node_ports: self.node_ports.difference(&other.node_ports).copied().collect(),
        }
    }
}

/// The address, unless it is a service's: that service holds it itself.
fn reserved(address: &IPAddress) -> Option<Ipv4Addr> {
    let parent = &address.spec.parent_ref;
    let of_service = parent.resource == "services" && parent.group.as_ref().is_none_or(String::is_empty);
    address.metadata.name.as_ref().filter(|_| !of_service)?.parse().ok()
}

impl Api {
    /// The range that services get their addresses from.
    pub fn service_range(&self) -> Ipv4Net {
        self.inner.addresses.range()
    }

    /// Gives a service what it needs and its former version did not have: a cluster address, node ports; and an address
    /// to whoever else asks for it by name.
    /// Returns what was taken, to be given back should the write fail; a dry run takes nothing.
    pub(super) fn take_addresses(
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
            if !self.inner.addresses.take(address) {
                return Err(ApiError::AlreadyExists { kind: Kind::IPAddress, name });
            }
            return Ok(Allocation { address: Some(address), ..Allocation::default() });
        }
        let Some(mut spec) = object.get::<Service>().and_then(|service| service.spec.clone()) else {
            return Ok(Allocation::default());
        };
        let before = former.map(Allocation::by).unwrap_or_default();
        let mut taken = Allocation::default();
        let outcome = self
            .take_cluster_address(&mut spec, &before, &mut taken)
            .and_then(|()| self.take_node_ports(&mut spec, &before, &mut taken));
        if outcome.is_err() || dry_run {
            self.give_back(&std::mem::take(&mut taken));
        }
        outcome.map_err(|refused| refused.of_service(&name))?;
        if let Some(service) = object.get_mut::<Service>() {
            service.spec = Some(spec);
        }
        Ok(taken)
    }

    fn take_cluster_address(
        &self,
        spec: &mut ServiceSpec,
        before: &Allocation,
        taken: &mut Allocation,
    ) -> Result<(), Refused> {
        let allocator = &self.inner.addresses;
        if spec.type_.as_deref() == Some("ExternalName") {
            spec.cluster_ip = None;
            spec.cluster_ips = None;
            return Ok(());
        }
        let address = match spec.cluster_ip.as_deref() {
            Some("None") => {
                spec.cluster_ips = Some(vec!["None".into()]);
                return Ok(());
            }
            None | Some("") => {
                let any = allocator.take_any().ok_or(Refused::RangeFull)?;
                taken.address = Some(any);
                any
            }
            Some(asked) => {
                let refused = |why: String| Refused::invalid("spec.clusterIP", &format!("{asked:?}"), &why);
                let address: Ipv4Addr = asked.parse().map_err(|_| {
                    refused("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".into())
                })?;
                if before.address != Some(address) {
                    let range = allocator.range();
                    if !range.contains(&address) {
                        return Err(refused(format!(
                            "failed to allocate IP {asked}: the provided IP is not in the valid range. The \
                             range of valid IPs is {range}"
                        )));
                    }
                    if !allocator.take(address) {
                        let why = format!("failed to allocate IP {asked}: provided IP is already allocated");
                        return Err(refused(why));
                    }
                    taken.address = Some(address);
                }
                address
            }
        };
        spec.cluster_ip = Some(address.to_string());
        spec.cluster_ips = Some(vec![address.to_string()]);
        Ok(())
    }

    fn take_node_ports(
        &self,
        spec: &mut ServiceSpec,
        before: &Allocation,
        taken: &mut Allocation,
    ) -> Result<(), Refused> {
        let wants_them = match spec.type_.as_deref() {
            Some("NodePort") => true,
            Some("LoadBalancer") => spec.allocate_load_balancer_node_ports != Some(false),
            _ => false,
        };
        let allocator = &self.inner.node_ports;
        // What is asked for comes first: otherwise a port that is given away here could be one of those.
        for (index, port) in spec.ports.iter().flatten().enumerate() {
            let Some(asked) = port.node_port.filter(|n| *n != 0) else { continue };
            // One service may have the same number for several protocols.
            if before.node_ports.contains(&asked) || taken.node_ports.contains(&asked) {
                continue;
            }
            allocator.take(asked).map_err(|why| {
                Refused::invalid(
                    &format!("spec.ports[{index}].nodePort"),
                    &asked.to_string(),
                    &why.to_string(),
                )
            })?;
            taken.node_ports.insert(asked);
        }
        for port in spec.ports.iter_mut().flatten().filter(|p| wants_them && p.node_port.unwrap_or(0) == 0) {
            let any = allocator.take_any().ok_or(Refused::PortsFull)?;
            taken.node_ports.insert(any);
            port.node_port = Some(any);
        }
        Ok(())
    }

    /// Gives back what was taken for a write that did not happen.
    pub(super) fn give_back(&self, taken: &Allocation) {
        if let Some(address) = taken.address {
            self.inner.addresses.give_back(address);
        }
        self.inner.node_ports.give_back(&taken.node_ports);
    }

    /// Gives back what a removed object, or an object's former version, held and `now` does not.
    pub(super) fn give_addresses_back(&self, former: &Object, now: Option<&Object>) {
        let now = now.map(Allocation::by).unwrap_or_default();
        self.give_back(&Allocation::by(former).without(&now));
    }

    /// Marks what is held by services and others that were there before this start as taken.
    pub(super) fn take_existing_addresses(&self) {
        let held = [Kind::Service, Kind::IPAddress].map(|kind| self.list(kind, None).objects);
        for object in held.into_iter().flatten() {
            let held = Allocation::by(&object);
            if let Some(address) = held.address {
                self.inner.addresses.take(address);
            }
            for port in held.node_ports {
                // Refused is only what is outside of the range, or held twice already.
                let _ = self.inner.node_ports.take(port);
            }
        }
    }
}

/// Why a service does not get what it asks for.
#[derive(Debug)]
enum Refused {
    RangeFull,
    PortsFull,
    Invalid { field: String, message: String },
}

impl Refused {
    fn invalid(field: &str, value: &str, why: &str) -> Self {
        Self::Invalid { field: field.into(), message: format!("Invalid value: {value}: {why}") }
    }

    fn of_service(self, name: &str) -> ApiError {
        match self {
            Self::RangeFull => {
                ApiError::Internal("failed to allocate a service address: range is full".into())
            }
            Self::PortsFull => ApiError::Internal("failed to allocate a nodePort: range is full".into()),
            Self::Invalid { field, message } => ApiError::Invalid {
                kind: Kind::Service,
                name: name.into(),
                causes: vec![Cause { reason: "FieldValueInvalid".into(), message, field }],
            },
        }
    }
}
