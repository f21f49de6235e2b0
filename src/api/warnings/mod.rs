//! The `Warning` headers that clients print: Kubernetes' own texts, and one for each field that is accepted and has no
//! effect here (API-17).

pub mod fields;
mod pod;
mod service;

use k8s_openapi::api::core::v1::Service;

pub use fields::unmountable;

use super::Api;
use super::warning_recorder::WarningRecorder;
use object::{Kind, Object};

/// Adds the warnings about a version of an object, if the caller receives warnings.
pub(crate) fn add_those_of(api: &Api, warnings: &WarningRecorder, new: &Object, old: Option<&Object>) {
    if warnings.is_listening() {
        warnings.warn(warnings_of(new, old, api.config().network_policies));
    }
}

/// Returns the warnings for the client that writes this version. If the spec is unchanged, only the warning
/// about the kind remains. `enforced`: network policies are enforced.
fn warnings_of(new: &Object, old: Option<&Object>, enforced: bool) -> Vec<String> {
    let strategy = kinds::built_in(new.kind());
    let inert = strategy.warning().filter(|_| !(enforced && new.kind() == Kind::NetworkPolicy));
    let mut warnings: Vec<String> = inert.map(Into::into).into_iter().collect();
    if old.is_some_and(|old| old.same_spec(new)) {
        return warnings;
    }
    if new.kind() == Kind::Pod && old.is_none() {
        pod::name(&mut warnings, new.name());
    }
    if let Some(spec) = new.get::<Service>().and_then(|service| service.spec.as_ref()).filter(|_| !enforced) {
        service::external_addresses(&mut warnings, spec);
    }
    if let Some(made) = strategy.pod(new) {
        pod::spec(&mut warnings, made.path, made.spec);
    }
    warnings.extend(fields::warnings(new));
    warnings
}
