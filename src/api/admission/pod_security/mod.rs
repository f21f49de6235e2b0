//! PodSecurity: a namespace's labels limit the privileges of its pods. Pods that exceed them are refused, or cause a
//! warning, or an audit annotation (API-16). The rules and texts are those of Kubernetes' plugin of this name.

mod checks;
mod existing;
mod policy;

use k8s_openapi::api::core::v1::{Namespace, Pod, PodSpec};

use self::policy::{Level, Policy};
use super::Request;
use crate::{ApiError, Part, object_checks};
use apimachinery::validate::FieldErrors;
use kinds::{PodShape, built_in};
use object::{Key, Kind, Object};

pub(super) fn validate(request: &Request<'_>, object: &Object) -> Result<(), ApiError> {
    match object.kind() {
        Kind::Namespace => namespace(request, object),
        Kind::Pod => pod(request, object),
        // Their pods are checked when they are created: here the author is only warned.
        _ if request.part == Part::Main => {
            if let Some(shape) = request.api.kinds().strategy(object).pod(object) {
                let policy = policy_of(request, object);
                audit(request, &policy, &shape);
                warn(request, &policy, &shape);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Returns the policy of the object's namespace.
#[expect(clippy::disallowed_methods, reason = "a namespace that is gone has no policy")]
fn policy_of(request: &Request<'_>, object: &Object) -> Policy {
    let namespace = request.api.get_as::<Namespace>(&Key::new("", object.namespace()));
    namespace.map(|namespace| Policy::of(namespace.metadata.labels.as_ref()).0).unwrap_or_default()
}

fn pod(request: &Request<'_>, object: &Object) -> Result<(), ApiError> {
    let policy = policy_of(request, object);
    let old = request.old.and_then(|old| old.get::<Pod>()).and_then(|pod| pod.spec.as_ref());
    if let Some(audit) = request.options.warnings.audit() {
        audit.annotate("pod-security.kubernetes.io/enforce-policy".into(), policy.enforce.to_string());
    }
    let Some(shape) = built_in(Kind::Pod).pod(object).filter(|_| !policy.is_privileged()) else {
        return Ok(());
    };
    if old.is_some_and(|old| !changes_images_or_containers(shape.spec, old)) {
        return Ok(());
    }
    audit(request, &policy, &shape);
    if let Some(violations) = checks::violations(policy.enforce, &shape) {
        let message = format!("violates PodSecurity \"{}\": {}", policy.enforce, violations.details());
        return Err(ApiError::forbidden(Kind::Pod, object.name(), message));
    }
    warn(request, &policy, &shape);
    Ok(())
}

fn audit(request: &Request<'_>, policy: &Policy, shape: &PodShape<'_>) {
    let Some(audit) = request.options.warnings.audit() else { return };
    if let Some(violations) = checks::violations(policy.audit, shape) {
        let message = format!("would violate PodSecurity \"{}\": {}", policy.audit, violations.details());
        audit.annotate("pod-security.kubernetes.io/audit-violations".into(), message);
    }
}

fn warn(request: &Request<'_>, policy: &Policy, shape: &PodShape<'_>) {
    let found = checks::violations(policy.warn, shape);
    request.warn(found.map(|violations| {
        format!("would violate PodSecurity \"{}\": {}", policy.warn, violations.details())
    }));
}

/// Returns true if a new version of a pod changes its images or containers: other changes cannot add
/// privileges.
fn changes_images_or_containers(new: &PodSpec, old: &PodSpec) -> bool {
    fn images(spec: &PodSpec) -> (Vec<Option<&String>>, Vec<Option<&String>>) {
        let of_init = spec.init_containers.iter().flatten();
        (
            spec.containers.iter().map(|c| c.image.as_ref()).collect(),
            of_init.map(|c| c.image.as_ref()).collect(),
        )
    }
    let had = |name: &str, image: Option<&String>| {
        let mut had = old.ephemeral_containers.iter().flatten();
        had.any(|c| c.name == name && c.image.as_ref() == image)
    };
    images(new) != images(old)
        || new.ephemeral_containers.iter().flatten().any(|c| !had(&c.name, c.image.as_ref()))
}

/// Checks a namespace's labels, and warns of existing pods that a raised level would refuse.
fn namespace(request: &Request<'_>, object: &Object) -> Result<(), ApiError> {
    let labels = object.meta().labels.as_ref();
    let (new, faults) = Policy::of(labels);
    let (old, known) = match request.old {
        Some(old) => Policy::of(old.meta().labels.as_ref()),
        None => (Policy::default(), Vec::new()),
    };
    if !faults.is_empty() && faults != known {
        let mut errors = FieldErrors::default();
        for fault in &faults {
            fault.report(&mut errors);
        }
        return object_checks::refuse(object, errors.into_vec());
    }
    let (from, to) = (old.enforce, new.enforce);
    let is_relaxed = from.version == to.version && to.level <= from.level;
    if request.old.is_some() && from != to && to.level != Level::Privileged && !is_relaxed {
        request.warn(existing::warnings(request.api, object.name(), to));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
