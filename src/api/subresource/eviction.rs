//! Eviction: a deletion that the pod's disruption budget must permit (PDB-1).

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use crate::Part;
use crate::{Api, ApiError, Cause, DeleteOptions, WriteOptions};
use base::mistakes::Mistake;
use object::pod::{can_ignore_budget, disruption, is_ready};
use object::selector::Selector;
use object::{Key, Kind, Object, SharedObject};

/// The limit on pods listed as disrupted in a budget before the controller has caught up.
const MAX_DISRUPTED: usize = 2000;
const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";

impl Api {
    /// Deletes a pod if its disruption budget permits it.
    pub fn evict(&self, key: &Key, options: &DeleteOptions) -> Result<(), ApiError> {
        self.evict_by(key, None, options)
    }

    /// As [`Api::evict`]; `eviction` is the client's request body.
    pub fn evict_by(
        &self,
        key: &Key,
        eviction: Option<&Value>,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        let pod = self.get_as::<Pod>(key)?;
        self.admit_eviction(key, eviction, options)?;
        options.check_preconditions(pod.object())?;
        if !can_ignore_budget(&pod)
            && !Mistake::IgnoreBudget.is_enabled()
            && let Some(budget) = self.budget_of(&pod)?
        {
            self.spend(&budget, &pod, options.dry_run)?;
        }
        let mut options = options.clone();
        if !options.dry_run {
            let marked = self.mark_disrupted(key, &options)?;
            // The mark has made a new version of the pod.
            options.resource_version = options.resource_version.map(|_| marked.revision());
        }
        // Admission has checked the eviction, so it is not run again for the resulting deletion.
        self.delete_if(Kind::Pod, key, &options, |_| Ok(())).map(drop)
    }

    /// Returns the one budget that covers the pod.
    fn budget_of(
        &self,
        pod: &SharedObject<Pod>,
    ) -> Result<Option<SharedObject<PodDisruptionBudget>>, ApiError> {
        let mut covering =
            self.list_as::<PodDisruptionBudget>(Some(pod.namespace())).into_iter().filter(|budget| {
                let selector = budget.spec.as_ref().and_then(|s| s.selector.as_ref());
                Selector::from_optional(selector).matches(pod.metadata.labels.as_ref())
            });
        let budget = covering.next();
        if covering.next().is_some() {
            return Err(ApiError::Failure(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
                    .into(),
            ));
        }
        Ok(budget)
    }

    /// Takes one disruption from the budget, or refuses the eviction.
    fn spend(
        &self,
        budget: &SharedObject<PodDisruptionBudget>,
        pod: &SharedObject<Pod>,
        dry_run: bool,
    ) -> Result<(), ApiError> {
        let (name, pod_name, pod_ready) = (budget.name().to_string(), pod.name().to_string(), is_ready(pod));
        let now = self.server_clock().time();
        let check =
            |value: &mut PodDisruptionBudget| take_one(value, &name, &pod_name, pod_ready, now.clone());
        if dry_run {
            return check(&mut PodDisruptionBudget::clone(budget));
        }
        match self.modify_part::<PodDisruptionBudget>(&budget.key(), Part::System, check) {
            Ok(_) => Ok(()),
            // The budget was deleted just now: nothing protects the pod any more.
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Marks the pod as disrupted if the preconditions still hold; returns the marked version.
    fn mark_disrupted(&self, key: &Key, options: &DeleteOptions) -> Result<Arc<Object>, ApiError> {
        let now = self.server_clock().time();
        self.change(Kind::Pod, key, Part::System, &WriteOptions::default(), |current| {
            options.check_preconditions(current)?;
            let mut marked = current.clone();
            marked.change(|pod: &mut Pod| {
                disruption::mark(
                    pod,
                    disruption::DisruptionReason::EvictionApi,
                    "Eviction API: evicting",
                    &now,
                );
            });
            Ok(marked)
        })
    }
}

/// Takes one disruption from a budget, if the pod counts and one is left.
fn take_one(
    budget: &mut PodDisruptionBudget,
    name: &str,
    pod_name: &str,
    pod_ready: bool,
    now: Time,
) -> Result<(), ApiError> {
    let generation = budget.metadata.generation.unwrap_or(0);
    let always_allow =
        budget.spec.as_ref().and_then(|s| s.unhealthy_pod_eviction_policy.as_deref()) == Some("AlwaysAllow");
    let status = budget.status.get_or_insert_default();
    let (healthy, desired) = (status.current_healthy.unwrap_or(0), status.desired_healthy.unwrap_or(0));
    // An unhealthy pod is evicted without taking a disruption: always with `AlwaysAllow`, else while enough
    // other pods are healthy.
    if !pod_ready && (always_allow || healthy >= desired.max(1)) {
        return Ok(());
    }
    if status.observed_generation.unwrap_or(0) < generation {
        let detail = format!("The disruption budget {name} is still being processed by the server.");
        return Err(refusal(detail, 10));
    }
    if status.disrupted_pods.as_ref().is_some_and(|pods| pods.len() > MAX_DISRUPTED) {
        return Err(ApiError::forbidden(
            Kind::PodDisruptionBudget,
            name,
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ));
    }
    let left = status.disruptions_allowed.unwrap_or(0) - 1;
    if left < 0 {
        return Err(refusal(budget_exhausted_message(name, status), 0));
    }
    status.disruptions_allowed = Some(left);
    if left == 0 {
        exhaust(status, budget.metadata.generation, &now);
    }
    status.disrupted_pods.get_or_insert_default().insert(pod_name.into(), now);
    Ok(())
}

fn refusal(detail: String, retry_after_seconds: i32) -> ApiError {
    ApiError::TooManyRequests {
        message: "Cannot evict pod as it would violate the pod's disruption budget.".into(),
        causes: vec![Cause { reason: "DisruptionBudget".into(), message: detail, field: String::new() }],
        retry_after_seconds,
    }
}

/// Returns the reason for a refusal. A budget that could not be computed reports that first, because its
/// counts are meaningless.
fn budget_exhausted_message(name: &str, status: &PodDisruptionBudgetStatus) -> String {
    let (healthy, desired) = (status.current_healthy.unwrap_or(0), status.desired_healthy.unwrap_or(0));
    let condition = status.conditions.iter().flatten().find(|c| c.type_ == DISRUPTION_ALLOWED);
    let not_allowed = condition.filter(|c| c.status == "False" && !c.message.is_empty());
    let refuses = format!("The disruption budget {name} does not allow evicting pods currently");
    match not_allowed {
        Some(c) if c.reason == "SyncFailed" => format!("{refuses} because it failed sync: {}", c.message),
        _ if healthy <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
        }
        Some(c) => format!("{refuses} ({}): {}", c.reason, c.message),
        None => refuses,
    }
}

/// Sets the budget's condition once the last disruption is taken, because the controller counts only later.
fn exhaust(status: &mut PodDisruptionBudgetStatus, generation: Option<i64>, now: &Time) {
    for condition in status.conditions.iter_mut().flatten().filter(|c| c.type_ == DISRUPTION_ALLOWED) {
        if condition.status != "False" {
            condition.last_transition_time = now.clone();
        }
        (condition.status, condition.reason) = ("False".into(), "InsufficientPods".into());
        (condition.message, condition.observed_generation) = (String::new(), generation);
    }
}
