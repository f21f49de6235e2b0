//! Rules of the cluster's own kinds: namespaces, nodes, priority classes, leases.

use std::collections::HashSet;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::api::scheduling::v1::PriorityClass;

use super::field::{FieldErrors, Path};
use super::{metadata, names, placement, resources};

/// The highest priority users may give.
const HIGHEST_USER_PRIORITY: i32 = 1_000_000_000;

/// Classes that belong to the system, with their values.
const SYSTEM_CLASSES: &[(&str, i32)] =
    &[("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

pub(super) fn namespace(errors: &mut FieldErrors, namespace: &Namespace) {
    let finalizers = namespace.spec.as_ref().and_then(|s| s.finalizers.as_ref());
    for (i, finalizer) in finalizers.into_iter().flatten().enumerate() {
        let path = Path::root("spec.finalizers");
        errors.invalid_each(&path.index(i), finalizer, names::qualified_name(finalizer));
    }
}

pub(super) fn node(errors: &mut FieldErrors, node: &Node) {
    if let Some(spec) = &node.spec {
        let taints = Path::root("spec.taints");
        let mut seen = HashSet::new();
        for (i, taint) in spec.taints.iter().flatten().enumerate() {
            let path = taints.index(i);
            metadata::label_key(errors, &path.child("key"), &taint.key);
            let value = taint.value.as_deref().unwrap_or_default();
            errors.invalid_each(&path.child("value"), value, names::label_value(value));
            errors.required_one_of(&path.child("effect"), Some(&taint.effect), placement::TAINT_EFFECTS);
            if !seen.insert((&taint.key, &taint.effect)) {
                errors.duplicate_because(
                    &path,
                    &serde_json::to_value(taint).unwrap_or_default(),
                    "taints must be unique by key and effect pair",
                );
            }
        }
    }
    if let Some(status) = &node.status {
        let path = Path::root("status");
        resources::amounts(errors, &path.child("capacity"), status.capacity.as_ref());
        resources::amounts(errors, &path.child("allocatable"), status.allocatable.as_ref());
    }
}

pub(super) fn node_update(errors: &mut FieldErrors, new: &Node, old: &Node) {
    node(errors, new);
    let (Some(new), Some(old)) = (&new.spec, &old.spec) else { return };
    for (field, new, old) in
        [("podCIDR", &new.pod_cidr, &old.pod_cidr), ("providerID", &new.provider_id, &old.provider_id)]
    {
        if old.as_ref().is_some_and(|o| !o.is_empty()) && new != old {
            errors.forbidden(
                &Path::root("spec").child(field),
                format!("node updates may not change {field} except from \"\" to valid"),
            );
        }
    }
}

pub(super) fn priority_class(errors: &mut FieldErrors, class: &PriorityClass) {
    let name = class.metadata.name.as_deref().unwrap_or_default();
    let value = class.value.unwrap_or(0);
    if name.starts_with("system-") {
        if let Some(wrong) = system_class(name, value, class.global_default == Some(true)) {
            errors.forbidden(
                &Path::root("metadata.name"),
                format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {wrong}"
                ),
            );
        }
    } else if value > HIGHEST_USER_PRIORITY {
        errors.forbidden(
            &Path::root("value"),
            format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"),
        );
    }
    if let Some(policy) = &class.preemption_policy {
        errors.one_of(&Path::root("preemptionPolicy"), policy, &["Never", "PreemptLowerPriority"]);
    }
}

/// Why a class is not one of the system's.
fn system_class(name: &str, value: i32, global_default: bool) -> Option<String> {
    let Some((_, expected)) = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if value != *expected {
        return Some(format!("value of {name} PriorityClass must be {expected}"));
    }
    global_default.then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

pub(super) fn priority_class_update(errors: &mut FieldErrors, new: &PriorityClass, old: &PriorityClass) {
    if new.value.unwrap_or(0) != old.value.unwrap_or(0) {
        errors.forbidden(&Path::root("value"), "may not be changed in an update.");
    }
    errors.immutable(&Path::root("preemptionPolicy"), &new.preemption_policy, &old.preemption_policy);
    priority_class(errors, new);
}

pub(super) fn lease(errors: &mut FieldErrors, lease: &Lease) {
    let Some(spec) = &lease.spec else { return };
    let path = Path::root("spec");
    if spec.holder_identity.as_deref() == Some("") && spec.strategy.is_none() {
        errors.invalid(&path.child("holderIdentity"), "", "must not be empty");
    }
    if let Some(seconds) = spec.lease_duration_seconds
        && seconds <= 0
    {
        errors.invalid(&path.child("leaseDurationSeconds"), &seconds, "must be greater than 0");
    }
    errors.non_negative(&path.child("leaseTransitions"), spec.lease_transitions.unwrap_or(0));
}
