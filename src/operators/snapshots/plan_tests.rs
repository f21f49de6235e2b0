//! Tests of the restored, retained and removed objects, case by case.

use serde_json::{Value, json};

use super::*;

fn object(kind: Kind, mut value: Value) -> Object {
    if kind.is_custom() {
        value["apiVersion"] = json!("podium.dev/v1alpha1");
    }
    Object::from_value(kind, value).unwrap()
}

fn mapping() -> RestoreMapping {
    RestoreMapping {
        services: vec![("127.32.0.0/16".parse().unwrap(), "127.33.0.0/16".parse().unwrap())],
        data_dir: ("/then".into(), "/now".into()),
    }
}

/// Describes the writes.
fn written(now: Vec<Object>, then: Vec<Object>) -> Vec<String> {
    let now: Vec<Arc<Object>> = now.into_iter().map(Arc::new).collect();
    let moment = Time("2026-11-24T00:00:00Z".parse().unwrap());
    let plan = plan(&now, then, &mapping(), &moment, || "fresh".to_owned());
    let mut lines: Vec<String> = (plan.writes.iter())
        .map(|write| match write {
            Rewrite::Set(object) => format!("+{} {}", object.key(), object.uid()),
            Rewrite::Remove(_, key) => format!("-{key}"),
        })
        .collect();
    lines.extend(plan.skipped.iter().map(|key| format!("?{key}")));
    lines.extend(plan.left_behind.iter().map(|key| format!("!{key}")));
    lines.extend(plan.retained_volumes.iter().map(|name| format!("={name}")));
    lines
}

fn named(kind: Kind, uid: &str, rest: &Value) -> Object {
    let mut value = json!({"metadata": {"name": "a", "namespace": "n", "uid": uid}});
    for (key, part) in rest.as_object().unwrap() {
        match (value.get_mut(key).and_then(Value::as_object_mut), part) {
            (Some(there), Value::Object(part)) => there.extend(part.clone()),
            _ => value[key] = part.clone(),
        }
    }
    object(kind, value)
}

#[test]
fn a_restore_brings_back_old_objects_and_removes_newer_ones_safe_8() {
    let map = |uid: &str, data: &str| named(Kind::ConfigMap, uid, &json!({"data": {"k": data}}));
    for (now, then, expected) in [
        (vec![], vec![map("1", "x")], vec!["+n/a 1"]),
        (vec![map("1", "x")], vec![map("1", "x")], vec![]),
        (vec![map("1", "y")], vec![map("1", "x")], vec!["+n/a 1"]),
        (vec![map("2", "x")], vec![map("1", "x")], vec!["-n/a", "+n/a 1"]),
        (vec![map("1", "x")], vec![], vec!["-n/a"]),
    ] {
        assert_eq!(written(now, then), expected);
    }
}

#[test]
fn a_restore_leaves_objects_of_this_machine_alone_safe_8() {
    let kinds = [Kind::Event, Kind::Lease, Kind::CSINode];
    for kind in kinds.into_iter().chain(extension::kinds()) {
        let one = |uid| named(kind, uid, &json!({}));
        assert_eq!(written(vec![one("1")], vec![]), [""; 0], "{kind}");
        assert_eq!(written(vec![one("1")], vec![one("2")]), [""; 0], "{kind}");
        assert_eq!(written(vec![], vec![one("2")]), [""; 0], "{kind}");
    }
    let definitions = || extension::definitions().iter().cloned().map(Object::new).collect();
    assert_eq!(written(definitions(), vec![]), [""; 0], "a snapshot of an older version has none");
    assert_eq!(written(vec![], definitions()), [""; 0]);
    let api = |ip: &str| {
        let value =
            json!({"metadata": {"name": "kubernetes", "namespace": "default"}, "spec": {"clusterIP": ip}});
        object(Kind::Service, value)
    };
    assert_eq!(written(vec![api("127.33.0.1")], vec![api("127.32.0.1")]), [""; 0]);
    // A DNS service of the user's own does not belong to Podium.
    let dns = |uid: &str| {
        let value = json!({"metadata": {"name": "kube-dns", "namespace": "kube-system", "uid": uid},
            "spec": {"selector": {"a": "b"}}});
        object(Kind::Service, value)
    };
    assert_eq!(written(vec![], vec![dns("1")]), ["+kube-system/kube-dns 1"]);
}

