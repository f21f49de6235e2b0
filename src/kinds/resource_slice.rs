//! Resource slices: the devices that a driver has, and their nodes. Stored for device drivers; Podium allocates no
//! devices.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::NodeSelector;
use k8s_openapi::api::resource::v1::{Counter, Device, DeviceAttribute, ResourceSlice, ResourceSliceSpec};
use serde_json::{Value, json};

use super::columns::Column;
use super::device_claim::{attribute_name, different, limited, pool_name, taint};
use super::resource::{Resource, SelectableField, selectable};
use apimachinery::validate::storage::driver_name;
use apimachinery::validate::{FieldErrors, Path, metadata, names, resources, selector};
use object::storage::UNSET;

/// The maximum number of devices in a slice, as in Kubernetes.
const MAX_DEVICES: usize = 128;
/// The maximum number of devices in a slice if any of them has taints, counters or lists of values.
const MAX_ADVANCED: usize = 64;
const MAX_ATTRIBUTES: usize = 32;
/// The maximum size of an attribute's text.
const MAX_VALUE_BYTES: usize = 64;
const MAX_TAINTS: usize = 16;
const MAX_COUNTER_SETS: usize = 8;
/// The maximum number of counter sets that a device uses.
const MAX_CONSUMED_SETS: usize = 2;
const MAX_COUNTERS: usize = 32;
const MAX_BINDING_CONDITIONS: usize = 4;

impl Resource for ResourceSlice {
    const WARNING: Option<&'static str> = Some(super::device_claim::NOT_ACTED_ON);
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Node", "The node that has the devices.", |slice, _| {
            json!(slice.spec.node_name.as_deref().unwrap_or(UNSET))
        }),
        Column::text("Driver", "The driver of the devices.", |slice, _| json!(slice.spec.driver)),
        Column::text("Pool", "The pool of the devices.", |slice, _| json!(slice.spec.pool.name)),
        Column::age(),
    ];
    const SELECTABLE: &'static [SelectableField<Self>] = &[
        selectable("spec.nodeName", |slice| super::resource::text(slice.spec.node_name.as_ref())),
        selectable("spec.driver", |slice| slice.spec.driver.as_str().into()),
    ];

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::root("spec");
        let spec = &self.spec;
        driver_name(errors, &path.child("driver"), &spec.driver);
        pool(errors, &path.child("pool"), spec);
        one_node_selection(errors, &path, spec);
        if spec.shared_counters.is_some() && spec.devices.is_some() {
            errors.invalid(&path, "", "only one of `sharedCounters` or `devices` is allowed");
        }
        let list = path.child("devices");
        let given = spec.devices.as_deref();
        let max = if given.unwrap_or_default().iter().any(is_advanced) { MAX_ADVANCED } else { MAX_DEVICES };
        let devices = limited(errors, &list, given, max);
        for (i, one) in devices.iter().enumerate() {
            device(errors, &list.index(i), one, spec.per_device_node_selection == Some(true));
        }
        different(errors, &list, devices.iter().map(|device| &*device.name));
        let list = path.child("sharedCounters");
        let sets = limited(errors, &list, spec.shared_counters.as_deref(), MAX_COUNTER_SETS);
        for (i, set) in sets.iter().enumerate() {
            counters(errors, &list.index(i), "name", &set.name, &set.counters);
        }
        different(errors, &list, sets.iter().map(|set| &*set.name));
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
        let path = Path::root("spec");
        errors.immutable(&path.child("driver"), &self.spec.driver, &old.spec.driver);
        errors.immutable(&path.child("pool.name"), &self.spec.pool.name, &old.spec.pool.name);
        errors.immutable(&path.child("nodeName"), &self.spec.node_name, &old.spec.node_name);
    }
}

/// Returns whether a device has taints, counters or lists of values, with which a slice may have fewer devices.
fn is_advanced(device: &Device) -> bool {
    let has_lists = |one: &DeviceAttribute| {
        one.bools.is_some() || one.ints.is_some() || one.strings.is_some() || one.versions.is_some()
    };
    device.taints.as_ref().is_some_and(|taints| !taints.is_empty())
        || device.consumes_counters.as_ref().is_some_and(|counters| !counters.is_empty())
        || device.attributes.iter().flatten().any(|(_, attribute)| has_lists(attribute))
}

fn pool(errors: &mut FieldErrors, path: &Path<'_>, spec: &ResourceSliceSpec) {
    pool_name(errors, &path.child("name"), &spec.pool.name);
    if spec.pool.resource_slice_count <= 0 {
        let path = path.child("resourceSliceCount");
        errors.invalid(&path, &spec.pool.resource_slice_count, "must be greater than zero");
    }
    if spec.pool.generation < 0 {
        let detail = "must be greater than or equal to zero";
        errors.invalid(&path.child("generation"), &spec.pool.generation, detail);
    }
}

