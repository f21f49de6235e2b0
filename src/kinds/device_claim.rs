//! Validation that the kinds of device allocation share: requests, selectors, configurations, and taints.

use std::collections::HashSet;

use k8s_openapi::api::resource::v1::{
    DeviceClaim, DeviceConstraint, DeviceRequest, DeviceSelector, DeviceSubRequest, DeviceTaint,
    DeviceToleration, ExactDeviceRequest, OpaqueDeviceConfiguration,
};
use serde_json::Value;

use apimachinery::default::set_text;
use apimachinery::validate::storage::driver_name;
use apimachinery::validate::{FieldErrors, Path, metadata, names};

/// The maximum number of requests, of constraints and of configurations in a claim, and of selectors in a request.
pub(super) const MAX_ITEMS: usize = 32;
const MAX_SUB_REQUESTS: usize = 8;
const MAX_TOLERATIONS: usize = 16;
/// The maximum size of an attribute's name without its domain.
const MAX_ID_BYTES: usize = 32;
const MAX_POOL_BYTES: usize = 253;
const MAX_EXPRESSION_BYTES: usize = 10 * 1024;
const MAX_OBJECT_BYTES: usize = 10 * 1024;

/// The warning for clients that write an object of this API group.
pub(super) const NOT_ACTED_ON: &str = "Podium does not allocate devices; a pod that claims one stays pending";

/// The effects of a taint on pods that use its device.
const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];

const EXACT_COUNT: &str = "ExactCount";
const ALL: &str = "All";

/// The fields that both forms of a request have.
struct RequestFields<'a> {
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
    let known = request_names(claim);
    let list = path.child("requests");
    let requests = limited(errors, &list, claim.requests.as_deref(), MAX_ITEMS);
    for (i, one) in requests.iter().enumerate() {
        request(errors, &list.index(i), one);
    }
    different(errors, &list, requests.iter().map(|request| &*request.name));
    let list = path.child("constraints");
    let constraints = limited(errors, &list, claim.constraints.as_deref(), MAX_ITEMS);
    for (i, one) in constraints.iter().enumerate() {
        constraint(errors, &list.index(i), one, &known);
    }
    let list = path.child("config");
    let configurations = limited(errors, &list, claim.config.as_deref(), MAX_ITEMS);
    for (path, one) in list.each(configurations.iter()) {
        named_requests(errors, &path.child("requests"), one.requests.as_deref(), &known);
        configuration(errors, &path, one.opaque.as_ref());
    }
}

/// Returns the names by which other parts of a claim refer to its requests and their alternatives: `a`, `a/b`.
pub(super) fn request_names(claim: &DeviceClaim) -> HashSet<String> {
    let names = claim.requests.iter().flatten().flat_map(|request| {
        let alternatives = request.first_available.iter().flatten();
        let names = alternatives.map(|one| format!("{}/{}", request.name, one.name));
        names.chain([request.name.clone()])
    });
    names.collect()
}

/// Returns the items of a list, or no items if there are too many to validate.
pub(super) fn limited<'a, T>(
    errors: &mut FieldErrors,
    list: &Path<'_>,
    items: Option<&'a [T]>,
    max: usize,
) -> &'a [T] {
    let items = items.unwrap_or_default();
    if items.len() > max {
        errors.too_many(list, items.len(), max);
        return &[];
    }
    items
}

/// Requires that the items of a list differ.
pub(super) fn different<'a>(errors: &mut FieldErrors, list: &Path<'_>, keys: impl Iterator<Item = &'a str>) {
    let mut seen = HashSet::new();
    for (i, key) in keys.enumerate() {
        errors.unique(&mut seen, &list.index(i), key);
    }
}

fn request(errors: &mut FieldErrors, path: &Path<'_>, request: &DeviceRequest) {
    errors.required_name(&path.child("name"), &request.name, names::dns_1123_label);
    let alternatives = request.first_available.as_deref().filter(|list| !list.is_empty());
    match (&request.exactly, alternatives) {
        (None, None) => errors.required(path, "exactly one of `exactly` or `firstAvailable` is required"),
        (Some(_), Some(_)) => errors.invalid(
            path,
            &Value::Null,
            "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
        ),
        (Some(exact), None) => request_fields(errors, &path.child("exactly"), &RequestFields::from(exact)),
        (None, alternatives) => {
            let list = path.child("firstAvailable");
            let alternatives = limited(errors, &list, alternatives, MAX_SUB_REQUESTS);
            for (path, one) in list.each(alternatives.iter()) {
                errors.required_name(&path.child("name"), &one.name, names::dns_1123_label);
                request_fields(errors, &path, &RequestFields::from(one));
            }
            different(errors, &list, alternatives.iter().map(|one| &*one.name));
        }
    }
}

impl<'a> From<&'a DeviceSubRequest> for RequestFields<'a> {
    fn from(one: &'a DeviceSubRequest) -> Self {
        Self {
            class: &one.device_class_name,
            selectors: one.selectors.as_deref(),
            mode: one.allocation_mode.as_deref(),
            count: one.count,
            tolerations: one.tolerations.as_deref(),
        }
    }
}

impl<'a> From<&'a ExactDeviceRequest> for RequestFields<'a> {
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

