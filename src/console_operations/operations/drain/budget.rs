//! The arithmetic of PodDisruptionBudgets: predicts the eviction API's response for each pod in turn.
//!
//! Follows `checkAndDecrement` and `EvictionREST.Create` of the API server (registry/core/pod/storage): each eviction
//! takes one from the allowance in the budget's status. Sends no requests.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use object::pod::is_ready;
use object::selector::Selector;

/// The decision of the budgets about evicting one pod now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BudgetDecision {
    /// No budget covers the pod.
    Free,
    /// Allowed, with the arithmetic.
    Allowed(String),
    /// Not allowed now, with the arithmetic; the drain waits and retries.
    Blocked(String),
    /// Not allowed while the budget and its pods stay as they are, with the arithmetic: waiting does not help.
    Never(String),
    /// Several budgets cover the pod, so that the server always responds with an error.
    Refused(String),
}

/// The remaining allowances of budgets; each allowed eviction takes one.
#[derive(Debug)]
pub struct BudgetTracker<'a> {
    accounts: Vec<BudgetState<'a>>,
}

#[derive(Debug)]
struct BudgetState<'a> {
    budget: &'a PodDisruptionBudget,
    selector: Selector,
    allowed: i32,
    healthy: i32,
}

impl<'a> BudgetTracker<'a> {
    /// Starts with the allowances in the budgets' statuses.
    pub fn new(budgets: impl IntoIterator<Item = &'a PodDisruptionBudget>) -> Self {
        let accounts = budgets
            .into_iter()
            .map(|budget| {
                let status = budget.status.as_ref();
                BudgetState {
                    budget,
                    selector: Selector::from_optional(
                        budget.spec.as_ref().and_then(|spec| spec.selector.as_ref()),
                    ),
                    allowed: status.and_then(|status| status.disruptions_allowed).unwrap_or(0),
                    healthy: status.and_then(|status| status.current_healthy).unwrap_or(0),
                }
            })
            .collect();
        Self { accounts }
    }

    /// Decides about one pod, and takes an allowed eviction from its budget.
    pub(crate) fn rule(&mut self, pod: &Pod) -> BudgetDecision {
        let namespace = pod.metadata.namespace.as_deref();
        let mut covering: Vec<&mut BudgetState<'a>> = self
            .accounts
            .iter_mut()
            .filter(|account| {
                account.budget.metadata.namespace.as_deref() == namespace
                    && account.selector.matches(pod.metadata.labels.as_ref())
            })
            .collect();
        if covering.is_empty() || is_exempt(pod) {
            return BudgetDecision::Free;
        }
        if covering.len() > 1 {
            let names: Vec<&str> = covering.iter().map(|account| account.name()).collect();
            return BudgetDecision::Refused(format!(
                "budgets {}: This pod has more than one PodDisruptionBudget, which the eviction subresource \
                 does not support.",
                names.join(" and ")
            ));
        }
        covering.remove(0).rule(pod)
    }
}

impl BudgetState<'_> {
    fn name(&self) -> &str {
        self.budget.metadata.name.as_deref().unwrap_or_default()
    }

    fn rule(&mut self, pod: &Pod) -> BudgetDecision {
        let name = self.name().to_owned();
        let Some(status) = &self.budget.status else {
            return BudgetDecision::Blocked(format!("budget {name}: still being processed by the server"));
        };
        let desired = status.desired_healthy.unwrap_or(0);
        let ready = is_ready(pod);
        let policy = self.budget.spec.as_ref().and_then(|spec| spec.unhealthy_pod_eviction_policy.as_deref());
        if !ready {
            if policy == Some("AlwaysAllow") {
                return BudgetDecision::Allowed(format!("budget {name}: not ready, always allowed"));
            }
            if self.healthy >= desired && desired > 0 {
                return BudgetDecision::Allowed(format!(
                    "budget {name}: not ready, {} available ≥ {desired}",
                    self.healthy
                ));
            }
        }
        if status.observed_generation.unwrap_or(0) < self.budget.metadata.generation.unwrap_or(0) {
            return BudgetDecision::Blocked(format!("budget {name}: still being processed by the server"));
        }
        let healthy = self.healthy;
        if self.allowed <= 0 {
            let expected = status.expected_pods.unwrap_or(0);
            if expected > 0 && desired >= expected {
                return BudgetDecision::Never(format!(
                    "budget {name}: always needs {desired} of its {expected} available"
                ));
            }
            // If the numbers permit more than the allowance of zero, expectedPods is unknown or earlier evictions are
            // still in progress.
            let text = if healthy > desired {
                format!("budget {name}: no disruption allowed now, {healthy} available, {desired} needed")
            } else {
                format!("budget {name}: {healthy} available − 1 < {desired}")
            };
            return BudgetDecision::Blocked(text);
        }
        self.allowed -= 1;
        self.healthy -= 1;
        BudgetDecision::Allowed(format!("budget {name}: {healthy} available − 1 ≥ {desired}"))
    }
}