/// Requires that a slice selects nodes in exactly one way: by name, by a selector, all nodes, or for each device
/// separately.
fn one_node_selection(errors: &mut FieldErrors, path: &Path<'_>, spec: &ResourceSliceSpec) {
    const ONE: &str =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    if spec.node_name.as_deref() == Some("") {
        let detail = "must be either unset or set to a non-empty string";
        errors.invalid(&path.child("nodeName"), "", detail);
    }
    let places = node_selection(errors, path, (&spec.node_name, &spec.node_selector, spec.all_nodes));
    if let Some(chosen) = spec.node_selector.as_ref().filter(|chosen| chosen.node_selector_terms.len() != 1) {
        let shown = object::json_of(&chosen.node_selector_terms);
        let path = path.child("nodeSelector.nodeSelectorTerms");
        errors.invalid(&path, &shown, "must have exactly one node selector term");
    }
    let each = only_true(errors, &path.child("perDeviceNodeSelection"), spec.per_device_node_selection);
    let given: Vec<&str> = places.into_iter().chain(each.then_some("`perDeviceNodeSelection`")).collect();
    match given.len() {
        0 => errors.required(path, ONE),
        1 => {}
        _ => {
            let shown = format!("{{{}}}", given.join(", "));
            errors.invalid(path, &shown, format!("{ONE}, but multiple fields are set"));
        }
    }
}

/// Validates the fields that select the nodes of a slice or a device, and returns those that are set.
fn node_selection(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    (node, chosen, all): (&Option<String>, &Option<NodeSelector>, Option<bool>),
) -> Vec<&'static str> {
    let mut given = Vec::new();
    if let Some(name) = node.as_ref().filter(|name| !name.is_empty()) {
        given.push("`nodeName`");
        errors.invalid_each(&path.child("nodeName"), name, names::dns_1123_subdomain(name));
    }
    if let Some(chosen) = chosen {
        given.push("`nodeSelector`");
        selector::node_selector(errors, &path.child("nodeSelector"), chosen);
    }
    if only_true(errors, &path.child("allNodes"), all) {
        given.push("`allNodes`");
    }
    given
}

/// Validates a flag that is either unset or true.
fn only_true(errors: &mut FieldErrors, path: &Path<'_>, flag: Option<bool>) -> bool {
    if flag == Some(false) {
        errors.invalid(path, &false, "must be either unset or set to true");
    }
    flag == Some(true)
}

fn device(errors: &mut FieldErrors, path: &Path<'_>, device: &Device, per_device: bool) {
    errors.invalid_each(&path.child("name"), &device.name, names::dns_1123_label(&device.name));
    let count = device.attributes.as_ref().map_or(0, BTreeMap::len)
        + device.capacity.as_ref().map_or(0, BTreeMap::len);
    if count > MAX_ATTRIBUTES {
        let detail =
            format!("the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES}");
        errors.invalid(path, &json!(count), detail);
    }
    let at = path.child("attributes");
    for (name, value) in device.attributes.iter().flatten() {
        attribute_name(errors, &at, name);
        attribute(errors, &at.key(name), value);
    }
    let at = path.child("capacity");
    for (name, capacity) in device.capacity.iter().flatten() {
        attribute_name(errors, &at, name);
        let path = at.key(name);
        resources::quantity(errors, &path.child("value"), &capacity.value);
        if capacity.request_policy.is_some() && device.allow_multiple_allocations != Some(true) {
            errors.forbidden(&path.child("requestPolicy"), "allowMultipleAllocations must be true");
        }
    }
    let list = path.child("taints");
    for (i, one) in limited(errors, &list, device.taints.as_deref(), MAX_TAINTS).iter().enumerate() {
        taint(errors, &list.index(i), one);
    }
    let list = path.child("consumesCounters");
    let consumed = limited(errors, &list, device.consumes_counters.as_deref(), MAX_CONSUMED_SETS);
    for (i, one) in consumed.iter().enumerate() {
        counters(errors, &list.index(i), "counterSet", &one.counter_set, &one.counters);
    }
    different(errors, &list, consumed.iter().map(|one| &*one.counter_set));
    device_node_selection(errors, path, device, per_device);
    binding_conditions(
        errors,
        path,
        device.binding_conditions.as_deref(),
        device.binding_failure_conditions.as_deref(),
    );
}

