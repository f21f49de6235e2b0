//! What the kinds of devices have in common: which are asked for, how they are chosen, and their taints.

use std::collections::HashSet;

use k8s_openapi::api::resource::v1::{
    DeviceClaim, DeviceConstraint, DeviceRequest, DeviceSelector, DeviceTaint, DeviceToleration,
    ExactDeviceRequest, OpaqueDeviceConfiguration,
};

use crate::default::set_text;
use crate::validate::{FieldErrors, Path, metadata, names};

/// Requests, constraints and configurations a claim may have of each, and selectors a request.
const MAX_ITEMS: usize = 32;
const MAX_SUB_REQUESTS: usize = 8;
const MAX_TOLERATIONS: usize = 16;
const MAX_EXPRESSION_BYTES: usize = 10 * 1024;
const MAX_PARAMETER_BYTES: usize = 10 * 1024;

/// What whoever writes something of this group is told.
pub(super) const NOT_ACTED_ON: &str =
    "devices are not allocated here: a pod that claims one stays pending with the reason";

/// What a taint does to those who use its device.
const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];

const EXACT_COUNT: &str = "ExactCount";
const ALL: &str = "All";

/// What of a request both of its forms have.
struct Asked<'a> {
    class: &'a str,
    selectors: Option<&'a [DeviceSelector]>,
    mode: Option<&'a str>,
    count: Option<i64>,
    tolerations: Option<&'a [DeviceToleration]>,
}

pub(super) fn apply_defaults(claim: &mut DeviceClaim) {
    for request in claim.requests.iter_mut().flatten() {
        if let Some(exact) = &mut request.exactly {
            count(&mut exact.allocation_mode, &mut exact.count);
            exact.tolerations.iter_mut().flatten().for_each(toleration_default);
        }
        for one in request.first_available.iter_mut().flatten() {
            count(&mut one.allocation_mode, &mut one.count);
            one.tolerations.iter_mut().flatten().for_each(toleration_default);
        }
    }
}

fn count(mode: &mut Option<String>, count: &mut Option<i64>) {
    set_text(mode, EXACT_COUNT);
    if mode.as_deref() == Some(EXACT_COUNT) && count.unwrap_or(0) == 0 {
        *count = Some(1);
    }
}

fn toleration_default(toleration: &mut DeviceToleration) {
    set_text(&mut toleration.operator, "Equal");
}

pub(super) fn validate(errors: &mut FieldErrors, path: &Path<'_>, claim: &DeviceClaim) {
    let mut known = HashSet::new();
    let list = path.child("requests");
    let requests = claim.requests.as_deref().unwrap_or_default();
    at_most(errors, &list, requests.len(), MAX_ITEMS);
    for (i, one) in requests.iter().enumerate() {
        let path = list.index(i);
        if !known.insert(one.name.clone()) {
            errors.duplicate(&path.child("name"), &one.name);
        }
        known.extend(one.first_available.iter().flatten().map(|sub| format!("{}/{}", one.name, sub.name)));
        request(errors, &path, one);
    }
    let list = path.child("constraints");
    let constraints = claim.constraints.as_deref().unwrap_or_default();
    at_most(errors, &list, constraints.len(), MAX_ITEMS);
    for (i, one) in constraints.iter().enumerate() {
        constraint(errors, &list.index(i), one, &known);
    }
    let list = path.child("config");
    let configurations = claim.config.as_deref().unwrap_or_default();
    at_most(errors, &list, configurations.len(), MAX_ITEMS);
    for (i, one) in configurations.iter().enumerate() {
        let path = list.index(i);
        request_names(errors, &path.child("requests"), one.requests.as_deref(), &known);
        configuration(errors, &path, one.opaque.as_ref());
    }
}

fn at_most(errors: &mut FieldErrors, path: &Path<'_>, items: usize, max: usize) {
    if items > max {
        errors.too_many(path, items, max);
    }
}

fn request(errors: &mut FieldErrors, path: &Path<'_>, request: &DeviceRequest) {
    errors.required_name(&path.child("name"), &request.name, names::dns_1123_label);
    let alternatives = request.first_available.as_deref().unwrap_or_default();
    match (&request.exactly, alternatives.is_empty()) {
        (None, true) => errors.required(path, "exactly one of `exactly` or `firstAvailable` is required"),
        (Some(_), false) => {
            let shown = serde_json::to_value(request).unwrap_or_default();
            errors.invalid(
                path,
                &shown,
                "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
            );
        }
        _ => {}
    }
    if let Some(exact) = &request.exactly {
        asked(errors, &path.child("exactly"), &Asked::from(exact));
    }
    let list = path.child("firstAvailable");
    at_most(errors, &list, alternatives.len(), MAX_SUB_REQUESTS);
    let mut seen = HashSet::new();
    for (i, one) in alternatives.iter().enumerate() {
        let path = list.index(i);
        errors.required_name(&path.child("name"), &one.name, names::dns_1123_label);
        if !seen.insert(&one.name) {
            errors.duplicate(&path.child("name"), &one.name);
        }
        let same = Asked {
            class: &one.device_class_name,
            selectors: one.selectors.as_deref(),
            mode: one.allocation_mode.as_deref(),
            count: one.count,
            tolerations: one.tolerations.as_deref(),
        };
        asked(errors, &path, &same);
    }
}

impl<'a> From<&'a ExactDeviceRequest> for Asked<'a> {
    fn from(exact: &'a ExactDeviceRequest) -> Self {
        Self {
            class: &exact.device_class_name,
            selectors: exact.selectors.as_deref(),
            mode: exact.allocation_mode.as_deref(),
            count: exact.count,
            tolerations: exact.tolerations.as_deref(),
        }
    }
}

