//! Everything ends: some time after the last fault the cluster is what its specs ask for, and nothing is left over.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};

use super::rollouts::is_complete;
use api::Api;
use object::node::is_ready as is_node_ready;
use object::node_fence::NodeFence;
use object::pod::{is_ready, is_terminal};
use object::{Kind, Shared, Typed};

/// What is not yet as its spec asks for.
pub(crate) fn unfinished(api: &Api) -> Vec<String> {
    let mut all = Vec::new();
    let mut tell = |what: String| all.push(what);
    for node in api.list_as::<Node>(None).iter().filter(|node| !is_node_ready(node)) {
        tell(format!("node {} is not ready", node.name()));
    }
    for fence in api.list_as::<NodeFence>(None) {
        tell(format!("{} is fenced", fence.name()));
    }
    for deployment in api.list_as::<Deployment>(None) {
        if !is_complete(&deployment) || is_going(&deployment) {
            let status = deployment.status.as_ref().map(|status| {
                (
                    status.replicas,
                    status.updated_replicas,
                    status.available_replicas,
                    status.observed_generation,
                )
            });
            tell(format!("Deployment {} is not complete: {status:?}", deployment.key()));
        }
    }
    for set in api.list_as::<StatefulSet>(None) {
        let wanted = set.spec.replicas.unwrap_or(1);
        let is_done = set.status.as_ref().is_some_and(|status| {
            status.observed_generation == set.metadata.generation
                && status.replicas == wanted
                && status.ready_replicas.unwrap_or(0) == wanted
                && status.current_revision == status.update_revision
        });
        if !is_done || is_going(&set) {
            tell(format!("StatefulSet {} is not complete: {:?}", set.key(), set.status));
        }
    }
    for job in api.list_as::<Job>(None) {
        let ended = |kind: &str| kind == "Complete" || kind == "Failed";
        let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
        if !conditions.into_iter().any(|c| ended(&c.type_) && c.status == "True") || is_going(&job) {
            tell(format!("Job {} has not ended", job.key()));
        }
    }
    for pod in api.list_as::<Pod>(None) {
        if is_going(&pod) || !(is_terminal(&pod) || is_ready(&pod)) {
            tell(format!("Pod {} is neither ready nor over", pod.key()));
        }
    }
    all
}

fn is_going<T: Typed>(object: &Shared<T>) -> bool {
    object.object().meta().deletion_timestamp.is_some()
}

/// What names a controller that is not there (GC-1).
pub(crate) fn unowned(api: &Api) -> Vec<String> {
    let kinds = [Kind::Pod, Kind::ReplicaSet, Kind::Job, Kind::ControllerRevision, Kind::EndpointSlice];
    let owners = [Kind::Deployment, Kind::ReplicaSet, Kind::StatefulSet, Kind::Job, Kind::Service];
    let there: BTreeSet<String> = owners
        .into_iter()
        .flat_map(|kind| api.list(kind, None).objects)
        .map(|object| object.uid().to_string())
        .collect();
    let mut all = Vec::new();
    for object in kinds.into_iter().flat_map(|kind| api.list(kind, None).objects) {
        for owner in object.meta().owner_references.iter().flatten() {
            if !there.contains(&owner.uid) {
                let (name, key) = (object.kind().info().name, object.key());
                all.push(format!(
                    "{name} {key} is owned by {} {}, which is not there",
                    owner.kind, owner.name
                ));
            }
        }
    }
    all
}
