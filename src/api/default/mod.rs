//! Kubernetes' v1 defaulting: what a field means when a manifest leaves it out.
//!
//! Pure functions of one object. Never looks at other objects: what depends on them (priorities, service
//! accounts, tolerations, addresses) is admission's.

mod autoscaling;
mod batch;
mod limits;
mod pod_spec;
mod service;
mod storage;
mod template_generation;
mod update;
mod volumes;
mod workload;

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    ContainerState, Endpoints, LoadBalancerStatus, Namespace, NamespaceSpec, NamespaceStatus, Node, Pod,
    PodStatus, Secret, Service,
};
use k8s_openapi::api::discovery::v1::{EndpointPort, EndpointSlice};
use k8s_openapi::api::scheduling::v1::PriorityClass;

pub use self::pod_spec::apply_pod_spec_defaults;
pub use self::template_generation::number_template;
pub use self::update::keep_what_was_given;
use crate::object::pod_preset::PodPreset;
use crate::object::resources::qos_class;
use crate::object::{Kind, Object, Typed};

/// Fills in what the manifest left out, as the API server does before admission and validation.
///
/// Applying it twice changes nothing more.
pub fn apply_defaults(object: &mut Object) {
    match object.kind() {
        Kind::Namespace => on(object, namespace),
        Kind::PriorityClass => on(object, priority_class),
        Kind::Node => on(object, node),
        Kind::Secret => on(object, secret),
        Kind::Service => on(object, service::service),
        Kind::Endpoints => on(object, endpoints),
        Kind::EndpointSlice => on(object, endpoint_slice),
        Kind::Pod => on(object, pod),
        Kind::ReplicaSet => on(object, workload::replica_set),
        Kind::Deployment => on(object, workload::deployment),
        Kind::ReplicationController => on(object, workload::replication_controller),
        Kind::StatefulSet => on(object, workload::stateful_set),
        Kind::DaemonSet => on(object, workload::daemon_set),
        Kind::PodTemplate => on(object, workload::pod_template),
        Kind::Job => on(object, batch::job),
        Kind::CronJob => on(object, batch::cron_job),
        Kind::HorizontalPodAutoscaler => on(object, autoscaling::autoscaler),
        Kind::LimitRange => on(object, limits::limit_range),
        Kind::PodPreset => on(object, pod_preset),
        Kind::StorageClass => on(object, storage::class),
        Kind::PersistentVolume => on(object, storage::volume),
        Kind::PersistentVolumeClaim => on(object, storage::claim),
        // These mean what they say.
        Kind::PodDisruptionBudget
        | Kind::Lease
        | Kind::ServiceAccount
        | Kind::ConfigMap
        | Kind::ResourceQuota
        | Kind::ControllerRevision
        | Kind::Event => {}
    }
}

/// Gives a new object what follows from its uid and name; runs once, after its defaults.
pub fn give_identity(object: &mut Object) {
    if object.kind() == Kind::Job {
        on(object, batch::generate_selector);
    }
}

/// The status a new object starts with; asked once its spec is complete.
pub fn first_status(object: &mut Object) {
    if let Some(pod) = object.get_mut::<Pod>() {
        pod.status = Some(PodStatus {
            phase: Some("Pending".into()),
            qos_class: Some(qos_class(pod).into()),
            ..PodStatus::default()
        });
    }
}

/// Writes out what Kubernetes' encoding always has, also when it is empty: clients read it without asking.
pub fn complete_status(object: &mut Object) {
    match object.kind() {
        Kind::Service => on(object, |service: &mut Service| {
            set(&mut service.status.get_or_insert_default().load_balancer, LoadBalancerStatus::default());
        }),
        Kind::Pod => on(object, |pod: &mut Pod| {
            let Some(status) = pod.status.as_mut() else { return };
            let lists = [
                &mut status.init_container_statuses,
                &mut status.container_statuses,
                &mut status.ephemeral_container_statuses,
            ];
            for container in lists.into_iter().flatten().flatten() {
                set(&mut container.last_state, ContainerState::default());
                set(&mut container.state, ContainerState::default());
            }
        }),
        _ => {}
    }
}

fn on<T: Typed>(object: &mut Object, rule: fn(&mut T)) {
    if let Some(value) = object.get_mut::<T>() {
        rule(value);
    }
}

/// Sets an optional field that is missing.
fn set<T>(field: &mut Option<T>, value: impl Into<T>) {
    if field.is_none() {
        *field = Some(value.into());
    }
}

