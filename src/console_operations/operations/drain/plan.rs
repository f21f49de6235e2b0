//! The plan of a drain for each pod of a node: the filters of `kubectl drain`, with their reasons.
//!
//! Pure: reads pods, budgets and options, changes nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::budget::{BudgetDecision, BudgetTracker};
use base::sort::SliceOrder;
use console_data::resource::Uid;
use object::well_known::annotation::MIRROR_POD;

/// The options of a drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The grace period of each pod in seconds; `None` uses the period in the pod's spec.
    pub grace_seconds: Option<u32>,
    /// The timeout of a node; `None` waits without limit.
    pub timeout: Option<Duration>,
    /// Skip pods of DaemonSets instead of refusing the drain because of them.
    pub ignore_daemon_sets: bool,
    /// Evict pods without a controller, which will not be replaced.
    pub force: bool,
    /// Evict pods with `emptyDir` volumes, which lose their data.
    pub delete_empty_dir_data: bool,
    /// Delete instead of evict, without checking budgets.
    pub disable_eviction: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            grace_seconds: None,
            timeout: None,
            ignore_daemon_sets: true,
            force: false,
            delete_empty_dir_data: false,
            disable_eviction: false,
        }
    }
}

/// The plan for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodDeleteStatus {
    /// Evicted.
    Evict,
    /// Evicted although no controller replaces it, because the user allowed it.
    EvictLost,
    /// Evicted with its data, because the user allowed it.
    EvictData,
    /// Evicted; it has already finished.
    Finished,
    /// Already terminating; the drain waits for it.
    Going,
    /// Skipped: its DaemonSet would recreate it at once.
    SkipDaemonSet,
    /// Skipped: a mirror pod is removed only with its file on the node.
    SkipMirror,
    /// Refused: managed by a DaemonSet, and DaemonSets are not ignored.
    RefuseDaemonSet,
    /// Refused: no controller would replace it.
    RefuseUnmanaged,
    /// Refused: its `emptyDir` data would be lost.
    RefuseData,
}

impl PodDeleteStatus {
    /// Returns whether the pod leaves the node.
    pub fn leaves(self) -> bool {
        matches!(self, Self::Evict | Self::EvictLost | Self::EvictData | Self::Finished | Self::Going)
    }

    /// Returns whether the user has to decide about the pod.
    pub fn refuses(self) -> bool {
        matches!(self, Self::RefuseDaemonSet | Self::RefuseUnmanaged | Self::RefuseData)
    }

    /// Returns whether the user made, or can make, an exception for this pod alone.
    pub fn is_exceptional(self) -> bool {
        matches!(self, Self::EvictLost | Self::EvictData | Self::RefuseUnmanaged | Self::RefuseData)
    }

    /// Returns the plan as one word, for the row.
    pub fn label(self) -> &'static str {
        match self {
            Self::Evict | Self::EvictLost | Self::EvictData | Self::Finished => "evict",
            Self::Going => "going",
            Self::SkipDaemonSet | Self::SkipMirror => "skip",
            Self::RefuseDaemonSet | Self::RefuseUnmanaged | Self::RefuseData => "refuse",
        }
    }

    /// Returns the reason for the plan, as text for the row.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Evict => "",
            Self::EvictLost => "no controller: will be lost",
            Self::EvictData => "emptyDir data will be lost",
            Self::Finished => "has ended",
            Self::Going => "is already terminating",
            Self::SkipDaemonSet => "DaemonSet",
            Self::SkipMirror => "static pod of the kubelet",
            Self::RefuseDaemonSet => "managed by a DaemonSet, which would recreate it",
            Self::RefuseUnmanaged => "no controller: would be lost",
            Self::RefuseData => "emptyDir data would be lost",
        }
    }
}

/// One pod of the node with its plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The pod's uid.
    pub uid: Uid,
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub name: String,
    /// The controller that replaces it.
    pub owner: Option<Uid>,
    /// The plan for the pod.
    pub delete_status: PodDeleteStatus,
    /// The decision of the budgets; `Free` if they are not checked.
    pub budget_decision: BudgetDecision,
}

