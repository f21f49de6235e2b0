//! Rules of StatefulSets and of the revisions of templates.

use k8s_openapi::api::apps::v1::{
    ControllerRevision, RollingUpdateStatefulSetStrategy, StatefulSet, StatefulSetSpec,
};
use k8s_openapi::api::core::v1::{PodTemplateSpec, Volume};

use super::changed::changed_part;
use super::field::{FieldErrors, Path, Shown};
use super::{names, storage, workload};
use crate::base::quote::quote;

const FORBIDDEN_CHANGE: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";

/// A new set: what holds for all; claims that can be made, and a service whose name can be part of the pods'
/// own.
pub(super) fn create(errors: &mut FieldErrors, set: &StatefulSet) {
    stateful_set(errors, set);
    let templates = Path::root("spec.volumeClaimTemplates");
    for (i, claim) in set.spec.volume_claim_templates.iter().flatten().enumerate() {
        let path = templates.index(i);
        if claim.metadata.name.as_ref().is_none_or(String::is_empty) {
            errors.required(&path.child("metadata.name"), "");
        }
        match &claim.spec {
            Some(spec) => storage::claim_spec(errors, &path.child("spec"), spec),
            None => errors.required(&path.child("spec"), ""),
        }
    }
    if let Some(service) = set.spec.service_name.as_ref().filter(|name| !name.is_empty()) {
        let path = Path::root("spec.serviceName");
        errors.invalid_each(&path, service, names::dns_1123_label(service));
    }
}

fn stateful_set(errors: &mut FieldErrors, set: &StatefulSet) {
    let spec = &set.spec;
    let path = Path::root("spec");
    let policy = path.child("podManagementPolicy");
    match spec.pod_management_policy.as_deref().unwrap_or_default() {
        "" => errors.required(&policy, ""),
        "OrderedReady" | "Parallel" => {}
        other => errors.invalid(&policy, other, "must be 'OrderedReady' or 'Parallel'"),
    }
    update_strategy(errors, &path.child("updateStrategy"), spec);
    if let Some(policy) = &spec.persistent_volume_claim_retention_policy {
        let path = path.child("persistentVolumeClaimRetentionPolicy");
        for (field, when) in [("whenDeleted", &policy.when_deleted), ("whenScaled", &policy.when_scaled)] {
            errors.one_of(&path.child(field), when.as_deref().unwrap_or_default(), &["Retain", "Delete"]);
        }
    }
    for (field, number) in [
        ("replicas", spec.replicas),
        ("minReadySeconds", spec.min_ready_seconds),
        ("ordinals.start", spec.ordinals.as_ref().and_then(|o| o.start)),
        ("revisionHistoryLimit", spec.revision_history_limit),
    ] {
        errors.non_negative(&path.child(field), number.unwrap_or(0));
    }
    workload::required_selector(errors, &path, &spec.selector, "statefulset");
    let template = with_claims(spec);
    workload::selector_and_template_of("StatefulSet", errors, &path, &spec.selector, Some(&template));
}

/// The template as its pods will be: each claim is a volume, and replaces one of its name.
fn with_claims(spec: &StatefulSetSpec) -> PodTemplateSpec {
    let mut template = spec.template.clone();
    let claims = spec.volume_claim_templates.iter().flatten().filter_map(|c| c.metadata.name.clone());
    let claims: Vec<String> = claims.filter(|name| !name.is_empty()).collect();
    if let Some(pod) = &mut template.spec
        && !claims.is_empty()
    {
        let volumes = pod.volumes.get_or_insert_default();
        volumes.retain(|volume| !claims.contains(&volume.name));
        volumes.extend(claims.into_iter().map(|name| Volume {
            persistent_volume_claim: Some(k8s_openapi::api::core::v1::PersistentVolumeClaimVolumeSource {
                claim_name: name.clone(),
                read_only: None,
            }),
            name,
            ..Volume::default()
        }));
    }
    template
}

