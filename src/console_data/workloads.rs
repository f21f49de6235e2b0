//! The kinds of the table of all workloads (`:workloads`), and the table's own pseudo-kind.
//!
//! k9s' table of workloads has Deployments, StatefulSets, DaemonSets, every ReplicaSet, every Pod and every Service.
//! This table lists only objects that users create and maintain, each once: a ReplicaSet of a Deployment, or a Pod of
//! any workload, is an implementation detail without a row; its owner's row summarizes it, and Enter leads to it. An
//! object with any other owner has a row (a static pod belongs to its Node, a pod may belong to an operator), because
//! no other row covers it. Jobs have rows beside their CronJobs, which do not show how a run ended. Services run
//! nothing and have no rows.
//!
//! The table's resource exists on no server: group and version are empty. Lists and watches use the kinds instead.

use std::collections::{BTreeMap, BTreeSet};

use super::resource::{Kind, KindFacts, ResourceKey};
use object::KindInfo;

/// A workload kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workload {
    /// `deployments.apps`.
    Deployment,
    /// `statefulsets.apps`.
    StatefulSet,
    /// `daemonsets.apps`.
    DaemonSet,
    /// `replicasets.apps`.
    ReplicaSet,
    /// `replicationcontrollers`.
    ReplicationController,
    /// `jobs.batch`.
    Job,
    /// `cronjobs.batch`.
    CronJob,
    /// `pods`.
    Pod,
}

/// The plural name of the table.
const PLURAL: &str = "workloads";

impl Workload {
    /// All kinds of the table, in its order.
    pub const ALL: [Self; 8] = [
        Self::Deployment,
        Self::StatefulSet,
        Self::DaemonSet,
        Self::ReplicaSet,
        Self::ReplicationController,
        Self::Job,
        Self::CronJob,
        Self::Pod,
    ];

    fn object_kind(self) -> object::Kind {
        match self {
            Self::Deployment => object::Kind::Deployment,
            Self::StatefulSet => object::Kind::StatefulSet,
            Self::DaemonSet => object::Kind::DaemonSet,
            Self::ReplicaSet => object::Kind::ReplicaSet,
            Self::ReplicationController => object::Kind::ReplicationController,
            Self::Job => object::Kind::Job,
            Self::CronJob => object::Kind::CronJob,
            Self::Pod => object::Kind::Pod,
        }
    }

    fn info(self) -> &'static KindInfo {
        self.object_kind().info()
    }

    /// Returns the kind's name: `Deployment`.
    pub(crate) fn kind_name(self) -> &'static str {
        self.info().name
    }

    /// Returns the workload kind of a resource, in any served version.
    pub fn of(resource: &ResourceKey) -> Option<Self> {
        Self::ALL.into_iter().find(|one| {
            let info = one.info();
            resource.plural == info.plural && resource.group == info.group
        })
    }

    /// Returns the workload kind of an owner reference.
    pub(crate) fn of_owner(api_version: &str, kind: &str) -> Option<Self> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        Self::ALL.into_iter().find(|one| one.info().group == group && one.kind_name() == kind)
    }

    /// Reports whether the row of this owner covers objects of this kind, which then have no row.
    pub(crate) fn is_row_of_owner(self, owner: Self) -> bool {
        matches!(self, Self::ReplicaSet | Self::Pod) && owner != Self::Pod
    }

    /// Returns the kind as every Kubernetes serves it, for use before discovery answers.
    pub fn kind(self) -> Kind {
        Kind::built_in(self.object_kind(), self.info().version)
    }
}

/// Returns the table's pseudo-kind.
pub fn kind() -> Kind {
    Kind::new(KindFacts {
        resource: ResourceKey { group: "".into(), version: "".into(), plural: PLURAL.into() },
        kind: "Workload".to_owned(),
        singular: "workload".to_owned(),
        namespaced: true,
        short_names: Vec::new(),
        verbs: BTreeSet::new(),
        subresources: BTreeMap::new(),
    })
}

/// Reports whether a resource is that of the table.
pub fn is(resource: &ResourceKey) -> bool {
    resource.version.is_empty() && resource.plural == PLURAL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_covered_by_their_owners_row_have_no_row_con_2() {
        let owner = |api_version, kind| Workload::of_owner(api_version, kind);
        for (one, owner, expected) in [
            (Workload::Pod, owner("apps/v1", "ReplicaSet"), true),
            (Workload::Pod, owner("v1", "ReplicationController"), true),
            (Workload::Pod, owner("batch/v1", "Job"), true),
            (Workload::Pod, owner("v1", "Node"), false),
            (Workload::Pod, owner("argoproj.io/v1alpha1", "Workflow"), false),
            // A kind of the same name in another group is a different one.
            (Workload::Pod, owner("apps.kruise.io/v1", "StatefulSet"), false),
            (Workload::ReplicaSet, owner("apps/v1", "Deployment"), true),
            (Workload::ReplicaSet, owner("argoproj.io/v1alpha1", "Rollout"), false),
            (Workload::Job, owner("batch/v1", "CronJob"), false),
        ] {
            assert_eq!(
                owner.is_some_and(|owner| one.is_row_of_owner(owner)),
                expected,
                "{one:?} of {owner:?}"
            );
        }
        for one in Workload::ALL {
            assert_eq!(Workload::of(&one.kind().resource), Some(one));
            assert!(!is(&one.kind().resource));
        }
        assert!(is(&kind().resource));
    }
}
