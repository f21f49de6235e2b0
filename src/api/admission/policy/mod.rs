//! Admission policies: users' expressions that writes must satisfy or that change objects, within the scope of their
//! bindings. The rules and texts are those of Kubernetes' ValidatingAdmissionPolicy and MutatingAdmissionPolicy.

mod compiled;
mod evaluate;
mod mutate;
mod params;
mod type_check;
mod validate;

pub(super) use self::mutate::mutate;
pub(super) use self::validate::validate;

use self::compiled::{Binding, Policy};
use super::attributes::Attributes;
use super::configurations::Configurations;
use crate::Api;
use crate::webhook_client::Callee;
use object::{Kind, Object};

/// All policies and bindings.
pub(crate) struct Policies {
    validating: Configurations<Policy>,
    validating_bindings: Configurations<Binding>,
    mutating: Configurations<Policy>,
    mutating_bindings: Configurations<Binding>,
}

impl Default for Policies {
    fn default() -> Self {
        Self {
            validating: Configurations::new(Kind::ValidatingAdmissionPolicy),
            validating_bindings: Configurations::new(Kind::ValidatingAdmissionPolicyBinding),
            mutating: Configurations::new(Kind::MutatingAdmissionPolicy),
            mutating_bindings: Configurations::new(Kind::MutatingAdmissionPolicyBinding),
        }
    }
}

impl Policies {
    /// Marks the caches as outdated if the written or deleted object is a policy or a binding.
    pub(crate) fn object_stored(&self, object: &Object) {
        self.validating.object_stored(object);
        self.validating_bindings.object_stored(object);
        self.mutating.object_stored(object);
        self.mutating_bindings.object_stored(object);
    }
}

/// Policies do not apply to policies: a faulty one could not be repaired.
const EXEMPT: [&str; 4] = [
    "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// Returns true if there is any policy.
pub(super) fn has_policies(api: &Api) -> bool {
    let policies = &api.inner.policies;
    !policies.validating.current(api, Policy::validating).is_empty()
        || !policies.mutating.current(api, Policy::mutating).is_empty()
}

/// Returns the callees that a write may wait for because of policies.
pub(super) fn callees(api: &Api) -> Vec<Callee> {
    let policies = &api.inner.policies;
    let all = [
        policies.validating.current(api, Policy::validating),
        policies.mutating.current(api, Policy::mutating),
    ];
    params::converters(api, all.iter().flat_map(|policies| policies.iter()).map(|policy| &*policy.value))
}

fn is_exempt(attributes: &Attributes<'_>) -> bool {
    attributes.resource.group() == "admissionregistration.k8s.io"
        && EXEMPT.contains(&attributes.resource.kind().info().name)
}

#[cfg(test)]
mod tests;
