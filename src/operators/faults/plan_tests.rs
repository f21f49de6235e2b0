//! Tests of the plan of faults, as a table.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::effects::{FillMode, FillRequest};
use super::plan::{ActiveFaults, ClusterState, FaultDecision, MAX_FAULTS, plan, required_kinds};
use base::disk_fault::DiskFault;
use extension::fault::Fault;
use object::{Kind, SharedObject};

fn fault(name: &str, spec: &Value) -> SharedObject<Fault> {
    let value = json!({"metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec});
    SharedObject::from_value(serde_json::from_value(value).unwrap())
}

fn world() -> ClusterState {
    let node = |name: &str, zone: &str| {
        let node = json!({"metadata": {"name": name, "labels": {"zone": zone}}});
        SharedObject::from_value(serde_json::from_value(node).unwrap())
    };
    let pod = |name: &str, state: Value| {
        let pod = json!({"metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}},
            "spec": {"nodeName": "a", "containers": [], "volumes": [{"name": "cache", "emptyDir": {}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}, "status": {"phase": "Running", "containerStatuses": [
                {"name": "app", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": state}]}});
        SharedObject::from_value(serde_json::from_value(pod).unwrap())
    };
    let claim = |name: &str, phase: &str| {
        let claim = json!({"metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"volumeName": format!("pv-{name}")}, "status": {"phase": phase}});
        SharedObject::from_value(serde_json::from_value(claim).unwrap())
    };
    let volume = |name: &str, mut spec: Value| {
        spec["claimRef"] = json!({"namespace": "default", "name": name, "uid": name});
        let volume = json!({"metadata": {"name": format!("pv-{name}")}, "spec": spec});
        SharedObject::from_value(serde_json::from_value(volume).unwrap())
    };
    ClusterState {
        nodes: vec![node("a", "x"), node("b", "y"), node("c", "y")],
        pods: vec![pod("web-0", json!({"running": {}})), pod("web-1", json!({"waiting": {}}))],
        claims: vec![
            claim("data", "Bound"),
            claim("new", "Pending"),
            claim("block", "Bound"),
            claim("cloud", "Bound"),
            claim("lost", "Bound"),
        ],
        volumes: vec![
            volume("data", json!({"hostPath": {"path": "/mnt/data"}})),
            volume("block", json!({"local": {"path": "/dev/b"}, "volumeMode": "Block"})),
            volume("cloud", json!({"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "h"}})),
        ],
        webhooks: BTreeSet::from(["checks".to_owned()]),
        actors: BTreeSet::from(["deployment", "job", "scheduler"]),
        has_disk: true,
        nodes_dir: "/d/nodes".into(),
    }
}

#[test]
fn a_nodes_disk_meets_the_empty_dirs_of_its_pods_where_they_have_files_fault_1() {
    let disk = |name: &str, failure: &str| {
        let mut disk = json!({"failure": failure});
        if failure == "Slow" {
            disk["delay"] = "200ms".into();
        }
        fault(name, &json!({"type": "Disk", "target": {"nodeSelector": {}}, "disk": disk}))
    };
    let all = [disk("a", "Slow"), disk("b", "Failing")];
    let mut world = world();
    assert_eq!(required_kinds(&all), [Kind::Node, Kind::Pod].into());
    let affected = |world: &ClusterState| {
        let planned = plan(&all, world, |_| false);
        let in_force = ActiveFaults::of(planned.iter().map(|(_, planned)| planned));
        world.affected_volumes(&in_force)
    };
    assert!(affected(&world).is_empty(), "no node has reported that its pods have files");
    let node = json!({"metadata": {"name": "a"}, "status": {"nodeInfo": {"architecture": "", "bootID": "",
        "containerRuntimeVersion": "podium://1", "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "",
        "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": ""}}});
    world.nodes[0] = SharedObject::from_value(serde_json::from_value(node).unwrap());
    let at = |pod: &str| std::path::PathBuf::from(format!("/d/nodes/a/pods/{pod}/volumes/cache"));
    let expected =
        FillRequest { paths: vec![at("web-0"), at("web-1")], how: FillMode::OnDisk(DiskFault::Failing) };
    assert_eq!(
        affected(&world).into_iter().collect::<Vec<_>>(),
        [("the emptyDirs of node a".to_owned(), expected)]
    );
}

fn outcome(planned: &FaultDecision) -> String {
    match planned {
        FaultDecision::InForce(met) => met.description.clone(),
        FaultDecision::Inactive { reason, message } => format!("{reason}: {message}"),
        FaultDecision::Expired => "over".to_owned(),
    }
}

#[test]
fn each_fault_type_affects_its_targets_fault_1() {
    for (spec, expected) in [
        (json!({"type": "Crash", "target": {"component": "scheduler"}}), "the scheduler"),
        (json!({"type": "Crash", "target": {"component": "controllers"}}), "all controllers"),
        (json!({"type": "Pause", "target": {"component": "job"}}), "controller job"),
        (
            json!({"type": "Pause", "target": {"component": "cronjob"}}),
            "NoTarget: controller cronjob does not run in this cluster",
        ),
        (json!({"type": "Pause", "target": {"component": "store"}}), "the store"),
        (json!({"type": "Crash", "target": {"component": "kubelet", "node": "a"}}), "the kubelet of node a"),
        (
            json!({"type": "Pause", "target": {"component": "kubelet", "nodeSelector": {"matchLabels": {"zone": "y"}}}}),
            "the kubelet of nodes b, c",
        ),
        (json!({"type": "PowerOff", "target": {"node": "gone"}}), "NoTarget: node gone not found"),
        (json!({"type": "PowerOff", "target": {"nodeSelector": {}}}), "nodes a, b, c"),
        (json!({"type": "Disk", "target": {"node": "b"}, "disk": {"failure": "Full"}}), "node b"),
        (json!({"type": "Disk", "target": {"component": "store"}, "disk": {"failure": "Full"}}), "the store"),
        (json!({"type": "ClockSkew", "target": {"node": "b"}, "skew": {"by": "-5m"}}), "node b"),
        (
            json!({"type": "ClockSkew", "target": {"component": "controllers"}, "skew": {"by": "5m"}}),
            "all controllers",
        ),
        (json!({"type": "VolumeFull", "target": {"claim": "data"}}), "claim default/data at /mnt/data"),
        (
            json!({"type": "VolumeFull", "target": {"pod": "web-0", "volume": "cache"}}),
            "emptyDir cache of pod default/web-0 at /d/nodes/a/pods/web-0/volumes/cache",
        ),
        (
            json!({"type": "VolumeFull", "target": {"pod": "web-0", "volume": "none"}}),
            "NoTarget: pod default/web-0 has no volume none",
        ),
        (
            json!({"type": "VolumeFull", "target": {"pod": "web-9", "volume": "cache"}}),
            "NoTarget: pod default/web-9 not found, or it has ended",
        ),
        (
            json!({"type": "VolumeFull", "target": {"pod": "web-0", "volume": "data"}}),
            "NotHere: volume data of pod default/web-0 is not an emptyDir; for the volume of a claim, set target.claim instead",
        ),
        (
            json!({"type": "VolumeFull", "target": {"claim": "data", "namespace": "other"}}),
            "NoTarget: claim other/data not found",
        ),
        (
            json!({"type": "VolumeFull", "target": {"claim": "new"}}),
            "NotBound: claim default/new is not bound to a volume",
        ),
        (
            json!({"type": "VolumeFull", "target": {"claim": "lost"}}),
            "NotBound: volume pv-lost of claim default/lost is missing, or bound to another claim",
        ),
        (
            json!({"type": "VolumeFull", "target": {"claim": "block"}}),
            "NotHere: volume pv-block of claim default/block is a block device",
        ),
        (
            json!({"type": "VolumeFull", "target": {"claim": "cloud"}}),
            "NotHere: volume pv-cloud of claim default/cloud is not a directory of this machine",
        ),
        (json!({"type": "ImagePull", "image": {"failing": true}}), "all nodes"),
        (json!({"type": "Webhook", "target": {"webhook": "checks"}}), "the webhooks of checks"),
        (
            json!({"type": "Webhook", "target": {"webhook": "none"}}),
            "NoTarget: webhook configuration none not found",
        ),
        (json!({"type": "OutOfMemory", "target": {"podSelector": {}}}), "pod default/web-0"),
        (
            json!({"type": "OutOfMemory", "target": {"pod": "web-1"}}),
            "NoTarget: no matching container is running",
        ),
        (
            json!({"type": "OutOfMemory", "target": {"pod": "web-0", "container": "other"}}),
            "NoTarget: no matching container is running",
        ),
    ] {
        let all = [fault("f", &spec)];
        assert_eq!(outcome(&plan(&all, &world(), |_| false)[0].1), expected, "{spec}");
        assert_eq!(outcome(&plan(&all, &world(), |_| true)[0].1), "over");
    }
    let slow =
        json!({"type": "Disk", "target": {"component": "store"}, "disk": {"failure": "Slow", "delay": "1s"}});
    let without_disk = ClusterState { has_disk: false, ..world() };
    let all = [fault("f", &slow)];
    assert!(outcome(&plan(&all, &without_disk, |_| false)[0].1).starts_with("NoDisk"));
}

#[test]
fn active_faults_add_up_and_the_worse_one_counts_fault_1() {
    let all = [
        fault("1", &json!({"type": "Crash", "target": {"component": "kubelet", "node": "a"}})),
        fault("2", &json!({"type": "PowerOff", "target": {"nodeSelector": {"matchLabels": {"zone": "y"}}}})),
        fault("3", &json!({"type": "Pause", "target": {"component": "scheduler"}})),
        fault("4", &json!({"type": "Crash", "target": {"component": "controllers"}})),
        fault("5", &json!({"type": "ClockSkew", "target": {"node": "a"}, "skew": {"by": "5m"}})),
        fault("6", &json!({"type": "ClockSkew", "target": {"node": "a"}, "skew": {"by": "-2m"}})),
        fault("7", &json!({"type": "Disk", "target": {"node": "a"}, "disk": {"failure": "Full"}})),
        fault(
            "8",
            &json!({"type": "Disk", "target": {"node": "a"}, "disk": {"failure": "Slow", "delay": "1m"}}),
        ),
        fault("9", &json!({"type": "Partition", "from": {"node": "a"}})),
    ];
    let planned = plan(&all, &world(), |_| false);
    assert_eq!(planned.len(), 8, "those of the network are others' business");
    let in_force = ActiveFaults::of(planned.iter().map(|(_, planned)| planned));
    let names = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!((names(&in_force.nodes.crashed).as_str(), names(&in_force.nodes.off).as_str()), ("a", "b c"));
    assert_eq!(in_force.actors.paused, BTreeSet::from(["scheduler"]));
    assert_eq!(in_force.actors.crashed, BTreeSet::from(["deployment", "job"]));
    assert_eq!(in_force.nodes.skews["a"], 180_000);
    assert_eq!(in_force.nodes.disks["a"], DiskFault::Full);
    assert_eq!(ActiveFaults::of([]), ActiveFaults::default());
    // A faulty disk of a node affects the emptyDirs of its pods.
    assert_eq!(required_kinds(&all), [Kind::Node, Kind::Pod].into());
}

#[test]
fn a_claim_is_full_by_one_fault_at_a_time_fault_1() {
    let full = |name: &str, claim: &str| {
        fault(name, &json!({"type": "VolumeFull", "target": {"claim": claim, "namespace": "default"}}))
    };
    let all = [full("b", "data"), full("a", "data")];
    let planned = plan(&all, &world(), |_| false);
    let outcomes: Vec<String> = planned.iter().map(|(_, planned)| outcome(planned)).collect();
    let second = "AlreadyFull: fault a already fills the volume of claim default/data";
    assert_eq!(outcomes, ["claim default/data at /mnt/data", second], "the first of two keeps it");
    let in_force = ActiveFaults::of(planned.iter().map(|(_, planned)| planned));
    assert_eq!(in_force.full.len(), 1);
    // After its expiry the other takes its place.
    let planned = plan(&all, &world(), |fault| fault.metadata.name.as_deref() == Some("a"));
    let outcomes: Vec<String> = planned.iter().map(|(_, planned)| outcome(planned)).collect();
    assert_eq!(outcomes, ["over", "claim default/data at /mnt/data"]);
    assert_eq!(required_kinds(&all), [Kind::PersistentVolumeClaim, Kind::PersistentVolume].into());
}

#[test]
fn ended_and_deleted_faults_are_skipped_and_their_number_is_limited_fault_1() {
    let spec = json!({"type": "Crash", "target": {"component": "scheduler"}});
    let mut ended = (*fault("ended", &spec)).clone();
    ended.status = Some(serde_json::from_value(json!({"endedAt": "2026-01-01T00:00:30Z"})).unwrap());
    let mut going = (*fault("going", &spec)).clone();
    going.metadata.deletion_timestamp = going.metadata.creation_timestamp.clone();
    let none = [SharedObject::from_value(ended), SharedObject::from_value(going)];
    assert!(plan(&none, &world(), |_| false).is_empty());
    let many: Vec<SharedObject<Fault>> =
        (0..=MAX_FAULTS).map(|number| fault(&format!("{number:03}"), &spec)).collect();
    let planned = plan(&many, &world(), |_| false);
    assert_eq!(outcome(&planned[MAX_FAULTS - 1].1), "the scheduler");
    assert!(outcome(&planned[MAX_FAULTS].1).starts_with("TooManyFaults"));
}
