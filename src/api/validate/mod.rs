//! Kubernetes' rules for objects: every fault of an object in one answer, in Kubernetes' words.
//!
//! Pure functions of one object, or of its new and old version. They expect defaulted objects, and never
//! look at other objects: what depends on them is admission's.

mod affinity;
mod autoscaling;
mod batch;
#[cfg(test)]
mod cases;
mod changed;
mod cluster;
mod config;
mod container;
mod daemon_set;
mod disruption;
mod endpoints;
mod environment;
mod ephemeral;
mod events;
mod field;
mod limits;
mod metadata;
mod names;
mod placement;
mod pod;
mod pod_preset;
mod pod_resize;
mod pod_spec;
mod pod_update;
mod probe;
mod quota;
mod replication;
mod resources;
mod selector;
mod service;
mod spec_diff;
mod stateful_set;
mod storage;
mod volumes;
mod workload;

use k8s_openapi::api::core::v1::Binding;

use self::field::FieldErrors;
pub use self::field::{FieldError, FieldErrorReason, join};
use crate::object::{Body, Object};

/// What is wrong with a new object; nothing when it may be stored.
pub fn validate_create(object: &Object) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    metadata::validate_meta(&mut errors, object.kind(), object.meta());
    match object.body() {
        Body::Pod(pod) => pod::create(&mut errors, pod),
        body => validate_body(&mut errors, body),
    }
    errors.into_vec()
}

/// What holds for objects of every age.
fn validate_body(errors: &mut FieldErrors, body: &Body) {
    match body {
        Body::Namespace(namespace) => cluster::namespace(errors, namespace),
        Body::PriorityClass(class) => cluster::priority_class(errors, class),
        Body::Node(node) => cluster::node(errors, node),
        Body::Lease(lease) => cluster::lease(errors, lease),
        Body::ConfigMap(map) => config::config_map(errors, map),
        Body::Secret(secret) => config::secret(errors, secret),
        Body::Service(service) => service::service(errors, service),
        Body::Endpoints(endpoints) => endpoints::endpoints(errors, endpoints),
        Body::EndpointSlice(slice) => endpoints::slice(errors, slice),
        Body::PodDisruptionBudget(budget) => disruption::budget(errors, budget),
        Body::Pod(pod) => pod::pod(errors, pod),
        Body::ReplicaSet(replica_set) => workload::replica_set(errors, replica_set),
        Body::Deployment(deployment) => workload::deployment(errors, deployment),
        Body::Event(event) => events::event(errors, event),
        Body::ReplicationController(controller) => replication::controller(errors, controller),
        Body::PodTemplate(template) => replication::pod_template(errors, template),
        Body::StatefulSet(set) => stateful_set::create(errors, set),
        Body::ControllerRevision(revision) => stateful_set::revision(errors, revision),
        Body::DaemonSet(set) => daemon_set::daemon_set(errors, set),
        Body::Job(job) => batch::job(errors, job),
        Body::CronJob(job) => batch::cron_job(errors, job),
        Body::HorizontalPodAutoscaler(scaler) => autoscaling::autoscaler(errors, scaler),
        Body::LimitRange(range) => limits::limit_range(errors, range),
        Body::ResourceQuota(quota) => quota::quota(errors, quota),
        Body::PodPreset(preset) => pod_preset::preset(errors, preset),
        Body::StorageClass(class) => storage::class(errors, class),
        Body::PersistentVolume(volume) => storage::volume(errors, volume),
        Body::PersistentVolumeClaim(claim) => storage::claim(errors, claim),
        Body::ServiceAccount(_) => {}
    }
}

