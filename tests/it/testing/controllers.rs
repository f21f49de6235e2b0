//! Controllers in the API (CON-19): paused by a Fault, stepped key by key, and resumed; and the permissions for that.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use podium::extension::fault::Fault;
use podium::testing::{ClientOptions, Cluster};
use serde_json::{Value, json};

use super::{create, deployment, pod, pods};
use crate::instance::{DataDir, wait_for};
use crate::needs::needs;

const PATH: &str = "/apis/podium.dev/v1alpha1/controllers";

async fn ask(client: &Client, path: &str) -> Result<Value, kube::Error> {
    client.request(http::Request::get(format!("{PATH}{path}")).body(Vec::new()).unwrap()).await
}

/// The status of a controller.
async fn status(cluster: &Cluster, name: &str) -> Value {
    ask(&cluster.client(), &format!("/{name}")).await.unwrap()["status"].clone()
}

/// The result of a step, or its code and message.
async fn step(client: &Client, name: &str, body: Value) -> Result<Value, (u16, String)> {
    let request = http::Request::post(format!("{PATH}/{name}/step"))
        .header("content-type", "application/json")
        .body(body.to_string().into_bytes())
        .unwrap();
    match client.request::<Value>(request).await {
        Ok(answer) => Ok(answer["status"].clone()),
        Err(kube::Error::Api(status)) => Err((status.code, status.message.clone())),
        Err(error) => panic!("{error}"),
    }
}

fn faults(cluster: &Cluster) -> Api<Fault> {
    Api::all(cluster.client())
}

async fn pause(cluster: &Cluster, component: &str) {
    let fault = json!({"metadata": {"name": component}, "spec": {"type": "Pause", "target": {"component": component}}});
    let fault: Fault = serde_json::from_value(fault).unwrap();
    faults(cluster).create(&PostParams::default(), &fault).await.unwrap();
    cluster.settle().await.unwrap();
}

async fn resume(cluster: &Cluster, component: &str) {
    faults(cluster).delete(component, &DeleteParams::default()).await.unwrap();
    cluster.settle().await.unwrap();
}

fn keys(status: &Value, part: &str) -> Vec<String> {
    let all = status[part].as_array().unwrap_or_else(|| panic!("{part}: {status}"));
    all.iter().map(|one| one["key"].as_str().unwrap().to_owned()).collect()
}

async fn replica_sets(cluster: &Cluster) -> usize {
    let sets: Api<ReplicaSet> = Api::default_namespaced(cluster.client());
    sets.list(&ListParams::default()).await.unwrap().items.len()
}