/// Plans for the pods of a node, in display order: pods that leave come first. `exceptions` are pods that the user
/// allowed to be lost; `daemon_sets` has the uids of existing DaemonSets, if known.
pub fn plan<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    tracker: &mut BudgetTracker<'_>,
    options: &Options,
    exceptions: &BTreeSet<Uid>,
    daemon_sets: Option<&BTreeSet<Uid>>,
) -> Vec<Row> {
    let mut planned: Vec<(&Pod, Row)> = pods
        .into_iter()
        .filter_map(|pod| {
            let uid = Uid::from(pod.metadata.uid.as_deref()?);
            // A deleted DaemonSet recreates nothing.
            let controller = controller(pod).filter(|owner| {
                owner.kind != "DaemonSet"
                    || daemon_sets.is_none_or(|there| there.contains(&Uid::from(owner.uid.as_str())))
            });
            let delete_status = delete_status(pod, controller, options, exceptions.contains(&uid));
            let row = Row {
                uid,
                namespace: pod.metadata.namespace.clone().unwrap_or_default(),
                name: pod.metadata.name.clone().unwrap_or_default(),
                owner: controller.map(|owner| Uid::from(owner.uid.as_str())),
                delete_status,
                budget_decision: BudgetDecision::Free,
            };
            Some((pod, row))
        })
        .collect();
    planned.order_by(|(_, one), (_, other)| {
        let group = |row: &Row| (!row.delete_status.leaves(), !row.delete_status.refuses());
        (group(one), &one.namespace, &one.name).cmp(&(group(other), &other.namespace, &other.name))
    });
    planned
        .into_iter()
        .map(|(pod, mut row)| {
            if row.delete_status.leaves()
                && row.delete_status != PodDeleteStatus::Going
                && !options.disable_eviction
            {
                row.budget_decision = tracker.rule(pod);
            }
            row
        })
        .collect()
}

fn controller(pod: &Pod) -> Option<&OwnerReference> {
    pod.metadata.owner_references.iter().flatten().find(|reference| reference.controller == Some(true))
}

/// Applies the filters of kubectl (`pkg/drain/filters.go`), in its order.
fn delete_status(
    pod: &Pod,
    controller: Option<&OwnerReference>,
    options: &Options,
    excepted: bool,
) -> PodDeleteStatus {
    let annotations = pod.metadata.annotations.as_ref();
    if annotations.is_some_and(|annotations| annotations.contains_key(MIRROR_POD)) {
        return PodDeleteStatus::SkipMirror;
    }
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let finished = matches!(phase, Some("Succeeded" | "Failed"));
    if !finished && controller.is_some_and(|controller| controller.kind == "DaemonSet") {
        return if options.ignore_daemon_sets {
            PodDeleteStatus::SkipDaemonSet
        } else {
            PodDeleteStatus::RefuseDaemonSet
        };
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return PodDeleteStatus::Going;
    }
    if finished {
        return PodDeleteStatus::Finished;
    }
    let unmanaged = controller.is_none();
    let data = has_local_storage(pod);
    // An exception covers the pod and its data.
    let may_be_lost = options.force || excepted;
    let data_may_be_lost = options.delete_empty_dir_data || excepted;
    match (unmanaged, data) {
        (_, true) if !data_may_be_lost => PodDeleteStatus::RefuseData,
        (true, _) if !may_be_lost => PodDeleteStatus::RefuseUnmanaged,
        (true, _) => PodDeleteStatus::EvictLost,
        (false, true) => PodDeleteStatus::EvictData,
        (false, false) => PodDeleteStatus::Evict,
    }
}

