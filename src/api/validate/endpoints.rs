//! Rules of Endpoints and EndpointSlices.
//!
//! Kubernetes refuses loopback addresses here; in Podium they are the pods' own, so they are allowed.

use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset, Endpoints};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

use super::field::{FieldErrors, Path};
use super::names;

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20000;

pub(super) fn endpoints(errors: &mut FieldErrors, endpoints: &Endpoints) {
    let path = Path::root("subsets");
    for (i, one) in endpoints.subsets.iter().flatten().enumerate() {
        subset(errors, &path.index(i), one);
    }
}

fn subset(errors: &mut FieldErrors, path: &Path<'_>, subset: &EndpointSubset) {
    let ready = subset.addresses.as_deref().unwrap_or_default();
    let not_ready = subset.not_ready_addresses.as_deref().unwrap_or_default();
    if ready.is_empty() && not_ready.is_empty() {
        errors.required(path, "must specify `addresses` or `notReadyAddresses`");
    }
    addresses(errors, &path.child("addresses"), ready);
    addresses(errors, &path.child("notReadyAddresses"), not_ready);
    let ports = subset.ports.as_deref().unwrap_or_default();
    let list = path.child("ports");
    for (i, port) in ports.iter().enumerate() {
        let path = list.index(i);
        let name = port.name.as_deref().unwrap_or_default();
        if !name.is_empty() {
            errors.invalid_each(&path.child("name"), name, names::dns_1123_label(name));
        } else if ports.len() > 1 {
            errors.required(&path.child("name"), "");
        }
        errors.invalid_each(&path.child("port"), &port.port, names::port_number(port.port.into()));
        errors.required_one_of(&path.child("protocol"), port.protocol.as_deref(), PROTOCOLS);
    }
}

fn addresses(errors: &mut FieldErrors, path: &Path<'_>, list: &[EndpointAddress]) {
    for (i, address) in list.iter().enumerate() {
        let path = path.index(i);
        errors.invalid_each(&path.child("ip"), &address.ip, names::ip(&address.ip));
        if let Some(name) = address.hostname.as_ref().filter(|h| !h.is_empty()) {
            errors.invalid_each(&path.child("hostname"), name, names::dns_1123_label(name));
        }
        if let Some(node) = address.node_name.as_ref().filter(|n| !n.is_empty()) {
            errors.invalid_each(&path.child("nodeName"), node, names::dns_1123_subdomain(node));
        }
    }
}

pub(super) fn slice(errors: &mut FieldErrors, slice: &EndpointSlice) {
    errors.required_one_of(&Path::root("addressType"), Some(&slice.address_type), &["FQDN", "IPv4", "IPv6"]);
    let path = Path::root("endpoints");
    let list = slice.endpoints.as_deref().unwrap_or_default();
    if list.len() > MAX_ENDPOINTS {
        errors.too_many(&path, list.len(), MAX_ENDPOINTS);
    } else {
        for (i, one) in list.iter().enumerate() {
            endpoint(errors, &path.index(i), one, &slice.address_type);
        }
    }
    slice_ports(errors, slice);
}

pub(super) fn slice_update(errors: &mut FieldErrors, new: &EndpointSlice, old: &EndpointSlice) {
    errors.immutable(&Path::root("addressType"), &new.address_type, &old.address_type);
    slice(errors, new);
}

fn endpoint(errors: &mut FieldErrors, path: &Path<'_>, endpoint: &Endpoint, address_type: &str) {
    let list = path.child("addresses");
    match endpoint.addresses.len() {
        0 => errors.required(&list, "must contain at least 1 address"),
        n if n > MAX_ADDRESSES => errors.too_many(&list, n, MAX_ADDRESSES),
        _ => {}
    }
    for (i, address) in endpoint.addresses.iter().enumerate() {
        let wrong = match address_type {
            "IPv4" if address.parse::<Ipv4Addr>().is_err() => vec!["must be an IPv4 address".to_string()],
            "IPv6" if address.parse::<Ipv6Addr>().is_err() => vec!["must be an IPv6 address".to_string()],
            "FQDN" => names::dns_1123_subdomain(address),
            _ => Vec::new(),
        };
        errors.invalid_each(&list.index(i), address, wrong);
    }
    if let Some(node) = &endpoint.node_name {
        errors.invalid_each(&path.child("nodeName"), node, names::dns_1123_subdomain(node));
    }
    if let Some(hostname) = &endpoint.hostname {
        errors.invalid_each(&path.child("hostname"), hostname, names::dns_1123_label(hostname));
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
    for (i, port) in list.iter().enumerate() {
        let path = path.index(i);
        let name = port.name.as_deref().unwrap_or_default();
        if !name.is_empty() {
            errors.invalid_each(&path.child("name"), name, names::dns_1123_label(name));
        }
        if !seen.insert(name) {
            errors.duplicate(&path.child("name"), name);
        }
        errors.required_one_of(&path.child("protocol"), port.protocol.as_deref(), PROTOCOLS);
        if let Some(number) = port.port {
            errors.invalid_each(&path.child("port"), &number, names::port_number(number.into()));
        }
    }
}
