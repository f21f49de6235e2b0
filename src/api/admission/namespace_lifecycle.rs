//! NamespaceLifecycle: refuses creations in a namespace that does not exist or is terminating (API-10).

use super::Request;
use crate::{ApiError, Cause};
use object::owner::is_terminating;
use object::{Key, Kind, Object};

pub(super) fn admit(request: &mut Request<'_>, object: &mut Object) -> Result<(), ApiError> {
    validate(request, object)
}

/// Repeats the check after the configured admission: the namespace may have been deleted meanwhile.
pub(super) fn validate(request: &Request<'_>, object: &Object) -> Result<(), ApiError> {
    let api = request.api;
    if !object.kind().namespaced() {
        return Ok(());
    }
    let namespace = api.get(Kind::Namespace, &Key::new("", object.namespace()))?;
    if !is_terminating(namespace.meta()) {
        return Ok(());
    }
    let name = object.namespace();
    Err(ApiError::Forbidden {
        kind: object.kind(),
        name: object.name().into(),
        message: format!("unable to create new content in namespace {name} because it is being terminated"),
        causes: vec![Cause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {name} is being terminated"),
            field: "metadata.namespace".into(),
        }],
    })
}
