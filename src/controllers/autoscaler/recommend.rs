//! Computes the recommended size: finds the target's pods, evaluates each metric, and takes the largest result.

use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::autoscaling::v2::{HPAScalingRules, MetricStatus};
use k8s_openapi::api::core::v1::Pod;

use super::conditions::ConditionType;
use super::replicas::Tolerance;
use super::{AutoscalerController, SyncContext, metrics, target};
use object::SharedObject;
use object::quantity::Amount;

/// The default tolerance: the relative deviation of a metric from its target that causes no change.
const TOLERANCE: f64 = 0.1;

impl AutoscalerController {
    /// Returns the largest size that any metric recommends, and that metric's name.
    pub(super) fn recommend(
        &self,
        context: &mut SyncContext<'_>,
        scale: &Scale,
        current: i32,
    ) -> Result<(i32, String), String> {
        let autoscaler = context.autoscaler;
        let pods = self.pods_of(context, scale)?;
        let behavior = autoscaler.spec.behavior.as_ref();
        let tolerance = |rules: Option<&HPAScalingRules>| {
            rules.and_then(|r| r.tolerance.as_ref()).map_or(TOLERANCE, |q| Amount::of(q).as_f64())
        };
        let target = metrics::Target {
            namespace: autoscaler.namespace(),
            pods: &pods,
            replicas: current,
            tolerance: Tolerance {
                up: tolerance(behavior.and_then(|b| b.scale_up.as_ref())),
                down: tolerance(behavior.and_then(|b| b.scale_down.as_ref())),
            },
            now: self.api.clock().now(),
        };
        let specs = autoscaler.spec.metrics.as_deref().unwrap_or_default();
        let (mut best, mut failures, mut statuses) = (None::<(i32, String)>, Vec::new(), Vec::new());
        for spec in specs {
            match metrics::evaluate(&self.api, &target, spec) {
                Ok(answer) => {
                    statuses.push(answer.status);
                    if best.as_ref().is_none_or(|(replicas, _)| answer.replicas > *replicas) {
                        best = Some((answer.replicas, answer.name));
                    }
                }
                Err(failure) => {
                    self.warn(context, failure.reason, &failure.event);
                    // A failed metric keeps its position in the list, with an empty status, as in Kubernetes.
                    statuses.push(MetricStatus::default());
                    failures.push(failure);
                }
            }
        }
        context.metrics = Some(statuses);
        // With incomplete metrics the target may grow, but not shrink.
        match (best, failures.first()) {
            (Some((replicas, name)), first) if first.is_none() || replicas >= current => {
                let message =
                    format!("the HPA was able to successfully calculate a replica count from {name}");
                context.conditions.set(ConditionType::ScalingActive, true, "ValidMetricFound", message);
                Ok((replicas, name))
            }
            (_, Some(first)) => {
                let message = format!("the HPA was unable to compute the replica count: {}", first.event);
                context.conditions.set(ConditionType::ScalingActive, false, first.reason, message);
                Err(format!(
                    "invalid metrics ({} invalid out of {}), first error is: {}",
                    failures.len(),
                    specs.len(),
                    first.error
                ))
            }
            // Validation requires at least one metric.
            _ => Err("no metrics".into()),
        }
    }

    /// Returns the pods of the target; fails if another autoscaler scales some of them.
    fn pods_of(
        &self,
        context: &mut SyncContext<'_>,
        scale: &Scale,
    ) -> Result<Vec<SharedObject<Pod>>, String> {
        let text = scale.status.as_ref().and_then(|s| s.selector.clone()).unwrap_or_default();
        if text.is_empty() {
            let detail = "selector is required";
            self.warn(context, "SelectorRequired", detail);
            let message = "the HPA target's scale is missing a selector";
            context.conditions.set(ConditionType::ScalingActive, false, "InvalidSelector", message);
            return Err(detail.into());
        }
        let selector = match target::selector_of(scale) {
            Ok(selector) => selector,
            Err(error) => {
                let detail = format!(
                    "couldn't convert selector into a corresponding internal selector object: {error}"
                );
                self.warn(context, "InvalidSelector", &detail);
                context.conditions.set(
                    ConditionType::ScalingActive,
                    false,
                    "InvalidSelector",
                    detail.as_str(),
                );
                return Err(detail);
            }
        };
        let autoscaler = context.autoscaler;
        let mut pods = self.pods.in_namespace(autoscaler.namespace());
        pods.retain(|pod| selector.matches(pod.metadata.labels.as_ref()));
        let all = self.scalers.in_namespace(autoscaler.namespace());
        let rivals = target::rivals(&self.api, &all, &pods);
        if rivals.len() > 1 {
            let named: Vec<_> =
                rivals.iter().map(|key| format!("{{{} {}}}", key.name, key.namespace)).collect();
            let detail =
                format!("pods by selector {text} are controlled by multiple HPAs: [{}]", named.join(" "));
            self.warn(context, "AmbiguousSelector", &detail);
            context.conditions.set(ConditionType::ScalingActive, false, "AmbiguousSelector", detail.as_str());
            return Err(detail);
        }
        Ok(pods)
    }
}
