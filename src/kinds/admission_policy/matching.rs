//! The requests to which a policy or binding applies, and the objects that supply its parameters.

use std::collections::HashSet;

use k8s_openapi::api::admissionregistration::v1::{
    MatchResources, NamedRuleWithOperations, ParamKind, ParamRef,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

use crate::columns::selector_cell;
use crate::webhook_configuration::{FAILURE_POLICIES, MATCH_POLICIES, RuleView};
use apimachinery::default::{set, set_text};
use apimachinery::validate::{FieldErrors, Path, names, selector};

pub(super) fn apply_defaults(of: &mut MatchResources) {
    set_text(&mut of.match_policy, "Equivalent");
    set(&mut of.namespace_selector, LabelSelector::default());
    set(&mut of.object_selector, LabelSelector::default());
    let excluded = of.exclude_resource_rules.iter_mut().flatten();
    for rule in of.resource_rules.iter_mut().flatten().chain(excluded) {
        set_text(&mut rule.scope, "*");
    }
}

/// Validates the fields of a policy other than its expressions. `path` is the path of its spec.
pub(super) fn policy(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    failure_policy: Option<&str>,
    kind: Option<&ParamKind>,
    constraints: Option<&MatchResources>,
) {
    errors.required_one_of(&path.child("failurePolicy"), failure_policy, FAILURE_POLICIES);
    if let Some(kind) = kind {
        param_kind(errors, &path.child("paramKind"), kind);
    }
    let at = path.child("matchConstraints");
    let Some(constraints) = constraints else { return errors.required(&at, "") };
    validate(errors, &at, constraints);
    if constraints.resource_rules.as_ref().is_none_or(Vec::is_empty) {
        errors.required(&at.child("resourceRules"), "");
    }
}

/// Refuses DELETE among the operations of a mutating policy or its binding; `path` is the path of its match
/// constraints.
pub(super) fn mutable_operations(errors: &mut FieldErrors, path: &Path<'_>, of: Option<&MatchResources>) {
    let path = path.child("resourceRules.operations");
    let rules = of.iter().flat_map(|of| of.resource_rules.iter().flatten());
    for operation in rules.flat_map(|rule| rule.operations.iter().flatten()) {
        errors.one_of(&path, operation, &["*", "CONNECT", "CREATE", "UPDATE"]);
    }
}

/// Validates the fields of a binding other than the name of its policy. `path` is the path of its spec.
pub(super) fn binding(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    params: Option<&ParamRef>,
    matched: Option<&MatchResources>,
) {
    if let Some(of) = params {
        param_ref(errors, &path.child("paramRef"), of);
    }
    if let Some(of) = matched {
        validate(errors, &path.child("matchResources"), of);
    }
}

/// Returns the table cell for the kind of a policy's parameters.
pub(super) fn format_param_kind(kind: Option<&ParamKind>) -> Value {
    let Some(kind) = kind else { return json!("<unset>") };
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    json!(format!("{}/{}", text(&kind.api_version), text(&kind.kind)))
}

/// Returns the table cell for the reference from a binding to its parameters.
pub(super) fn format_param_ref(of: Option<&ParamRef>) -> Value {
    let Some(of) = of else { return json!("<unset>") };
    let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    match (text(&of.namespace), text(&of.name), &of.selector) {
        (Some(namespace), Some(name), _) => json!(format!("{namespace}/{name}")),
        (None, Some(name), _) => json!(name),
        (_, None, Some(selector)) => selector_cell(Some(selector)),
        (_, None, None) => json!("<unset>"),
    }
}

fn validate(errors: &mut FieldErrors, path: &Path<'_>, of: &MatchResources) {
    errors.required_one_of(&path.child("matchPolicy"), of.match_policy.as_deref(), MATCH_POLICIES);
    for (field, own) in
        [("namespaceSelector", &of.namespace_selector), ("objectSelector", &of.object_selector)]
    {
        match own {
            Some(own) => selector::label_selector(errors, &path.child(field), own),
            None => errors.required(&path.child(field), ""),
        }
    }
    for (field, rules) in
        [("resourceRules", &of.resource_rules), ("excludeResourceRules", &of.exclude_resource_rules)]
    {
        let list = path.child(field);
        for (i, rule) in rules.iter().flatten().enumerate() {
            named_rule(errors, &list.index(i), rule);
        }
    }
}

fn named_rule(errors: &mut FieldErrors, path: &Path<'_>, rule: &NamedRuleWithOperations) {
    let mut seen = HashSet::new();
    for (i, name) in rule.resource_names.iter().flatten().enumerate() {
        let list = path.child("resourceNames");
        errors.invalid_each(&list.index(i), name, names::path_segment(name));
        errors.unique(&mut seen, &list.index(i), name);
    }
    RuleView {
        operations: rule.operations.as_deref(),
        groups: rule.api_groups.as_deref(),
        versions: rule.api_versions.as_deref(),
        resources: rule.resources.as_deref(),
        scope: rule.scope.as_deref(),
    }
    .validate(errors, path);
}

fn param_kind(errors: &mut FieldErrors, path: &Path<'_>, kind: &ParamKind) {
    let at = path.child("apiVersion");
    match kind.api_version.as_deref().unwrap_or_default() {
        "" => errors.required(&at, ""),
        given => match object::parse_api_version(given) {
            Err(why) => errors.invalid(&at, given, why),
            Ok((group, version)) => {
                if !group.is_empty() {
                    errors.invalid_each(&at, group, names::dns_1123_subdomain(group));
                }
                if version.is_empty() {
                    errors.invalid(&at, given, "version must be specified");
                } else {
                    errors.invalid_each(&at, version, names::dns_1035_label(version));
                }
            }
        },
    }
    let at = path.child("kind");
    match kind.kind.as_deref().unwrap_or_default() {
        "" => errors.required(&at, ""),
        given => {
            for fault in names::dns_1035_label(&given.to_lowercase()) {
                let detail = format!("may have mixed case, but should otherwise match: {fault}");
                errors.invalid(&at, given, detail);
            }
        }
    }
}

fn param_ref(errors: &mut FieldErrors, path: &Path<'_>, of: &ParamRef) {
    const BOTH: &str = "name and selector are mutually exclusive";
    let name = of.name.as_deref().filter(|name| !name.is_empty());
    if let Some(name) = name {
        errors.invalid_each(&path.child("name"), name, names::path_segment(name));
        if of.selector.is_some() {
            errors.forbidden(&path.child("name"), BOTH);
        }
    }
    if let Some(own) = &of.selector {
        selector::label_selector(errors, &path.child("selector"), own);
        if name.is_some() {
            errors.forbidden(&path.child("selector"), BOTH);
        }
    }
    if name.is_none() && of.selector.is_none() {
        errors.required(path, "one of name or selector must be specified");
    }
    let action = of.parameter_not_found_action.as_deref().filter(|action| !action.is_empty());
    errors.required_one_of(&path.child("parameterNotFoundAction"), action, &["Deny", "Allow"]);
}
