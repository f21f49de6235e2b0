//! Defaults of the kinds that run pods from a template.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{apply_pod_spec_defaults, set, set_text};

pub(super) fn deployment(deployment: &mut Deployment) {
    let spec = &mut deployment.spec;
    set(&mut spec.replicas, 1);
    set(&mut spec.revision_history_limit, 10);
    set(&mut spec.progress_deadline_seconds, 600);
    let strategy = spec.strategy.get_or_insert_default();
    set_text(&mut strategy.type_, "RollingUpdate");
    if strategy.type_.as_deref() == Some("RollingUpdate") {
        let rolling = strategy.rolling_update.get_or_insert_default();
        set(&mut rolling.max_unavailable, IntOrString::String("25%".into()));
        set(&mut rolling.max_surge, IntOrString::String("25%".into()));
    }
    template(&mut spec.template);
}

pub(super) fn replica_set(replica_set: &mut ReplicaSet) {
    let spec = &mut replica_set.spec;
    set(&mut spec.replicas, 1);
    template(spec.template.get_or_insert_default());
}

fn template(template: &mut PodTemplateSpec) {
    apply_pod_spec_defaults(template.spec.get_or_insert_default());
}
