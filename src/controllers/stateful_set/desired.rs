//! A StatefulSet's desired state: its ordinals, their order, and the extent of an update.

use std::ops::Range;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use object::percent::{Rounding, scaled};

/// A StatefulSet's desired state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DesiredSet {
    /// The ordinals of its pods; none exceeds 32 bits, for any start ordinal.
    pub(super) ordinals: Range<i32>,
    pub(super) policy: Policy,
    pub(super) update: Update,
}

/// `spec.podManagementPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    OrderedReady,
    Parallel,
}

/// `spec.updateStrategy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Update {
    /// A pod is replaced only after a user deletes it.
    OnDelete,
    /// From the highest ordinal down to the partition.
    Rolling { partition: i32, max_unavailable: usize },
}

impl DesiredSet {
    pub(super) fn of(set: &StatefulSet) -> Self {
        let spec = &set.spec;
        let replicas = spec.replicas.unwrap_or(1);
        let start = spec.ordinals.as_ref().and_then(|o| o.start).unwrap_or(0);
        let policy = match spec.pod_management_policy.as_deref() {
            Some("Parallel") => Policy::Parallel,
            _ => Policy::OrderedReady,
        };
        let strategy = spec.update_strategy.as_ref();
        let update = if strategy.and_then(|s| s.type_.as_deref()) == Some("OnDelete") {
            Update::OnDelete
        } else {
            let rolling = strategy.and_then(|s| s.rolling_update.as_ref());
            let one = IntOrString::Int(1);
            let most = rolling.and_then(|r| r.max_unavailable.as_ref()).unwrap_or(&one);
            // Validation has refused invalid percentages. A small percentage of few pods is still one pod; otherwise
            // an update would never progress.
            let most = scaled(most, replicas, Rounding::Down).unwrap_or(1).max(1);
            Update::Rolling {
                partition: rolling.and_then(|r| r.partition).unwrap_or(0),
                max_unavailable: usize::try_from(most).unwrap_or(1),
            }
        };
        Self { ordinals: start..start.saturating_add(replicas.max(0)), policy, update }
    }

    /// Returns true if a pod created for this ordinal has the newest template: below the partition the old one is
    /// used.
    pub(super) fn is_updated_at(&self, ordinal: i32) -> bool {
        match self.update {
            Update::OnDelete => true,
            Update::Rolling { partition, .. } => ordinal >= self.ordinals.start.saturating_add(partition),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns the desired state of a set with these differences.
    #[expect(clippy::needless_pass_by_value, reason = "tables of JSON read better without borrows")]
    pub(in crate::stateful_set) fn desired(spec: Value) -> DesiredSet {
        let mut whole = json!({"selector": {}, "serviceName": "", "template": {}});
        json_patch::merge(&mut whole, &spec);
        let set: StatefulSet =
            serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": whole})).unwrap();
        DesiredSet::of(&set)
    }

    #[test]
    fn pods_below_the_partition_come_back_as_they_were_sts_2() {
        let spec = json!({"replicas": 4, "ordinals": {"start": 5},
            "updateStrategy": {"rollingUpdate": {"partition": 2}}});
        let updated: Vec<bool> = (5..9).map(|ordinal| desired(spec.clone()).is_updated_at(ordinal)).collect();
        assert_eq!(updated, [false, false, true, true]);
        let on_delete = json!({"updateStrategy": {"type": "OnDelete"}});
        assert!(desired(on_delete).is_updated_at(0));
    }
}
