//! The components beside the controllers (CON-19): kubelets, the network and the cluster's own loops; and the watch
//! that reports changes.

use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, TryStreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{DeleteParams, PostParams, WatchEvent};
use kube::{Api, Client};
use podium::extension::fault::Fault;
use podium::testing::{ClientOptions, Cluster};
use serde_json::{Value, json};

use super::{create, deployment, pod, pods};

const PATH: &str = "/apis/podium.dev/v1alpha1/controllers";
const KUBELET: &str = "kubelet:hollow-00001";

type Events = Pin<Box<dyn Stream<Item = Result<WatchEvent<Value>, kube::Error>>>>;

async fn ask(client: &Client, path: &str) -> Result<Value, kube::Error> {
    client.request(http::Request::get(format!("{PATH}{path}")).body(Vec::new()).unwrap()).await
}

async fn status(cluster: &Cluster, name: &str) -> Value {
    ask(&cluster.client(), &format!("/{name}")).await.unwrap()["status"].clone()
}

async fn watch(client: &Client, query: &str) -> Result<Events, kube::Error> {
    let request = http::Request::get(format!("{PATH}?watch=true{query}")).body(Vec::new()).unwrap();
    Ok(Box::pin(client.request_events::<Value>(request).await?))
}

/// The events of the watch within this time: the type of each event and its object.
async fn events_in(events: &mut Events, time: Duration) -> Vec<(&'static str, Value)> {
    let mut all = Vec::new();
    let end = tokio::time::Instant::now() + time;
    while let Ok(Ok(Some(event))) = tokio::time::timeout_at(end, events.try_next()).await {
        all.push(match event {
            WatchEvent::Added(object) => ("ADDED", object),
            WatchEvent::Modified(object) => ("MODIFIED", object),
            WatchEvent::Deleted(object) => ("DELETED", object),
            WatchEvent::Bookmark(bookmark) => ("BOOKMARK", json!(bookmark)),
            WatchEvent::Error(error) => ("ERROR", json!(error.code)),
        });
    }
    all
}

