//! Binding: assigns a pod to a node, once.

use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{Api, ApiError, Part, WriteOptions, object_checks};
use base::quote::quote;
use object::conditions::{self, ConditionStatus};
use object::owner::is_terminating;
use object::{Key, Kind, SharedObject};

impl Api {
    /// Assigns a pod to the node in a Binding, if that is valid. The pod gets the Binding's labels and annotations.
    pub fn bind_to(
        &self,
        pod: &Key,
        mut binding: Binding,
        options: &WriteOptions,
    ) -> Result<SharedObject<Pod>, ApiError> {
        self.label_binding(&mut binding);
        let carried = || object::json_of(&binding);
        let admitted = self.admit_new_below(Kind::Pod, pod, "binding", options, carried)?;
        let binding = match admitted {
            Some(admitted) => {
                base::json::from_value(admitted).map_err(|error| ApiError::Internal(error.to_string()))?
            }
            None => binding,
        };
        object_checks::check_binding(&binding, &pod.name)?;
        self.assign(pod, &binding, options)
    }

    /// Assigns the pod with this uid (any, if empty) to a node.
    pub fn bind(&self, pod: &Key, uid: &str, node: &str) -> Result<SharedObject<Pod>, ApiError> {
        let uid = Some(uid.to_string()).filter(|uid| !uid.is_empty());
        let metadata = ObjectMeta {
            name: Some(pod.name.clone()),
            namespace: Some(pod.namespace.clone()),
            uid,
            ..ObjectMeta::default()
        };
        let target = ObjectReference {
            kind: Some("Node".into()),
            name: Some(node.into()),
            ..ObjectReference::default()
        };
        self.bind_to(pod, Binding { metadata, target }, &WriteOptions::default())
    }

    fn assign(
        &self,
        pod: &Key,
        binding: &Binding,
        options: &WriteOptions,
    ) -> Result<SharedObject<Pod>, ApiError> {
        let refuse = |message: String| Err(ApiError::conflict(Kind::Pod, &pod.name, message));
        let now = self.server_clock().time();
        self.modify_part_by::<Pod>(pod, Part::System, options, |value| {
            let (meta, demanded) = (&mut value.metadata, &binding.metadata);
            for (field, demanded, found) in [
                ("UID", &demanded.uid, &meta.uid),
                ("ResourceVersion", &demanded.resource_version, &meta.resource_version),
            ] {
                let found = found.as_deref().unwrap_or_default();
                if let Some(demanded) = demanded.as_deref().filter(|text| !text.is_empty() && *text != found) {
                    return refuse(format!(
                        "Precondition failed: {field} in precondition: {demanded}, {field} in object meta: {found}"
                    ));
                }
            }
            if is_terminating(meta) {
                return refuse(format!("pod {} is being deleted, cannot be assigned to a host", pod.name));
            }
            let Some(spec) = value.spec.as_mut() else { return refuse("pod has no spec".into()) };
            if let Some(assigned) = spec.node_name.as_ref().filter(|n| !n.is_empty()) {
                return refuse(format!("pod {} is already assigned to node {}", pod.name, quote(assigned)));
            }
            if spec.scheduling_gates.as_ref().is_some_and(|g| !g.is_empty()) {
                return refuse(format!("pod {} has non-empty .spec.schedulingGates", pod.name));
            }
            spec.node_name.clone_from(&binding.target.name);
            if let Some(annotations) = &binding.metadata.annotations {
                meta.annotations.get_or_insert_default().extend(annotations.clone());
            }
            if let Some(labels) = &binding.metadata.labels {
                meta.labels.get_or_insert_default().extend(labels.clone());
            }
            let status = value.status.get_or_insert_default();
            // As Kubernetes since 1.35: the nomination has served its purpose.
            status.nominated_node_name = None;
            let conditions = status.conditions.get_or_insert_default();
            let scheduled = PodCondition {
                type_: "PodScheduled".into(),
                status: ConditionStatus::True.into(),
                last_transition_time: Some(now.clone()),
                observed_generation: meta.generation,
                ..PodCondition::default()
            };
            conditions::set(conditions, scheduled);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_api::api;

    fn create_pod(api: &Api) -> SharedObject<Pod> {
        let pod = json!({"metadata": {"name": "p", "namespace": "n"},
            "spec": {"containers": [{"name": "c", "image": "busybox"}]}});
        api.create_as(serde_json::from_value::<Pod>(pod).unwrap()).unwrap()
    }

    /// Regression: the Binding's labels, annotations and resourceVersion had no effect.
    #[test]
    fn a_pod_gets_the_labels_and_annotations_of_its_binding_api_2() {
        let api = api(&["n"]);
        let pod = create_pod(&api);
        let bind = |version: &str| {
            let metadata = json!({"name": "p", "resourceVersion": version, "labels": {"a": "b"},
                "annotations": {"c": "d"}});
            let binding = json!({"metadata": metadata, "target": {"kind": "Node", "name": "node-1"}});
            let binding = serde_json::from_value(binding).unwrap();
            api.bind_to(&pod.key(), binding, &WriteOptions::default())
        };
        assert!(bind("1").is_err_and(|error| error.is_conflict()));
        let bound = bind(&pod.object().revision().to_string()).unwrap();
        assert_eq!(bound.metadata.labels, Some([("a".to_string(), "b".to_string())].into()));
        assert_eq!(bound.metadata.annotations.as_ref().unwrap()["c"], "d");
    }

    #[test]
    fn binding_keeps_the_generation_and_says_that_it_has_seen_it_api_2() {
        let api = api(&["n"]);
        let pod = create_pod(&api);
        api.modify_part::<Pod>(&pod.key(), Part::Status, |pod| {
            pod.status.get_or_insert_default().nominated_node_name = Some("node-1".into());
            Ok(())
        })
        .unwrap();
        let bound = api.bind(&pod.key(), "", "node-1").unwrap();
        assert_eq!(bound.status.as_ref().unwrap().nominated_node_name, None);
        assert_eq!(bound.metadata.generation, Some(1));
        let conditions = bound.status.as_ref().and_then(|status| status.conditions.as_ref());
        let scheduled = conditions::get(conditions, "PodScheduled").unwrap();
        assert_eq!((scheduled.status.as_str(), scheduled.observed_generation), ("True", Some(1)));
    }
}
