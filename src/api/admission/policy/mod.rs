//! Admission policies: what users say in expressions that must hold of what is written, or that is made of it, where their
//! bindings say so. As Kubernetes' ValidatingAdmissionPolicy and MutatingAdmissionPolicy, with its texts.

mod configured;
mod judge;
mod mutate;
mod params;
mod type_check;
mod validate;

pub(super) use self::mutate::mutate;
pub(super) use self::validate::validate;

use self::configured::{Binding, Policy};
use super::attributes::Attributes;
use super::configurations::Configurations;
use crate::Api;
use crate::webhook_client::Party;
use object::{Kind, Object};

/// The policies and bindings that there are.
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
    /// An object was written, or is gone: if it is one of these, what it says is acted upon from now on.
    pub(crate) fn object_stored(&self, object: &Object) {
        self.validating.object_stored(object);
        self.validating_bindings.object_stored(object);
        self.mutating.object_stored(object);
        self.mutating_bindings.object_stored(object);
    }
}

/// What says who may write is not judged by it: nobody could mend it.
const EXEMPT: [&str; 4] = [
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// Whether there is a policy at all.
pub(super) fn are_any(api: &Api) -> bool {
    let policies = &api.inner.policies;
    !policies.validating.current(api, Policy::validating).is_empty()
        || !policies.mutating.current(api, Policy::mutating).is_empty()
}

/// Whom a write may wait for that any policy is asked about.
pub(super) fn parties(api: &Api) -> Vec<Party> {
    let policies = &api.inner.policies;
    let all = [
        policies.validating.current(api, Policy::validating),
        policies.mutating.current(api, Policy::mutating),
    ];
    params::converters(api, all.iter().flat_map(|policies| policies.iter()).map(|policy| &*policy.value))
}

fn is_exempt(asked: &Attributes<'_>) -> bool {
    asked.resource.group() == "admissionregistration.k8s.io"
        && EXEMPT.contains(&asked.resource.kind().info().name)
}

#[cfg(test)]
mod tests;