/// What is wrong with a new version of an object, by itself or as a change of the old one.
pub fn validate_update(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    metadata::validate_meta_update(&mut errors, new.kind(), new.meta(), old.meta());
    match (new.body(), old.body()) {
        (Body::PriorityClass(new), Body::PriorityClass(old)) => {
            cluster::priority_class_update(&mut errors, new, old);
        }
        (Body::Node(new), Body::Node(old)) => cluster::node_update(&mut errors, new, old),
        (Body::ConfigMap(new), Body::ConfigMap(old)) => config::config_map_update(&mut errors, new, old),
        (Body::Secret(new), Body::Secret(old)) => config::secret_update(&mut errors, new, old),
        (Body::Service(new), Body::Service(old)) => service::update(&mut errors, new, old),
        (Body::EndpointSlice(new), Body::EndpointSlice(old)) => {
            endpoints::slice_update(&mut errors, new, old);
        }
        (Body::Pod(new), Body::Pod(old)) => pod_update::update(&mut errors, new, old),
        (Body::ReplicaSet(new), Body::ReplicaSet(old)) => {
            workload::replica_set_update(&mut errors, new, old);
        }
        (Body::Deployment(new), Body::Deployment(old)) => {
            workload::deployment_update(&mut errors, new, old);
        }
        (Body::StatefulSet(new), Body::StatefulSet(old)) => stateful_set::update(&mut errors, new, old),
        (Body::ControllerRevision(new), Body::ControllerRevision(old)) => {
            stateful_set::revision_update(&mut errors, new, old);
        }
        (Body::DaemonSet(new), Body::DaemonSet(old)) => daemon_set::update(&mut errors, new, old),
        (Body::ResourceQuota(new), Body::ResourceQuota(old)) => quota::update(&mut errors, new, old),
        (Body::Job(new), Body::Job(old)) => batch::job_update(&mut errors, new, old),
        (Body::CronJob(new), Body::CronJob(old)) => batch::cron_job_update(&mut errors, new, old),
        (Body::StorageClass(new), Body::StorageClass(old)) => storage::class_update(&mut errors, new, old),
        (Body::PersistentVolume(new), Body::PersistentVolume(old)) => {
            storage::volume_update(&mut errors, new, old);
        }
        (Body::PersistentVolumeClaim(new), Body::PersistentVolumeClaim(old)) => {
            storage::claim_update(&mut errors, new, old);
        }
        (new, _) => validate_body(&mut errors, new),
    }
    errors.into_vec()
}

/// What is wrong with a new status; the spec is the old one.
pub fn validate_status_update(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    metadata::validate_meta_update(&mut errors, new.kind(), new.meta(), old.meta());
    match (new.body(), old.body()) {
        (Body::Pod(new), Body::Pod(old)) => pod::status_update(&mut errors, new, old),
        (Body::Node(new), Body::Node(_)) => cluster::node(&mut errors, new),
        (Body::PodDisruptionBudget(new), _) => disruption::status_update(&mut errors, new),
        (Body::Deployment(new), _) => workload::deployment_status(&mut errors, new),
        (Body::ReplicaSet(new), _) => workload::replica_set_status(&mut errors, new),
        (Body::ReplicationController(new), _) => replication::controller_status(&mut errors, new),
        (Body::StatefulSet(new), Body::StatefulSet(old)) => {
            stateful_set::status_update(&mut errors, new, old);
        }
        (Body::PersistentVolumeClaim(new), _) => storage::claim_status(&mut errors, new),
        (Body::Job(new), Body::Job(old)) => batch::job_status_update(&mut errors, new, old),
        (Body::DaemonSet(new), Body::DaemonSet(old)) => daemon_set::status_update(&mut errors, new, old),
        (Body::HorizontalPodAutoscaler(new), _) => autoscaling::status_update(&mut errors, new),
        (Body::ResourceQuota(new), _) => quota::status_update(&mut errors, new),
        _ => {}
    }
    errors.into_vec()
}

/// What is wrong with a pod whose ephemeral containers were changed through their subresource.
pub fn validate_ephemeral_containers_update(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    if let (Body::Pod(new), Body::Pod(old)) = (new.body(), old.body()) {
        pod::pod(&mut errors, new);
        ephemeral::update(&mut errors, new, old);
    }
    errors.into_vec()
}

/// What is wrong with a pod whose resources were changed through their subresource.
pub fn validate_resize(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    metadata::validate_meta_update(&mut errors, new.kind(), new.meta(), old.meta());
    if let (Body::Pod(new), Body::Pod(old)) = (new.body(), old.body()) {
        pod_resize::resize(&mut errors, new, old);
    }
    errors.into_vec()
}

/// What is wrong with a new event that is written in the form of events.k8s.io.
pub fn validate_new_event(event: &Object) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    if let Body::Event(event) = event.body() {
        events::new_event(&mut errors, event);
    }
    errors.into_vec()
}

/// Whether a name is a DNS label: lower case letters, digits and `-`, at most 63.
pub(in crate::api) fn is_dns_label(name: &str) -> bool {
    names::dns_1123_label(name).is_empty()
}

/// What is wrong with an assignment of a pod to a node.
pub fn validate_binding(binding: &Binding) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    pod::binding(&mut errors, binding);
    errors.into_vec()
}
