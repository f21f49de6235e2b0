//! Builds the pod of an ordinal.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};

use super::{identity, storage};
use crate::history::POD_REVISION_LABEL;
use crate::pod_control::pod_of;
use object::SharedObject;

/// Builds the pod with this ordinal from a revision's template.
pub(super) fn new_pod(
    set: &SharedObject<StatefulSet>,
    template: &PodTemplateSpec,
    revision: &str,
    ordinal: i32,
) -> Pod {
    let mut pod = pod_of(set.object(), template);
    let name = format!("{}-{ordinal}", set.name());
    pod.metadata.name = Some(name.clone());
    identity::label(&mut pod.metadata, ordinal);
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(POD_REVISION_LABEL.into(), revision.into());
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(name);
    spec.subdomain = set.spec.service_name.clone().filter(|service| !service.is_empty());
    spec.volumes = storage::volumes_with_claims(set, ordinal, spec.volumes.take());
    pod
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_made_with_its_identity_sts_1() {
        let set: StatefulSet = serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "u"},
            "spec": {"selector": {}, "serviceName": "nginx", "template": {},
                "volumeClaimTemplates": [{"metadata": {"name": "www"}, "spec": {}}]}}))
        .unwrap();
        let template = serde_json::from_value(json!({"metadata": {"labels": {"app": "nginx"}},
            "spec": {"containers": [], "hostname": "mine",
                "volumes": [{"name": "www", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]}}))
        .unwrap();
        let pod = new_pod(&SharedObject::from_value(set), &template, "web-abc", 2);
        assert_eq!(pod.metadata.name.as_deref(), Some("web-2"));
        assert_eq!(
            serde_json::to_value(&pod.metadata.labels).unwrap(),
            json!({"app": "nginx", "apps.kubernetes.io/pod-index": "2", "controller-revision-hash": "web-abc",
                "statefulset.kubernetes.io/pod-name": "web-2"})
        );
        assert!(identity::is_labelled(&pod.metadata, 2) && !identity::is_labelled(&pod.metadata, 3));
        assert_eq!(identity::revision_of(&pod), "web-abc");
        let spec = serde_json::to_value(&pod.spec).unwrap();
        assert_eq!((&spec["hostname"], &spec["subdomain"]), (&json!("web-2"), &json!("nginx")));
        assert_eq!(
            spec["volumes"],
            json!([{"name": "www", "persistentVolumeClaim": {"claimName": "www-web-2"}},
                {"name": "tmp", "emptyDir": {}}])
        );
    }
}
