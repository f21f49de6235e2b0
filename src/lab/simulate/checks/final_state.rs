//! The final state: some time after the last fault, every object has its desired state, and no object is left that
//! should have been removed.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::rollouts::is_complete;
use crate::simulate::plan::NODES;
use api::Api;
use extension::node_fence::NodeFence;
use object::node::is_ready as is_node_ready;
use object::owner::is_controlled_by;
use object::pod::{is_ready, is_terminal};
use object::service::of_slice;
use object::{Kind, SharedObject, TypedKind, endpoint};

/// Describes each object that does not yet have its desired state.
pub(crate) fn unfinished(api: &Api) -> Vec<String> {
    let mut all = Vec::new();
    let mut report = |problem: String| all.push(problem);
    for node in api.list_as::<Node>(None).iter().filter(|node| !is_node_ready(node)) {
        report(format!("node {} is not ready", node.name()));
    }
    for fence in api.list_as::<NodeFence>(None) {
        report(format!("node {} is fenced", fence.name()));
    }
    for deployment in api.list_as::<Deployment>(None) {
        if !is_complete(&deployment) || is_going(&deployment) {
            let status = deployment.status.as_ref().map(|status| {
                (
                    status.replicas, status.updated_replicas, status.available_replicas,
                    status.observed_generation,
                )
            });
            report(format!("Deployment {} is not complete: {status:?}", deployment.key()));
        }
    }
    for set in api.list_as::<StatefulSet>(None) {
        let desired = set.spec.replicas.unwrap_or(1);
        let is_done = set.status.as_ref().is_some_and(|status| {
            status.observed_generation == set.metadata.generation
                && status.replicas == desired
                && status.ready_replicas.unwrap_or(0) == desired
                && status.current_revision == status.update_revision
        });
        if !is_done || is_going(&set) {
            report(format!("StatefulSet {} is not complete: {:?}", set.key(), set.status));
        }
    }
    for set in api.list_as::<DaemonSet>(None) {
        let nodes = i32::try_from(NODES).unwrap_or(i32::MAX);
        let is_done = set.status.as_ref().is_some_and(|status| {
            status.observed_generation == set.metadata.generation
                && status.desired_number_scheduled == nodes
                && status.current_number_scheduled == nodes
                && status.updated_number_scheduled == Some(nodes)
                && status.number_ready == nodes
        });
        if !is_done || is_going(&set) {
            report(format!("DaemonSet {} is not complete: {:?}", set.key(), set.status));
        }
    }
    for cron_job in api.list_as::<CronJob>(None) {
        let active = cron_job.status.as_ref().and_then(|status| status.active.as_ref()).map_or(0, Vec::len);
        if active > 0 || is_going(&cron_job) {
            report(format!("CronJob {} reports {active} active Jobs", cron_job.key()));
        }
        let retained = finished_jobs(api, cron_job.uid());
        if retained > MAX_RETAINED {
            report(format!("CronJob {} retains {retained} finished Jobs", cron_job.key()));
        }
    }
    for service in api
        .list_as::<Service>(None)
        .iter()
        .filter(|service| service.spec.as_ref().is_some_and(|s| s.selector.is_some()))
    {
        let (published, there) = (endpoints(api, service), ready_addresses(api, service));
        if published != there {
            report(format!(
                "Service {} has the endpoints {published:?}, but the ready pods are {there:?}",
                service.key()
            ));
        }
    }
    for job in api.list_as::<Job>(None) {
        let ended = |kind: &str| kind == "Complete" || kind == "Failed";
        let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
        if !conditions.into_iter().any(|c| ended(&c.type_) && c.status == "True") || is_going(&job) {
            report(format!("Job {} has not ended", job.key()));
        }
    }
    for pod in api.list_as::<Pod>(None) {
        if is_going(&pod) || !(is_terminal(&pod) || is_ready(&pod)) {
            report(format!("Pod {} is neither ready nor finished", pod.key()));
        }
    }
    all
}

/// The maximum number of finished Jobs that a CronJob retains by default: three that succeeded and one that failed.
const MAX_RETAINED: usize = 4;

fn finished_jobs(api: &Api, cron_job: &str) -> usize {
    let jobs = api.list_as::<Job>(None);
    jobs.iter().filter(|job| is_controlled_by(&job.metadata, cron_job)).count()
}

/// Returns the addresses of a Service's ready endpoints, according to its slices.
fn endpoints(api: &Api, service: &SharedObject<Service>) -> BTreeSet<String> {
    let of_service = |slice: &SharedObject<EndpointSlice>| {
        of_slice(&slice.metadata).is_some_and(|key| key == service.key())
    };
    let slices = api.list_as::<EndpointSlice>(Some(service.namespace()));
    let endpoints = slices
        .iter()
        .filter(|slice| of_service(slice))
        .flat_map(|slice| slice.endpoints.iter().flatten().cloned().collect::<Vec<_>>());
    let ready = endpoints.filter(endpoint::is_ready);
    ready.flat_map(|endpoint| endpoint.addresses).collect()
}

/// Returns the addresses of the ready pods that a Service selects.
fn ready_addresses(api: &Api, service: &SharedObject<Service>) -> BTreeSet<String> {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default();
    let selects = |pod: &SharedObject<Pod>| {
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    };
    let pods = api.list_as::<Pod>(Some(service.namespace()));
    let ready =
        pods.iter().filter(|pod| selects(pod) && is_ready(pod) && !is_going(pod) && !is_terminal(pod));
    ready.filter_map(|pod| pod.status.as_ref()?.pod_ip.clone()).collect()
}

fn is_going<T: TypedKind>(object: &SharedObject<T>) -> bool {
    object.object().meta().deletion_timestamp.is_some()
}

/// Describes each object that names a controller which does not exist (GC-1).
pub(crate) fn unowned(api: &Api) -> Vec<String> {
    let kinds = [Kind::Pod, Kind::ReplicaSet, Kind::Job, Kind::ControllerRevision, Kind::EndpointSlice];
    let owners = [
        Kind::Deployment,
        Kind::ReplicaSet,
        Kind::StatefulSet,
        Kind::DaemonSet,
        Kind::Job,
        Kind::CronJob,
        Kind::Service,
    ];
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
                    "{name} {key} is owned by {} {}, which does not exist",
                    owner.kind, owner.name
                ));
            }
        }
    }
    all
}