#[test]
fn a_restore_starts_fresh_pods_only_without_a_controller_safe_8() {
    let pod = |uid: &str, rest: Value| named(Kind::Pod, uid, &rest);
    let owned = json!({"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "o",
        "controller": true}]});
    let running = || pod("1", json!({"spec": {"nodeName": "x"}, "status": {"phase": "Running"}}));
    let ended = |uid: &str| pod(uid, json!({"spec": {"nodeName": "x"}, "status": {"phase": "Succeeded"}}));
    let of_set = || pod("1", json!({"metadata": owned, "status": {"phase": "Running"}}));
    let of_job = || pod("1", json!({"metadata": owned, "status": {"phase": "Failed"}}));
    let going = || {
        let metadata = json!({"deletionTimestamp": "2026-11-24T00:00:00Z"});
        pod("1", json!({"metadata": metadata, "status": {"phase": "Running"}}))
    };
    let mirror = || pod("1", json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "m"}}}));
    for (now, then, expected) in [
        (vec![], vec![running()], vec!["+n/a fresh"]),
        (vec![], vec![ended("1")], vec!["+n/a 1"]),
        (vec![ended("2")], vec![running()], vec!["-n/a", "+n/a fresh"]),
        (vec![], vec![of_set()], vec![]),
        (vec![], vec![of_job()], vec!["+n/a 1"]),
        (vec![], vec![going()], vec![]),
        (vec![], vec![mirror()], vec![]),
        (vec![mirror()], vec![], vec![]),
        // Its processes may still run: only its node can confirm that they have ended.
        (vec![going()], vec![running()], vec!["?n/a"]),
        (vec![going()], vec![of_set()], vec!["!n/a"]),
        (vec![going()], vec![], vec!["!n/a"]),
        (vec![ended("2")], vec![], vec!["-n/a"]),
    ] {
        assert_eq!(written(now, then), expected);
    }
    let now: Vec<Arc<Object>> = Vec::new();
    let moment = Time("2026-11-24T00:00:00Z".parse().unwrap());
    let made = plan(&now, vec![running()], &mapping(), &moment, || "fresh".to_owned()).writes;
    let [Rewrite::Set(made)] = made.as_slice() else { panic!("{made:?}") };
    let pod = made.get::<Pod>().unwrap();
    assert_eq!(pod.spec.as_ref().unwrap().node_name, None);
    assert_eq!(pod.status.as_ref().unwrap().phase.as_deref(), Some("Pending"));
    assert_eq!(pod.metadata.creation_timestamp, Some(moment));
}

#[test]
fn a_restore_leaves_objects_derived_from_pods_to_their_controllers_safe_8() {
    let slice = |manager: &str| {
        let labels = json!({"labels": {"endpointslice.kubernetes.io/managed-by": manager}});
        named(Kind::EndpointSlice, "1", &json!({"metadata": labels, "addressType": "IPv4", "endpoints": []}))
    };
    let endpoints = || named(Kind::Endpoints, "1", &json!({}));
    let service = |selector: Value| named(Kind::Service, "s", &json!({"spec": {"selector": selector}}));
    let address = |resource: &str| {
        let parent = json!({"parentRef": {"resource": resource, "name": "s"}});
        named(Kind::IPAddress, "1", &json!({"spec": parent}))
    };
    for (then, expected) in [
        (vec![slice("endpointslice-controller.k8s.io")], vec![]),
        (vec![slice("endpointslicemirroring-controller.k8s.io")], vec![]),
        (vec![slice("another-controller")], vec!["+n/a 1"]),
        (vec![endpoints()], vec!["+n/a 1"]),
        (vec![endpoints(), service(json!({}))], vec!["+n/a 1", "+n/a s"]),
        (vec![endpoints(), service(json!({"a": "b"}))], vec!["+n/a s"]),
        (vec![address("services")], vec![]),
        (vec![address("gateways")], vec!["+n/a 1"]),
    ] {
        assert_eq!(written(vec![], then), expected);
    }
    let attached = json!({"spec": {"attacher": "x", "nodeName": "y", "source": {}}});
    let attachment = || named(Kind::VolumeAttachment, "1", &attached);
    assert_eq!(written(vec![], vec![attachment()]), [""; 0], "the snapshot's attachments are not restored");
    assert_eq!(written(vec![attachment()], vec![]), [""; 0], "current attachments are not removed");
    assert_eq!(
        written(vec![slice("endpointslice-controller.k8s.io"), endpoints()], vec![]),
        ["-n/a", "-n/a"]
    );
}