/// Validates the node selection of a device, which is required if the slice leaves it to its devices and forbidden
/// otherwise.
fn device_node_selection(errors: &mut FieldErrors, path: &Path<'_>, device: &Device, per_device: bool) {
    if !per_device {
        if device.node_name.is_some() || device.node_selector.is_some() || device.all_nodes.is_some() {
            let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to \
                       true in the ResourceSlice spec";
            errors.invalid(path, &Value::Null, detail);
        }
        return;
    }
    if device.node_name.as_deref() == Some("") {
        errors.invalid(&path.child("nodeName"), "", "must not be empty");
    }
    let given = node_selection(errors, path, (&device.node_name, &device.node_selector, device.all_nodes));
    let one = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set \
               to true in the ResourceSlice spec";
    match given.len() {
        0 => errors.required(path, one),
        1 => {}
        _ => errors.invalid(path, &format!("{{{}}}", given.join(", ")), one),
    }
}

/// Validates an attribute: one value, or one list of values of the same type.
fn attribute(errors: &mut FieldErrors, path: &Path<'_>, attribute: &DeviceAttribute) {
    let text = |errors: &mut FieldErrors, path: &Path<'_>, text: &str| {
        if text.len() > MAX_VALUE_BYTES {
            errors.too_long(path, MAX_VALUE_BYTES);
        }
    };
    let version = |errors: &mut FieldErrors, path: &Path<'_>, version: &str| {
        if !is_semantic_version(version) {
            errors.invalid(path, version, "must be a string compatible with semver.org spec 2.0.0");
        }
        text(errors, path, version);
    };
    if let Some(one) = &attribute.string {
        text(errors, &path.child("string"), one);
    }
    if let Some(one) = &attribute.version {
        version(errors, &path.child("version"), one);
    }
    let (texts, versions) = (path.child("strings"), path.child("versions"));
    for (i, one) in attribute.strings.iter().flatten().enumerate() {
        text(errors, &texts.index(i), one);
    }
    for (i, one) in attribute.versions.iter().flatten().enumerate() {
        version(errors, &versions.index(i), one);
    }
    let shown = object::json_of(attribute);
    let given = shown.as_object().cloned().unwrap_or_default();
    for (field, _) in given.iter().filter(|(_, value)| value.as_array().is_some_and(Vec::is_empty)) {
        errors.invalid(&path.child(field), &json!([]), "must not be empty if specified");
    }
    match given.len() {
        0 => errors.invalid(path, "", "exactly one value must be specified"),
        1 => {}
        _ => errors.invalid(path, &shown, "exactly one value must be specified"),
    }
}

/// Returns whether the text is a semantic version: `1.2.3`, with optional pre-release identifiers after `-` and build
/// identifiers after `+`.
fn is_semantic_version(text: &str) -> bool {
    let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
    let (core, early) = rest.split_once('-').map_or((rest, None), |(core, early)| (core, Some(early)));
    let is_number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|c| c.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let is_identifier =
        |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-');
    let is_early =
        |part: &str| is_identifier(part) && (part.bytes().any(|c| !c.is_ascii_digit()) || is_number(part));
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && early.is_none_or(|early| early.split('.').all(is_early))
        && build.is_none_or(|build| build.split('.').all(is_identifier))
}

/// Validates a set of counters; `field` is the field of its name.
fn counters(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    field: &str,
    name: &str,
    counters: &BTreeMap<String, Counter>,
) {
    errors.required_name(&path.child(field), name, names::dns_1123_label);
    let at = path.child("counters");
    if counters.is_empty() {
        errors.required(&at, "");
    } else if counters.len() > MAX_COUNTERS {
        errors.too_many(&at, counters.len(), MAX_COUNTERS);
    } else {
        for (name, counter) in counters {
            errors.invalid_each(&at, name, names::dns_1123_label(name));
            resources::quantity(errors, &at.key(name).child("value"), &counter.value);
        }
    }
}

/// Validates the conditions that a pod's binding waits for and those that end the wait. One list requires the other,
/// and they have no condition in common.
pub(super) fn binding_conditions(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    good: Option<&[String]>,
    bad: Option<&[String]>,
) {
    let fields = [("bindingConditions", good), ("bindingFailureConditions", bad)];
    for (field, given) in fields {
        let list = path.child(field);
        let given = limited(errors, &list, given, MAX_BINDING_CONDITIONS);
        for (i, one) in given.iter().enumerate() {
            metadata::label_key(errors, &list.index(i), one);
        }
        different(errors, &list, given.iter().map(String::as_str));
    }
    let (good, bad) = (good.unwrap_or_default(), bad.unwrap_or_default());
    for (i, one) in bad.iter().enumerate().filter(|(_, one)| good.contains(one)) {
        let detail = "bindingFailureConditions must not overlap with bindingConditions";
        errors.invalid(&path.child("bindingFailureConditions").index(i), one, detail);
    }
    for ((field, given), (other, others)) in fields.into_iter().zip(fields.into_iter().rev()) {
        let given = given.unwrap_or_default();
        if given.is_empty() && others.is_some_and(|others| !others.is_empty()) {
            errors.invalid(
                &path.child(field),
                &given.to_vec(),
                format!("{field} are required to use {other}"),
            );
        }
    }
}
