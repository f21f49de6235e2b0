//! Endpoints.

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset, Endpoints};
use serde_json::json;

use super::columns::{Column, NONE};
use super::resource::Resource;
use apimachinery::default::set_text;
use apimachinery::validate::{FieldErrors, Path, names};

pub(super) const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// The number of endpoints that a table shows.
const MAX_PRINTED_ENDPOINTS: usize = 3;

impl Resource for Endpoints {
    const ALLOWS_CREATE_ON_UPDATE: bool = true;
    const DEPRECATION: Option<&'static str> =
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice");
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Endpoints", "Addresses and ports of the service.", |endpoints, _| {
            json!(endpoints_text(endpoints))
        }),
        Column::age(),
    ];

    fn apply_defaults(&mut self) {
        for subset in self.subsets.iter_mut().flatten() {
            for port in subset.ports.iter_mut().flatten() {
                set_text(&mut port.protocol, "TCP");
            }
        }
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::root("subsets");
        for (i, one) in self.subsets.iter().flatten().enumerate() {
            subset(errors, &path.index(i), one);
        }
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
    for (path, port) in list.each(ports.iter()) {
        let name = port.name.as_deref().unwrap_or_default();
        if !name.is_empty() {
            errors.invalid_each(&path.child("name"), name, names::dns_1123_label(name));
        } else if ports.len() > 1 {
            errors.required(&path.child("name"), "");
        }
        errors.invalid_each(&path.child("port"), &port.port, names::port_number(port.port.into()));
        errors.required_one_of(&path.child("protocol"), port.protocol.as_deref(), PROTOCOLS);
        if let Some(protocol) = &port.app_protocol {
            errors.invalid_each(&path.child("appProtocol"), protocol, names::qualified_name(protocol));
        }
    }
}

fn addresses(errors: &mut FieldErrors, path: &Path<'_>, list: &[EndpointAddress]) {
    for (path, address) in path.each(list.iter()) {
        errors.invalid_each(&path.child("ip"), &address.ip, names::ip(&address.ip));
        errors.optional_name(&path.child("hostname"), address.hostname.as_deref(), names::dns_1123_label);
        if let Some(node) = &address.node_name {
            errors.invalid_each(&path.child("nodeName"), node, names::dns_1123_subdomain(node));
        }
        errors.invalid_each(&path.child("ip"), &address.ip, names::non_special_ip(&address.ip));
    }
}

/// Returns `10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 2 more...`
fn endpoints_text(endpoints: &Endpoints) -> String {
    let mut all = Vec::new();
    for subset in endpoints.subsets.iter().flatten() {
        let addresses = subset.addresses.as_deref().unwrap_or_default();
        match subset.ports.as_deref() {
            Some(ports) if !ports.is_empty() => {
                for port in ports {
                    all.extend(addresses.iter().map(|a| format!("{}:{}", a.ip, port.port)));
                }
            }
            _ => all.extend(addresses.iter().map(|a| a.ip.clone())),
        }
    }
    shortened(&all, NONE)
}

/// Joins the first items and adds the number of the others.
pub(super) fn shortened(all: &[String], none: &str) -> String {
    if all.is_empty() {
        return none.into();
    }
    let shown = all[..all.len().min(MAX_PRINTED_ENDPOINTS)].join(",");
    match all.len().saturating_sub(MAX_PRINTED_ENDPOINTS) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}