#[test]
fn services_and_volumes_are_where_this_cluster_has_them_safe_8() {
    let table = [
        ("127.32.0.9", Some("127.33.0.9")),
        ("127.32.255.255", Some("127.33.255.255")),
        ("127.33.0.9", None),
        ("10.0.0.1", None),
    ];
    for (ip, expected) in table {
        let expected: Option<IpAddr> = expected.map(|ip| ip.parse().unwrap());
        assert_eq!(moved(ip.parse().unwrap(), mapping().services[0]), expected, "{ip}");
    }
    let narrower = ("10.0.0.0/16".parse().unwrap(), "10.1.0.0/24".parse().unwrap());
    assert_eq!(moved("10.0.1.0".parse().unwrap(), narrower), None);
    let mut service = named(
        Kind::Service,
        "1",
        &json!({"spec": {"clusterIP": "127.32.1.2",
        "clusterIPs": ["127.32.1.2", "fd00::1"]}}),
    );
    move_addresses(&mut service, &mapping().services);
    let spec = service.get::<Service>().unwrap().spec.clone().unwrap();
    assert_eq!(spec.cluster_ip.as_deref(), Some("127.33.1.2"));
    assert_eq!(spec.cluster_ips.unwrap(), ["127.33.1.2", "fd00::1"]);

    let volume =
        |path: &str| named(Kind::PersistentVolume, "1", &json!({"spec": {"hostPath": {"path": path}}}));
    for (path, expected) in
        [("/then/volumes/a", "/now/volumes/a"), ("/thenceforth/a", "/thenceforth/a"), ("/x", "/x")]
    {
        let mut volume = volume(path);
        let of = volume.get_mut::<PersistentVolume>().unwrap();
        move_directory(of, &mapping().data_dir);
        assert_eq!(of.spec.as_ref().unwrap().host_path.as_ref().unwrap().path, expected);
    }
    let disk = json!({"spec": {"csi": {"driver": "disk.podium.dev", "volumeHandle": "a",
        "volumeAttributes": {"path": "/then/volumes/a"}}}});
    let mut disk = named(Kind::PersistentVolume, "1", &disk);
    let of = disk.get_mut::<PersistentVolume>().unwrap();
    move_directory(of, &mapping().data_dir);
    assert_eq!(object::storage::directory_of(of), Some("/now/volumes/a"));
    // A volume that the snapshot does not know is the user's to remove.
    assert_eq!(written(vec![volume("/now/volumes/a")], vec![]), ["+n/a 1", "=a"]);
}

#[test]
fn nodes_are_of_this_machine_and_have_the_marks_of_then_safe_8() {
    let node = |uid: &str, rest: Value| {
        let mut value = json!({"metadata": {"name": "a", "uid": uid}});
        value["metadata"].as_object_mut().unwrap().extend(rest["metadata"].as_object().unwrap().clone());
        value["spec"] = rest["spec"].clone();
        value["status"] = json!({"capacity": {"cpu": uid}});
        object(Kind::Node, value)
    };
    let now = node(
        "2",
        json!({"metadata": {"labels": {"new": "1"}}, "spec": {"podCIDR": "10.0.0.0/24",
        "taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}, {"key": "mine", "effect": "NoSchedule"}]}}),
    );
    let then = node(
        "1",
        json!({"metadata": {"labels": {"old": "1"}}, "spec": {"podCIDR": "10.9.0.0/24",
        "unschedulable": true, "taints": [{"key": "theirs", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]}}),
    );
    let merged = super::node(&then, Some(&Arc::new(now.clone()))).unwrap();
    let merged = merged.get::<Node>().unwrap();
    let spec = merged.spec.as_ref().unwrap();
    let taints: Vec<&str> = spec.taints.iter().flatten().map(|taint| taint.key.as_str()).collect();
    assert_eq!(taints, ["node.kubernetes.io/not-ready", "theirs"]);
    assert_eq!((spec.unschedulable, spec.pod_cidr.as_deref()), (Some(true), Some("10.0.0.0/24")));
    assert!(merged.metadata.labels.as_ref().unwrap().contains_key("old"));
    assert_eq!(merged.metadata.uid.as_deref(), Some("2"));
    assert_eq!(written(vec![now], vec![]), [""; 0], "a node of this machine stays");
    assert_eq!(written(vec![], vec![then.clone()]), [""; 0], "one that is not here does not come back");
    let mut requested = then;
    requested.meta_mut().annotations =
        Some([(annotation::PODIUM_NODE.to_owned(), "hollow".to_owned())].into());
    assert_eq!(written(vec![], vec![requested]), ["+a 1"], "unless an object asked for it");
}
