//! Resource slices: which devices a driver has where. Kept for drivers of devices; none is given.

use std::collections::HashSet;

use k8s_openapi::api::resource::v1::{Device, ResourceSlice, ResourceSliceSpec};
use serde_json::json;

use super::columns::Column;
use super::device_claim;
use super::resource::{Resource, SelectableField, selectable};
use crate::validate::{FieldErrors, Path, names, resources, selector};
use object::storage::UNSET;

/// Devices a slice may list, as in Kubernetes; half as many when they have taints or share counters.
const MAX_DEVICES: usize = 128;
const MAX_ATTRIBUTES: usize = 32;
const MAX_TAINTS: usize = 16;
/// `domain/domain` with slashes between.
const MAX_POOL_BYTES: usize = 253;

impl Resource for ResourceSlice {
    const WARNING: Option<&'static str> = Some(device_claim::NOT_ACTED_ON);
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Node", "The node that has the devices.", |slice, _| {
            json!(slice.spec.node_name.as_deref().unwrap_or(UNSET))
        }),
        Column::text("Driver", "The driver of the devices.", |slice, _| json!(slice.spec.driver)),
        Column::text("Pool", "The pool that the devices are of.", |slice, _| json!(slice.spec.pool.name)),
        Column::age(),
    ];
    const SELECTABLE: &'static [SelectableField<Self>] = &[
        selectable("spec.nodeName", |slice| super::resource::text(slice.spec.node_name.as_ref())),
        selectable("spec.driver", |slice| slice.spec.driver.as_str().into()),
    ];

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::root("spec");
        let spec = &self.spec;
        device_claim::driver(errors, &path.child("driver"), &spec.driver);
        pool(errors, &path.child("pool"), spec);
        one_place(errors, &path, spec);
        let list = path.child("devices");
        let devices = spec.devices.as_deref().unwrap_or_default();
        if devices.len() > MAX_DEVICES {
            errors.too_many(&list, devices.len(), MAX_DEVICES);
        }
        let mut seen = HashSet::new();
        for (i, one) in devices.iter().enumerate() {
            let path = list.index(i);
            device(errors, &path, one);
            if !seen.insert(&one.name) {
                errors.duplicate(&path.child("name"), &one.name);
            }
        }
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
        let path = Path::root("spec");
        errors.immutable(&path.child("driver"), &self.spec.driver, &old.spec.driver);
        errors.immutable(&path.child("pool.name"), &self.spec.pool.name, &old.spec.pool.name);
        errors.immutable(&path.child("nodeName"), &self.spec.node_name, &old.spec.node_name);
    }
}

fn pool(errors: &mut FieldErrors, path: &Path<'_>, spec: &ResourceSliceSpec) {
    let at = path.child("name");
    if spec.pool.name.is_empty() {
        errors.required(&at, "");
    } else if spec.pool.name.len() > MAX_POOL_BYTES {
        errors.too_long(&at, MAX_POOL_BYTES);
    } else {
        for part in spec.pool.name.split('/') {
            errors.invalid_each(&at, part, names::dns_1123_subdomain(part));
        }
    }
    if spec.pool.resource_slice_count <= 0 {
        let path = path.child("resourceSliceCount");
        errors.invalid(&path, &spec.pool.resource_slice_count, "must be greater than zero");
    }
    errors.non_negative(&path.child("generation"), spec.pool.generation);
}

/// The devices are of one node, of those that a selector chooses, of all, or each says it itself.
fn one_place(errors: &mut FieldErrors, path: &Path<'_>, spec: &ResourceSliceSpec) {
    const ONE: &str =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let given = [
        spec.node_name.as_ref().is_some_and(|name| !name.is_empty()),
        spec.node_selector.is_some(),
        spec.all_nodes == Some(true),
        spec.per_device_node_selection == Some(true),
    ];
    match given.into_iter().filter(|given| *given).count() {
        0 => errors.required(path, ONE),
        1 => {}
        _ => errors.invalid_itself(path, format!("{ONE}, but multiple fields are set")),
    }
    if let Some(name) = &spec.node_name {
        errors.invalid_each(&path.child("nodeName"), name, names::dns_1123_subdomain(name));
    }
    if let Some(chosen) = &spec.node_selector {
        let list = path.child("nodeSelector.nodeSelectorTerms");
        if chosen.node_selector_terms.len() != 1 {
            errors.invalid_itself(&list, "must have exactly one node selector term");
        }
        for (i, term) in chosen.node_selector_terms.iter().enumerate() {
            selector::node_selector_term(errors, &list.index(i), term);
        }
    }
}

fn device(errors: &mut FieldErrors, path: &Path<'_>, device: &Device) {
    errors.required_name(&path.child("name"), &device.name, names::dns_1123_label);
    let attributes = device.attributes.as_ref().map_or(0, std::collections::BTreeMap::len)
        + device.capacity.as_ref().map_or(0, std::collections::BTreeMap::len);
    if attributes > MAX_ATTRIBUTES {
        let why = format!("the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES}");
        errors.invalid_itself(path, why);
    }
    let at = path.child("attributes");
    for (name, value) in device.attributes.iter().flatten() {
        let path = at.key(name);
        errors.invalid_each(&path, name, names::qualified_name(name));
        let given = serde_json::to_value(value).unwrap_or_default();
        if given.as_object().is_none_or(|fields| fields.len() != 1) {
            errors.invalid(&path, &given, "exactly one value must be specified");
        }
    }
    let at = path.child("capacity");
    for (name, capacity) in device.capacity.iter().flatten() {
        let path = at.key(name);
        errors.invalid_each(&path, name, names::qualified_name(name));
        resources::quantity(errors, &path.child("value"), &capacity.value);
    }
    let list = path.child("taints");
    let taints = device.taints.as_deref().unwrap_or_default();
    if taints.len() > MAX_TAINTS {
        errors.too_many(&list, taints.len(), MAX_TAINTS);
    }
    for (i, taint) in taints.iter().enumerate() {
        device_claim::taint(errors, &list.index(i), taint);
    }
}
