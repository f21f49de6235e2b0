//! Authors of policies and bindings need permission to read the parameters: a policy's refusals reveal them.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, ParamKind, ParamRef, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
};

use super::attributes::{Attributes, RequestTarget, ResourceAttributes};
use crate::identity::User;
use crate::{Api, ApiError};
use base::quote::quote;
use object::{Key, Kind, Object};

/// Refuses a policy that declares parameters, or a binding that names some, if its author may not get them;
/// `old` is the version before the change. Actors of this process (no user) are exempt.
pub(crate) fn check(
    api: &Api,
    user: Option<&User>,
    old: Option<&Object>,
    new: &Object,
) -> Result<(), ApiError> {
    let Some(user) = user.filter(|user| !user.is_master()) else { return Ok(()) };
    if let Some(kind) = kind_of(new) {
        let is_same = old.and_then(kind_of) == Some(kind);
        return if is_same { Ok(()) } else { may_get(api, user, new, Some(kind), "*", "*") };
    }
    let Some((policy_kind, policy, param_ref)) = bound(new) else { return Ok(()) };
    if old.and_then(bound).is_some_and(|old| old == (policy_kind, policy, param_ref)) {
        return Ok(());
    }
    let policy = api.get(policy_kind, &Key::new("", policy)).ok();
    let named =
        |text: &Option<String>| text.clone().filter(|text| !text.is_empty()).unwrap_or_else(|| "*".into());
    let kind = policy.as_deref().and_then(kind_of);
    may_get(api, user, new, kind, &named(&param_ref.namespace), &named(&param_ref.name))
}

fn kind_of(policy: &Object) -> Option<&ParamKind> {
    if let Some(policy) = policy.get::<ValidatingAdmissionPolicy>() {
        return policy.spec.as_ref()?.param_kind.as_ref();
    }
    policy.get::<MutatingAdmissionPolicy>()?.spec.as_ref()?.param_kind.as_ref()
}

/// Returns the kind and name of a binding's policy, and the binding's reference to parameters; `None` without
/// parameters.
fn bound(binding: &Object) -> Option<(Kind, &str, &ParamRef)> {
    if let Some(binding) = binding.get::<ValidatingAdmissionPolicyBinding>() {
        let kind = Kind::ValidatingAdmissionPolicy;
        return Some((kind, &binding.spec.policy_name, binding.spec.param_ref.as_ref()?));
    }
    let spec = binding.get::<MutatingAdmissionPolicyBinding>()?.spec.as_ref()?;
    Some((Kind::MutatingAdmissionPolicy, spec.policy_name.as_deref()?, spec.param_ref.as_ref()?))
}

/// Checks that the author may get the parameters; for an unknown kind, this requires permission to read
/// everything.
fn may_get(
    api: &Api,
    user: &User,
    new: &Object,
    kind: Option<&ParamKind>,
    namespace: &str,
    name: &str,
) -> Result<(), ApiError> {
    let served =
        kind.and_then(|kind| api.kinds().by_api_version(kind.api_version.as_deref()?, kind.kind.as_deref()?));
    let (group, resource) = served.map_or(("*", "*"), |served| (served.group(), served.kind().info().plural));
    let attributes = ResourceAttributes { group, resource, name, namespace, ..ResourceAttributes::default() };
    if api.decide(&Attributes { user, verb: "get", on: RequestTarget::Resource(attributes) }).allowed {
        return Ok(());
    }
    let object = if namespace == "*" { name.to_string() } else { format!("{namespace}/{name}") };
    let message = format!(
        "user {} does not have \"get\" permission on the object {} of the resource {} it takes parameters from",
        quote(&user.name),
        quote(&object),
        quote(resource)
    );
    Err(ApiError::forbidden(new.kind(), new.name(), message))
}
