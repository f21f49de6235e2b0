//! A Deployment's numbers: its limits, and the pods of each of its ReplicaSets.
//!
//! The rollout's arithmetic uses only this, so that it can be tested as tables. The API's numbers have 32 bits, but
//! their sums and products may exceed them, so everything here has 64.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};

use super::annotations;
use base::sort::SliceOrder;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use object::percent::{Rounding, scaled};

/// The update strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// Step by step, within the budget.
    RollingUpdate,
    /// All old pods are deleted first.
    Recreate,
}

/// A Deployment's desired size, and the permitted deviations during a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    pub(super) strategy: Strategy,
    pub(super) replicas: i64,
    /// Pods above `replicas`; 0 for Recreate.
    pub(super) max_surge: i64,
    /// Pods below `replicas`; 0 for Recreate, never more than `replicas`.
    pub(super) max_unavailable: i64,
}

impl Budget {
    pub(super) fn of(deployment: &Deployment) -> Self {
        let replicas = deployment.spec.replicas.unwrap_or(1);
        let strategy = deployment.spec.strategy.as_ref();
        if strategy.and_then(|s| s.type_.as_deref()) == Some("Recreate") {
            let replicas = i64::from(replicas);
            return Self { strategy: Strategy::Recreate, replicas, max_surge: 0, max_unavailable: 0 };
        }
        let rolling = strategy.and_then(|s| s.rolling_update.as_ref());
        let quarter = IntOrString::String("25%".into());
        let max_surge = rolling.and_then(|r| r.max_surge.as_ref()).unwrap_or(&quarter);
        let max_unavailable = rolling.and_then(|r| r.max_unavailable.as_ref()).unwrap_or(&quarter);
        Self::rolling(replicas, max_surge, max_unavailable)
    }

    /// Surge rounds up, unavailable rounds down. If both are 0, a rollout could never progress, so one pod may be
    /// unavailable.
    pub(super) fn rolling(replicas: i32, max_surge: &IntOrString, max_unavailable: &IntOrString) -> Self {
        // Validation has refused invalid percentages.
        let max_surge = scaled(max_surge, replicas, Rounding::Up).unwrap_or(0).max(0);
        let mut max_unavailable = scaled(max_unavailable, replicas, Rounding::Down).unwrap_or(0).max(0);
        if max_surge == 0 && max_unavailable == 0 {
            max_unavailable = 1;
        }
        Self {
            strategy: Strategy::RollingUpdate,
            replicas: i64::from(replicas),
            max_surge: i64::from(max_surge),
            max_unavailable: i64::from(max_unavailable.min(replicas)),
        }
    }

    /// Returns the least number of available pods.
    pub(super) fn min_available(&self) -> i64 {
        self.replicas - self.max_unavailable
    }

    /// Returns the largest number of pods.
    pub(super) fn max_replicas(&self) -> i64 {
        self.replicas + self.max_surge
    }
}

/// One ReplicaSet's numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReplicaSetView {
    pub(super) name: String,
    pub(super) is_new: bool,
    pub(super) created: Timestamp,
    /// `spec.replicas`.
    pub(super) size: i64,
    /// `status.replicas`: existing pods.
    pub(super) actual: i64,
    /// `status.availableReplicas`.
    pub(super) available: i64,
    /// True if the status reflects the current spec.
    pub(super) observed: bool,
    /// The Deployment's replicas when this was last sized.
    pub(super) desired_annotation: Option<i64>,
    /// The Deployment's maximum when this was last sized.
    pub(super) max_annotation: Option<i64>,
}

impl ReplicaSetView {
    pub(super) fn of(replica_set: &ReplicaSet, is_new: bool) -> Self {
        let meta = &replica_set.metadata;
        let status = replica_set.status.as_ref();
        // Any client can write an annotation; one that is no size is ignored.
        let annotated = |name| annotations::number::<i32>(meta, name).map(i64::from);
        Self {
            name: meta.name.clone().unwrap_or_default(),
            is_new,
            created: meta.creation_timestamp.as_ref().map_or(Timestamp::MIN, |t| t.0),
            size: i64::from(replica_set.spec.replicas.unwrap_or(1)),
            actual: status.map_or(0, |s| i64::from(s.replicas)),
            available: status.and_then(|s| s.available_replicas).map_or(0, i64::from),
            observed: status.and_then(|s| s.observed_generation).unwrap_or(0) >= meta.generation.unwrap_or(0),
            desired_annotation: annotated(annotations::DESIRED_REPLICAS),
            max_annotation: annotated(annotations::MAX_REPLICAS),
        }
    }

    /// Returns the most pods it has or may have at any moment.
    pub(super) fn occupied(&self) -> i64 {
        self.size.max(self.actual)
    }