fn has_local_storage(pod: &Pod) -> bool {
    pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()).any(|volume| volume.empty_dir.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[expect(clippy::needless_pass_by_value, reason = "a literal reads best at the call")]
    fn pod(name: &str, more: Value) -> Pod {
        let mut value = json!({
            "metadata": { "name": name, "namespace": "default", "uid": name,
                "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "r",
                    "controller": true }] },
            "spec": { "containers": [] },
            "status": { "phase": "Running" },
        });
        json_patch::merge(&mut value, &more);
        serde_json::from_value(value).unwrap()
    }

    /// CON-6: every filter of kubectl drain, by pod and option.
    #[test]
    fn each_pod_gets_its_verdict() {
        let unmanaged = json!({ "metadata": { "ownerReferences": null } });
        let daemon = json!({ "metadata": { "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "DaemonSet",
            "name": "d", "uid": "d", "controller": true }] } });
        let mirror = json!({ "metadata": { "annotations": { "kubernetes.io/config.mirror": "x" } } });
        let data = json!({ "spec": { "volumes": [{ "name": "cache", "emptyDir": {} }] } });
        let finished = json!({ "metadata": { "ownerReferences": null }, "status": { "phase": "Succeeded" } });
        let going = json!({ "metadata": { "deletionTimestamp": "2026-11-21T03:27:14Z" } });
        let plain = Options::default();
        let force = Options { force: true, ..Options::default() };
        let delete_data = Options { delete_empty_dir_data: true, ..Options::default() };
        let daemons = Options { ignore_daemon_sets: false, ..Options::default() };
        let cases = [
            (json!({}), &plain, false, PodDeleteStatus::Evict),
            (unmanaged.clone(), &plain, false, PodDeleteStatus::RefuseUnmanaged),
            (unmanaged.clone(), &plain, true, PodDeleteStatus::EvictLost),
            (unmanaged.clone(), &force, false, PodDeleteStatus::EvictLost),
            (daemon.clone(), &plain, false, PodDeleteStatus::SkipDaemonSet),
            (daemon, &daemons, false, PodDeleteStatus::RefuseDaemonSet),
            (mirror, &force, true, PodDeleteStatus::SkipMirror),
            (data.clone(), &plain, false, PodDeleteStatus::RefuseData),
            (data.clone(), &force, false, PodDeleteStatus::RefuseData),
            (data.clone(), &delete_data, false, PodDeleteStatus::EvictData),
            (data, &plain, true, PodDeleteStatus::EvictData),
            (finished, &plain, false, PodDeleteStatus::Finished),
            (going, &plain, false, PodDeleteStatus::Going),
        ];
        for (more, options, excepted, expect) in cases {
            let pod = pod("a", more.clone());
            assert_eq!(
                delete_status(&pod, controller(&pod), options, excepted),
                expect,
                "{more} {options:?}"
            );
        }
    }

    /// NODE-3: a pod of a deleted DaemonSet is not recreated, so it is not skipped.
    #[test]
    fn a_daemon_without_its_set_has_no_controller() {
        let daemon = pod(
            "a",
            json!({ "metadata": { "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "DaemonSet",
                "name": "d", "uid": "d", "controller": true }] } }),
        );
        let described = |sets: Option<&BTreeSet<Uid>>| {
            let rows =
                plan([&daemon], &mut BudgetTracker::new([]), &Options::default(), &BTreeSet::new(), sets);
            rows[0].delete_status
        };
        assert_eq!(described(None), PodDeleteStatus::SkipDaemonSet);
        assert_eq!(described(Some(&[Uid::from("d")].into())), PodDeleteStatus::SkipDaemonSet);
        assert_eq!(described(Some(&[Uid::from("e")].into())), PodDeleteStatus::RefuseUnmanaged);
    }

    #[test]
    fn pods_to_evict_are_listed_first_and_only_they_are_checked_against_budgets() {
        let pods = [
            pod("z", json!({})),
            pod("bare", json!({ "metadata": { "ownerReferences": null } })),
            pod("a", json!({})),
        ];
        let rows = plan(&pods, &mut BudgetTracker::new([]), &Options::default(), &BTreeSet::new(), None);
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["a", "z", "bare"]);
    }
}
