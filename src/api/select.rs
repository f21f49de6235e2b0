//! Which objects a selection picks: labels, and the fields each kind can be selected by.

use std::borrow::Cow;

use super::{ApiError, Selection};
use crate::object::selector::FieldRequirement;
use crate::object::{Body, Kind, Object};

/// The field paths a kind can be selected by, besides `metadata.name` and `metadata.namespace`.
pub fn supported_fields(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Pod => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        Kind::Node => &["spec.unschedulable"],
        Kind::Namespace => &["status.phase", "name"],
        Kind::PersistentVolume | Kind::PersistentVolumeClaim => &["name"],
        Kind::Secret => &["type"],
        Kind::Service => &["spec.clusterIP", "spec.type"],
        Kind::ReplicaSet | Kind::ReplicationController => &["status.replicas"],
        Kind::Job => &["status.successful"],
        Kind::Event => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        _ => &[],
    }
}

/// Refuses fields the kind cannot be selected by.
pub(super) fn check_fields(kind: Kind, fields: &[FieldRequirement]) -> Result<(), ApiError> {
    let known = |path: &str| {
        path == "metadata.name"
            || (path == "metadata.namespace" && kind.namespaced())
            || supported_fields(kind).contains(&path)
    };
    match fields.iter().find(|field| !known(&field.path)) {
        Some(field) => Err(ApiError::BadRequest(format!("field label not supported: {}", field.path))),
        None => Ok(()),
    }
}

impl Selection {
    /// Whether the object is selected.
    pub fn matches(&self, object: &Object) -> bool {
        self.fields.iter().all(|f| (field(object, &f.path) == f.value) == f.equal)
            && self.labels.matches(object.meta().labels.as_ref())
    }
}

/// The text of a selectable field; empty when it is absent.
fn field<'a>(object: &'a Object, path: &str) -> Cow<'a, str> {
    let text = |value: Option<&'a String>| Cow::Borrowed(value.map_or("", String::as_str));
    match (path, object.body()) {
        ("metadata.name" | "name", _) => object.name().into(),
        ("metadata.namespace", _) => object.namespace().into(),
        (_, Body::Pod(pod)) => {
            let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
            match path {
                "spec.nodeName" => text(spec.and_then(|s| s.node_name.as_ref())),
                "spec.restartPolicy" => text(spec.and_then(|s| s.restart_policy.as_ref())),
                "spec.schedulerName" => text(spec.and_then(|s| s.scheduler_name.as_ref())),
                "spec.serviceAccountName" => text(spec.and_then(|s| s.service_account_name.as_ref())),
                "spec.hostNetwork" => bool_text(spec.and_then(|s| s.host_network)).into(),
                "status.phase" => text(status.and_then(|s| s.phase.as_ref())),
                "status.podIP" => text(status.and_then(|s| s.pod_ip.as_ref())),
                "status.podIPs" => {
                    let ips = status.and_then(|s| s.pod_ips.as_ref()).into_iter().flatten();
                    ips.map(|ip| ip.ip.as_str()).collect::<Vec<_>>().join(" ").into()
                }
                "status.nominatedNodeName" => text(status.and_then(|s| s.nominated_node_name.as_ref())),
                _ => "".into(),
            }
        }
        ("spec.unschedulable", Body::Node(node)) => {
            bool_text(node.spec.as_ref().and_then(|s| s.unschedulable)).into()
        }
        ("status.phase", Body::Namespace(namespace)) => {
            text(namespace.status.as_ref().and_then(|s| s.phase.as_ref()))
        }
        ("type", Body::Secret(secret)) => text(secret.type_.as_ref()),
        ("spec.clusterIP", Body::Service(service)) => {
            text(service.spec.as_ref().and_then(|s| s.cluster_ip.as_ref()))
        }
        ("spec.type", Body::Service(service)) => text(service.spec.as_ref().and_then(|s| s.type_.as_ref())),
        ("status.replicas", Body::ReplicaSet(set)) => {
            set.status.as_ref().map_or(0, |s| s.replicas).to_string().into()
        }
        ("status.replicas", Body::ReplicationController(controller)) => {
            controller.status.as_ref().map_or(0, |s| s.replicas).to_string().into()
        }
        ("status.successful", Body::Job(job)) => {
            job.status.as_ref().and_then(|s| s.succeeded).unwrap_or(0).to_string().into()
        }
        (_, Body::Event(event)) => {
            let about = &event.involved_object;
            match path {
                "involvedObject.kind" => text(about.kind.as_ref()),
                "involvedObject.namespace" => text(about.namespace.as_ref()),
                "involvedObject.name" => text(about.name.as_ref()),
                "involvedObject.uid" => text(about.uid.as_ref()),
                "involvedObject.apiVersion" => text(about.api_version.as_ref()),
                "involvedObject.resourceVersion" => text(about.resource_version.as_ref()),
                "involvedObject.fieldPath" => text(about.field_path.as_ref()),
                "reason" => text(event.reason.as_ref()),
                "reportingComponent" => text(event.reporting_component.as_ref()),
                // Events in the new form name their reporter alone.
                "source" => {
                    let source = event.source.as_ref().and_then(|s| s.component.as_ref());
                    text(source.filter(|s| !s.is_empty()).or(event.reporting_component.as_ref()))
                }
                "type" => text(event.type_.as_ref()),
                _ => "".into(),
            }
        }
        _ => "".into(),
    }
}

fn bool_text(value: Option<bool>) -> &'static str {
    if value == Some(true) { "true" } else { "false" }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::object::selector::parse_fields;

    /// API-FOUND 23, CONFORMANCE-FOUND "Events API".
    #[test]
    fn objects_are_found_by_the_fields_that_kubernetes_knows_api_2() {
        let pod = json!({"status": {"podIP": "127.1.0.1", "podIPs": [{"ip": "127.1.0.1"}]}});
        let event = |source: Value, reporter: &str| {
            json!({"involvedObject": {}, "source": source,
            "reportingComponent": reporter})
        };
        let named = json!({"metadata": {"name": "n"}});
        for (kind, object, selector, expected) in [
            (Kind::Pod, pod.clone(), "status.podIPs=127.1.0.1", true),
            (Kind::Pod, pod, "status.podIPs=127.1.0.2", false),
            (Kind::ReplicationController, json!({"status": {"replicas": 3}}), "status.replicas=3", true),
            (Kind::ReplicationController, json!({}), "status.replicas=3", false),
            (Kind::Namespace, named.clone(), "name=n", true),
            (Kind::PersistentVolume, named.clone(), "name=m", false),
            (Kind::PersistentVolumeClaim, named, "name=n", true),
            (Kind::Event, event(json!({"component": "a"}), "b"), "source=a", true),
            (Kind::Event, event(json!({"component": "a"}), "b"), "source=b", false),
            (Kind::Event, event(json!({}), "b"), "source=b", true),
            (Kind::Event, event(json!({"component": ""}), "b"), "source=b", true),
        ] {
            let fields = parse_fields(selector).unwrap();
            check_fields(kind, &fields).unwrap();
            let selection = Selection { fields, ..Selection::default() };
            let object = Object::from_value(kind, object).unwrap();
            assert_eq!(selection.matches(&object), expected, "{kind} {selector}");
        }
        assert!(check_fields(Kind::Pod, &parse_fields("name=x").unwrap()).is_err());
    }
}
