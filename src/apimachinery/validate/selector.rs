//! Rules of label selectors and node selectors.

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::field::{FieldErrors, Path};
use super::{metadata, names};

const NOT_AN_OPERATOR: &str = "not a valid selector operator";
const VALUES_REQUIRED: &str = "must be specified when `operator` is 'In' or 'NotIn'";
const VALUES_FORBIDDEN: &str = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";

/// Validates a label selector.
pub fn label_selector(errors: &mut FieldErrors, path: &Path<'_>, selector: &LabelSelector) {
    metadata::labels(errors, &path.child("matchLabels"), selector.match_labels.as_ref());
    let list = path.child("matchExpressions");
    for (i, requirement) in selector.match_expressions.iter().flatten().enumerate() {
        let path = list.index(i);
        let values = requirement.values.as_deref().unwrap_or_default();
        match requirement.operator.as_str() {
            "In" | "NotIn" if values.is_empty() => errors.required(&path.child("values"), VALUES_REQUIRED),
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                errors.forbidden(&path.child("values"), VALUES_FORBIDDEN);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.invalid(&path.child("operator"), other, NOT_AN_OPERATOR),
        }
        metadata::label_key(errors, &path.child("key"), &requirement.key);
        for (i, value) in values.iter().enumerate() {
            errors.invalid_each(&path.child("values").index(i), value, names::label_value(value));
        }
    }
}

/// Returns whether a selector has a requirement for this label.
pub(crate) fn names_key(selector: &LabelSelector, key: &str) -> bool {
    selector.match_labels.as_ref().is_some_and(|labels| labels.contains_key(key))
        || selector.match_expressions.iter().flatten().any(|expression| expression.key == key)
}

/// Returns whether a selector has no requirements.
pub fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.as_ref().is_none_or(std::collections::BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
}

/// Validates a node selector: a list of at least one term.
pub fn node_selector(errors: &mut FieldErrors, path: &Path<'_>, selector: &NodeSelector) {
    let list = path.child("nodeSelectorTerms");
    if selector.node_selector_terms.is_empty() {
        errors.required(&list, "must have at least one node selector term");
    }
    for (i, term) in selector.node_selector_terms.iter().enumerate() {
        node_selector_term(errors, &list.index(i), term);
    }
}

/// Validates one term of a node selector.
pub(super) fn node_selector_term(errors: &mut FieldErrors, path: &Path<'_>, term: &NodeSelectorTerm) {
    let list = path.child("matchExpressions");
    for (i, requirement) in term.match_expressions.iter().flatten().enumerate() {
        node_requirement(errors, &list.index(i), requirement);
    }
    let list = path.child("matchFields");
    for (i, requirement) in term.match_fields.iter().flatten().enumerate() {
        node_field_requirement(errors, &list.index(i), requirement);
    }
}

fn node_requirement(errors: &mut FieldErrors, path: &Path<'_>, requirement: &NodeSelectorRequirement) {
    let at_values = path.child("values");
    let values = requirement.values.as_deref().unwrap_or_default();
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => errors.required(&at_values, VALUES_REQUIRED),
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.forbidden(&at_values, VALUES_FORBIDDEN),
        "Gt" | "Lt" => match values {
            [number] if number.parse::<i64>().is_err() => errors.invalid(
                &at_values.index(0),
                number,
                "for 'Gt', 'Lt' operators, the value must be an integer",
            ),
            [_] => {}
            _ => {
                errors.required(&at_values, "must be specified single value when `operator` is 'Lt' or 'Gt'");
            }
        },
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.invalid(&path.child("operator"), other, NOT_AN_OPERATOR),
    }
    metadata::label_key(errors, &path.child("key"), &requirement.key);
    for (i, value) in values.iter().enumerate() {
        errors.invalid_each(&at_values.index(i), value, names::label_value(value));
    }
}

fn node_field_requirement(errors: &mut FieldErrors, path: &Path<'_>, requirement: &NodeSelectorRequirement) {
    let values = requirement.values.as_deref().unwrap_or_default();
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.len() != 1 => errors.required(
            &path.child("values"),
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        ),
        "In" | "NotIn" => {}
        other => errors.invalid(&path.child("operator"), other, NOT_AN_OPERATOR),
    }
    if requirement.key == "metadata.name" {
        for (i, value) in values.iter().enumerate() {
            errors.invalid_each(&path.child("values").index(i), value, names::dns_1123_subdomain(value));
        }
    } else {
        errors.invalid(&path.child("key"), &requirement.key, "not a valid field selector key");
    }
}
