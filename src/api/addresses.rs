//! Cluster addresses of services: unique within a range, taken at creation, given back at deletion.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use parking_lot::Mutex;

use super::{Api, ApiError, Cause};
use crate::object::{Kind, Object};

/// A range of IPv4 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    /// Its first address.
    pub base: Ipv4Addr,
    /// How many low bits are free: 16 in `127.32.0.0/16`.
    pub bits: u32,
}

impl AddressRange {
    /// The address at an offset; wraps at the end of the range.
    pub fn at(&self, offset: u32) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.base) + (offset & ((1 << self.bits) - 1)))
    }

    /// Whether the address lies within.
    pub fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => (u32::from(v4) >> self.bits) == (u32::from(self.base) >> self.bits),
            IpAddr::V6(_) => false,
        }
    }
}

/// Hands out addresses of one range. The first 256 are left for fixed services (API, DNS).
#[derive(Debug)]
pub(super) struct Allocator {
    range: AddressRange,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    addresses: HashSet<Ipv4Addr>,
    next: u32,
}

const FIXED: u32 = 256;

impl Allocator {
    pub(super) fn new(range: AddressRange) -> Self {
        Self { range, taken: Mutex::default() }
    }

    pub(super) fn range(&self) -> AddressRange {
        self.range
    }

    /// Takes any free address; none when the range is used up.
    pub(super) fn take_any(&self) -> Option<Ipv4Addr> {
        let mut taken = self.taken.lock();
        let free = (1u32 << self.range.bits) - FIXED - 1;
        for _ in 0..free {
            let address = self.range.at(FIXED + taken.next % free);
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

    /// Gives several addresses back.
    pub(super) fn give_all_back(&self, addresses: &[Ipv4Addr]) {
        for address in addresses {
            self.give_back(*address);
        }
    }

    /// Gives an address back.
    pub(super) fn give_back(&self, address: Ipv4Addr) {
        self.taken.lock().addresses.remove(&address);
    }
}

/// Ports that NodePort services get.
const NODE_PORTS: std::ops::RangeInclusive<i32> = 30_000..=32_767;

impl Api {
    /// Gives a service that needs one a cluster address, and node ports; returns what was taken, to be given
    /// back should the write fail.
    pub(super) fn take_addresses(
        &self,
        object: &mut Object,
        dry_run: bool,
    ) -> Result<Vec<Ipv4Addr>, ApiError> {
        let name = object.name().to_string();
        let Some(service) = object.get::<Service>() else { return Ok(Vec::new()) };
        let Some(mut spec) = service.spec.clone() else { return Ok(Vec::new()) };
        let taken = self.take_cluster_address(&mut spec, &name)?;
        self.take_node_ports(&mut spec, &object.key().to_string());
        if let Some(service) = object.get_mut::<Service>() {
            service.spec = Some(spec);
        }
        if dry_run {
            self.inner.addresses.give_all_back(&taken);
        }
        Ok(taken)
    }

    fn take_cluster_address(&self, spec: &mut ServiceSpec, name: &str) -> Result<Vec<Ipv4Addr>, ApiError> {
        let allocator = &self.inner.addresses;
        if spec.type_.as_deref() == Some("ExternalName") {
            spec.cluster_ip = None;
            spec.cluster_ips = None;
            return Ok(Vec::new());
        }
        let address = match spec.cluster_ip.as_deref() {
            Some("None") => {
                spec.cluster_ips = Some(vec!["None".into()]);
                return Ok(Vec::new());
            }
            None | Some("") => allocator.take_any().ok_or_else(|| {
                ApiError::Internal("failed to allocate a service address: range is full".into())
            })?,
            Some(asked) => {
                let invalid = |detail: String| ApiError::Invalid {
                    kind: Kind::Service,
                    name: name.into(),
                    causes: vec![Cause {
                        reason: "FieldValueInvalid".into(),
                        message: format!("Invalid value: \"{asked}\": {detail}"),
                        field: "spec.clusterIP".into(),
                    }],
                };
                let address: Ipv4Addr = asked.parse().map_err(|_| {
                    invalid("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".into())
                })?;
                let range = allocator.range();
                if !range.contains(IpAddr::V4(address)) {
                    let (base, bits) = (range.base, 32 - range.bits);
                    return Err(invalid(format!(
                        "failed to allocate IP {asked}: the provided IP is not in the valid range. The range of \
                         valid IPs is {base}/{bits}"
                    )));
                }
                if !allocator.take(address) {
                    return Err(invalid(format!(
                        "failed to allocate IP {asked}: provided IP is already allocated"
                    )));
                }
                address
            }
        };
        spec.cluster_ip = Some(address.to_string());
        spec.cluster_ips = Some(vec![address.to_string()]);
        Ok(vec![address])
    }

    fn take_node_ports(&self, spec: &mut ServiceSpec, own_key: &str) {
        if !matches!(spec.type_.as_deref(), Some("NodePort" | "LoadBalancer")) {
            return;
        }
        let mut used: HashSet<i32> = self
            .list_as::<Service>(None)
            .iter()
            .filter(|service| service.key().to_string() != own_key)
            .flat_map(|service| {
                let ports = service.spec.as_ref().and_then(|s| s.ports.clone()).unwrap_or_default();
                ports.into_iter().filter_map(|p| p.node_port)
            })
            .collect();
        for port in spec.ports.iter_mut().flatten().filter(|p| p.node_port.unwrap_or(0) == 0) {
            port.node_port = NODE_PORTS.into_iter().find(|n| used.insert(*n));
        }
    }

    /// Gives a removed service's address back.
    pub(super) fn give_addresses_back(&self, removed: &Object) {
        if let Some(address) = cluster_address(removed) {
            self.inner.addresses.give_back(address);
        }
    }

    /// Marks the addresses of services that were there before this start as taken.
    pub(super) fn take_existing_addresses(&self) {
        for service in self.list(Kind::Service, None).objects {
            if let Some(address) = cluster_address(&service) {
                self.inner.addresses.take(address);
            }
        }
    }
}

fn cluster_address(object: &Object) -> Option<Ipv4Addr> {
    object.get::<Service>()?.spec.as_ref()?.cluster_ip.as_ref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_unique_and_come_back() {
        let allocator = Allocator::new(AddressRange { base: [127, 32, 0, 0].into(), bits: 9 });
        let all: HashSet<_> = std::iter::from_fn(|| allocator.take_any()).collect();
        assert_eq!(all.len(), 255);
        let one = *all.iter().next().unwrap();
        assert!(!allocator.take(one));
        allocator.give_back(one);
        assert_eq!(allocator.take_any(), Some(one));
        assert!(allocator.range().contains(IpAddr::V4(one)));
    }
}
