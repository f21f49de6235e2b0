//! Validation of Jobs: the generated selector, the limits of both completion modes, and the fields that may change.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

use super::{failure_policy, success_policy, to_json};
use apimachinery::validate::changed_part::changed_part;
use apimachinery::validate::signer::domain_prefixed_path;
use apimachinery::validate::{FieldErrors, Path, names, pod_spec, selector};
use base::sort::CollectMap;
use object::job::{CONTROLLER_UID_LABELS, JOB_NAME_LABELS, is_indexed, is_suspended};
use object::selector::Selector;

/// Jobs with more indexes than this need a limit on failed indexes, and may run fewer pods at once.
const MANY_COMPLETIONS: i32 = 100_000;

const MAX_PARALLELISM: i32 = 100_000;

const MAX_FAILED_INDEXES: i32 = 100_000;

const MAX_PARALLELISM_OF_MANY: i32 = 10_000;

const MAX_FAILED_INDEXES_OF_MANY: i32 = 10_000;

const MAX_MANAGED_BY: usize = 63;

pub(super) fn job(errors: &mut FieldErrors, job: &Job) {
    let path = Path::root("spec");
    let Some(spec) = &job.spec else { return errors.required(&path, "") };
    generated_selector(errors, job, spec);
    job_spec(errors, &path, spec);
    let labels = template_labels(spec);
    match &spec.selector {
        None => errors.required(&path.child("selector"), ""),
        Some(picks) => selector::label_selector(errors, &path.child("selector"), picks),
    }
    // A missing selector selects nothing.
    let picked = spec.selector.as_ref().is_some_and(|s| Selector::from_field(s).matches(Some(&labels)));
    if !picked {
        let path = path.child("template.metadata.labels");
        errors.invalid(&path, &labels, "`selector` does not match template `labels`");
    }
    pod_host_names(errors, job, spec);
}

fn template_labels(spec: &JobSpec) -> BTreeMap<String, String> {
    spec.template.metadata.as_ref().and_then(|m| m.labels.clone()).unwrap_or_default()
}

/// Requires that the last pod's host name, the longest, is a DNS label.
fn pod_host_names(errors: &mut FieldErrors, job: &Job, spec: &JobSpec) {
    let Some(completions) = spec.completions.filter(|c| *c > 0 && is_indexed(spec)) else { return };
    let name = job.metadata.name.clone().unwrap_or_default();
    let longest = format!("{name}-{}", completions - 1);
    if !names::dns_1123_label(&longest).is_empty() {
        errors.invalid(
            &Path::root("metadata.name"),
            &name,
            format!("will not able to create pod with invalid DNS label: {longest}"),
        );
    }
}

/// Requires that a generated selector selects the Job's own pods and no others.
fn generated_selector(errors: &mut FieldErrors, job: &Job, spec: &JobSpec) {
    let (Some(picks), Some(false) | None) = (&spec.selector, spec.manual_selector) else { return };
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (uid, name) = (text(&job.metadata.uid), text(&job.metadata.name));
    if uid.is_empty() {
        errors.required(&Path::root("metadata.uid"), "");
    }
    let labels = template_labels(spec);
    let path = Path::root("spec.template.metadata.labels");
    let [uid_label, old_uid_label] = CONTROLLER_UID_LABELS;
    let [name_label, old_name_label] = JOB_NAME_LABELS;
    let expected = [(old_uid_label, &uid), (old_name_label, &name), (uid_label, &uid), (name_label, &name)];
    for (label, value) in expected {
        match labels.get(label) {
            None => errors.required(&path.key(label), format!("must be '{value}'")),
            Some(found) if found != value => {
                errors.invalid(&path.key(label), &labels, format!("must be '{value}'"));
            }
            Some(_) => {}
        }
    }
    let expected =
        expected.into_iter().map(|(label, value)| (label.to_string(), value.clone())).collect_map();
    if !Selector::from_field(picks).matches(Some(&expected)) {
        errors.invalid(&Path::root("spec.selector"), picks, "`selector` not auto-generated");
    }
}

