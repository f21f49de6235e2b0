//! Mirror pods: how the API shows a static pod. They can be looked at, but what is done to them does not reach
//! the pod: a mirror that is deleted is made again.

use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::api::node_access::MIRROR_ANNOTATION;
use crate::api::{Api, ApiError, DeleteOptions};
use crate::object::{Key, Kind, Shared};

/// The static pod that an object of the API mirrors, by its hash.
pub(in crate::kubelet) fn hash(pod: &Pod) -> Option<&str> {
    pod.metadata.annotations.as_ref()?.get(MIRROR_ANNOTATION).map(String::as_str)
}

/// Makes the mirror of a static pod.
pub(in crate::kubelet) fn create(api: &Api, pod: &Shared<Pod>, node: &str) -> Result<Shared<Pod>, ApiError> {
    let mut annotations = pod.metadata.annotations.clone().unwrap_or_default();
    annotations.insert(MIRROR_ANNOTATION.into(), pod.uid().into());
    let owner = api.get_as::<NodeObject>(&Key::new("", node)).ok().map(|node| OwnerReference {
        api_version: "v1".into(),
        kind: "Node".into(),
        name: node.name().into(),
        uid: node.uid().into(),
        controller: Some(true),
        ..OwnerReference::default()
    });
    api.create_as(Pod {
        metadata: ObjectMeta {
            name: pod.metadata.name.clone(),
            namespace: pod.metadata.namespace.clone(),
            labels: pod.metadata.labels.clone(),
            annotations: Some(annotations),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: pod.spec.clone(),
        status: None,
    })
}

/// Removes a mirror; it is only the picture of a pod, so there is no grace.
pub(in crate::kubelet) fn remove(api: &Api, mirror: &Shared<Pod>) -> Result<(), ApiError> {
    let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::uid(mirror.uid()) };
    match api.delete(Kind::Pod, &mirror.key(), &options) {
        Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
        _ => Ok(()),
    }
}
