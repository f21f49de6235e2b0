//! Rules of a pod's update: images, deadlines, additional tolerations, and scheduling constraints while gates are
//! present may change.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{
    Affinity, Container, NodeAffinity, NodeSelectorTerm, Pod, PodSpec, Toleration,
};

use super::validate as pod;
use apimachinery::validate::{FieldErrors, Path, container, pod_annotations, spec_diff};

const FROZEN: &str = "pod updates may not change fields other than `spec.containers[*].image`, \
     `spec.initContainers[*].image`, `spec.activeDeadlineSeconds` or `spec.tolerations` (only additions to \
     existing tolerations)";

const ONLY_ADDITIONS: &str = "only additions are allowed";

pub(super) fn update(errors: &mut FieldErrors, new_pod: &Pod, old_pod: &Pod) {
    let before = errors.count();
    // A cost that was stored before this rule existed may stay.
    if new_pod.metadata.annotations != old_pod.metadata.annotations {
        pod::deletion_cost(errors, new_pod);
    }
    pod::pod(errors, new_pod);
    pod_annotations::changes(
        errors,
        new_pod.metadata.annotations.as_ref(),
        old_pod.metadata.annotations.as_ref(),
    );
    let (new, old) = (pod::spec_of(new_pod), pod::spec_of(old_pod));
    let path = Path::root("spec");
    if new.containers.len() != old.containers.len() {
        errors.forbidden(&path.child("containers"), "pod updates may not add or remove containers");
        return;
    }
    let inits = |spec: &PodSpec| spec.init_containers.as_ref().map_or(0, Vec::len);
    if inits(new) != inits(old) {
        errors.forbidden(&path.child("initContainers"), "pod updates may not add or remove containers");
        return;
    }
    if errors.count() == before {
        images(errors, &path, new);
    }
    active_deadline(errors, &path, new.active_deadline_seconds, old.active_deadline_seconds);
    let tolerations = |spec: &PodSpec| spec.tolerations.clone().unwrap_or_default();
    added_tolerations(errors, &path.child("tolerations"), &tolerations(new), &tolerations(old));
    scheduling_gates(errors, &path, new, old);
    if errors.count() > before {
        return;
    }
    let munged = with_changes_undone(new, old);
    if munged != *old {
        errors.forbidden(&path, format!("{FROZEN}\n{}", spec_diff::diff(&munged, old)));
    }
}

fn images(errors: &mut FieldErrors, path: &Path<'_>, new: &PodSpec) {
    let of = |list: &[Container]| -> Vec<String> {
        list.iter().map(|c| c.image.clone().unwrap_or_default()).collect()
    };
    let inits = new.init_containers.as_deref().unwrap_or_default();
    for (field, images) in [("containers", of(&new.containers)), ("initContainers", of(inits))] {
        let list = path.child(field);
        for (i, image) in images.iter().enumerate() {
            container::image(errors, &list.index(i).child("image"), image);
        }
    }
}

/// The deadline may be set or lowered.
fn active_deadline(errors: &mut FieldErrors, path: &Path<'_>, new: Option<i64>, old: Option<i64>) {
    let path = path.child("activeDeadlineSeconds");
    match (new, old) {
        (Some(new), Some(old)) if new > old => {
            errors.invalid(&path, &new, "must be less than or equal to previous value");
        }
        (None, Some(_)) => {
            errors.invalid(&path, &new, "must not update from a positive integer to nil value");
        }
        _ => {}
    }
}

/// Every old toleration must remain; only its seconds may change.
fn added_tolerations(errors: &mut FieldErrors, path: &Path<'_>, new: &[Toleration], old: &[Toleration]) {
    let timeless = |t: &Toleration| (t.key.clone(), t.operator.clone(), t.value.clone(), t.effect.clone());
    let all: HashSet<_> = new.iter().map(timeless).collect();
    let timed: HashSet<_> = new.iter().filter(|t| t.toleration_seconds.is_some()).map(timeless).collect();
    for before in old {
        let candidates = if before.toleration_seconds.is_some() { &timed } else { &all };
        if !candidates.contains(&timeless(before)) {
            errors.forbidden(path, "existing toleration can not be modified except its tolerationSeconds");
            return;
        }
    }
}

