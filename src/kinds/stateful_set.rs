//! Stateful sets.

use k8s_openapi::api::apps::v1::{RollingUpdateStatefulSetStrategy, StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{PodTemplateSpec, Volume};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::json;

use super::columns::{Column, selector_parts};
use super::resource::{PodShape, Replicas, Resource, ScaleFields};
use apimachinery::default::{pod_spec, set, set_text};
use apimachinery::validate::{ErrorValue, FieldErrors, Path, names, storage, workload};
use base::quote::quote;

const FORBIDDEN_CHANGE: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";

impl Resource for StatefulSet {
    /// The name is part of the pods' host names, so it must be a DNS label.
    const NAME_RULE: fn(&str) -> Vec<String> = names::dns_1123_label;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Ready", "Number of the pod with ready state", |set, _| {
            let ready = set.status.as_ref().and_then(|s| s.ready_replicas).unwrap_or(0);
            json!(format!("{ready}/{}", set.spec.replicas.unwrap_or(0)))
        }),
        Column::age(),
        Column::containers().only_wide(),
        Column::images().only_wide(),
    ];
    const SCALE: Option<ScaleFields<Self>> = Some(ScaleFields {
        get: |set| Replicas {
            desired: set.spec.replicas,
            current: set.status.as_ref().map_or(0, |s| s.replicas),
            selector: selector_parts(&set.spec.selector).join(","),
        },
        set: |set, count| set.spec.replicas = Some(count),
    });

    fn apply_defaults(&mut self) {
        let spec = &mut self.spec;
        set(&mut spec.replicas, 1);
        set(&mut spec.revision_history_limit, 10);
        set_text(&mut spec.pod_management_policy, "OrderedReady");
        let strategy = spec.update_strategy.get_or_insert_default();
        set_text(&mut strategy.type_, "RollingUpdate");
        if strategy.type_.as_deref() == Some("RollingUpdate") {
            let rolling = strategy.rolling_update.get_or_insert_default();
            set(&mut rolling.partition, 0);
            set(&mut rolling.max_unavailable, IntOrString::Int(1));
        }
        let retention = spec.persistent_volume_claim_retention_policy.get_or_insert_default();
        set_text(&mut retention.when_deleted, "Retain");
        set_text(&mut retention.when_scaled, "Retain");
        for claim in spec.volume_claim_templates.iter_mut().flatten() {
            claim.apply_defaults();
        }
        pod_spec::template(&mut spec.template);
    }

    /// Validates a new object: additionally the claim templates, and a service name that can be part of the pods' DNS
    /// names.
    fn validate_create(&self, errors: &mut FieldErrors) {
        self.validate(errors);
        let templates = Path::root("spec.volumeClaimTemplates");
        for (path, claim) in templates.each(self.spec.volume_claim_templates.iter().flatten()) {
            if claim.metadata.name.as_ref().is_none_or(String::is_empty) {
                errors.required(&path.child("metadata.name"), "");
            }
            match &claim.spec {
                Some(spec) => storage::claim_spec(errors, &path.child("spec"), spec),
                None => errors.required(&path.child("spec"), ""),
            }
        }
        let name = self.spec.service_name.as_deref();
        errors.optional_name(&Path::root("spec.serviceName"), name, names::dns_1123_label);
    }

    fn complete_status(&mut self) {
        set(&mut self.status.get_or_insert_default().available_replicas, 0);
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let spec = &self.spec;
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
            for (field, when) in [("whenDeleted", &policy.when_deleted), ("whenScaled", &policy.when_scaled)]
            {
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

    /// Replicas, ordinals, template, update strategy and retention settings may change; everything else that defines
    /// the pods' identity is immutable.
    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
        let changed = StatefulSetSpec {
            replicas: self.spec.replicas,
            ordinals: self.spec.ordinals.clone(),
            template: self.spec.template.clone(),
            update_strategy: self.spec.update_strategy.clone(),
            revision_history_limit: self.spec.revision_history_limit,
            persistent_volume_claim_retention_policy: self
                .spec
                .persistent_volume_claim_retention_policy
                .clone(),
            min_ready_seconds: self.spec.min_ready_seconds,
            ..old.spec.clone()
        };
        if changed != self.spec {
            errors.forbidden(&Path::root("spec"), FORBIDDEN_CHANGE);
        }
    }

    fn validate_status(&self, old: &Self, errors: &mut FieldErrors) {
        let Some(status) = &self.status else { return };
        let path = Path::root("status");
        let parts = [
            ("readyReplicas", status.ready_replicas),
            ("currentReplicas", status.current_replicas),
            ("updatedReplicas", status.updated_replicas),
            ("availableReplicas", status.available_replicas),
        ];
        workload::replica_counts(errors, status.replicas, &parts);
        errors.non_negative(&path.child("observedGeneration"), status.observed_generation.unwrap_or(0));
        let (available, ready) = (status.available_replicas, status.ready_replicas);
        workload::available_within_ready(errors, available, ready, "status.readyReplicas");
        let before = old.status.as_ref().and_then(|s| s.collision_count);
        workload::collision_count(errors, status.collision_count, before);
    }

    fn pod(&self) -> Option<PodShape<'_>> {
        PodShape::of("spec.template.spec", &self.spec.template)
    }
}

/// Returns the template as the pods will have it: each claim template becomes a volume and replaces a volume with the
/// same name.
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
                &RollingUpdateValue(rolling),
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
                    |rolling| format!("&{}", RollingUpdateValue(rolling).display_value())
                )
            );
            errors.invalid(path, &PreformattedValue(shown), "must be 'RollingUpdate' or 'OnDelete'");
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

/// A value that is already in the notation of error messages.
struct PreformattedValue(String);

impl ErrorValue for PreformattedValue {
    fn display_value(&self) -> String {
        self.0.clone()
    }
}

/// The parameters of a rolling update, as error messages show them.
struct RollingUpdateValue<'a>(&'a RollingUpdateStatefulSetStrategy);

impl ErrorValue for RollingUpdateValue<'_> {
    fn display_value(&self) -> String {
        let Self(rolling) = self;
        let most = rolling.max_unavailable.as_ref().map_or_else(
            || "(*intstr.IntOrString)(nil)".to_string(),
            |most| format!("&{}", most.display_value()),
        );
        let partition = rolling.partition.unwrap_or(0);
        format!("apps.RollingUpdateStatefulSetStrategy{{Partition:{partition}, MaxUnavailable:{most}}}")
    }
}
