//! EndpointSlices.

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use serde_json::json;
use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use super::columns::Column;
use super::endpoints::{PROTOCOLS, shortened};
use super::resource::Resource;
use apimachinery::default::set;
use apimachinery::validate::{FieldErrors, Path, metadata, names};

const MAX_ENDPOINTS: usize = 1000;

const MAX_ADDRESSES: usize = 100;

const MAX_TOPOLOGY_LABELS: usize = 16;

/// The maximum number of zones or nodes in the hints of an endpoint.
const MAX_HINTS: usize = 8;

const MAX_PORTS: usize = 20000;

impl Resource for EndpointSlice {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("AddressType", "The type of address carried by this EndpointSlice.", |slice, _| {
            json!(slice.address_type)
        }),
        Column::text(
            "Ports",
            "The list of network ports exposed by each endpoint in this slice.",
            |slice, _| {
                let port = |p: &EndpointPort| p.port.map_or_else(|| "*".into(), |port| port.to_string());
                json!(shortened(&slice.ports.iter().flatten().map(port).collect::<Vec<_>>(), "<unset>"))
            },
        ),
        Column::text("Endpoints", "The addresses of the endpoints in this slice.", |slice, _| {
            let addresses = slice.endpoints.iter().flatten().flat_map(|e| e.addresses.iter().cloned());
            json!(shortened(&addresses.collect::<Vec<_>>(), "<unset>"))
        }),
        Column::age(),
    ];

    fn apply_defaults(&mut self) {
        for EndpointPort { name, protocol, .. } in self.ports.iter_mut().flatten() {
            set(name, "");
            set(protocol, "TCP");
        }
    }

    fn prepare_for_create(&mut self) {
        self.metadata.generation = Some(1);
    }

    fn prepare_for_update(&mut self, old: &Self) {
        let is_same = (&self.endpoints, &self.ports, &self.metadata.labels)
            == (&old.endpoints, &old.ports, &old.metadata.labels);
        if !is_same {
            self.metadata.generation = Some(old.metadata.generation.unwrap_or(0) + 1);
        }
    }

    fn validate_create(&self, errors: &mut FieldErrors) {
        address_type(errors, self);
        endpoints(errors, self);
        slice_ports(errors, self);
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        errors.immutable(&Path::root("addressType"), &self.address_type, &old.address_type);
        address_type(errors, self);
        // Unchanged endpoints may break rules that are newer than the slice.
        if self.endpoints != old.endpoints {
            endpoints(errors, self);
        }
        slice_ports(errors, self);
    }
}

fn address_type(errors: &mut FieldErrors, slice: &EndpointSlice) {
    let path = Path::root("addressType");
    errors.required_one_of(&path, Some(&slice.address_type), &["FQDN", "IPv4", "IPv6"]);
}

fn endpoints(errors: &mut FieldErrors, slice: &EndpointSlice) {
    let path = Path::root("endpoints");
    let list = slice.endpoints.as_deref().unwrap_or_default();
    if list.len() > MAX_ENDPOINTS {
        return errors.too_many(&path, list.len(), MAX_ENDPOINTS);
    }
    for (i, one) in list.iter().enumerate() {
        endpoint(errors, &path.index(i), one, &slice.address_type);
    }
}

/// Validates an endpoint's address according to the slice's address type.
fn endpoint_address(errors: &mut FieldErrors, list: &Path<'_>, i: usize, address: &str, address_type: &str) {
    let path = list.index(i);
    let is_of_family = match (address_type, address.parse::<IpAddr>()) {
        ("FQDN", _) if address.is_empty() => return errors.required(&path, ""),
        ("FQDN", _) => return errors.invalid_each(&path, address, names::full_domain_name(address)),
        ("IPv4" | "IPv6", Err(_)) => return errors.invalid_each(&path, address, names::ip(address)),
        ("IPv4", Ok(ip)) => ip.is_ipv4(),
        ("IPv6", Ok(ip)) => ip.is_ipv6(),
        _ => return,
    };
    if !is_of_family {
        errors.invalid(list, address, format!("must be an {address_type} address"));
    }
    errors.invalid_each(&path, address, names::non_special_ip(address));
}

fn endpoint(errors: &mut FieldErrors, path: &Path<'_>, endpoint: &Endpoint, address_type: &str) {
    let list = path.child("addresses");
    match endpoint.addresses.len() {
        0 => errors.required(&list, "must contain at least 1 address"),
        n if n > MAX_ADDRESSES => errors.too_many(&list, n, MAX_ADDRESSES),
        _ => {}
    }
    for (i, address) in endpoint.addresses.iter().enumerate() {
        endpoint_address(errors, &list, i, address, address_type);
    }
    let topology = path.child("deprecatedTopology");
    let labels = endpoint.deprecated_topology.as_ref();
    if labels.is_some_and(|labels| labels.len() > MAX_TOPOLOGY_LABELS) {
        errors.too_many(&topology, labels.map_or(0, BTreeMap::len), MAX_TOPOLOGY_LABELS);
    }
    metadata::labels(errors, &topology, labels);
    if let Some(hints) = &endpoint.hints {
        let path = path.child("hints");
        let zones = hints.for_zones.iter().flatten().map(|zone| &*zone.name).collect();
        hint_targets(errors, &path.child("forZones"), zones, names::label_value);
        let nodes = hints.for_nodes.iter().flatten().map(|node| &*node.name).collect();
        hint_targets(errors, &path.child("forNodes"), nodes, names::dns_1123_subdomain);
    }
    if let Some(node) = &endpoint.node_name {
        errors.invalid_each(&path.child("nodeName"), node, names::dns_1123_subdomain(node));
    }
    if let Some(hostname) = &endpoint.hostname {
        errors.invalid_each(&path.child("hostname"), hostname, names::dns_1123_label(hostname));
    }
}

/// Validates the zones or nodes in the hints of an endpoint.
fn hint_targets(errors: &mut FieldErrors, list: &Path<'_>, given: Vec<&str>, rule: fn(&str) -> Vec<String>) {
    if given.len() > MAX_HINTS {
        return errors.too_many(list, given.len(), MAX_HINTS);
    }
    let mut seen = HashSet::new();
    for (path, name) in list.each(given) {
        let path = path.child("name");
        errors.unique(&mut seen, &path, name);
        errors.invalid_each(&path, name, rule(name));
    }
}

fn slice_ports(errors: &mut FieldErrors, slice: &EndpointSlice) {
    let path = Path::root("ports");
    let list = slice.ports.as_deref().unwrap_or_default();
    if list.len() > MAX_PORTS {
        errors.too_many(&path, list.len(), MAX_PORTS);
        return;
    }
    let mut seen = HashSet::new();
    for (path, port) in path.each(list.iter()) {
        let name = port.name.as_deref().unwrap_or_default();
        if !name.is_empty() {
            errors.invalid_each(&path.child("name"), name, names::dns_1123_label(name));
        }
        errors.unique(&mut seen, &path.child("name"), name);
        errors.required_one_of(&path.child("protocol"), port.protocol.as_deref(), PROTOCOLS);
        if let Some(number) = port.port {
            errors.invalid_each(&path.child("port"), &number, names::port_number(number.into()));
        }
        if let Some(protocol) = &port.app_protocol {
            errors.invalid_each(&path.child("appProtocol"), protocol, names::qualified_name(protocol));
        }
    }
}