fn of<'e>(events: &'e [(&'static str, Value)], name: &str) -> Vec<(&'static str, &'e Value)> {
    events.iter().filter(|(_, object)| object["metadata"]["name"] == name).map(|(t, o)| (*t, o)).collect()
}

fn count(status: &Value, name: &str) -> Option<u64> {
    let counts = status["counts"].as_array()?;
    counts.iter().find(|one| one["name"] == name)?["count"].as_u64()
}

async fn create_fault(cluster: &Cluster, name: &str, type_: &str, target: Value) {
    let fault = json!({"metadata": {"name": name}, "spec": {"type": type_, "target": target}});
    let faults: Api<Fault> = Api::all(cluster.client());
    faults.create(&PostParams::default(), &serde_json::from_value(fault).unwrap()).await.unwrap();
    cluster.settle().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_tells_of_its_pods_its_passes_and_what_fails_con_19() {
    let cluster = Cluster::start().await.unwrap();
    create::<k8s_openapi::api::apps::v1::Deployment>(&cluster, deployment("web", 3)).await;
    cluster.advance(Duration::from_secs(10)).await.unwrap();
    let reported = status(&cluster, KUBELET).await;
    assert_eq!(
        (&reported["state"], &reported["subsystem"]),
        (&json!("Running"), &json!("Kubelet")),
        "{reported}"
    );
    assert_eq!((&reported["component"], &reported["node"]), (&json!("kubelet"), &json!("hollow-00001")));
    assert_eq!(count(&reported, "pods"), Some(3), "{reported}");
    assert!(
        count(&reported, "status writes") >= Some(3) && reported["reconciles"].as_u64() >= Some(3),
        "{reported}"
    );
    assert_eq!((&reported["errors"], &reported["queue"]["depth"]), (&json!(0), &json!(0)));
    let last = &reported["recent"][0];
    assert!(last["key"].as_str().unwrap().starts_with("default/web-"), "{last}");
    assert_eq!(last["object"]["kind"], "Pod");
    // A pod with processes that do not die fails repeatedly, and reports the time of the next try.
    create::<Pod>(&cluster, pod("stuck", "Always")).await;
    cluster.advance(Duration::from_secs(5)).await.unwrap();
    cluster.hold_processes("hollow-00001", Some("they are in the kernel")).unwrap();
    pods(&cluster).delete("stuck", &DeleteParams::default().grace_period(1)).await.unwrap();
    cluster.advance(Duration::from_secs(20)).await.unwrap();
    let reported = status(&cluster, KUBELET).await;
    assert!(reported["errors"].as_u64() >= Some(2), "{reported}");
    let error = &reported["lastErrors"][0];
    assert_eq!((error, &error["key"]), (&reported["lastError"], &json!("default/stuck")));
    assert!(error["message"].as_str().unwrap().contains("they are in the kernel"), "{error}");
    let later = reported["delayed"].as_array().unwrap().iter().find(|one| one["key"] == "default/stuck");
    let later = later.unwrap_or_else(|| panic!("it is tried again: {reported}"));
    assert!(
        later["failures"].as_u64() >= Some(2) && later["dueInMicroseconds"].as_u64() > Some(0),
        "{later}"
    );
    cluster.hold_processes("hollow-00001", None).unwrap();
    cluster.advance(Duration::from_mins(3)).await.unwrap();
    assert_eq!(count(&status(&cluster, KUBELET).await, "pods"), Some(3), "the deleted pod is not counted");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_is_paused_by_a_fault_takes_no_steps_and_is_reported_while_down_con_19() {
    let cluster = Cluster::start().await.unwrap();
    let of_node = json!({"component": "kubelet", "node": "hollow-00001"});
    create_fault(&cluster, "hold", "Pause", of_node.clone()).await;
    create::<Pod>(&cluster, pod("waits", "Always")).await;
    cluster.advance(Duration::from_secs(5)).await.unwrap();
    let reported = status(&cluster, KUBELET).await;
    assert_eq!(
        (&reported["state"], &reported["queue"]["depth"]),
        (&json!("Paused"), &json!(1)),
        "{reported}"
    );
    assert_eq!(reported["waiting"][0]["key"], "default/waits");
    assert!(reported["waiting"][0]["waitedMicroseconds"].as_u64() >= Some(3_000_000), "{reported}");
    let request = http::Request::post(format!("{PATH}/{KUBELET}/step"))
        .header("content-type", "application/json")
        .body(b"{}".to_vec())
        .unwrap();
    match cluster.client().request::<Value>(request).await {
        Err(kube::Error::Api(status)) => {
            assert_eq!((status.code, status.message.contains("a kubelet's pods")), (409, true));
        }
        other => panic!("{other:?}"),
    }
    let faults: Api<Fault> = Api::all(cluster.client());
    faults.delete("hold", &DeleteParams::default()).await.unwrap();
    cluster.advance(Duration::from_secs(5)).await.unwrap();
    let reported = status(&cluster, KUBELET).await;
    assert_eq!((&reported["state"], &reported["queue"]["depth"]), (&json!("Running"), &json!(0)));
    create_fault(&cluster, "down", "Crash", of_node).await;
    cluster.advance(Duration::from_secs(5)).await.unwrap();
    assert_eq!(status(&cluster, KUBELET).await, json!({"state": "Stopped"}));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn loops_without_a_queue_tell_of_their_rounds_and_that_nothing_pauses_them_con_19() {
    let cluster = Cluster::start().await.unwrap();
    cluster.advance(Duration::from_mins(7)).await.unwrap();
    let reported = status(&cluster, "housekeeping").await;
    assert_eq!(
        (&reported["state"], &reported["subsystem"]),
        (&json!("Running"), &json!("Cluster")),
        "{reported}"
    );
    assert!(
        reported["queue"].is_null() && reported["workers"].is_null() && reported["component"].is_null(),
        "{reported}"
    );
    assert!(
        reported["cannotPause"].as_str().is_some_and(|why| why.contains("it cannot be paused")),
        "{reported}"
    );
    assert!(reported["reconciles"].as_u64() >= Some(5) && reported["errors"] == 0, "{reported}");
    assert_eq!(reported["recent"][0]["key"], "expired events and watch history");
    assert_eq!(count(&reported, "under way"), Some(0));
    let all = ask(&cluster.client(), "").await.unwrap();
    let by_name =
        |name: &str| all["items"].as_array().unwrap().iter().find(|one| one["metadata"]["name"] == name);
    for name in [
        "events-limit", "faults", "fencing", "nodes", "own-definitions", "own-objects", "scenarios",
        "self-check", "snapshots",
    ] {
        let one = by_name(name).unwrap_or_else(|| panic!("no {name}: {all}"));
        assert_eq!(
            (&one["status"]["subsystem"], &one["status"]["errors"]),
            (&json!("Cluster"), &json!(0)),
            "{one}"
        );
    }
    assert!(by_name("self-check").unwrap()["status"]["reconciles"].as_u64() >= Some(1));
    assert_eq!(by_name("network-faults").unwrap()["status"]["subsystem"], "Network");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_once_a_second_what_has_changed_and_nothing_else_con_19_api_4() {
    let cluster = Cluster::start().await.unwrap();
    cluster.advance(Duration::from_mins(2)).await.unwrap();
    let client = cluster.client();
    let list = ask(&client, "").await.unwrap();
    let version = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut events = watch(&client, &format!("&resourceVersion={version}")).await.unwrap();
    // A minute without events except heartbeats.
    let quiet = events_in(&mut events, Duration::from_secs(5)).await;
    assert!(of(&quiet, "deployment").is_empty(), "{quiet:?}");
    create::<k8s_openapi::api::apps::v1::Deployment>(&cluster, deployment("web", 2)).await;
    let busy = events_in(&mut events, Duration::from_millis(5500)).await;
    let of_deployment = of(&busy, "deployment");
    assert!((1..=6).contains(&of_deployment.len()), "once a second at most: {of_deployment:?}");
    assert!(
        busy.iter().all(|(type_, _)| *type_ == "MODIFIED"),
        "listed controllers are not reported as added: {busy:?}"
    );
    let (_, last) = of_deployment.last().unwrap();
    assert_eq!(last["status"], strip(status(&cluster, "deployment").await), "the last word is how it is");
    assert!(!of(&busy, KUBELET).is_empty(), "{busy:?}");
    // A watch from an older version gets the changes since then, once.
    let mut again = watch(&client, &format!("&resourceVersion={version}")).await.unwrap();
    let since = events_in(&mut again, Duration::from_millis(500)).await;
    assert_eq!(of(&since, "deployment").len(), 1, "{since:?}");
    let after = last["metadata"]["resourceVersion"].as_str().unwrap();
    let mut after = watch(&client, &format!("&resourceVersion={after}")).await.unwrap();
    assert!(of(&events_in(&mut after, Duration::from_millis(500)).await, "deployment").is_empty());
    // The kubelet of a deleted node is removed with it.
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.delete("hollow-00001", &DeleteParams::default()).await.unwrap();
    let gone = events_in(&mut events, Duration::from_mins(2)).await;
    assert_eq!(of(&gone, KUBELET).last().unwrap().0, "DELETED");
    // Resource versions of another process are unknown.
    for unknown in ["7", "9000000000000000000"] {
        let mut refused = watch(&client, &format!("&resourceVersion={unknown}")).await.unwrap();
        assert_eq!(events_in(&mut refused, Duration::from_secs(1)).await, [("ERROR", json!(410))]);
    }
    cluster.stop().await;
}

/// Returns the status as it is in a list.
fn strip(mut status: Value) -> Value {
    for part in ["waiting", "delayed", "inFlight", "recent", "lastErrors"] {
        status.as_object_mut().unwrap().remove(part);
    }
    status
}

#[tokio::test(start_paused = true)]
async fn a_watch_begins_with_what_there_is_or_is_of_one_with_its_keys_con_19_api_4() {
    let cluster = Cluster::start().await.unwrap();
    cluster.settle().await.unwrap();
    let client = cluster.client();
    let all = ask(&client, "").await.unwrap()["items"].as_array().unwrap().len();
    let mut events = watch(&client, "").await.unwrap();
    let first = events_in(&mut events, Duration::from_millis(500)).await;
    assert_eq!(first.len(), all);
    assert!(first.iter().all(|(type_, _)| *type_ == "ADDED"));
    let query = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut listed = watch(&client, query).await.unwrap();
    let first = events_in(&mut listed, Duration::from_millis(500)).await;
    let (type_, bookmark) = first.last().unwrap();
    assert_eq!((*type_, first.len()), ("BOOKMARK", all + 1));
    assert_eq!(bookmark["metadata"]["annotations"]["k8s.io/initial-events-end"], "true", "{bookmark}");
    let mut one = watch(&client, "&fieldSelector=metadata.name%3Ddeployment").await.unwrap();
    assert_eq!(events_in(&mut one, Duration::from_millis(500)).await.len(), 1);
    create::<k8s_openapi::api::apps::v1::Deployment>(&cluster, deployment("web", 1)).await;
    let received = events_in(&mut one, Duration::from_secs(3)).await;
    assert!(received.iter().all(|(_, object)| object["metadata"]["name"] == "deployment"));
    assert_eq!(received.last().unwrap().1["status"]["recent"][0]["key"], "default/web");
    // As kubectl prints them: the columns are sent once.
    let table = http::Request::get(format!("{PATH}?watch=true"))
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .unwrap();
    let mut table: Events = Box::pin(client.request_events::<Value>(table).await.unwrap());
    let tables = events_in(&mut table, Duration::from_millis(500)).await;
    let has_columns: Vec<bool> = tables.iter().map(|(_, one)| one["columnDefinitions"].is_array()).collect();
    assert_eq!((has_columns[0], has_columns[1..].contains(&true), tables.len()), (true, false, all));
    assert_eq!(tables[0].1["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    for wrong in ["&fieldSelector=status.state%3DRunning", "&labelSelector=a%3Db", "&sendInitialEvents=true"]
    {
        match watch(&client, wrong).await {
            Err(kube::Error::Api(status)) => {
                assert!([400, 422].contains(&status.code), "{wrong}: {status:?}");
            }
            _ => panic!("{wrong}"),
        }
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_user_with_list_but_without_watch_rights_cannot_watch_controllers_con_19_sec_4() {
    let cluster = Cluster::start().await.unwrap();
    let role = json!({"metadata": {"name": "looks"}, "rules": [
        {"apiGroups": ["podium.dev"], "resources": ["controllers"], "verbs": ["get", "list"]}]});
    let binding = json!({"metadata": {"name": "looks"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "looks"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "mallory"}]});
    let (role, binding): (ClusterRole, ClusterRoleBinding) =
        (serde_json::from_value(role).unwrap(), serde_json::from_value(binding).unwrap());
    Api::all(cluster.client()).create(&PostParams::default(), &role).await.unwrap();
    Api::all(cluster.client()).create(&PostParams::default(), &binding).await.unwrap();
    cluster.settle().await.unwrap();
    let mallory = cluster.client_with(&ClientOptions::new().user("mallory")).unwrap();
    assert!(ask(&mallory, "").await.is_ok());
    match watch(&mallory, "").await {
        Err(kube::Error::Api(status)) => {
            assert_eq!((status.code, status.message.contains("cannot watch")), (403, true), "{status:?}");
        }
        _ => panic!("the watch was not refused"),
    }
    cluster.stop().await;
}
