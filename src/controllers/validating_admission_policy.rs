//! The status of validating admission policies: errors in their expressions for the types that they match.
//!
//! Kubernetes' `validatingadmissionpolicy-status-controller`. A policy is checked once for each generation; it is not
//! checked again for types defined later.

use k8s_openapi::api::admissionregistration::v1::{TypeChecking, ValidatingAdmissionPolicy};

use super::context::Context;
use api::Api;
use object::{Key, SharedObject};
use reconcile::{ReconcileError, Reconciler, ignore_not_found, key_if, optional, preconditions};

pub(super) fn start(context: &Context) {
    context
        .controller(|_| Policies { api: context.api.clone() })
        .keys_of::<ValidatingAdmissionPolicy>()
        .watches::<ValidatingAdmissionPolicy, _>(|_, change| {
            key_if::<ValidatingAdmissionPolicy>(change, |_| true)
        })
        .run(&context.tasks);
}

struct Policies {
    api: Api,
}

impl Reconciler for Policies {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Some(policy) = optional(self.api.get_as::<ValidatingAdmissionPolicy>(key))? else {
            return Ok(());
        };
        let generation = policy.metadata.generation;
        if is_observed(&policy) {
            return Ok(());
        }
        let warnings = self.api.check_types(&policy);
        let written = preconditions::modify_status(&self.api, &policy, |fresh| {
            // The result does not apply to another generation.
            if fresh.metadata.generation == generation {
                let status = fresh.status.get_or_insert_default();
                status.observed_generation = generation;
                let expression_warnings = (!warnings.is_empty()).then(|| warnings.clone());
                status.type_checking = Some(TypeChecking { expression_warnings });
            }
        });
        Ok(ignore_not_found(written)?)
    }
}

fn is_observed(policy: &SharedObject<ValidatingAdmissionPolicy>) -> bool {
    let observed = policy.status.as_ref().and_then(|status| status.observed_generation);
    observed.is_some_and(|observed| Some(observed) >= policy.metadata.generation)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_cluster::TestCluster;

    #[tokio::test(start_paused = true)]
    async fn a_policy_says_in_its_status_what_is_wrong_with_its_types_api_16() {
        let cluster = TestCluster::start(&["validatingadmissionpolicy-status-controller"]);
        let status = || {
            let policy = cluster.get::<ValidatingAdmissionPolicy>("p");
            serde_json::to_value(policy.status.as_ref().unwrap()).unwrap()
        };
        cluster.create::<ValidatingAdmissionPolicy>(json!({"metadata": {"name": "p"}, "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]}]},
            "validations": [{"expression": "object.foo == 'bar'"}]}}));
        cluster.settle().await;
        let warning = "apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'foo'\n | object.foo == 'bar'\n | ......^\n";
        let expected = json!({"observedGeneration": 1, "typeChecking": {"expressionWarnings": [
            {"fieldRef": "spec.validations[0].expression", "warning": warning}]}});
        assert_eq!(status(), expected);
        cluster.change::<ValidatingAdmissionPolicy>("p", |policy| {
            let validations = policy.spec.as_mut().unwrap().validations.as_mut().unwrap();
            validations[0].expression = "object.spec.replicas > 1".into();
        });
        cluster.settle().await;
        assert_eq!(status(), json!({"observedGeneration": 2, "typeChecking": {}}));
        cluster.stop().await;
    }
}
