//! Status fields that objects have from their creation on: clients read them without a check.

use crate::test_api::{api_with, without_admission};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use manifest::from_yaml;
use serde_json::json;

use crate::{Part, WriteOptions};
use object::{Kind, Object};

/// Kubernetes' encoding writes these fields even if they are empty.
#[tokio::test]
async fn new_objects_have_the_status_that_kubernetes_writes_api_8() {
    let api = api_with(without_admission(&["ServiceAccount", "NamespaceLifecycle"]), &[]);
    let template = "template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}";
    let job = "template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}";
    let selector = "selector: {matchLabels: {a: b}}";
    for (kind, spec, expected) in [
        (Kind::Deployment, format!("{{{selector}, {template}}}"), json!({})),
        (Kind::ReplicaSet, format!("{{{selector}, {template}}}"), json!({"replicas": 0})),
        (
            Kind::StatefulSet,
            format!("{{serviceName: s, {selector}, {template}}}"),
            json!({"replicas": 0, "availableReplicas": 0}),
        ),
        (
            Kind::DaemonSet,
            format!("{{{selector}, {template}}}"),
            json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0}),
        ),
        (Kind::ReplicationController, format!("{{selector: {{a: b}}, {template}}}"), json!({"replicas": 0})),
        (Kind::Job, format!("{{{job}}}"), json!({})),
        (Kind::CronJob, format!("{{schedule: '* * * * *', jobTemplate: {{spec: {{{job}}}}}}}"), json!({})),
        (
            Kind::PodDisruptionBudget,
            format!("{{minAvailable: 1, {selector}}}"),
            json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}),
        ),
        (
            Kind::HorizontalPodAutoscaler,
            "{maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}}".into(),
            json!({"desiredReplicas": 0}),
        ),
        (
            Kind::Ingress,
            "{defaultBackend: {service: {name: s, port: {number: 80}}}}".into(),
            json!({"loadBalancer": {}}),
        ),
        (Kind::Service, "{ports: [{port: 80}]}".into(), json!({"loadBalancer": {}})),
        (Kind::ResourceQuota, "{hard: {pods: '1'}}".into(), json!({})),
        (Kind::ServiceCIDR, "{cidrs: [10.1.0.0/16]}".into(), json!({})),
        (
            Kind::Node,
            "{}".into(),
            json!({"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": {"architecture": "", "bootID": "",
                "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "",
                "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": ""}}),
        ),
    ] {
        let mut new = Object::from_value(kind, from_yaml(&format!("spec: {spec}")).unwrap()).unwrap();
        new.meta_mut().name = Some("x".into());
        new.meta_mut().namespace = kind.namespaced().then(|| "default".into());
        let made =
            api.create(new, &WriteOptions::default()).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        assert_eq!(made.to_value()["status"], expected, "{kind:?}");
        let owned = made.to_value()["metadata"]["managedFields"].to_string();
        assert!(!owned.contains("f:status"), "{kind:?}: {owned}");
    }
}

/// Regression: a write of the status changed the labels, annotations and finalizers of every built-in kind.
#[tokio::test]
async fn a_status_leaves_the_metadata_that_kubernetes_protects_api_2() {
    let api = api_with(without_admission(&["ServiceAccount", "NamespaceLifecycle"]), &[]);
    let deployment = "{selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, \
                      spec: {containers: [{name: c, image: i}]}}}";
    let ingress = "{defaultBackend: {service: {name: s, port: {number: 80}}}}";
    for (kind, spec, expected) in [
        (Kind::Ingress, ingress, &["labels", "annotations", "finalizers"][..]),
        (Kind::Deployment, deployment, &["annotations", "finalizers"]),
        (Kind::ServiceCIDR, "{cidrs: [10.1.0.0/16]}", &[]),
    ] {
        let mut new = Object::from_value(kind, from_yaml(&format!("spec: {spec}")).unwrap()).unwrap();
        new.meta_mut().name = Some("x".into());
        let made = api.create(new, &WriteOptions::default()).unwrap();
        let mut edited = Object::clone(&made);
        let meta = edited.meta_mut();
        meta.labels = Some([("a".to_string(), "b".to_string())].into());
        meta.annotations.clone_from(&meta.labels);
        meta.finalizers = Some(vec!["example.com/f".into()]);
        let written = api.update(&edited, Part::Status, &WriteOptions::default()).unwrap().to_value();
        let mut changed = vec!["labels", "annotations", "finalizers"];
        changed.retain(|field| !written["metadata"][field].is_null());
        assert_eq!(changed, expected, "{kind}");
    }
}

/// Regression: a write of the status without the QoS class removed it.
#[tokio::test]
async fn a_pod_retains_its_qos_class_pod_11() {
    let api = api_with(without_admission(&["ServiceAccount"]), &["default"]);
    let pod = json!({"metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let options = WriteOptions::default();
    let made = api.create(Object::from_value(Kind::Pod, pod).unwrap(), &options).unwrap();
    let mut rejected = Object::clone(&made);
    let status = PodStatus { phase: Some("Failed".into()), ..PodStatus::default() };
    rejected.get_mut::<Pod>().unwrap().status = Some(status);
    let stored = api.update(&rejected, Part::Status, &options).unwrap();
    assert_eq!(stored.to_value()["status"], json!({"phase": "Failed", "qosClass": "BestEffort"}));
}
