//! Rules of a pod's placement besides affinity: tolerations, topology spread, gates.

use std::collections::{HashMap, HashSet};

use k8s_openapi::api::core::v1::{PodSpec, Toleration, TopologySpreadConstraint};

use super::field::{FieldErrors, Path};
use super::{affinity, metadata, names, selector};

/// The effects of a taint on pods that do not tolerate it.
pub const TAINT_EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

const POLICIES: &[&str] = &["Honor", "Ignore"];

/// Validates a toleration.
pub fn toleration(errors: &mut FieldErrors, path: &Path<'_>, toleration: &Toleration) {
    let key = toleration.key.as_deref().unwrap_or_default();
    let operator = toleration.operator.as_deref().unwrap_or_default();
    let value = toleration.value.as_deref().unwrap_or_default();
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let at_operator = path.child("operator");
    if !key.is_empty() {
        metadata::label_key(errors, &path.child("key"), key);
    } else if operator != "Exists" {
        errors.invalid(
            &at_operator,
            operator,
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
        );
    }
    if toleration.toleration_seconds.is_some() && effect != "NoExecute" {
        errors.invalid(
            &path.child("effect"),
            effect,
            "effect must be 'NoExecute' when `tolerationSeconds` is set",
        );
    }
    match operator {
        "" | "Equal" => errors.invalid_each(&at_operator, value, names::label_value(value)),
        "Exists" if !value.is_empty() => {
            errors.invalid(&at_operator, value, "value must be empty when `operator` is 'Exists'");
        }
        "Exists" => {}
        other => errors.unsupported(&at_operator, other, &["Equal", "Exists"]),
    }
    if !effect.is_empty() {
        errors.one_of(&path.child("effect"), effect, TAINT_EFFECTS);
    }
}

pub(crate) fn spread_constraints(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    list: &[TopologySpreadConstraint],
) {
    let mut left: HashMap<(&str, &str), usize> = HashMap::new();
    for constraint in list {
        *left.entry(pair(constraint)).or_default() += 1;
    }
    for (i, constraint) in list.iter().enumerate() {
        let left = left.entry(pair(constraint)).or_default();
        *left -= 1;
        spread_constraint(errors, &path.index(i), constraint, *left > 0);
    }
}

/// Returns the identity of a constraint; no two constraints of a pod may share it.
fn pair(constraint: &TopologySpreadConstraint) -> (&str, &str) {
    (&constraint.topology_key, &constraint.when_unsatisfiable)
}

/// Validates a constraint. `is_duplicate`: a later constraint is a duplicate of this one; Kubernetes reports the error
/// at the first of the two.
fn spread_constraint(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    constraint: &TopologySpreadConstraint,
    is_duplicate: bool,
) {
    if constraint.max_skew <= 0 {
        errors.invalid(&path.child("maxSkew"), &constraint.max_skew, "must be greater than zero");
    }
    affinity::topology_key(errors, &path.child("topologyKey"), &constraint.topology_key);
    let when = constraint.when_unsatisfiable.as_str();
    errors.one_of(&path.child("whenUnsatisfiable"), when, &["DoNotSchedule", "ScheduleAnyway"]);
    if is_duplicate {
        errors.duplicate(
            &path.child("{topologyKey, whenUnsatisfiable}"),
            &format!("{{{}, {when}}}", constraint.topology_key),
        );
    }
    if let Some(domains) = constraint.min_domains {
        let path = path.child("minDomains");
        if domains <= 0 {
            errors.invalid(&path, &domains, "must be greater than zero");
        }
        if when != "DoNotSchedule" {
            errors.invalid(
                &path,
                &domains,
                format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}"),
            );
        }
    }
    for (field, policy) in [
        ("nodeAffinityPolicy", &constraint.node_affinity_policy),
        ("nodeTaintsPolicy", &constraint.node_taints_policy),
    ] {
        if let Some(policy) = policy {
            errors.one_of(&path.child(field), policy, POLICIES);
        }
    }
    match_label_keys(errors, &path.child("matchLabelKeys"), constraint);
    if let Some(selector) = &constraint.label_selector {
        selector::label_selector(errors, &path.child("labelSelector"), selector);
    }
}

fn match_label_keys(errors: &mut FieldErrors, path: &Path<'_>, constraint: &TopologySpreadConstraint) {
    let keys = constraint.match_label_keys.as_deref().unwrap_or_default();
    if keys.is_empty() {
        return;
    }
    let selector = constraint.label_selector.as_ref();
    if selector.is_none() {
        errors.forbidden(path, "must not be specified when labelSelector is not set");
    }
    for (i, key) in keys.iter().enumerate() {
        metadata::label_key(errors, &path.index(i), key);
        if selector.is_some_and(|selector| selector::names_key(selector, key)) {
            errors.invalid(&path.index(i), key, "exists in both matchLabelKeys and labelSelector");
        }
    }
}

/// Validates readiness gates and scheduling gates.
pub fn gates(errors: &mut FieldErrors, path: &Path<'_>, spec: &PodSpec) {
    let list = path.child("readinessGates");
    for (path, gate) in list.each(spec.readiness_gates.iter().flatten()) {
        errors.invalid_each(
            &path.child("conditionType"),
            &gate.condition_type,
            names::qualified_name(&gate.condition_type),
        );
    }
    let list = path.child("schedulingGates");
    let mut seen = HashSet::new();
    for (path, gate) in list.each(spec.scheduling_gates.iter().flatten()) {
        errors.invalid_each(&path, &gate.name, names::qualified_name(&gate.name));
        errors.unique(&mut seen, &path, &gate.name);
    }
}
