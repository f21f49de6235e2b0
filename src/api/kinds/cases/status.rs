//! Status fields that objects have from their creation on: clients read them without a check.

use super::*;
use crate::{Api, ApiConfig, WriteOptions};
use base::clock::Clock;
use store::Store;

/// Kubernetes' encoding writes these fields even if they are empty.
#[tokio::test]
async fn new_objects_have_the_status_that_kubernetes_writes_api_8() {
    let clock = Clock::starting_at("2026-11-22T00:00:00Z".parse().unwrap());
    let disabled_admission = ["ServiceAccount", "NamespaceLifecycle"].map(String::from).to_vec();
    let api = Api::new(Store::ephemeral(), clock, ApiConfig { disabled_admission, ..ApiConfig::default() });
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
        let mut new = object(kind, &format!("spec: {spec}"));
        new.meta_mut().name = Some("x".into());
        new.meta_mut().namespace = kind.namespaced().then(|| "default".into());
        let made =
            api.create(new, &WriteOptions::default()).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        assert_eq!(made.to_value()["status"], expected, "{kind:?}");
        let owned = made.to_value()["metadata"]["managedFields"].to_string();
        assert!(!owned.contains("f:status"), "{kind:?}: {owned}");
    }
}

#[test]
fn addresses_in_the_status_of_a_pod_are_one_of_each_family_api_8() {
    let pod = |status: &str| {
        format!("spec: {{containers: [{{name: c, image: i}}]}}\nstatus: {{phase: Running, {status}}}")
    };
    let check = |status: &str, expected: &[&str]| {
        check_status(Kind::Pod, &[(&pod(""), &pod(status), expected)]);
    };
    check("podIPs: [{ip: 10.0.0.1}, {ip: 'fd00::1'}], hostIP: 10.0.0.2, hostIPs: [{ip: 10.0.0.2}]", &[]);
    check(
        "podIPs: [{ip: 10.0.0.1}, {ip: 10.0.0.1}]",
        &[
            "status.podIPs: Invalid value: [{\"ip\":\"10.0.0.1\"},{\"ip\":\"10.0.0.1\"}]: may specify no more than one IP for each IP family",
            "status.podIPs[1]: Duplicate value: {\"ip\":\"10.0.0.1\"}",
        ],
    );
    check(
        "hostIP: 10.0.0.2, hostIPs: [{ip: 10.0.0.3}]",
        &["status.hostIPs[0].ip: Invalid value: \"10.0.0.3\": must be equal to `hostIP`"],
    );
    check("conditions: [{type: example.com/Own, status: 'True'}]", &[]);
    check(
        "conditions: [{type: '', status: 'True'}]",
        &[
            "metadata.conditions[0].Type: Invalid value: \"\": name part must be non-empty",
            "metadata.conditions[0].Type: Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ],
    );
}
