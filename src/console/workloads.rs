//! The kinds of the table of all workloads (`:workloads`), and what that table calls itself.
//!
//! k9s' table of workloads has Deployments, StatefulSets, DaemonSets, every ReplicaSet, every Pod and every Service. This one
//! is of what somebody made and may have to look after, each once: a ReplicaSet of a Deployment, or a Pod of any of them, is
//! how that is done and no row of its own; its owner's row tells of it, and Enter leads to it. One that something else owns
//! is a row (a static pod is its Node's, a pod may be an operator's), for no other row tells of it. Jobs are rows beside
//! their CronJobs, which do not tell how a run has ended. Services run nothing and are no rows.
//!
//! The table is of a resource that no server has: group and version are empty. Whoever lists or watches takes the kinds
//! instead.

use std::collections::{BTreeMap, BTreeSet};

use super::resource::{Kind, KindFacts, ResourceKey};

/// One of the kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Workload {
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

/// The plural of the table.
const PLURAL: &str = "workloads";

impl Workload {
    /// All of them.
    pub(crate) const ALL: [Self; 8] = [
        Self::Deployment,
        Self::StatefulSet,
        Self::DaemonSet,
        Self::ReplicaSet,
        Self::ReplicationController,
        Self::Job,
        Self::CronJob,
        Self::Pod,
    ];

    /// API group, plural name, and kind.
    const fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Deployment => ("apps", "deployments", "Deployment"),
            Self::StatefulSet => ("apps", "statefulsets", "StatefulSet"),
            Self::DaemonSet => ("apps", "daemonsets", "DaemonSet"),
            Self::ReplicaSet => ("apps", "replicasets", "ReplicaSet"),
            Self::ReplicationController => ("", "replicationcontrollers", "ReplicationController"),
            Self::Job => ("batch", "jobs", "Job"),
            Self::CronJob => ("batch", "cronjobs", "CronJob"),
            Self::Pod => ("", "pods", "Pod"),
        }
    }

    /// The kind's name: `Deployment`.
    pub(crate) fn kind_name(self) -> &'static str {
        self.names().2
    }

    /// Which of them a resource is, in whatever version it is served.
    pub(crate) fn of(resource: &ResourceKey) -> Option<Self> {
        Self::ALL.into_iter().find(|one| {
            let (group, plural, _) = one.names();
            resource.plural == plural && resource.group == group
        })
    }

    /// Which of them an owner is.
    pub(crate) fn of_owner(api_version: &str, kind: &str) -> Option<Self> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        Self::ALL.into_iter().find(|one| one.names().0 == group && one.kind_name() == kind)
    }

    /// Whether one that such an owner controls is no row of its own.
    pub(crate) fn is_told_by(self, owner: Self) -> bool {
        matches!(self, Self::ReplicaSet | Self::Pod) && owner != Self::Pod
    }

    /// The kind as every Kubernetes has it: what is known before discovery answers.
    pub(crate) fn kind(self) -> Kind {
        let (group, plural, kind) = self.names();
        let scales = !matches!(self, Self::DaemonSet | Self::Job | Self::CronJob | Self::Pod);
        let scale = scales.then(|| ("scale".to_owned(), set(&["get", "patch", "update"])));
        Kind::new(KindFacts {
            resource: ResourceKey { group: group.into(), version: "v1".into(), plural: plural.into() },
            kind: kind.to_owned(),
            singular: kind.to_lowercase(),
            namespaced: true,
            short_names: Vec::new(),
            verbs: set(&["create", "delete", "get", "list", "patch", "update", "watch"]),
            subresources: scale.into_iter().collect(),
        })
    }
}

fn set(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(ToString::to_string).collect()
}

/// What the table is of.
pub(crate) fn kind() -> Kind {
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

/// Whether a resource is that of the table.
pub(crate) fn is(resource: &ResourceKey) -> bool {
    resource.version.is_empty() && resource.plural == PLURAL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_row_tells_of_is_no_row_con_2() {
        let owner = |api_version, kind| Workload::of_owner(api_version, kind);
        for (one, owner, told) in [
            (Workload::Pod, owner("apps/v1", "ReplicaSet"), true),
            (Workload::Pod, owner("v1", "ReplicationController"), true),
            (Workload::Pod, owner("batch/v1", "Job"), true),
            (Workload::Pod, owner("v1", "Node"), false),
            (Workload::Pod, owner("argoproj.io/v1alpha1", "Workflow"), false),
            // A kind of the same name in another group is another.
            (Workload::Pod, owner("apps.kruise.io/v1", "StatefulSet"), false),
            (Workload::ReplicaSet, owner("apps/v1", "Deployment"), true),
            (Workload::ReplicaSet, owner("argoproj.io/v1alpha1", "Rollout"), false),
            (Workload::Job, owner("batch/v1", "CronJob"), false),
        ] {
            assert_eq!(owner.is_some_and(|owner| one.is_told_by(owner)), told, "{one:?} of {owner:?}");
        }
        for one in Workload::ALL {
            assert_eq!(Workload::of(&one.kind().resource), Some(one));
            assert!(!is(&one.kind().resource));
        }
        assert!(is(&kind().resource));
    }
}