    /// Returns its available pods, at most its size: the status may be older than the size.
    pub(super) fn available_within_size(&self) -> i64 {
        self.available.min(self.size)
    }

    /// Returns true if it certainly has no more pods than its size.
    fn is_within_size(&self) -> bool {
        self.observed && self.actual <= self.size
    }
}

/// A Deployment and its ReplicaSets in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub(super) budget: Budget,
    /// In no order; at most one is new.
    pub(super) members: Vec<ReplicaSetView>,
    /// `status.replicas` of the Deployment: the fallback for proportions.
    pub(super) status_replicas: i64,
}

impl View {
    pub(super) fn new_member(&self) -> Option<&ReplicaSetView> {
        self.members.iter().find(|m| m.is_new)
    }

    pub(super) fn old_members(&self) -> impl Iterator<Item = &ReplicaSetView> {
        self.members.iter().filter(|m| !m.is_new)
    }

    /// Returns the members with a size.
    pub(super) fn active(&self) -> Vec<&ReplicaSetView> {
        self.members.iter().filter(|m| m.size > 0).collect()
    }

    /// Returns the old members with a size, oldest first.
    pub(super) fn active_old(&self) -> Vec<&ReplicaSetView> {
        let mut old: Vec<&ReplicaSetView> = self.old_members().filter(|m| m.size > 0).collect();
        old.order_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
        old
    }

    /// Returns true if a member may have more pods than its size: it has not deleted them yet, or its status does not
    /// show that it has.
    ///
    /// Nothing is scaled up then: by sizes alone the total could exceed its limit for a moment.
    pub(super) fn may_have_surplus_pods(&self) -> bool {
        self.members.iter().any(|m| !m.is_within_size())
    }
}

/// A new size for a ReplicaSet; the same size only refreshes its annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resize {
    pub(super) name: String,
    pub(super) from: i64,
    pub(super) to: i64,
}

impl Resize {
    pub(super) fn new(member: &ReplicaSetView, to: i64) -> Self {
        Self { name: member.name.clone(), from: member.size, to }
    }
}

/// Converts a number to the API's range.
pub(super) fn in_api(number: i64) -> i32 {
    i32::try_from(number.max(0)).unwrap_or(i32::MAX)
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// Creates a budget with absolute bounds.
    pub(in crate::deployment) fn budget(replicas: i32, max_surge: i32, max_unavailable: i32) -> Budget {
        Budget::rolling(replicas, &IntOrString::Int(max_surge), &IntOrString::Int(max_unavailable))
    }

    /// Creates an observed ReplicaSet. Its name determines its age: later letters are younger, `new` is the new one.
    pub(in crate::deployment) fn member(name: &str, size: i64, available: i64) -> ReplicaSetView {
        let age = i64::from(name.as_bytes()[0]);
        ReplicaSetView {
            name: name.into(),
            is_new: name == "new",
            created: Timestamp::from_second(1_790_000_000 + age).unwrap(),
            size,
            actual: size,
            available,
            observed: true,
            desired_annotation: None,
            max_annotation: None,
        }
    }

    /// Formats a step as `name:from>to` words.
    pub(in crate::deployment) fn text(resizes: &[Resize]) -> String {
        let parts: Vec<String> = resizes.iter().map(|r| format!("{}:{}>{}", r.name, r.from, r.to)).collect();
        parts.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn surge_and_unavailable_are_never_both_zero_dep_2() {
        let percent = |p: &str| IntOrString::String(p.into());
        for (replicas, surge, unavailable, expected) in [
            (10, percent("25%"), percent("25%"), (3, 2)),
            (3, percent("25%"), percent("25%"), (1, 0)),
            (1, percent("25%"), percent("25%"), (1, 0)),
            (4, IntOrString::Int(0), percent("10%"), (0, 1)),
            (2, IntOrString::Int(0), IntOrString::Int(5), (0, 2)),
            (0, percent("25%"), percent("25%"), (0, 0)),
        ] {
            let bounds = json!({"maxSurge": surge, "maxUnavailable": unavailable});
            let budget = budget(replicas, &json!({"type": "RollingUpdate", "rollingUpdate": bounds}));
            assert_eq!((budget.max_surge, budget.max_unavailable), expected, "{replicas} {surge:?}");
        }
        let recreated = budget(4, &json!({"type": "Recreate"}));
        assert_eq!((recreated.strategy, recreated.max_replicas()), (Strategy::Recreate, 4));
    }

    fn budget(replicas: i32, strategy: &Value) -> Budget {
        let deployment =
            json!({"spec": {"replicas": replicas, "strategy": strategy, "selector": {}, "template": {}}});
        Budget::of(&serde_json::from_value(deployment).unwrap())
    }
}