/// Returns whether budgets do not protect the pod: it is finished, not started, or already terminating
/// (`canIgnorePDB`).
fn is_exempt(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed" | "Pending")) || pod.metadata.deletion_timestamp.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, phase: &str, ready: bool) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": name, "namespace": "default", "labels": { "app": "web" } },
            "status": { "phase": phase,
                "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }] },
        }))
        .unwrap()
    }

    fn budget(
        name: &str,
        allowed: i32,
        healthy: i32,
        desired: i32,
        policy: Option<&str>,
    ) -> PodDisruptionBudget {
        serde_json::from_value(json!({
            "metadata": { "name": name, "namespace": "default", "generation": 1 },
            "spec": { "selector": { "matchLabels": { "app": "web" } }, "unhealthyPodEvictionPolicy": policy },
            "status": { "disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired,
                "expectedPods": 10, "observedGeneration": 1 },
        }))
        .unwrap()
    }

    /// CON-6: the allowance is used up pod by pod, with the numbers shown.
    #[test]
    fn the_allowance_is_used_up_row_by_row() {
        let budgets = [budget("web-pdb", 1, 9, 8, None)];
        let mut tracker = BudgetTracker::new(&budgets);
        assert_eq!(
            tracker.rule(&pod("a", "Running", true)),
            BudgetDecision::Allowed("budget web-pdb: 9 available − 1 ≥ 8".to_owned())
        );
        assert_eq!(
            tracker.rule(&pod("b", "Running", true)),
            BudgetDecision::Blocked("budget web-pdb: 8 available − 1 < 8".to_owned())
        );
        assert_eq!(tracker.rule(&pod("c", "Pending", false)), BudgetDecision::Free, "not started yet");
        assert_eq!(tracker.rule(&pod("d", "Succeeded", false)), BudgetDecision::Free);
    }

    #[test]
    fn pods_that_are_not_ready_follow_the_policy() {
        let rule = |policy, healthy| {
            let budgets = [budget("p", 0, healthy, 2, policy)];
            BudgetTracker::new(&budgets).rule(&pod("a", "Running", false))
        };
        assert_eq!(rule(None, 2), BudgetDecision::Allowed("budget p: not ready, 2 available ≥ 2".to_owned()));
        assert_eq!(rule(None, 1), BudgetDecision::Blocked("budget p: 1 available − 1 < 2".to_owned()));
        assert_eq!(
            rule(Some("AlwaysAllow"), 0),
            BudgetDecision::Allowed("budget p: not ready, always allowed".to_owned())
        );
    }

    /// A budget that requires all of its pods never allows an eviction.
    #[test]
    fn a_budget_that_blocks_for_now_differs_from_one_that_never_allows_con_6() {
        let mut all = budget("all", 0, 10, 10, None);
        assert_eq!(
            BudgetTracker::new([&all]).rule(&pod("a", "Running", true)),
            BudgetDecision::Never("budget all: always needs 10 of its 10 available".to_owned())
        );
        all.status.as_mut().unwrap().desired_healthy = Some(9);
        assert!(matches!(
            BudgetTracker::new([&all]).rule(&pod("a", "Running", true)),
            BudgetDecision::Blocked(_)
        ));
    }

    #[test]
    fn two_budgets_on_a_pod_are_an_error_and_a_stale_one_is_waited_for() {
        let budgets = [budget("a", 1, 3, 2, None), budget("b", 1, 3, 2, None)];
        assert!(
            matches!(BudgetTracker::new(&budgets).rule(&pod("x", "Running", true)), BudgetDecision::Refused(text)
            if text.starts_with("budgets a and b: This pod has more than one PodDisruptionBudget"))
        );
        let mut stale = budget("a", 1, 3, 2, None);
        stale.metadata.generation = Some(2);
        assert_eq!(
            BudgetTracker::new([&stale]).rule(&pod("x", "Running", true)),
            BudgetDecision::Blocked("budget a: still being processed by the server".to_owned())
        );
    }
}