/// Gates can only be removed. While some remain, the selection of nodes may be narrowed.
fn scheduling_gates(errors: &mut FieldErrors, path: &Path<'_>, new: &PodSpec, old: &PodSpec) {
    let old_gates = old.scheduling_gates.as_deref().unwrap_or_default();
    let at_gates = path.child("schedulingGates");
    let known: HashSet<&str> = old_gates.iter().map(|gate| gate.name.as_str()).collect();
    for (i, gate) in new.scheduling_gates.iter().flatten().enumerate() {
        if !known.contains(gate.name.as_str()) {
            errors.forbidden(
                &at_gates.index(i).child("name"),
                format!("only deletion is allowed, but found new scheduling gate '{}'", gate.name),
            );
        }
    }
    if old_gates.is_empty() {
        return;
    }
    let narrowed = new.node_selector.clone().unwrap_or_default();
    let is_retained = |(key, value): (&String, &String)| narrowed.get(key) == Some(value);
    if !old.node_selector.iter().flatten().all(is_retained) {
        errors.invalid(&path.child("nodeSelector"), &narrowed, ONLY_ADDITIONS);
    }
    let node_affinity =
        |spec: &PodSpec| spec.affinity.as_ref().and_then(|a| a.node_affinity.clone()).unwrap_or_default();
    narrowed_affinity(errors, &path.child("affinity.nodeAffinity"), &node_affinity(new), &node_affinity(old));
}

/// Required terms can only gain requirements; their number is fixed.
fn narrowed_affinity(errors: &mut FieldErrors, path: &Path<'_>, new: &NodeAffinity, old: &NodeAffinity) {
    let path = path.child("requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
    let terms = |affinity: &NodeAffinity| {
        let required = affinity.required_during_scheduling_ignored_during_execution.as_ref();
        required.map(|r| r.node_selector_terms.clone()).unwrap_or_default()
    };
    let (new, old) = (terms(new), terms(old));
    if old.is_empty() {
        return;
    }
    let shown = |value: &[NodeSelectorTerm]| object::json_of(value);
    if new.len() != old.len() {
        errors.invalid(
            &path,
            &shown(&new),
            "no additions/deletions to non-empty NodeSelectorTerms list are allowed",
        );
        return;
    }
    for (i, (new, old)) in new.iter().zip(&old).enumerate() {
        let expressions = old.match_expressions.as_deref().unwrap_or_default();
        let fields = old.match_fields.as_deref().unwrap_or_default();
        let keeps = new.match_expressions.as_deref().unwrap_or_default().starts_with(expressions)
            && new.match_fields.as_deref().unwrap_or_default().starts_with(fields);
        if !keeps {
            errors.invalid(&path.index(i), &shown(std::slice::from_ref(new)), ONLY_ADDITIONS);
        }
    }
}

/// Returns the new spec with the old values of all fields that may change. Remaining differences are errors.
fn with_changes_undone(new: &PodSpec, old: &PodSpec) -> PodSpec {
    let mut munged = new.clone();
    undo_images(&mut munged.containers, &old.containers);
    if let (Some(munged), Some(old)) = (&mut munged.init_containers, &old.init_containers) {
        undo_images(munged, old);
    }
    munged.active_deadline_seconds = old.active_deadline_seconds;
    munged.tolerations.clone_from(&old.tolerations);
    let was_negative = old.termination_grace_period_seconds.is_some_and(|s| s < 0);
    if was_negative && new.termination_grace_period_seconds == Some(1) {
        munged.termination_grace_period_seconds = old.termination_grace_period_seconds;
    }
    if old.scheduling_gates.as_ref().is_some_and(|g| !g.is_empty()) {
        munged.scheduling_gates.clone_from(&old.scheduling_gates);
        munged.node_selector.clone_from(&old.node_selector);
        undo_node_affinity(&mut munged, old);
    }
    munged
}

fn undo_images(munged: &mut [Container], old: &[Container]) {
    for (munged, old) in munged.iter_mut().zip(old) {
        munged.image.clone_from(&old.image);
    }
}

fn undo_node_affinity(munged: &mut PodSpec, old: &PodSpec) {
    let before = old.affinity.as_ref().and_then(|a| a.node_affinity.clone());
    let preferred = munged
        .affinity
        .as_ref()
        .and_then(|a| a.node_affinity.as_ref())
        .and_then(|n| n.preferred_during_scheduling_ignored_during_execution.clone());
    let preferred_before =
        before.as_ref().and_then(|n| n.preferred_during_scheduling_ignored_during_execution.clone());
    if preferred != preferred_before {
        return;
    }
    let affinity = munged.affinity.get_or_insert_default();
    affinity.node_affinity = before;
    if old.affinity.is_none() && *affinity == Affinity::default() {
        munged.affinity = None;
    }
}