/// Sets an optional text that is missing or empty.
fn set_text(field: &mut Option<String>, value: &str) {
    if field.as_deref().is_none_or(str::is_empty) {
        *field = Some(value.to_string());
    }
}

/// The label every namespace carries with its own name.
const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

fn namespace(namespace: &mut Namespace) {
    if let Some(name) = namespace.metadata.name.clone().filter(|n| !n.is_empty()) {
        namespace.metadata.labels.get_or_insert_default().insert(NAMESPACE_NAME_LABEL.to_string(), name);
    }
    // A namespace under deletion loses its finalizer for good; only a new one gets it.
    if namespace.metadata.deletion_timestamp.is_none() {
        let spec = namespace.spec.get_or_insert_with(NamespaceSpec::default);
        set(&mut spec.finalizers, vec!["kubernetes".to_string()]);
    }
    let status = namespace.status.get_or_insert_with(NamespaceStatus::default);
    set_text(&mut status.phase, "Active");
}

fn priority_class(class: &mut PriorityClass) {
    set_text(&mut class.preemption_policy, "PreemptLowerPriority");
}

fn node(node: &mut Node) {
    if let Some(status) = &mut node.status
        && status.allocatable.is_none()
    {
        status.allocatable.clone_from(&status.capacity);
    }
}

fn secret(secret: &mut Secret) {
    set_text(&mut secret.type_, "Opaque");
    if let Some(plain) = secret.string_data.take() {
        let data = secret.data.get_or_insert_with(BTreeMap::new);
        data.extend(plain.into_iter().map(|(key, text)| (key, ByteString(text.into_bytes()))));
    }
}

fn pod(pod: &mut Pod) {
    let spec = pod.spec.get_or_insert_default();
    apply_pod_spec_defaults(spec);
    pod_spec::apply_pod_only_defaults(spec);
}

fn pod_preset(preset: &mut PodPreset) {
    let spec = &mut preset.spec;
    spec.volumes.iter_mut().flatten().for_each(volumes::volume);
    spec.env.iter_mut().flatten().for_each(pod_spec::env);
}

fn endpoints(endpoints: &mut Endpoints) {
    for subset in endpoints.subsets.iter_mut().flatten() {
        for port in subset.ports.iter_mut().flatten() {
            set_text(&mut port.protocol, "TCP");
        }
    }
}

