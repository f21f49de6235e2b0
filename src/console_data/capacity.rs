//! Estimates how many pods of a workload the nodes can hold by resource requests; taints and affinity are left to the
//! scheduler.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};

use super::resource::{ObjectRef, Uid};
use super::rows::node::{is_cordoned, is_ready};
use super::store::{PackedObject, Stores, uid_of};
use super::template;
use base::sort::CollectMap;
use object::quantity::Amount;
use object::resources::spec_requests;

/// Returns how many replicas of a workload fit on the ready nodes beside the pods of others, including its present
/// replicas. `None` if no node is known.
pub fn max_replicas(stores: &Stores, target: &ObjectRef) -> Option<u64> {
    let nodes: Vec<&Node> = stores
        .nodes()
        .iter()
        .map(|(_, node)| node)
        .filter(|node| is_ready(node) && !is_cordoned(node))
        .collect();
    if !stores.nodes().synced() || !stores.pods().synced() || stores.nodes().is_empty() {
        return None;
    }
    let own = owners(stores, target);
    let is_own = |pod: &PackedObject<Pod>| {
        pod.controller.as_ref().is_some_and(|owner| own.contains(&Uid::from(owner.uid.as_str())))
    };
    let requested = template(stores, target).map(|spec| requests(&spec)).unwrap_or_default();
    Some(nodes.into_iter().map(|node| count_fitting(stores, node, &requested, &is_own)).sum())
}

/// Returns the uids of the workload and of the ReplicaSets that create its pods.
fn owners(stores: &Stores, target: &ObjectRef) -> BTreeSet<Uid> {
    let Some(uid) = &target.uid else { return BTreeSet::new() };
    let sets = stores.replica_sets().owned_by(uid).filter_map(uid_of);
    sets.chain([uid.clone()]).collect()
}

/// Returns the workload's pod template if the console watches its kind, else the spec of one of its pods.
fn template(stores: &Stores, target: &ObjectRef) -> Option<PodSpec> {
    let uid = target.uid.as_ref()?;
    let spec = template::object(stores, target).as_ref().and_then(template::pod_spec);
    spec.or_else(|| stores.pods().owned_by(uid).next()?.spec.clone())
}

/// Returns the requests of a pod of this template, including its slot among the node's pods.
fn requests(spec: &PodSpec) -> BTreeMap<String, Amount> {
    let pod = Pod { spec: Some(spec.clone()), ..Pod::default() };
    spec_requests(&pod).into_iter().filter(|(_, amount)| !amount.is_zero()).collect_map()
}

fn count_fitting(
    stores: &Stores,
    node: &Node,
    requested: &BTreeMap<String, Amount>,
    is_own: &dyn Fn(&PackedObject<Pod>) -> bool,
) -> u64 {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let others: Vec<_> = stores.entries_on(name).filter(|pod| !pod.summary.is_over && !is_own(pod)).collect();
    let places =
        Amount::in_list(allocatable, "pods").units() - i64::try_from(others.len()).unwrap_or(i64::MAX);
    let by_resource = requested.iter().map(|(resource, each)| {
        let taken: i64 = others
            .iter()
            .map(|pod| pod.summary.requests.get(resource).map_or(0, |amount| amount.millis()))
            .sum();
        (Amount::in_list(allocatable, resource).millis() - taken) / each.millis().max(1)
    });
    by_resource.chain([places]).min().unwrap_or(0).max(0).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;
    use crate::builtin_kinds;
    use crate::store::{Change, Delta};

    fn reset<K: DeserializeOwned>(list: impl IntoIterator<Item = Value>) -> Vec<Change<K>> {
        vec![Change::Reset(
            list.into_iter().map(|one| Arc::new(serde_json::from_value(one).unwrap())).collect(),
        )]
    }

    fn pod(name: &str, owner: &str, cpu: &str) -> Value {
        json!({"metadata": {"name": name, "namespace": "default", "uid": name, "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true}]},
            "spec": {"nodeName": "a", "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}})
    }

    /// The scarcest of requests and pod slots decides, node by node; the workload's own pods keep their share.
    #[test]
    fn nodes_hold_what_their_free_requests_and_places_allow() {
        for (cpu, places, ready, expected) in [
            // 4 CPUs less 1 of another pod hold 6 pods of half a CPU.
            ("4", "110", "True", Some(6)),
            ("4", "5", "True", Some(4)),
            ("4", "110", "False", Some(0)),
            ("500m", "110", "True", Some(0)),
        ] {
            let mut stores = Stores::default();
            let set = json!({"metadata": {"name": "web", "namespace": "default", "uid": "set", "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": true}]},
                "spec": {"selector": {}}});
            let web = json!({"metadata": {"name": "web", "namespace": "default", "uid": "web"},
                "spec": {"selector": {}, "template": {"spec": {"containers": [
                    {"name": "c", "resources": {"requests": {"cpu": "500m"}}}]}}}});
            let web: Vec<Change<Deployment>> = reset([web]);
            let Change::Reset(objects) = &web[0] else { unreachable!("made so") };
            let target = ObjectRef::of(builtin_kinds::kind::<Deployment>(), &*objects[0]);
            stores.apply(Delta::of(web));
            assert_eq!(max_replicas(&stores, &target), None, "nothing is known of nodes");
            stores.apply(Delta::of::<ReplicaSet>(reset([set])));
            stores.apply(Delta::of::<Pod>(reset([pod("own", "set", "500m"), pod("other", "x", "1")])));
            stores.apply(Delta::of::<Node>(reset([json!({"metadata": {"name": "a", "uid": "a"}, "status": {
                "allocatable": {"cpu": cpu, "pods": places}, "conditions": [{"type": "Ready", "status": ready}]}})])));
            assert_eq!(max_replicas(&stores, &target), expected, "{cpu} {places} {ready}");
        }
    }
}