fn request_fields(errors: &mut FieldErrors, path: &Path<'_>, fields: &RequestFields<'_>) {
    errors.required_name(&path.child("deviceClassName"), fields.class, names::dns_1123_subdomain);
    selectors(errors, &path.child("selectors"), fields.selectors);
    let at = path.child("count");
    let count = fields.count.unwrap_or(0);
    match fields.mode {
        Some(ALL) if count != 0 => {
            errors.invalid(&at, &count, format!("must not be specified when allocationMode is '{ALL}'"));
        }
        Some(EXACT_COUNT) if count <= 0 => errors.invalid(&at, &count, "must be greater than zero"),
        Some(ALL | EXACT_COUNT) => {}
        other => {
            errors.unsupported(&path.child("allocationMode"), other.unwrap_or_default(), &[ALL, EXACT_COUNT]);
        }
    }
    tolerations(errors, &path.child("tolerations"), fields.tolerations);
}

pub(super) fn tolerations(errors: &mut FieldErrors, list: &Path<'_>, given: Option<&[DeviceToleration]>) {
    for (i, one) in limited(errors, list, given, MAX_TOLERATIONS).iter().enumerate() {
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

/// Validates the selectors of devices. Their expressions are not compiled, since Podium allocates no devices.
pub(super) fn selectors(errors: &mut FieldErrors, list: &Path<'_>, selectors: Option<&[DeviceSelector]>) {
    for (path, selector) in list.each(limited(errors, list, selectors, MAX_ITEMS).iter()) {
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

/// Validates an opaque configuration for a driver.
pub(super) fn configuration(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    opaque: Option<&OpaqueDeviceConfiguration>,
) {
    let path = path.child("opaque");
    let Some(opaque) = opaque else { return errors.required(&path, "") };
    driver_name(errors, &path.child("driver"), &opaque.driver);
    json_object(errors, &path.child("parameters"), &opaque.parameters.0);
}

/// Validates a driver's data: any JSON object.
pub(super) fn json_object(errors: &mut FieldErrors, path: &Path<'_>, value: &Value) {
    if value.is_null() {
        errors.required(path, "");
    } else if value.to_string().len() > MAX_OBJECT_BYTES {
        errors.too_long(path, MAX_OBJECT_BYTES);
    } else if !value.is_object() {
        errors.invalid(path, "<value omitted>", "must be a valid JSON object");
    }
}

/// Validates the name of a device pool: DNS subdomains separated by slashes.
pub(super) fn pool_name(errors: &mut FieldErrors, path: &Path<'_>, name: &str) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    if name.len() > MAX_POOL_BYTES {
        errors.too_long(path, MAX_POOL_BYTES);
    }
    for part in name.split('/') {
        errors.invalid_each(path, part, names::dns_1123_subdomain(part));
    }
}

/// Validates the name of an attribute or capacity: a C identifier, optionally with a domain and a slash before it.
pub(super) fn attribute_name(errors: &mut FieldErrors, path: &Path<'_>, name: &str) {
    let identifier = |errors: &mut FieldErrors, text: &str| {
        if text.len() > MAX_ID_BYTES {
            errors.too_long(path, MAX_ID_BYTES);
        }
        errors.invalid_each(path, text, names::c_identifier(text));
    };
    match name.split('/').collect::<Vec<_>>()[..] {
        [text] => identifier(errors, text),
        [domain, text] => {
            if domain.is_empty() {
                errors.invalid(path, "", "the domain must not be empty");
            } else {
                driver_name(errors, path, domain);
            }
            if text.is_empty() {
                errors.invalid(path, "", "the name must not be empty");
            } else {
                identifier(errors, text);
            }
        }
        // Kubernetes accepts any name with two slashes.
        _ => {}
    }
}

fn constraint(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    constraint: &DeviceConstraint,
    defined_names: &HashSet<String>,
) {
    named_requests(errors, &path.child("requests"), constraint.requests.as_deref(), defined_names);
    let (field, attribute) = match (&constraint.match_attribute, &constraint.distinct_attribute) {
        (Some(attribute), _) => ("matchAttribute", attribute),
        (None, Some(attribute)) => ("distinctAttribute", attribute),
        (None, None) => {
            let detail = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are \
                       set";
            return errors.required(path, detail);
        }
    };
    let path = path.child(field);
    attribute_name(errors, &path, attribute);
    if !attribute.contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        errors.invalid(&path, attribute, detail);
    }
}

/// Validates a list of names of the claim's requests, which must differ.
pub(super) fn named_requests(
    errors: &mut FieldErrors,
    list: &Path<'_>,
    requests: Option<&[String]>,
    defined_names: &HashSet<String>,
) {
    let given = limited(errors, list, requests, MAX_ITEMS);
    for (i, name) in given.iter().enumerate() {
        named_request(errors, &list.index(i), name, defined_names);
    }
    different(errors, list, given.iter().map(String::as_str));
}

pub(super) fn named_request(errors: &mut FieldErrors, path: &Path<'_>, name: &str, known: &HashSet<String>) {
    const INVALID_NAME: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    if name.matches('/').count() > 1 {
        return errors.invalid(path, name, INVALID_NAME);
    }
    for part in name.split('/') {
        errors.invalid_each(path, part, names::dns_1123_label(part));
    }
    if !known.contains(name) {
        errors.invalid(path, name, INVALID_NAME);
    }
}

/// Validates a device taint.
pub(super) fn taint(errors: &mut FieldErrors, path: &Path<'_>, taint: &DeviceTaint) {
    metadata::label_key(errors, &path.child("key"), &taint.key);
    let value = taint.value.as_deref().unwrap_or_default();
    errors.invalid_each(&path.child("value"), value, names::label_value(value));
    errors.required_one_of(&path.child("effect"), Some(&taint.effect), EFFECTS);
}