fn endpoint_slice(slice: &mut EndpointSlice) {
    for EndpointPort { name, protocol, .. } in slice.ports.iter_mut().flatten() {
        set(name, "");
        set(protocol, "TCP");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Defaults a manifest (given without its apiVersion) and returns it as JSON.
    fn defaulted(kind: Kind, value: Value) -> Value {
        let mut object = Object::from_value(kind, value).unwrap();
        apply_defaults(&mut object);
        let once = object.to_value();
        apply_defaults(&mut object);
        assert_eq!(object.to_value(), once, "defaulting twice changes nothing");
        once
    }

    #[test]
    fn a_pod_gets_kubernetes_defaults_api_8() {
        let pod = defaulted(
            Kind::Pod,
            json!({"spec": {
                "hostNetwork": true,
                "containers": [{
                    "name": "a", "image": "nginx",
                    "ports": [{"containerPort": 80}],
                    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
                    "livenessProbe": {"httpGet": {"port": 80}},
                    "lifecycle": {"preStop": {"httpGet": {"port": "web"}}},
                    "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
                }],
                "initContainers": [{"name": "i", "image": "reg:5000/x/y:1.2"}],
                "volumes": [
                    {"name": "v"},
                    {"name": "c", "configMap": {"name": "x"}},
                    {"name": "h", "hostPath": {"path": "/x"}},
                    {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
                ]
            }}),
        );
        let spec = &pod["spec"];
        for (path, expected) in [
            ("/restartPolicy", json!("Always")),
            ("/dnsPolicy", json!("ClusterFirst")),
            ("/schedulerName", json!("default-scheduler")),
            ("/terminationGracePeriodSeconds", json!(30)),
            ("/securityContext", json!({})),
            ("/enableServiceLinks", json!(true)),
            ("/containers/0/imagePullPolicy", json!("Always")),
            ("/containers/0/terminationMessagePath", json!("/dev/termination-log")),
            ("/containers/0/terminationMessagePolicy", json!("File")),
            ("/containers/0/ports/0", json!({"containerPort": 80, "hostPort": 80, "protocol": "TCP"})),
            ("/containers/0/resources/requests", json!({"cpu": "500m", "memory": "1Gi"})),
            (
                "/containers/0/livenessProbe",
                json!({"failureThreshold": 3, "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
                    "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1}),
            ),
            (
                "/containers/0/lifecycle/preStop/httpGet",
                json!({"path": "/", "port": "web", "scheme": "HTTP"}),
            ),
            (
                "/containers/0/env/0/valueFrom/fieldRef",
                json!({"apiVersion": "v1", "fieldPath": "status.podIP"}),
            ),
            ("/initContainers/0/imagePullPolicy", json!("IfNotPresent")),
            ("/initContainers/0/resources", json!({})),
            ("/volumes/0/emptyDir", json!({})),
            ("/volumes/1/configMap/defaultMode", json!(420)),
            ("/volumes/2/hostPath/type", json!("")),
            ("/volumes/3/projected/defaultMode", json!(420)),
            ("/volumes/3/projected/sources/0/serviceAccountToken/expirationSeconds", json!(3600)),
        ] {
            assert_eq!(spec.pointer(path), Some(&expected), "{path}");
        }
    }

    #[test]
    fn workloads_default_their_strategy_and_template_but_not_what_only_pods_have_api_8() {
        let spec = |kind| {
            defaulted(
                kind,
                json!({"spec": {"selector": {}, "template": {"spec": {"containers": [
                    {"name": "a", "image": "b:1", "resources": {"limits": {"cpu": "1"}}}]}}}}),
            )["spec"]
                .clone()
        };
        let deployment = spec(Kind::Deployment);
        assert_eq!(deployment["replicas"], 1);
        assert_eq!(deployment["revisionHistoryLimit"], 10);
        assert_eq!(deployment["progressDeadlineSeconds"], 600);
        assert_eq!(
            deployment["strategy"],
            json!({"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}, "type": "RollingUpdate"})
        );
        let replica_set = spec(Kind::ReplicaSet);
        assert_eq!(replica_set["replicas"], 1);
        for template in [&deployment["template"]["spec"], &replica_set["template"]["spec"]] {
            assert_eq!(template["restartPolicy"], "Always");
            assert_eq!(template["enableServiceLinks"], Value::Null);
            assert_eq!(template["containers"][0]["resources"], json!({"limits": {"cpu": "1"}}));
        }
        let recreate = defaulted(
            Kind::Deployment,
            json!({"spec": {"selector": {}, "template": {}, "strategy": {"type": "Recreate"}}}),
        );
        assert_eq!(recreate["spec"]["strategy"], json!({"type": "Recreate"}));
    }

    #[test]
    fn services_default_their_ports_and_policies_api_8() {
        let service = defaulted(
            Kind::Service,
            json!({"spec": {"type": "NodePort", "sessionAffinity": "ClientIP",
                "ports": [{"port": 80}, {"name": "b", "port": 81, "targetPort": "web", "protocol": "UDP"}]}}),
        );
        assert_eq!(
            service["spec"],
            json!({
                "type": "NodePort", "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
                "externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster",
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
                "ports": [
                    {"port": 80, "protocol": "TCP", "targetPort": 80},
                    {"name": "b", "port": 81, "protocol": "UDP", "targetPort": "web"}
                ]
            })
        );
        let external =
            defaulted(Kind::Service, json!({"spec": {"type": "ExternalName", "externalName": "a"}}));
        assert_eq!(
            external["spec"],
            json!({"type": "ExternalName", "externalName": "a", "sessionAffinity": "None"})
        );
    }

    #[test]
    fn the_small_kinds_get_their_defaults_api_8() {
        let namespace = defaulted(Kind::Namespace, json!({"metadata": {"name": "team"}}));
        assert_eq!(namespace["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "team"}));
        assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
        assert_eq!(namespace["status"]["phase"], "Active");
        let secret =
            defaulted(Kind::Secret, json!({"data": {"a": "MQ==", "b": "MQ=="}, "stringData": {"a": "2"}}));
        assert_eq!(
            (&secret["type"], &secret["data"]),
            (&json!("Opaque"), &json!({"a": "Mg==", "b": "MQ=="}))
        );
        assert_eq!(secret["stringData"], Value::Null);
        let class = defaulted(Kind::PriorityClass, json!({"value": 5}));
        assert_eq!(class["preemptionPolicy"], "PreemptLowerPriority");
        let node = defaulted(Kind::Node, json!({"status": {"capacity": {"cpu": "4"}}}));
        assert_eq!(node["status"]["allocatable"], json!({"cpu": "4"}));
        let slice = defaulted(Kind::EndpointSlice, json!({"ports": [{"port": 80}]}));
        assert_eq!(slice["ports"], json!([{"name": "", "port": 80, "protocol": "TCP"}]));
    }
}
