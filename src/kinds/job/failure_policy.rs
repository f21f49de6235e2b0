//! Rules of a Job's pod failure policy.

use std::collections::HashSet;

use k8s_openapi::api::batch::v1::{
    JobSpec, PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
};
use serde_json::json;

use apimachinery::validate::{FieldErrors, Path, names};

const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_CONDITIONS: usize = 20;
const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: &[&str] = &["In", "NotIn"];
const STATUSES: &[&str] = &["False", "True", "Unknown"];

pub(super) fn check(errors: &mut FieldErrors, path: &Path<'_>, policy: &PodFailurePolicy, spec: &JobSpec) {
    let rules = path.child("rules");
    if policy.rules.len() > MAX_RULES {
        errors.too_many(&rules, policy.rules.len(), MAX_RULES);
    }
    let pod = spec.template.spec.as_ref();
    let containers = pod.into_iter().flat_map(|p| p.init_containers.iter().flatten().chain(&p.containers));
    let names: HashSet<&str> = containers.map(|c| c.name.as_str()).collect();
    for (path, rule) in rules.each(policy.rules.iter()) {
        action(errors, &path.child("action"), rule, spec);
        if let Some(codes) = &rule.on_exit_codes {
            exit_codes(errors, &path.child("onExitCodes"), codes, &names);
        }
        let conditions = rule.on_pod_conditions.as_deref().unwrap_or_default();
        pod_conditions(errors, &path.child("onPodConditions"), conditions);
        match (rule.on_exit_codes.is_some(), conditions.is_empty()) {
            (true, false) => errors
                .invalid_itself(&path, "specifying both OnExitCodes and OnPodConditions is not supported"),
            (false, true) => {
                errors.invalid_itself(&path, "specifying one of OnExitCodes and OnPodConditions is required");
            }
            _ => {}
        }
    }
}

fn action(errors: &mut FieldErrors, path: &Path<'_>, rule: &PodFailurePolicyRule, spec: &JobSpec) {
    if rule.action == "FailIndex" {
        if spec.backoff_limit_per_index.is_none() {
            errors.invalid(path, &rule.action, "requires the backoffLimitPerIndex to be set");
        }
    } else {
        one_of(errors, path, &rule.action, ACTIONS);
    }
}

/// Requires a value of a closed set; the error lists the set as Go does.
fn one_of(errors: &mut FieldErrors, path: &Path<'_>, value: &str, possible: &[&str]) {
    if value.is_empty() {
        let list: Vec<String> = possible.iter().map(|p| format!("{p:?}")).collect();
        errors.required(path, format!("valid values: [{}]", list.join(" ")));
    } else {
        errors.one_of(path, value, possible);
    }
}

fn pod_conditions(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    conditions: &[PodFailurePolicyOnPodConditionsPattern],
) {
    if conditions.len() > MAX_CONDITIONS {
        errors.too_many(path, conditions.len(), MAX_CONDITIONS);
    }
    for (path, pattern) in path.each(conditions.iter()) {
        errors.invalid_each(&path.child("type"), &pattern.type_, names::qualified_name(&pattern.type_));
        one_of(errors, &path.child("status"), pattern.status.as_deref().unwrap_or_default(), STATUSES);
    }
}

fn exit_codes(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    codes: &PodFailurePolicyOnExitCodesRequirement,
    containers: &HashSet<&str>,
) {
    one_of(errors, &path.child("operator"), &codes.operator, OPERATORS);
    if let Some(name) = codes.container_name.as_ref().filter(|name| !containers.contains(name.as_str())) {
        errors.invalid(
            &path.child("containerName"),
            name,
            "must be one of the container or initContainer names in the pod template",
        );
    }
    let (path, values) = (path.child("values"), &codes.values);
    if values.is_empty() {
        errors.invalid(&path, &json!(values), "at least one value is required");
    } else if values.len() > MAX_EXIT_CODES {
        errors.too_many(&path, values.len(), MAX_EXIT_CODES);
    }
    let mut seen = HashSet::new();
    for (i, value) in values.iter().enumerate() {
        if *value == 0 && codes.operator == "In" {
            errors.invalid(&path.index(i), value, "must not be 0 for the In operator");
        }
        if !seen.insert(value) {
            errors.duplicate(&path.index(i), value);
        }
    }
    if !values.is_sorted() {
        errors.invalid(&path, &json!(values), "must be ordered");
    }
}
