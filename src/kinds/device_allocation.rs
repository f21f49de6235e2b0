//! Validation of the devices allocated to a claim and of their status.

use std::collections::HashSet;

use k8s_openapi::api::resource::v1::{
    AllocatedDeviceStatus, AllocationResult, DeviceAllocationConfiguration, DeviceRequestAllocationResult,
    NetworkDeviceData,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::device_claim::{
    MAX_ITEMS, configuration, different, json_object, limited, named_request, named_requests, pool_name,
    tolerations,
};
use super::resource_slice::binding_conditions;
use apimachinery::formats::is_normalized_uuid;
use apimachinery::validate::storage::driver_name;
use apimachinery::validate::{FieldErrors, Path, conditions, names, selector};

/// The maximum number of configurations: those of the class and of the claim together.
const MAX_CONFIGURATIONS: usize = 64;
const MAX_CONDITIONS: usize = 8;
const MAX_INTERFACE_BYTES: usize = 256;
const MAX_HARDWARE_ADDRESS_BYTES: usize = 128;
const MAX_IPS: usize = 16;

/// Validates a new allocation. `defined_names` has the names of the claim's requests.
pub(super) fn validate(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    allocation: &AllocationResult,
    defined_names: &HashSet<String>,
) {
    let devices = path.child("devices");
    let given = allocation.devices.as_ref();
    let list = devices.child("results");
    let results = limited(errors, &list, given.and_then(|given| given.results.as_deref()), MAX_ITEMS);
    for (i, one) in results.iter().enumerate() {
        result(errors, &list.index(i), one, defined_names);
    }
    let list = devices.child("config");
    let configurations =
        limited(errors, &list, given.and_then(|given| given.config.as_deref()), MAX_CONFIGURATIONS);
    for (path, one) in list.each(configurations.iter()) {
        let DeviceAllocationConfiguration { source, requests, opaque } = one;
        errors.required_one_of(&path.child("source"), Some(source), &["FromClaim", "FromClass"]);
        named_requests(errors, &path.child("requests"), requests.as_deref(), defined_names);
        configuration(errors, &path, opaque.as_ref());
    }
    if let Some(nodes) = &allocation.node_selector {
        let path = path.child("nodeSelector");
        selector::node_selector(errors, &path, nodes);
    }
}

fn result(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    result: &DeviceRequestAllocationResult,
    defined_names: &HashSet<String>,
) {
    named_request(errors, &path.child("request"), &result.request, defined_names);
    device(errors, path, (&result.driver, &result.pool, &result.device), result.share_id.as_deref());
    binding_conditions(
        errors,
        path,
        result.binding_conditions.as_deref(),
        result.binding_failure_conditions.as_deref(),
    );
    tolerations(errors, &path.child("tolerations"), result.tolerations.as_deref());
}

/// Validates a device, identified by driver, pool and name, and its share id.
fn device(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    (driver, pool, name): (&str, &str, &str),
    share: Option<&str>,
) {
    driver_name(errors, &path.child("driver"), driver);
    pool_name(errors, &path.child("pool"), pool);
    errors.invalid_each(&path.child("device"), name, names::dns_1123_label(name));
    if let Some(share) = share.filter(|share| !is_normalized_uuid(share)) {
        let detail = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase \
                   hexadecimal characters";
        errors.invalid(&path.child("shareID"), share, detail);
    }
}

/// Validates the status that drivers report for the devices of an allocation.
pub(super) fn statuses(
    errors: &mut FieldErrors,
    list: &Path<'_>,
    devices: Option<&[AllocatedDeviceStatus]>,
    allocation: Option<&AllocationResult>,
) {
    let given = devices.unwrap_or_default();
    let results = allocation.and_then(|allocation| allocation.devices.as_ref()?.results.as_ref());
    let allocated: HashSet<String> = results
        .into_iter()
        .flatten()
        .map(|one| device_id(&one.driver, &one.pool, &one.device, one.share_id.as_deref()))
        .collect();
    let mut ids = Vec::new();
    for (path, one) in list.each(given.iter()) {
        let id = device_id(&one.driver, &one.pool, &one.device, one.share_id.as_deref());
        device(errors, &path, (&one.driver, &one.pool, &one.device), one.share_id.as_deref());
        if !allocated.contains(&id) {
            errors.invalid(&path, &id, "must be an allocated device in the claim");
        }
        ids.push(id);
        status_conditions(errors, &path.child("conditions"), one.conditions.as_deref());
        if let Some(data) = &one.data {
            json_object(errors, &path.child("data"), &data.0);
        }
        if let Some(network) = &one.network_data {
            network_data(errors, &path.child("networkData"), network);
        }
    }
    different(errors, list, ids.iter().map(String::as_str));
}

fn device_id(driver: &str, pool: &str, device: &str, share: Option<&str>) -> String {
    let share = share.map(|share| format!("/{share}")).unwrap_or_default();
    format!("{driver}/{pool}/{device}{share}")
}

/// Validates the conditions of a device.
pub(super) fn status_conditions(errors: &mut FieldErrors, list: &Path<'_>, given: Option<&[Condition]>) {
    if let Some(given) = given.filter(|given| given.len() > MAX_CONDITIONS) {
        errors.too_many(list, given.len(), MAX_CONDITIONS);
    }
    conditions::conditions(errors, list, given);
}

fn network_data(errors: &mut FieldErrors, path: &Path<'_>, data: &NetworkDeviceData) {
    for (field, text, max) in [
        ("interfaceName", &data.interface_name, MAX_INTERFACE_BYTES),
        ("hardwareAddress", &data.hardware_address, MAX_HARDWARE_ADDRESS_BYTES),
    ] {
        if text.as_ref().is_some_and(|text| text.len() > max) {
            errors.too_long(&path.child(field), max);
        }
    }
    let list = path.child("ips");
    let addresses = limited(errors, &list, data.ips.as_deref(), MAX_IPS);
    for (i, address) in addresses.iter().enumerate() {
        let canonical = address.parse::<ipnet::IpNet>().map(|address| address.to_string());
        match canonical {
            Err(_) => {
                let detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
                errors.invalid(&list.index(i), address, detail);
            }
            Ok(canonical) if canonical != *address => {
                let detail = format!("must be in canonical form ({})", base::quote::quote(&canonical));
                errors.invalid(&list.index(i), address, detail);
            }
            Ok(_) => {}
        }
    }
    different(errors, &list, addresses.iter().map(String::as_str));
}
