//! Rules of node affinity, pod affinity and pod anti-affinity.

use k8s_openapi::api::core::v1::{Affinity, NodeAffinity, PodAffinityTerm, WeightedPodAffinityTerm};

use super::field::{FieldErrors, Path};
use super::{metadata, names, selector};

const WEIGHT: &str = "must be in the range 1-100";

/// Validates the affinity of a pod.
pub(crate) fn affinity(errors: &mut FieldErrors, path: &Path<'_>, affinity: &Affinity) {
    if let Some(node) = &affinity.node_affinity {
        node_affinity(errors, &path.child("nodeAffinity"), node);
    }
    if let Some(pods) = &affinity.pod_affinity {
        let path = path.child("podAffinity");
        required(errors, &path, pods.required_during_scheduling_ignored_during_execution.as_deref());
        preferred(errors, &path, pods.preferred_during_scheduling_ignored_during_execution.as_deref());
    }
    if let Some(pods) = &affinity.pod_anti_affinity {
        let path = path.child("podAntiAffinity");
        required(errors, &path, pods.required_during_scheduling_ignored_during_execution.as_deref());
        preferred(errors, &path, pods.preferred_during_scheduling_ignored_during_execution.as_deref());
    }
}

fn node_affinity(errors: &mut FieldErrors, path: &Path<'_>, affinity: &NodeAffinity) {
    if let Some(required) = &affinity.required_during_scheduling_ignored_during_execution {
        let path = path.child("requiredDuringSchedulingIgnoredDuringExecution");
        selector::node_selector(errors, &path, required);
    }
    let path = path.child("preferredDuringSchedulingIgnoredDuringExecution");
    for (i, term) in
        affinity.preferred_during_scheduling_ignored_during_execution.iter().flatten().enumerate()
    {
        let path = path.index(i);
        weight(errors, &path, term.weight);
        selector::node_selector_term(errors, &path.child("preference"), &term.preference);
    }
}

fn required(errors: &mut FieldErrors, path: &Path<'_>, terms: Option<&[PodAffinityTerm]>) {
    let path = path.child("requiredDuringSchedulingIgnoredDuringExecution");
    for (i, term) in terms.into_iter().flatten().enumerate() {
        pod_term(errors, &path.index(i), term);
    }
}

fn preferred(errors: &mut FieldErrors, path: &Path<'_>, terms: Option<&[WeightedPodAffinityTerm]>) {
    let path = path.child("preferredDuringSchedulingIgnoredDuringExecution");
    for (path, term) in path.each(terms.into_iter().flatten()) {
        weight(errors, &path, term.weight);
        pod_term(errors, &path.child("podAffinityTerm"), &term.pod_affinity_term);
    }
}

fn weight(errors: &mut FieldErrors, path: &Path<'_>, weight: i32) {
    if !(1..=100).contains(&weight) {
        errors.invalid(&path.child("weight"), &weight, WEIGHT);
    }
}

fn pod_term(errors: &mut FieldErrors, path: &Path<'_>, term: &PodAffinityTerm) {
    for (field, selector) in
        [("labelSelector", &term.label_selector), ("namespaceSelector", &term.namespace_selector)]
    {
        if let Some(selector) = selector {
            selector::label_selector(errors, &path.child(field), selector);
        }
    }
    for namespace in term.namespaces.iter().flatten() {
        // Kubernetes' error has this path, without the index.
        errors.invalid_each(&path.child("namespace"), namespace, names::dns_1123_label(namespace));
    }
    match_label_keys(errors, path, term);
    topology_key(errors, &path.child("topologyKey"), &term.topology_key);
}

/// Validates the keys that narrow the selected pods to those with the pod's own values. Each key may be in only one of
/// the two lists, and not in the selector.
fn match_label_keys(errors: &mut FieldErrors, path: &Path<'_>, term: &PodAffinityTerm) {
    for (field, keys) in
        [("matchLabelKeys", &term.match_label_keys), ("mismatchLabelKeys", &term.mismatch_label_keys)]
    {
        let path = path.child(field);
        let selector = term.label_selector.as_ref();
        if keys.as_ref().is_some_and(|k| !k.is_empty()) && selector.is_none() {
            errors.forbidden(&path, "must not be specified when labelSelector is not set");
        }
        for (i, key) in keys.iter().flatten().enumerate() {
            metadata::label_key(errors, &path.index(i), key);
            if selector.is_some_and(|selector| selector::names_key(selector, key)) {
                let message = format!("exists in both {field} and labelSelector");
                errors.invalid(&path.index(i), key, message);
            }
        }
    }
    let other = |key: &String| term.mismatch_label_keys.iter().flatten().any(|other| other == key);
    for (i, key) in term.match_label_keys.iter().flatten().enumerate().filter(|(_, key)| other(key)) {
        let path = path.child("matchLabelKeys");
        errors.invalid(&path.index(i), key, "exists in both matchLabelKeys and mismatchLabelKeys");
    }
}

/// Validates the node label that defines the domains.
pub(crate) fn topology_key(errors: &mut FieldErrors, path: &Path<'_>, key: &str) {
    if key.is_empty() {
        errors.required(path, "can not be empty");
    } else {
        metadata::label_key(errors, path, key);
    }
}