fn update_strategy(errors: &mut FieldErrors, path: &Path<'_>, spec: &StatefulSetSpec) {
    let strategy = spec.update_strategy.clone().unwrap_or_default();
    let rolling = strategy.rolling_update.as_ref();
    match (strategy.type_.as_deref().unwrap_or_default(), rolling) {
        ("", _) => errors.required(path, ""),
        ("OnDelete", Some(rolling)) => {
            errors.invalid(
                &path.child("rollingUpdate"),
                rolling,
                "only allowed for updateStrategy 'RollingUpdate'",
            );
        }
        ("RollingUpdate", Some(rolling)) => rolling_update(errors, &path.child("rollingUpdate"), rolling),
        ("OnDelete" | "RollingUpdate", None) => {}
        (other, rolling) => {
            let shown = format!(
                "apps.StatefulSetUpdateStrategy{{Type:{}, RollingUpdate:{}}}",
                quote(other),
                rolling.map_or_else(
                    || "(*apps.RollingUpdateStatefulSetStrategy)(nil)".to_string(),
                    |rolling| format!("&{}", rolling.shown())
                )
            );
            errors.invalid(path, &AsIs(shown), "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
}

fn rolling_update(errors: &mut FieldErrors, path: &Path<'_>, rolling: &RollingUpdateStatefulSetStrategy) {
    if let Some(most) = &rolling.max_unavailable {
        let path = path.child("maxUnavailable");
        workload::positive_int_or_percent(errors, &path, most);
        if workload::is_zero(most) {
            errors.invalid(&path, most, "cannot be 0");
        }
        workload::at_most_hundred_percent(errors, &path, most);
    }
    errors.non_negative(&path.child("partition"), rolling.partition.unwrap_or(0));
}

/// A value that is in the answers' notation already.
struct AsIs(String);

impl Shown for AsIs {
    fn shown(&self) -> String {
        self.0.clone()
    }
}

impl Shown for RollingUpdateStatefulSetStrategy {
    fn shown(&self) -> String {
        let most = self
            .max_unavailable
            .as_ref()
            .map_or_else(|| "(*intstr.IntOrString)(nil)".to_string(), |most| format!("&{}", most.shown()));
        let partition = self.partition.unwrap_or(0);
        format!("apps.RollingUpdateStatefulSetStrategy{{Partition:{partition}, MaxUnavailable:{most}}}")
    }
}

/// Everything that makes a pod what it is stays; what is scaled, updated and kept may change.
pub(super) fn update(errors: &mut FieldErrors, new: &StatefulSet, old: &StatefulSet) {
    stateful_set(errors, new);
    let changed = StatefulSetSpec {
        replicas: new.spec.replicas,
        ordinals: new.spec.ordinals.clone(),
        template: new.spec.template.clone(),
        update_strategy: new.spec.update_strategy.clone(),
        revision_history_limit: new.spec.revision_history_limit,
        persistent_volume_claim_retention_policy: new.spec.persistent_volume_claim_retention_policy.clone(),
        min_ready_seconds: new.spec.min_ready_seconds,
        ..old.spec.clone()
    };
    if changed != new.spec {
        errors.forbidden(&Path::root("spec"), FORBIDDEN_CHANGE);
    }
}

pub(super) fn status_update(errors: &mut FieldErrors, new: &StatefulSet, old: &StatefulSet) {
    let Some(status) = &new.status else { return };
    let path = Path::root("status");
    let parts = [
        ("readyReplicas", status.ready_replicas),
        ("currentReplicas", status.current_replicas),
        ("updatedReplicas", status.updated_replicas),
        ("availableReplicas", status.available_replicas),
    ];
    workload::replica_counts(errors, status.replicas, &parts);
    errors.non_negative(&path.child("observedGeneration"), status.observed_generation.unwrap_or(0));
    let collisions = status.collision_count.unwrap_or(0);
    errors.non_negative(&path.child("collisionCount"), collisions);
    let (available, ready) = (status.available_replicas, status.ready_replicas);
    workload::available_within_ready(errors, available, ready, "status.readyReplicas");
    let before = old.status.as_ref().and_then(|s| s.collision_count).unwrap_or(0);
    if collisions < before {
        errors.invalid(&path.child("collisionCount"), &collisions, "cannot be decremented");
    }
}

pub(super) fn revision(errors: &mut FieldErrors, revision: &ControllerRevision) {
    if revision.data.0.is_null() {
        errors.required(&Path::root("data"), "data is mandatory");
    }
    errors.non_negative(&Path::root("revision"), revision.revision.unwrap_or(0));
}

pub(super) fn revision_update(errors: &mut FieldErrors, new: &ControllerRevision, old: &ControllerRevision) {
    revision(errors, new);
    if new.data != old.data {
        errors.invalid(&Path::root("data"), &changed_part(&new.data.0, &old.data.0), "field is immutable");
    }
}