fn asked(errors: &mut FieldErrors, path: &Path<'_>, asked: &Asked<'_>) {
    errors.required_name(&path.child("deviceClassName"), asked.class, names::dns_1123_subdomain);
    selectors(errors, &path.child("selectors"), asked.selectors);
    let at = path.child("count");
    let count = asked.count.unwrap_or(0);
    match asked.mode {
        Some(ALL) if count != 0 => {
            errors.invalid(&at, &count, format!("must not be specified when allocationMode is '{ALL}'"));
        }
        Some(EXACT_COUNT) if count <= 0 => errors.invalid(&at, &count, "must be greater than zero"),
        Some(ALL | EXACT_COUNT) => {}
        other => {
            errors.unsupported(&path.child("allocationMode"), other.unwrap_or_default(), &[ALL, EXACT_COUNT]);
        }
    }
    let list = path.child("tolerations");
    let tolerations = asked.tolerations.unwrap_or_default();
    at_most(errors, &list, tolerations.len(), MAX_TOLERATIONS);
    for (i, one) in tolerations.iter().enumerate() {
        toleration(errors, &list.index(i), one);
    }
}

fn toleration(errors: &mut FieldErrors, path: &Path<'_>, toleration: &DeviceToleration) {
    let key = toleration.key.as_deref().unwrap_or_default();
    if !key.is_empty() {
        metadata::label_key(errors, &path.child("key"), key);
    }
    let value = toleration.value.as_deref().unwrap_or_default();
    match toleration.operator.as_deref().unwrap_or_default() {
        "Exists" if !value.is_empty() => {
            errors.invalid(&path.child("value"), value, "must be empty for operator `Exists`");
        }
        "Exists" => {}
        "Equal" => errors.invalid_each(&path.child("value"), value, names::label_value(value)),
        "" => errors.required(&path.child("operator"), ""),
        other => errors.unsupported(&path.child("operator"), other, &["Equal", "Exists"]),
    }
    if let Some(effect) = toleration.effect.as_deref().filter(|effect| !effect.is_empty()) {
        errors.one_of(&path.child("effect"), effect, EFFECTS);
    }
}

/// Expressions that choose devices. What they say is not judged, as no device is chosen here.
pub(super) fn selectors(errors: &mut FieldErrors, list: &Path<'_>, selectors: Option<&[DeviceSelector]>) {
    let selectors = selectors.unwrap_or_default();
    at_most(errors, list, selectors.len(), MAX_ITEMS);
    for (i, selector) in selectors.iter().enumerate() {
        let path = list.index(i);
        let path = path.child("cel");
        let Some(cel) = &selector.cel else {
            errors.required(&path, "");
            continue;
        };
        let path = path.child("expression");
        if cel.expression.is_empty() {
            errors.required(&path, "");
        } else if cel.expression.len() > MAX_EXPRESSION_BYTES {
            errors.too_long(&path, MAX_EXPRESSION_BYTES);
        }
    }
}

/// What a driver is told, in its own words.
pub(super) fn configuration(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    opaque: Option<&OpaqueDeviceConfiguration>,
) {
    let path = path.child("opaque");
    let Some(opaque) = opaque else { return errors.required(&path, "") };
    driver(errors, &path.child("driver"), &opaque.driver);
    let path = path.child("parameters");
    if !opaque.parameters.0.is_object() {
        errors.invalid(&path, &opaque.parameters.0, "must be a valid JSON object");
    } else if opaque.parameters.0.to_string().len() > MAX_PARAMETER_BYTES {
        errors.too_long(&path, MAX_PARAMETER_BYTES);
    }
}

/// A driver of devices.
pub(super) fn driver(errors: &mut FieldErrors, path: &Path<'_>, name: &str) {
    const MAX_DRIVER_BYTES: usize = 63;
    if name.len() > MAX_DRIVER_BYTES {
        errors.too_long(path, MAX_DRIVER_BYTES);
    }
    errors.required_name(path, name, names::dns_1123_subdomain);
}

fn constraint(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    constraint: &DeviceConstraint,
    known: &HashSet<String>,
) {
    request_names(errors, &path.child("requests"), constraint.requests.as_deref(), known);
    let given = [
        ("matchAttribute", &constraint.match_attribute),
        ("distinctAttribute", &constraint.distinct_attribute),
    ];
    if given.iter().all(|(_, attribute)| attribute.is_none()) {
        errors.required(&path.child("matchAttribute"), "");
    }
    for (field, attribute) in given {
        let Some(attribute) = attribute else { continue };
        let path = path.child(field);
        match attribute.split_once('/') {
            Some((domain, _)) if !domain.is_empty() => {
                errors.invalid_each(&path, attribute, names::qualified_name(attribute));
            }
            _ => errors.invalid(&path, attribute, "must include a domain"),
        }
    }
}

fn request_names(
    errors: &mut FieldErrors,
    list: &Path<'_>,
    given: Option<&[String]>,
    known: &HashSet<String>,
) {
    let mut seen = HashSet::new();
    for (i, name) in given.unwrap_or_default().iter().enumerate() {
        let path = list.index(i);
        if !seen.insert(name) {
            errors.duplicate(&path, name);
        }
        if !known.contains(name) {
            errors.invalid(&path, name, "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'");
        }
    }
}

/// A taint of a device.
pub(super) fn taint(errors: &mut FieldErrors, path: &Path<'_>, taint: &DeviceTaint) {
    if taint.key.is_empty() {
        errors.required(&path.child("key"), "");
    } else {
        metadata::label_key(errors, &path.child("key"), &taint.key);
    }
    let value = taint.value.as_deref().unwrap_or_default();
    errors.invalid_each(&path.child("value"), value, names::label_value(value));
    errors.required_one_of(&path.child("effect"), Some(&taint.effect), EFFECTS);
}
