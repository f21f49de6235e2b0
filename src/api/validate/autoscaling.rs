//! Rules of autoscalers.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;

use super::field::{FieldErrors, Path};

pub(super) fn autoscaler(errors: &mut FieldErrors, autoscaler: &HorizontalPodAutoscaler) {
    let path = Path::root("spec");
    let spec = &autoscaler.spec;
    let least = spec.min_replicas.unwrap_or(1);
    if least < 1 {
        errors.invalid(&path.child("minReplicas"), &least, "must be greater than or equal to 1");
    }
    if spec.max_replicas < 1 {
        errors.invalid(&path.child("maxReplicas"), &spec.max_replicas, "must be greater than 0");
    }
    if spec.max_replicas < least {
        errors.invalid(
            &path.child("maxReplicas"),
            &spec.max_replicas,
            "must be greater than or equal to `minReplicas`",
        );
    }
    let target = path.child("scaleTargetRef");
    for (field, value) in [("kind", &spec.scale_target_ref.kind), ("name", &spec.scale_target_ref.name)] {
        if value.is_empty() {
            errors.required(&target.child(field), "");
        }
    }
}
