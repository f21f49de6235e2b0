//! The page "Injecting Information into Pods Using a PodPreset" (PP-1).

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Event, Pod};
use podium::api::WriteOptions;
use podium::object::pod_preset::PodPreset;
use podium::object::{Kind, Object};
use serde_json::{Value, json};

use super::{Cluster, NO_NODES};

fn preset(name: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["selector"] = json!({"matchLabels": {"role": "frontend"}});
    json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

fn frontend(name: &str, annotations: &Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "default", "labels": {"role": "frontend"}, "annotations": annotations},
        "spec": {"automountServiceAccountToken": false, "containers": [{"name": "website", "image": "nginx"}],
            "initContainers": [{"name": "first", "image": "busybox"}]}})
}

/// The page "Injecting Information into Pods Using a PodPreset".
#[tokio::test(start_paused = true)]
async fn presets_are_merged_into_the_pods_they_select_pp_1() {
    let cluster = Cluster::start(NO_NODES);
    let allow = preset(
        "allow-database",
        &json!({"env": [{"name": "DB_PORT", "value": "6379"}], "envFrom": [{"configMapRef": {"name": "etcd"}}],
            "volumeMounts": [{"mountPath": "/cache", "name": "cache-volume"}],
            "volumes": [{"name": "cache-volume", "emptyDir": {}}]}),
    );
    let allow = cluster.create::<PodPreset>(allow);
    let proxy =
        cluster.create::<PodPreset>(preset("proxy", &json!({"env": [{"name": "PROXY", "value": "p"}]})));
    let website = cluster.create::<Pod>(frontend("website", &json!({})));
    let spec = serde_json::to_value(&website.spec).unwrap();
    for container in [&spec["containers"][0], &spec["initContainers"][0]] {
        assert_eq!(
            container["env"],
            json!([{"name": "DB_PORT", "value": "6379"}, {"name": "PROXY", "value": "p"}])
        );
        assert_eq!(container["envFrom"], json!([{"configMapRef": {"name": "etcd"}}]));
        assert_eq!(container["volumeMounts"], json!([{"mountPath": "/cache", "name": "cache-volume"}]));
    }
    assert_eq!(spec["volumes"], json!([{"name": "cache-volume", "emptyDir": {}}]));
    let annotations = website.metadata.annotations.clone().unwrap();
    for preset in [&allow, &proxy] {
        let key = format!("podpreset.admission.kubernetes.io/podpreset-{}", preset.name());
        assert_eq!(annotations[&key], preset.object().revision().to_string());
    }
    // Pods that opt out, pods of other creators, and pods with other labels stay unchanged.
    let exclude = json!({"podpreset.admission.kubernetes.io/exclude": "true"});
    let mirror = json!({"kubernetes.io/config.mirror": "abc"});
    let mut other = frontend("other", &json!({}));
    other["metadata"]["labels"]["role"] = json!("backend");
    let mut mirrored = frontend("mirror", &mirror);
    mirrored["spec"]["nodeName"] = json!("node-1");
    for plain in [frontend("excluded", &exclude), mirrored, other] {
        let plain = cluster.create::<Pod>(plain);
        assert_eq!(plain.spec.as_ref().unwrap().containers[0].env, None, "{}", plain.name());
    }
    assert!(cluster.events("PodPresetConflict").is_empty());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_conflict_of_presets_is_reported_and_the_pod_created_without_them_pp_1() {
    let cluster = Cluster::start(NO_NODES);
    for (name, port) in [("a", "1"), ("b", "2")] {
        let env = json!({"env": [{"name": "DB_PORT", "value": port}]});
        cluster.create::<PodPreset>(preset(name, &env));
    }
    let dry = WriteOptions { dry_run: true, ..WriteOptions::default() };
    let object = Object::from_value(Kind::Pod, frontend("website", &json!({}))).unwrap();
    cluster.api.create(object, &dry).unwrap();
    assert!(cluster.events("PodPresetConflict").is_empty(), "nothing was made");
    let website = cluster.create::<Pod>(frontend("website", &json!({})));
    assert_eq!(website.spec.as_ref().unwrap().containers[0].env, None);
    assert!(website.metadata.annotations.clone().unwrap_or_default().is_empty());
    assert_eq!(
        cluster.events("PodPresetConflict"),
        [
            "conflict occurred while applying podpresets: a,b on pod: merging env for b has a conflict on DB_PORT"
        ]
    );
    let nothing = Object::from_value(Kind::PodPreset, preset("empty", &json!({}))).unwrap();
    let refused = cluster.api.create(nothing, &WriteOptions::default()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "PodPreset.settings.k8s.io \"empty\" is invalid: spec.volumes, env, envFrom, volumeMounts: Required value: \
         must specify at least one"
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn presets_reach_pods_that_a_controller_makes_and_only_those_to_come_pp_1() {
    let cluster = Cluster::start(NO_NODES);
    let set = |name: &str| {
        json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"replicas": 1,
            "selector": {"matchLabels": {"role": "frontend", "set": name}}, "template": {
                "metadata": {"labels": {"role": "frontend", "set": name}},
                "spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "DB_PORT", "value": "1"}]}]}}}})
    };
    let variables = |set: &str| -> Vec<String> {
        let pods = cluster.pods();
        let pod = pods.iter().find(|p| p.metadata.labels.as_ref().unwrap()["set"] == set).unwrap();
        let env = pod.spec.as_ref().unwrap().containers[0].env.clone().unwrap_or_default();
        env.into_iter().map(|v| v.name).collect()
    };
    cluster.create::<ReplicaSet>(set("before"));
    cluster.settle().await;
    cluster.create::<PodPreset>(preset("proxy", &json!({"env": [{"name": "PROXY", "value": "p"}]})));
    cluster.create::<ReplicaSet>(set("after"));
    cluster.settle().await;
    assert_eq!(
        (variables("before"), variables("after")),
        (vec!["DB_PORT".into()], vec!["DB_PORT".into(), "PROXY".into()])
    );
    // One conflicting preset excludes the other, too; the event is about the created pod.
    cluster.create::<PodPreset>(preset("database", &json!({"env": [{"name": "DB_PORT", "value": "2"}]})));
    cluster.create::<ReplicaSet>(set("torn"));
    cluster.settle().await;
    assert_eq!(variables("torn"), ["DB_PORT"]);
    let events = cluster.api.list_as::<Event>(Some("default"));
    let event = events.iter().find(|e| e.reason.as_deref() == Some("PodPresetConflict")).unwrap();
    assert_eq!(
        event.message.as_deref(),
        Some(
            "conflict occurred while applying podpresets: database,proxy on pod: merging env for database has a \
              conflict on DB_PORT"
        )
    );
    let about = cluster.get::<Pod>(event.involved_object.name.as_deref().unwrap());
    assert_eq!(event.involved_object.uid.as_deref(), Some(about.uid()));
    // The deletion of a preset does not affect its pods.
    let gone = podium::api::DeleteOptions::default();
    cluster.api.delete(Kind::PodPreset, &super::key("proxy"), &gone).unwrap();
    cluster.settle().await;
    assert_eq!(variables("after"), ["DB_PORT", "PROXY"]);
    cluster.stop().await;
}