/// Validates the parts of the spec that Jobs and the templates of CronJobs share.
pub(crate) fn job_spec(errors: &mut FieldErrors, path: &Path<'_>, spec: &JobSpec) {
    for (field, number) in [
        ("parallelism", spec.parallelism.map(i64::from)),
        ("completions", spec.completions.map(i64::from)),
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
        ("backoffLimit", spec.backoff_limit.map(i64::from)),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished.map(i64::from)),
        ("backoffLimitPerIndex", spec.backoff_limit_per_index.map(i64::from)),
        ("maxFailedIndexes", spec.max_failed_indexes.map(i64::from)),
    ] {
        errors.non_negative(&path.child(field), number.unwrap_or(0));
    }
    if spec.max_failed_indexes.is_some() && spec.backoff_limit_per_index.is_none() {
        errors.required(&path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if let Some(managed_by) = &spec.managed_by {
        domain_prefixed_path(errors, &path.child("managedBy"), managed_by);
        if managed_by.len() > MAX_MANAGED_BY {
            errors.too_long(&path.child("managedBy"), MAX_MANAGED_BY);
        }
    }
    match spec.completion_mode.as_deref() {
        Some("Indexed") => indexed(errors, path, spec),
        Some("NonIndexed") | None => not_indexed(errors, path, spec),
        Some(other) => {
            errors.unsupported(&path.child("completionMode"), other, &["NonIndexed", "Indexed"]);
        }
    }
    if let Some(policy) = &spec.pod_failure_policy {
        failure_policy::check(errors, &path.child("podFailurePolicy"), policy, spec);
    }
    if let Some(policy) = &spec.success_policy {
        let path = path.child("successPolicy");
        if is_indexed(spec) {
            success_policy::check(errors, &path, policy, spec.completions.unwrap_or(0));
        } else {
            errors.invalid(&path, &to_json(policy), "requires indexed completion mode");
        }
    }
    if let Some(policy) = &spec.pod_replacement_policy {
        let possible: &[&str] =
            if spec.pod_failure_policy.is_some() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
        errors.one_of(&path.child("podReplacementPolicy"), policy, possible);
    }
    let template = path.child("template");
    pod_spec::template(errors, &template, &spec.template);
    restart_policy(errors, &template.child("spec.restartPolicy"), spec);
}

fn restart_policy(errors: &mut FieldErrors, path: &Path<'_>, spec: &JobSpec) {
    let policy = spec.template.spec.as_ref().and_then(|s| s.restart_policy.as_deref()).unwrap_or_default();
    match policy {
        // `Always` is the default of pods without a restart policy.
        "Always" | "" => errors.required(path, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec.pod_failure_policy.is_some() => {
            errors.invalid(path, policy, "only \"Never\" is supported when podFailurePolicy is specified");
        }
        "OnFailure" | "Never" => {}
        other => errors.unsupported(path, other, &["OnFailure", "Never"]),
    }
}

fn indexed(errors: &mut FieldErrors, path: &Path<'_>, spec: &JobSpec) {
    let Some(completions) = spec.completions else {
        return errors.required(&path.child("completions"), "when completion mode is Indexed");
    };
    let at_most = |errors: &mut FieldErrors, field: &str, number: Option<i32>, max: i32, when: &str| {
        if let Some(number) = number.filter(|n| *n > max) {
            let detail = format!("must be less than or equal to {max}{when}");
            errors.invalid(&path.child(field), &number, detail);
        }
    };
    let failed = spec.max_failed_indexes;
    at_most(errors, "parallelism", spec.parallelism, MAX_PARALLELISM, " when completion mode is Indexed");
    if let Some(failed) = failed.filter(|f| *f > completions) {
        let path = path.child("maxFailedIndexes");
        errors.invalid(&path, &failed, "must be less than or equal to completions");
    }
    at_most(errors, "maxFailedIndexes", failed, MAX_FAILED_INDEXES, "");
    if completions > MANY_COMPLETIONS && spec.backoff_limit_per_index.is_some() {
        if failed.is_none() {
            errors.required(
                &path.child("maxFailedIndexes"),
                format!("must be specified when completions is above {MANY_COMPLETIONS}"),
            );
        }
        let when =
            format!(" when completions are above {MANY_COMPLETIONS} and used with backoff limit per index");
        at_most(errors, "parallelism", spec.parallelism, MAX_PARALLELISM_OF_MANY, &when);
        at_most(errors, "maxFailedIndexes", failed, MAX_FAILED_INDEXES_OF_MANY, &when);
    }
}

fn not_indexed(errors: &mut FieldErrors, path: &Path<'_>, spec: &JobSpec) {
    for (field, number) in [
        ("backoffLimitPerIndex", spec.backoff_limit_per_index),
        ("maxFailedIndexes", spec.max_failed_indexes),
    ] {
        if let Some(number) = number {
            errors.invalid(&path.child(field), &number, "requires indexed completion mode");
        }
    }
}

pub(super) fn job_update(errors: &mut FieldErrors, new_job: &Job, old_job: &Job) {
    job(errors, new_job);
    let (Some(new), Some(old)) = (&new_job.spec, &old_job.spec) else { return };
    let path = Path::root("spec");
    completions(errors, &path.child("completions"), new, old);
    errors.immutable(&path.child("selector"), &new.selector, &old.selector);
    let started = old_job.status.as_ref().is_some_and(|s| s.start_time.is_some());
    let may_move = is_suspended(old) && !started;
    let before = if may_move { movable(&new.template, &old.template) } else { old.template.clone() };
    unchanged(errors, &path.child("template"), &new.template, &before);
    errors.immutable(&path.child("completionMode"), &new.completion_mode, &old.completion_mode);
    unchanged(errors, &path.child("podFailurePolicy"), &new.pod_failure_policy, &old.pod_failure_policy);
    let limits = (&new.backoff_limit_per_index, &old.backoff_limit_per_index);
    errors.immutable(&path.child("backoffLimitPerIndex"), limits.0, limits.1);
    errors.immutable(&path.child("managedBy"), &new.managed_by, &old.managed_by);
    unchanged(errors, &path.child("successPolicy"), &new.success_policy, &old.success_policy);
}

/// Only indexed Jobs may change their completions, and only together with their parallelism.
fn completions(errors: &mut FieldErrors, path: &Path<'_>, new: &JobSpec, old: &JobSpec) {
    if !is_indexed(new) {
        return errors.immutable(path, &new.completions, &old.completions);
    }
    let changed = new.completions.is_some() && new.completions != old.completions;
    if changed && new.completions != new.parallelism {
        errors.invalid(path, &new.completions, "can only be modified in tandem with spec.parallelism");
    }
}

/// Returns the old template with the new values of the fields that may change before a suspended Job has started:
/// scheduling directives and resources.
fn movable(new: &PodTemplateSpec, old: &PodTemplateSpec) -> PodTemplateSpec {
    let mut allowed = old.clone();
    let meta = new.metadata.clone().unwrap_or_default();
    let allowed_meta = allowed.metadata.get_or_insert_default();
    (allowed_meta.labels, allowed_meta.annotations) = (meta.labels, meta.annotations);
    if new.metadata.is_none() && *allowed_meta == ObjectMeta::default() {
        allowed.metadata = None;
    }
    let (Some(new), Some(spec)) = (&new.spec, allowed.spec.as_mut()) else { return allowed };
    node_affinity(new, spec);
    spec.node_selector.clone_from(&new.node_selector);
    spec.tolerations.clone_from(&new.tolerations);
    spec.scheduling_gates.clone_from(&new.scheduling_gates);
    let inits = spec.init_containers.iter_mut().flatten().zip(new.init_containers.iter().flatten());
    for (allowed, new) in inits.chain(spec.containers.iter_mut().zip(&new.containers)) {
        allowed.resources.clone_from(&new.resources);
    }
    allowed
}

fn node_affinity(new: &PodSpec, allowed: &mut PodSpec) {
    match (&new.affinity, allowed.affinity.as_mut()) {
        (None, None) => {}
        (None, Some(affinity)) => {
            affinity.node_affinity = None;
            if affinity.pod_affinity.is_none() && affinity.pod_anti_affinity.is_none() {
                allowed.affinity = None;
            }
        }
        (Some(new), affinity) => {
            let mut affinity = affinity.cloned().unwrap_or_default();
            affinity.node_affinity.clone_from(&new.node_affinity);
            allowed.affinity = Some(affinity);
        }
    }
}

/// Requires that a structured field did not change.
fn unchanged<T: PartialEq + Serialize>(errors: &mut FieldErrors, path: &Path<'_>, new: &T, old: &T) {
    if new != old {
        errors.invalid(path, &changed_part(&to_json(new), &to_json(old)), "field is immutable");
    }
}
