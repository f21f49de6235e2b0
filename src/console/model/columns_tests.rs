//! Every value of a table stands under the heading of its column (CON-3).

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

use super::tabs_tests::{TestConsole, objects};
use super::*;
use console_data::catalogue::Catalogue;
use console_data::message::Message;
use console_data::store::{Change, Delta, Object};
use extension::fault::Fault;
use extension::node_fence::NodeFence;

fn list<K>(all: impl IntoIterator<Item = Value>) -> Delta
where
    K: kube::Resource<DynamicType = ()> + Object + serde::de::DeserializeOwned,
{
    Delta::of::<K>(vec![Change::Reset(objects(all))])
}

fn meta(name: &str) -> Value {
    json!({"name": name, "namespace": "default", "uid": name, "generation": 1, "labels": {"a": "b"},
        "creationTimestamp": "2026-05-01T11:00:00Z"})
}

/// Returns the first row of the kind's table, as it is saved: `HEADING=value` for each column.
fn saved(stage: &mut TestConsole, kind: &str) -> String {
    let jobs = stage.press(&format!(": \"{kind}\" enter ctrl-s"));
    let text = jobs.iter().find_map(|job| match job {
        Job::Save(_, text) => Some(text),
        _ => None,
    });
    let mut lines = text.unwrap_or_else(|| panic!("{kind}: {jobs:?}\n{}", stage.screen())).lines();
    let (heads, row) = (lines.next().unwrap(), lines.next().unwrap_or_else(|| panic!("{kind} has no row")));
    let (heads, row): (Vec<&str>, Vec<&str>) = (heads.split(',').collect(), row.split(',').collect());
    assert_eq!(heads.len(), row.len(), "{kind}: {heads:?} {row:?}");
    heads.iter().zip(row).map(|(head, value)| format!("{head}={value}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn every_value_stands_under_its_heading_con_3() {
    let mut stage = TestConsole::new(120, 30);
    let kinds = console_data::builtin_kinds::kinds().into_iter().chain([
        console_data::builtin_kinds::kind::<Fault>(),
        console_data::builtin_kinds::kind::<NodeFence>(),
    ]);
    stage.model.update(Message::Catalogue(Catalogue::of(kinds.collect())), stage.now);
    let containers = json!([{"name": "main", "image": "image:1"}]);
    stage.feed(list::<Pod>([json!({
        "metadata": meta("pod"), "spec": {"nodeName": "node", "containers": containers},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "qosClass": "Burstable", "containerStatuses": [{
            "name": "main", "image": "image:1", "imageID": "", "ready": true, "restartCount": 3,
            "state": {"running": {}}}]},
    })]));
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}});
    let selector = json!({"matchLabels": {"a": "b"}});
    stage.feed(list::<Deployment>([json!({
        "metadata": meta("deployment"), "spec": {"replicas": 5, "selector": selector, "template": template},
        "status": {"replicas": 4, "updatedReplicas": 3, "readyReplicas": 2, "availableReplicas": 1},
    })]));
    stage.feed(list::<ReplicaSet>([json!({
        "metadata": {"name": "set", "namespace": "default", "uid": "set",
            "annotations": {"deployment.kubernetes.io/revision": "7"}},
        "spec": {"replicas": 3, "selector": selector, "template": template},
        "status": {"replicas": 2, "readyReplicas": 1},
    })]));
    stage.feed(list::<Service>([json!({
        "metadata": meta("service"),
        "spec": {"type": "NodePort", "clusterIP": "10.96.0.1", "externalIPs": ["192.0.2.1"],
            "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}], "selector": {"a": "b"}},
    })]));
    stage.feed(list::<Namespace>([
        json!({"metadata": {"name": "space", "uid": "space"}, "status": {"phase": "Active"}}),
    ]));
    stage.feed(list::<PodDisruptionBudget>([json!({
        "metadata": meta("budget"), "spec": {"minAvailable": 1, "maxUnavailable": "40%"},
        "status": {"disruptionsAllowed": 2, "currentHealthy": 3, "expectedPods": 4, "desiredHealthy": 1},
    })]));
    stage.feed(list::<Node>([json!({
        "metadata": {"name": "node", "uid": "node", "labels": {"topology.kubernetes.io/zone": "zone-a",
            "node-role.kubernetes.io/worker": ""}},
        "spec": {"taints": [{"key": "tainted", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
            "addresses": [{"type": "InternalIP", "address": "172.16.0.1"}],
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "6.12.9",
                "kubeProxyVersion": "", "kubeletVersion": "v1.2.3", "machineID": "", "operatingSystem": "",
                "osImage": "", "systemUUID": ""}},
    })]));
    let event = |name: &str, message: &str| {
        json!({"metadata": meta(name), "type": "Warning", "reason": "BackOff", "message": message, "count": 3,
            "lastTimestamp": "2026-05-01T11:59:00Z",
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "pod"}})
    };
    stage.feed(list::<Event>([event("event", "message")]));
    stage.feed(list::<Fault>([json!({
        "metadata": {"name": "fault", "uid": "fault"},
        "spec": {"type": "Latency", "from": {"namespace": "one"}, "to": {"namespace": "two"}},
        "status": {"meets": "2 pods"},
    })]));
    stage.feed(list::<NodeFence>([json!({
        "metadata": {"name": "fence", "uid": "fence"}, "spec": {"reason": "dead"},
        "status": {"conditions": [{"type": "Fenced", "status": "True", "reason": "x", "message": "done",
            "lastTransitionTime": "2026-05-01T11:59:48Z"}]},
    })]));
    let cases = [
        (
            "pods",
            "NAME=pod READY=1/1 STATUS=Running RESTARTS=3 NODE=node IP=10.0.0.1 QOS=Burstable IMAGES=image:1 AGE=2026",
        ),
        (
            "deployments",
            "NAME=deployment READY=2/5 STATUS=Progressing UP-TO-DATE=3 AVAILABLE=1 IMAGES=image:1 CONTAINERS=main SELECTOR=a=b AGE=2026",
        ),
        ("replicasets", "NAME=set DESIRED=3 CURRENT=2 READY=1 REVISION=7 IMAGES=image:1 SELECTOR=a=b AGE="),
        (
            "services",
            "NAME=service TYPE=NodePort CLUSTER-IP=10.96.0.1 EXTERNAL-IP=192.0.2.1 PORT(S)=80:30080/TCP SELECTOR=a=b AGE=2026",
        ),
        ("namespaces", "NAME=space STATUS=Active AGE="),
        (
            "poddisruptionbudgets",
            "NAME=budget MIN AVAILABLE=1 MAX UNAVAILABLE=40% ALLOWED DISRUPTIONS=2 HEALTHY=3/4 AGE=2026",
        ),
        (
            "nodes",
            "NAME=node STATUS=Ready ROLES=worker PODS=1 CPU-REQ%=0 MEM-REQ%=0 ZONE=zone-a VERSION=v1.2.3 INTERNAL-IP=172.16.0.1 KERNEL-VERSION=6.12.9 TAINTS=tainted:NoSchedule AGE=",
        ),
        (
            "events",
            "LAST SEEN=2026-05-01T11:59:00Z TYPE=Warning REASON=BackOff OBJECT=pod/pod COUNT=3 MESSAGE=message",
        ),
        ("faults", "NAME=fault TYPE=Latency STATUS=Waiting LEFT=until healed MEETS=2 pods FROM="),
        ("nodefences", "NAME=fence STATUS=Pending REASON=dead MESSAGE=done AGE="),
        ("workloads", "NAME=deployment KIND=Deployment READY=2/5 STATUS=Progressing REASON="),
    ];
    for (kind, expected) in cases {
        let row = saved(&mut stage, kind);
        assert!(row.contains(expected), "{kind}: {row}");
    }
    // A group of events is one row with the sum of the counts.
    stage.feed(list::<Event>([event("event-1", "first"), event("event-2", "second")]));
    stage.press(": \"events\" enter ctrl-g");
    let jobs = stage.press("ctrl-s");
    let [Job::Save(_, text)] = &jobs[..] else { panic!("{jobs:?}") };
    assert!(text.contains("pod/pod,6,"), "{text}");
    assert!(text.contains("(and 1 other)"), "{text}");
}

#[test]
fn the_kernel_of_a_node_is_shown_in_wide_mode_con_3() {
    let mut stage = TestConsole::new(200, 30);
    stage.feed(list::<Node>([
        json!({"metadata": {"name": "new", "uid": "new"}}),
        json!({
            "metadata": {"name": "old", "uid": "old"},
            "status": {"nodeInfo": {"architecture": "", "bootID": "", "containerRuntimeVersion": "",
                "kernelVersion": "5.15.0-91-generic", "kubeProxyVersion": "", "kubeletVersion": "",
                "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": ""}},
        }),
    ]));
    stage.press(": \"nodes\" enter");
    let screen = stage.screen();
    assert!(!screen.contains("KERNEL-VERSION") && !screen.contains("5.15.0"), "{screen}");
    stage.press("ctrl-w");
    let screen = stage.screen();
    assert!(screen.contains("KERNEL-VERSION") && screen.contains("5.15.0-91-generic"), "{screen}");
}
