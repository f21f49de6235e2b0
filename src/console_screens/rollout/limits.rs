//! Surge and unavailability as numbers of pods, with Kubernetes' rounding.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use object::percent::{Rounding, scaled};

/// The number of pods by which a rollout may exceed or fall below the desired count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Desired number of pods.
    pub(crate) desired: i32,
    /// Maximum number of pods above the desired number.
    pub(crate) surge: i32,
    /// Maximum number of the desired pods that may be unavailable.
    pub(crate) unavailable: i32,
    /// As in the spec: `25%`.
    pub(crate) surge_text: String,
    /// As in the spec: `25%`.
    pub(crate) unavailable_text: String,
    /// `RollingUpdate` or `Recreate`.
    pub(crate) strategy: String,
}

impl Limits {
    /// Creates the limits of a Deployment. A surge percentage rounds up, an unavailability percentage rounds down; if
    /// both are zero, one pod may be unavailable (`ResolveFenceposts`).
    pub(crate) fn of(deployment: &Deployment) -> Self {
        let desired = deployment.spec.replicas.unwrap_or(1);
        let strategy = deployment.spec.strategy.as_ref();
        let kind = strategy.and_then(|strategy| strategy.type_.clone());
        let kind = kind.unwrap_or_else(|| "RollingUpdate".to_owned());
        if kind == "Recreate" {
            return Self {
                desired,
                surge: 0,
                unavailable: desired,
                surge_text: "0".to_owned(),
                unavailable_text: "all".to_owned(),
                strategy: kind,
            };
        }
        let quarter = IntOrString::String("25%".to_owned());
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref()).unwrap_or(&quarter);
        let missing = rolling.and_then(|rolling| rolling.max_unavailable.as_ref()).unwrap_or(&quarter);
        let surge_pods = scaled(surge, desired, Rounding::Up).unwrap_or(0);
        let mut missing_pods = scaled(missing, desired, Rounding::Down).unwrap_or(0);
        if surge_pods == 0 && missing_pods == 0 {
            missing_pods = 1;
        }
        Self {
            desired,
            surge: surge_pods,
            unavailable: missing_pods.min(desired.max(0)),
            surge_text: text(surge),
            unavailable_text: text(missing),
            strategy: kind,
        }
    }

    /// Returns the maximum total number of pods.
    pub(crate) fn max_total(&self) -> i32 {
        self.desired.saturating_add(self.surge)
    }

    /// Returns the minimum number of available pods.
    pub(crate) fn least_available(&self) -> i32 {
        (self.desired - self.unavailable).max(0)
    }
}

fn text(value: &IntOrString) -> String {
    match value {
        IntOrString::Int(pods) => pods.to_string(),
        IntOrString::String(text) => text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// DEP-2: a surge percentage rounds up, an unavailability percentage rounds down, and they are never both zero.
    #[test]
    fn percentages_round_as_kubernetes_rounds_them() {
        let cases = [
            (10, json!("25%"), json!("25%"), (3, 2)),
            (3, json!("25%"), json!("25%"), (1, 0)),
            (1, json!("0%"), json!("25%"), (0, 1)),
            (4, json!(2), json!(1), (2, 1)),
            (2, json!(1), json!(5), (1, 2)),
            (0, json!("25%"), json!("25%"), (0, 0)),
            (2, json!("9223372036854775807%"), json!(1), (i32::MAX, 1)),
            (2, json!("many"), json!(1), (0, 1)),
        ];
        for (replicas, surge, unavailable, expect) in cases {
            let deployment: Deployment = serde_json::from_value(json!({
                "metadata": {}, "spec": { "replicas": replicas, "selector": {}, "template": {},
                    "strategy": { "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable } } },
            }))
            .unwrap();
            let limits = Limits::of(&deployment);
            assert_eq!((limits.surge, limits.unavailable), expect, "{replicas} {surge} {unavailable}");
            assert!(limits.max_total() >= replicas, "{replicas} {surge}");
        }
    }
}
