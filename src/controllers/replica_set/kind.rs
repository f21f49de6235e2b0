//! The two kinds that maintain a number of equal pods: ReplicaSets, and the older ReplicationControllers.
//!
//! Their differences are defined only here.

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{
    PodTemplateSpec, ReplicationController, ReplicationControllerCondition, ReplicationControllerStatus,
};

use object::TypedKind;
use object::selector::Selector;

/// A kind that maintains a number of equal pods.
pub(crate) trait ReplicatedKind: TypedKind {
    /// The component that events are recorded for.
    const COMPONENT: &'static str;
    /// `spec.replicas`.
    fn replicas(&self) -> Option<i32>;
    /// `spec.minReadySeconds`.
    fn min_ready_seconds(&self) -> i32;
    /// `spec.selector`.
    fn selector(&self) -> Selector;
    fn template(&self) -> Option<&PodTemplateSpec>;
    /// Returns the status, in the richer form.
    fn status(&self) -> Option<ReplicaSetStatus>;
    /// Replaces the status; fields that the kind lacks are dropped.
    fn set_status(&mut self, status: ReplicaSetStatus);
}

impl ReplicatedKind for ReplicaSet {
    const COMPONENT: &'static str = "replicaset-controller";

    fn replicas(&self) -> Option<i32> {
        self.spec.replicas
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec.min_ready_seconds.unwrap_or(0)
    }

    fn selector(&self) -> Selector {
        Selector::from_field(&self.spec.selector)
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.template.as_ref()
    }

    fn status(&self) -> Option<ReplicaSetStatus> {
        self.status.clone()
    }

    fn set_status(&mut self, status: ReplicaSetStatus) {
        self.status = Some(status);
    }
}

impl ReplicatedKind for ReplicationController {
    const COMPONENT: &'static str = "replication-controller";

    fn replicas(&self) -> Option<i32> {
        self.spec.as_ref().and_then(|s| s.replicas)
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec.as_ref().and_then(|s| s.min_ready_seconds).unwrap_or(0)
    }

    fn selector(&self) -> Selector {
        // The selector is required and defaults to the template's labels; an empty one must not select everything.
        let labels = self.spec.as_ref().and_then(|s| s.selector.as_ref()).filter(|l| !l.is_empty());
        labels.map_or_else(Selector::nothing, Selector::from_labels)
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref().and_then(|s| s.template.as_ref())
    }

    fn status(&self) -> Option<ReplicaSetStatus> {
        let status = self.status.clone()?;
        let conditions = status.conditions.map(|all| all.into_iter().map(condition_of).collect());
        Some(ReplicaSetStatus {
            replicas: status.replicas,
            fully_labeled_replicas: status.fully_labeled_replicas,
            ready_replicas: status.ready_replicas,
            available_replicas: status.available_replicas,
            terminating_replicas: None,
            observed_generation: status.observed_generation,
            conditions,
        })
    }

    fn set_status(&mut self, status: ReplicaSetStatus) {
        let conditions = status.conditions.map(|all| all.into_iter().map(condition_from).collect());
        self.status = Some(ReplicationControllerStatus {
            replicas: status.replicas,
            fully_labeled_replicas: status.fully_labeled_replicas,
            ready_replicas: status.ready_replicas,
            available_replicas: status.available_replicas,
            observed_generation: status.observed_generation,
            conditions,
        });
    }
}

fn condition_of(condition: ReplicationControllerCondition) -> ReplicaSetCondition {
    ReplicaSetCondition {
        type_: Some(condition.type_),
        status: Some(condition.status),
        reason: condition.reason,
        message: condition.message,
        last_transition_time: condition.last_transition_time,
    }
}

fn condition_from(condition: ReplicaSetCondition) -> ReplicationControllerCondition {
    ReplicationControllerCondition {
        type_: condition.type_.unwrap_or_default(),
        status: condition.status.unwrap_or_default(),
        reason: condition.reason,
        message: condition.message,
        last_transition_time: condition.last_transition_time,
    }
}