#[tokio::test(start_paused = true)]
async fn a_paused_controllers_queue_grows_a_step_takes_one_key_and_it_goes_on_con_19() {
    let cluster = Cluster::start().await.unwrap();
    create::<Deployment>(&cluster, deployment("before", 1)).await;
    cluster.settle().await.unwrap();
    let before = status(&cluster, "deployment").await;
    assert_eq!((&before["state"], &before["component"]), (&json!("Running"), &json!("deployment")));
    assert!(before["reconciles"].as_u64() >= Some(1) && before["queue"]["depth"] == 0, "{before}");
    assert_eq!(before["recent"][0]["key"], "default/before");
    let of = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "before"});
    assert_eq!(before["recent"][0]["object"], of);

    pause(&cluster, "deployment").await;
    create::<Deployment>(&cluster, deployment("web", 1)).await;
    create::<Deployment>(&cluster, deployment("db", 1)).await;
    cluster.advance(Duration::from_secs(30)).await.unwrap();
    let paused = status(&cluster, "deployment").await;
    assert_eq!((&paused["state"], &paused["queue"]["depth"]), (&json!("Paused"), &json!(2)), "{paused}");
    assert_eq!(keys(&paused, "waiting"), ["default/web", "default/db"]);
    assert!(paused["queue"]["oldestMicroseconds"].as_u64() >= Some(30_000_000), "{paused}");
    assert_eq!(paused["reconciles"], before["reconciles"], "it does nothing by itself");
    assert_eq!(
        (
            replica_sets(&cluster).await,
            pods(&cluster).list(&ListParams::default()).await.unwrap().items.len()
        ),
        (1, 1)
    );

    // The step processes only the named key.
    let client = cluster.client();
    let done = step(&client, "deployment", json!({"spec": {"key": "default/db"}})).await.unwrap();
    assert_eq!((&done["key"], &done["object"]["name"]), (&json!("default/db"), &json!("db")), "{done}");
    assert!(done["waitedMicroseconds"].as_u64() >= Some(30_000_000), "{done}");
    cluster.settle().await.unwrap();
    let stepped = status(&cluster, "deployment").await;
    assert_eq!(stepped["reconciles"].as_u64(), before["reconciles"].as_u64().map(|count| count + 1));
    assert_eq!((replica_sets(&cluster).await, &stepped["recent"][0]), (2, &done));
    assert_eq!(
        keys(&stepped, "waiting")[0],
        "default/web",
        "its new ReplicaSet queues the key again, behind the others"
    );
    // Without a name, the step processes the next key.
    let done = step(&client, "deployment", json!({})).await.unwrap();
    assert_eq!((&done["key"], replica_sets(&cluster).await), (&json!("default/web"), 3));
    let (code, why) =
        step(&client, "deployment", json!({"spec": {"key": "default/none"}})).await.unwrap_err();
    assert!(code == 409 && why.contains("has no key \"default/none\""), "{code} {why}");
    let (code, why) = step(&client, "replicaset", json!({})).await.unwrap_err();
    assert!(code == 409 && why.contains("the controller is not paused"), "{code} {why}");
    assert_eq!(step(&client, "carpenter", json!({})).await.unwrap_err().0, 404);
    assert_eq!(step(&client, "deployment", json!([])).await.unwrap_err().0, 400);

    resume(&cluster, "deployment").await;
    cluster.advance(Duration::from_secs(30)).await.unwrap();
    let after = status(&cluster, "deployment").await;
    assert_eq!((&after["state"], &after["queue"]["depth"]), (&json!("Running"), &json!(0)));
    let running = pods(&cluster).list(&ListParams::default()).await.unwrap().items;
    assert_eq!(running.len(), 3, "all is done that waited");
    let (code, _) = step(&client, "deployment", json!({})).await.unwrap_err();
    assert_eq!(code, 409);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_scheduler_is_reported_paused_and_stepped_too_con_19() {
    let cluster = Cluster::start().await.unwrap();
    pause(&cluster, "scheduler").await;
    create::<Pod>(&cluster, pod("a", "Always")).await;
    create::<Pod>(&cluster, pod("b", "Always")).await;
    cluster.advance(Duration::from_secs(5)).await.unwrap();
    let paused = status(&cluster, "scheduler").await;
    assert_eq!((&paused["state"], &paused["queue"]["depth"]), (&json!("Paused"), &json!(2)), "{paused}");
    let mut waiting = keys(&paused, "waiting");
    waiting.sort_unstable();
    assert_eq!(waiting, ["default/a", "default/b"]);
    let client = cluster.client();
    let (code, why) = step(&client, "scheduler", json!({"spec": {"key": "default/b"}})).await.unwrap_err();
    assert!(code == 409 && why.contains("chooses the next pod itself"), "{why}");
    let placed = async || {
        let all = pods(&cluster).list(&ListParams::default()).await.unwrap().items;
        all.into_iter().filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())).count()
    };
    for count in 1..=2 {
        let done = step(&client, "scheduler", json!({})).await.unwrap();
        assert_eq!((&done["result"], placed().await), (&json!("Scheduled"), count), "{done}");
    }
    let (code, why) = step(&client, "scheduler", json!({})).await.unwrap_err();
    assert!(code == 409 && why.contains("no key is due"), "{why}");
    // An unschedulable pod is reported with the reason, and waits.
    let mut big = pod("big", "Always");
    big["spec"]["nodeSelector"] = json!({"no": "where"});
    create::<Pod>(&cluster, big).await;
    cluster.settle().await.unwrap();
    let done = step(&client, "scheduler", json!({})).await.unwrap();
    assert_eq!((&done["key"], &done["result"]), (&json!("default/big"), &json!("Unschedulable")));
    assert!(done["message"].as_str().unwrap().contains("didn't match Pod's node affinity"), "{done}");
    assert_eq!(status(&cluster, "scheduler").await["queue"]["unschedulable"], 1);
    create::<Pod>(&cluster, pod("c", "Always")).await;
    resume(&cluster, "scheduler").await;
    assert_eq!(placed().await, 3);
    let running = status(&cluster, "scheduler").await;
    assert_eq!((&running["state"], &running["reconciles"]), (&json!("Running"), &json!(4)), "{running}");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn errors_are_reported_with_their_keys_and_their_next_retry_con_19() {
    let cluster = Cluster::start().await.unwrap();
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}});
    create::<ResourceQuota>(&cluster, quota).await;
    cluster.settle().await.unwrap();
    create::<Deployment>(&cluster, deployment("web", 1)).await;
    cluster.advance(Duration::from_secs(20)).await.unwrap();
    let reported = status(&cluster, "replicaset").await;
    assert!(reported["errors"].as_u64() >= Some(2), "{reported}");
    let last = &reported["lastErrors"][0];
    assert_eq!((last, &last["result"]), (&reported["lastError"], &json!("Failed")));
    assert!(last["message"].as_str().unwrap().contains("exceeded quota"), "{last}");
    assert!(last["key"].as_str().unwrap().starts_with("default/web-"), "{last}");
    let next = &reported["delayed"][0];
    assert_eq!(next["key"], last["key"], "{reported}");
    assert!(next["failures"].as_u64() >= Some(2) && next["dueInMicroseconds"].as_u64() > Some(0), "{next}");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn every_controller_is_in_the_table_and_one_that_is_down_shows_no_figures_con_19() {
    let cluster = Cluster::start().await.unwrap();
    let down =
        json!({"metadata": {"name": "down"}, "spec": {"type": "Crash", "target": {"component": "job"}}});
    faults(&cluster).create(&PostParams::default(), &serde_json::from_value(down).unwrap()).await.unwrap();
    cluster.settle().await.unwrap();
    let table = http::Request::get(PATH)
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .unwrap();
    let table: Value = cluster.client().request(table).await.unwrap();
    let columns: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(columns[..6], ["Name", "State", "Depth", "In Flight", "Delayed", "Oldest"]);
    let rows = table["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["cells"].as_array().unwrap().len() == columns.len()), "{table}");
    let row = |name: &str| {
        let found = rows.iter().find(|row| row["cells"][0] == name);
        found.unwrap_or_else(|| panic!("no {name}: {table}"))["cells"].clone()
    };
    for name in podium::testing::Controllers::names() {
        // A cluster of this kind has no addresses for load balancers, and no volumes.
        if !matches!(name, "service-lb-controller" | "directory-provisioner") {
            assert_eq!(row(name)[1], if name == "job" { "Stopped" } else { "Running" }, "{name}");
        }
    }
    assert_eq!(row("scheduler")[1], "Running");
    assert_eq!(row("job")[2], Value::Null, "of one that is down nothing is known");
    assert_eq!(status(&cluster, "job").await, json!({"state": "Stopped"}));
    assert_eq!(step(&cluster.client(), "job", json!({})).await.unwrap_err().0, 409);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn users_without_rights_cannot_read_or_step_controllers_con_19_sec_4() {
    let cluster = Cluster::start().await.unwrap();
    pause(&cluster, "deployment").await;
    let mallory = cluster.client_with(&ClientOptions::new().user("mallory")).unwrap();
    let code = |answer: Result<Value, kube::Error>| match answer {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{error}"),
    };
    assert_eq!(code(ask(&mallory, "").await), 403);
    assert_eq!(code(ask(&mallory, "/deployment").await), 403);
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
    assert_eq!((code(ask(&mallory, "").await), code(ask(&mallory, "/deployment").await)), (200, 200));
    create::<Deployment>(&cluster, deployment("web", 1)).await;
    cluster.settle().await.unwrap();
    let (code, why) = step(&mallory, "deployment", json!({})).await.unwrap_err();
    assert!(code == 403 && why.contains("controllers/step"), "{why}");
    assert_eq!(replica_sets(&cluster).await, 0, "a refused step changes nothing");
    cluster.stop().await;
}

/// A pause survives the control plane: the next one does nothing before it is over, and can still be stepped.
#[test]
fn a_controller_that_is_paused_stays_so_when_the_control_plane_comes_back_con_19() {
    needs!(Kubectl);
    let home = DataDir::new();
    let arguments = ["--nodes", "0", "--hollow-nodes", "1"];
    let instance = home.start(&arguments);
    let fault = json!({"apiVersion": "podium.dev/v1alpha1", "kind": "Fault", "metadata": {"name": "hold"},
        "spec": {"type": "Pause", "target": {"component": "deployment"}}});
    instance.apply(&fault.to_string());
    instance.kubectl(&["wait", "--for=condition=Active", "--timeout=60s", "fault/hold"]);
    instance.kubectl(&["create", "deployment", "web", "--image=app"]);
    instance.crash();
    let instance = home.start(&arguments);
    let field = |path: &str| {
        instance.kubectl(&["get", "controllers.podium.dev", "deployment", "-o", &format!("jsonpath={path}")])
    };
    assert_eq!(field("{.status.state} {.status.reconciles}"), "Paused 0");
    wait_for("the waiting key", || (field("{.status.queue.depth}") == "1").then_some(()));
    assert_eq!(instance.kubectl(&["get", "replicasets", "-o", "name"]), "");
    let body = home.path("step.json");
    std::fs::write(&body, "{}").unwrap();
    let path = format!("{PATH}/deployment/step");
    let done = instance.kubectl(&["create", "--raw", &path, "-f", body.to_str().unwrap()]);
    let done: Value = serde_json::from_str(&done).unwrap();
    assert_eq!(done["status"]["key"], "default/web", "{done}");
    assert!(instance.kubectl(&["get", "replicasets", "-o", "name"]).starts_with("replicaset.apps/web-"));
    assert_eq!(field("{.status.state} {.status.reconciles}"), "Paused 1");
    // As kubectl prints them.
    let table = instance.kubectl(&["get", "xc", "deployment"]);
    assert!(table.starts_with("NAME") && table.contains("Paused"), "{table}");
    instance.kubectl(&["delete", "fault", "hold"]);
    instance.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let metrics = instance.kubectl(&["get", "--raw", "/metrics"]);
    for series in [
        "workqueue_queue_duration_seconds_count{name=\"deployment\"}",
        "workqueue_work_duration_seconds_count{name=\"deployment\"}",
        "workqueue_unfinished_work_seconds{name=\"deployment\"} 0",
        "workqueue_longest_running_processor_seconds{name=\"deployment\"} 0",
        "workqueue_retries_total{name=\"deployment\"}",
        "workqueue_adds_total{name=\"deployment\"}",
        "workqueue_depth{name=\"deployment\"}",
    ] {
        assert!(metrics.contains(series), "{series}");
    }
    instance.stop();
}
