//! The parts of an object, and the fields that a write of one takes from the client's version.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Container, Pod};

use crate::{ApiError, Part};
use kinds::{Strategy, preserve_approval, with_approval};
use object::{Body, Kind, Object};

/// Returns the current version with the edited fields that the part allows, and with the fields that the API
/// maintains.
pub(super) fn take(
    part: Part,
    strategy: &dyn Strategy,
    current: &Object,
    mut edited: Object,
) -> Result<Object, ApiError> {
    keep_system_fields(current, &mut edited)?;
    match part {
        Part::Main if strategy.has_status() => edited.copy_status_from(current),
        Part::Status => {
            edited.copy_spec_from(current);
            retain_metadata(current, &mut edited);
            let current = current.get::<CertificateSigningRequest>();
            if let (Some(current), Some(request)) = (current, edited.get_mut::<CertificateSigningRequest>()) {
                preserve_approval(current, request);
            }
        }
        Part::EphemeralContainers => edited = with_ephemeral_containers(current, &edited),
        Part::Resize => edited = with_resources(current, &edited),
        Part::Approval => edited = with_approval_of(current, &edited),
        Part::Main | Part::System => {}
    }
    Ok(edited)
}

/// Returns true if a write of the status leaves all metadata of the kind as it is, as the kind's strategy in Kubernetes
/// does.
pub(super) fn status_retains_metadata(kind: Kind) -> bool {
    let is_strict = matches!(
        kind,
        Kind::APIService
            | Kind::DeviceTaintRule
            | Kind::FlowSchema
            | Kind::PriorityLevelConfiguration
            | Kind::ResourceClaim
            | Kind::ServiceCIDR
            | Kind::ValidatingAdmissionPolicy
            | Kind::VolumeAttachment
    );
    is_strict || kind.is_custom()
}

/// Restores the metadata that a write of the status must not change.
fn retain_metadata(current: &Object, edited: &mut Object) {
    let (kind, old, new) = (current.kind(), current.meta(), edited.meta_mut());
    new.owner_references.clone_from(&old.owner_references);
    let retains_all = status_retains_metadata(kind);
    if retains_all || kind == Kind::Deployment {
        new.labels.clone_from(&old.labels);
    }
    if retains_all {
        new.annotations.clone_from(&old.annotations);
        new.finalizers.clone_from(&old.finalizers);
    }
}

fn keep_system_fields(current: &Object, edited: &mut Object) -> Result<(), ApiError> {
    let (kind, name) = (current.kind(), current.name());
    if edited.key() != current.key() {
        return Err(ApiError::BadRequest(format!(
            "the name of the object ({}) does not match the name on the URL ({name})",
            edited.name()
        )));
    }
    let old = current.meta();
    if let Some(uid) = edited.meta().uid.as_ref().filter(|uid| !uid.is_empty())
        && Some(uid) != old.uid.as_ref()
    {
        return Err(ApiError::conflict(
            kind,
            name,
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", current.uid()),
        ));
    }
    let new = edited.meta_mut();
    new.uid.clone_from(&old.uid);
    new.resource_version.clone_from(&old.resource_version);
    new.creation_timestamp.clone_from(&old.creation_timestamp);
    new.generate_name.clone_from(&old.generate_name);
    new.deletion_timestamp.clone_from(&old.deletion_timestamp);
    new.deletion_grace_period_seconds = old.deletion_grace_period_seconds;
    new.generation = old.generation;
    new.self_link = None;
    // Empty maps and lists are removed, as in Kubernetes' JSON: otherwise a no-op would be a change.
    new.labels = new.labels.take().filter(|l| !l.is_empty());
    new.annotations = new.annotations.take().filter(|a| !a.is_empty());
    new.finalizers = new.finalizers.take().filter(|f| !f.is_empty());
    new.owner_references = new.owner_references.take().filter(|o| !o.is_empty());
    Ok(())
}

/// Returns the current request with the metadata and conditions of the edited one.
fn with_approval_of(current: &Object, edited: &Object) -> Object {
    let mut next = current.clone();
    let of = |object: &Object| object.get::<CertificateSigningRequest>().cloned();
    if let (Some(now), Some(edited), Some(next)) =
        (of(current), of(edited), next.get_mut::<CertificateSigningRequest>())
    {
        *next = with_approval(&now, &edited);
    }
    next
}

/// Returns the current pod with the ephemeral containers of the edited one.
fn with_ephemeral_containers(current: &Object, edited: &Object) -> Object {
    let mut next = current.clone();
    if let (Some(to), Body::Pod(from)) = (next.get_mut::<Pod>().and_then(|p| p.spec.as_mut()), edited.body())
    {
        to.ephemeral_containers = from.spec.as_ref().and_then(|s| s.ephemeral_containers.clone());
    }
    next
}

/// Returns the current pod with the resources of the edited one. Containers with unknown names stay, for
/// validation to report.
fn with_resources(current: &Object, edited: &Object) -> Object {
    let mut next = current.clone();
    let from = edited.get::<Pod>().and_then(|pod| pod.spec.as_ref());
    let (Some(to), Some(from)) = (next.get_mut::<Pod>().and_then(|pod| pod.spec.as_mut()), from) else {
        return next;
    };
    let resized = |old: &[Container], new: &[Container]| -> Vec<Container> {
        let of = |new: &Container| match old.iter().find(|old| old.name == new.name) {
            Some(old) => Container {
                resources: new.resources.clone(),
                resize_policy: new.resize_policy.clone(),
                ..old.clone()
            },
            None => new.clone(),
        };
        new.iter().map(of).collect()
    };
    to.containers = resized(&to.containers, &from.containers);
    let init = resized(
        to.init_containers.as_deref().unwrap_or_default(),
        from.init_containers.as_deref().unwrap_or_default(),
    );
    if to.init_containers.is_some() || !init.is_empty() {
        to.init_containers = Some(init);
    }
    next
}
