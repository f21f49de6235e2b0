//! Resizes of running pods through the API, on a node without processes, which enforces no limits.

use super::registry_pulls::{image, registry};
use super::*;
use crate::runtime::hollow::HollowLoad;
use api::{Part, WriteOptions};

/// Changes a container's resources as `kubectl patch --subresource resize` does.
fn resize(scene: &KubeletFixture, key: &Key, resources: &Value) {
    let resized = scene.api.change(Kind::Pod, key, Part::Resize, &WriteOptions::default(), |current| {
        let mut next = current.clone();
        let pod: &mut Pod = next.get_mut().unwrap();
        let container = &mut pod.spec.as_mut().unwrap().containers[0];
        container.resources = serde_json::from_value(resources.clone()).unwrap();
        Ok(next)
    });
    resized.unwrap();
}

fn events_of(scene: &KubeletFixture, reason: &str) -> Vec<String> {
    scene.events().into_iter().filter(|event| event.starts_with(reason)).collect()
}

/// The container's actual and allocated resources.
fn actual_and_allocated(status: &PodStatus) -> (String, String) {
    let container = &status.container_statuses.as_ref().unwrap()[0];
    let cpu = |list: Option<&object::quantity::ResourceList>| {
        list.and_then(|list| list.get("cpu")).map(|q| q.0.clone()).unwrap_or_default()
    };
    let actual = container.resources.as_ref().and_then(|r| r.requests.as_ref());
    (cpu(actual), cpu(container.allocated_resources.as_ref()))
}

fn sized(cpu: &str, memory: &str) -> Value {
    json!({"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}})
}

fn one(cpu: &str, memory: &str) -> Value {
    json!({"containers": [{"name": "a", "resources": sized(cpu, memory),
        "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]}]})
}

#[tokio::test(start_paused = true)]
async fn cpu_changes_in_place_and_memory_by_a_restart_as_the_policy_says_pod_12() {
    let scene = KubeletFixture::with_capacity(json!({"cpu": "4", "memory": "1Gi", "pods": "10"})).await;
    let key = scene.create(one("1", "64Mi"));
    scene.until(&key, "ready", is_ready).await;
    let first = scene.running_id(&key, "a").await;

    resize(&scene, &key, &sized("2", "64Mi"));
    scene.until(&key, "resized", |s| actual_and_allocated(s) == ("2".into(), "2".into())).await;
    assert_eq!(scene.running_id(&key, "a").await, first, "the same process");
    let changed = r#"{"containers":[{"name":"a","resources":{"limits":{"memory":"64Mi"},"requests":{"cpu":"2","memory":"64Mi"}}}],"generation":2}"#;
    assert_eq!(events_of(&scene, "ResizeStarted"), [format!("ResizeStarted: Pod resize started: {changed}")]);
    assert_eq!(
        events_of(&scene, "ResizeCompleted"),
        [format!("ResizeCompleted: Pod resize completed: {changed}")]
    );
    assert_eq!(condition(&scene.status(&key), "PodResizeInProgress"), "");

    resize(&scene, &key, &sized("2", "128Mi"));
    scene.until(&key, "restarted", |s| show(s) == "Running a=ready/1").await;
    assert_ne!(scene.running_id(&key, "a").await, first);
    let killing = events_of(&scene, "Killing");
    assert_eq!(killing, ["Killing: Container a resize requires restart"]);
    assert!(events_of(&scene, "BackOff").is_empty(), "it did not fail");
    scene.until(&key, "over", |s| condition(s, "PodResizeInProgress").is_empty()).await;
    assert_eq!(events_of(&scene, "ResizeCompleted").len(), 2);
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_resize_completes_while_another_container_waits_for_its_new_image_pod_12() {
    let scene = KubeletFixture::with_capacity(json!({"cpu": "4", "memory": "1Gi", "pods": "10"})).await;
    registry(&scene, Duration::from_mins(10), |_| Ok(image()));
    let key = scene.create(json!({"containers": [
        {"name": "a", "image": "pause:3.9", "resources": sized("1", "64Mi")},
        {"name": "b", "image": "pause:3.9"}]}));
    scene.until(&key, "ready", is_ready).await;
    let change = |pod: &mut Pod| {
        pod.spec.as_mut().unwrap().containers[1].image = Some("registry.example/me/app:v1".into());
        Ok(())
    };
    scene.api.modify(&key, change).unwrap();
    scene.until(&key, "pulling", |s| show(s).contains("b=ContainerCreating")).await;

    resize(&scene, &key, &sized("2", "64Mi"));
    scene.until(&key, "completed", |_| !events_of(&scene, "ResizeCompleted").is_empty()).await;
    assert!(show(&scene.status(&key)).contains("b=ContainerCreating"), "the image is still being pulled");
    scene.until(&key, "restarted", |s| show(s).contains("b=ready/1")).await;
    assert_eq!(events_of(&scene, "ResizeCompleted").len(), 1);
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_resize_for_which_there_is_no_room_waits_or_never_comes_pod_12() {
    let scene = KubeletFixture::with_capacity(json!({"cpu": "4", "memory": "1Gi", "pods": "10"})).await;
    let (key, other) = (scene.create(one("1", "64Mi")), scene.create_named("other", one("2", "64Mi")));
    scene.until(&key, "ready", is_ready).await;
    scene.until(&other, "ready", is_ready).await;

    resize(&scene, &key, &sized("8", "64Mi"));
    scene.until(&key, "refused", |s| condition(s, "PodResizePending") == "True Infeasible").await;
    let status = scene.status(&key);
    let pending = status.conditions.iter().flatten().find(|c| c.type_ == "PodResizePending").unwrap();
    let message = "Node didn't have enough capacity: cpu, requested: 8000, capacity: 4000";
    assert_eq!((pending.message.as_deref(), pending.observed_generation), (Some(message), Some(2)));
    assert_eq!(actual_and_allocated(&status), ("1".into(), "1".into()), "nothing changed");

    resize(&scene, &key, &sized("3", "64Mi"));
    scene.until(&key, "deferred", |s| condition(s, "PodResizePending") == "True Deferred").await;
    let deferred = events_of(&scene, "ResizeDeferred");
    assert!(deferred[0].starts_with("ResizeDeferred: Pod resize OutOfcpu: {"), "{deferred:?}");
    assert!(deferred[0].ends_with(
        "\"error\":\"Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000\"}"
    ));

    // SAFE-7: a restarted kubelet releases no resources that it had not allocated.
    scene.kubelet.detach().await;
    let capacity = serde_json::from_value(json!({"cpu": "4", "memory": "1Gi", "pods": "10"})).unwrap();
    let again = NodeConfig { capacity, ..config() };
    scene.kubelets.start_node(again, scene.runtime.clone()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(condition(&scene.status(&key), "PodResizePending"), "True Deferred");
    assert_eq!(actual_and_allocated(&scene.status(&key)), ("1".into(), "1".into()));

    // Other pods end, and their resources are allocated at once.
    let options = DeleteOptions::default();
    scene.api.delete(Kind::Pod, &other, &options).unwrap();
    scene.until(&key, "given", |s| actual_and_allocated(s) == ("3".into(), "3".into())).await;
    scene.until(&key, "no longer pending", |s| condition(s, "PodResizePending").is_empty()).await;
    assert_eq!(show(&scene.status(&key)), "Running a=ready/0");
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deferred_resize_gets_the_resources_of_a_static_pod_that_ended_pod_12_pod_15() {
    let scene = KubeletFixture::with_capacity(json!({"cpu": "4", "memory": "1Gi", "pods": "10"})).await;
    let content = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {"restartPolicy": "Never",
            "containers": [{"name": "a", "image": "app:v1", "resources": sized("2", "64Mi")}]}});
    let manifest = StaticManifest { source: "web.yaml".into(), content: Ok(content) };
    scene.kubelet.set_static_pods(&[manifest]);
    let key = scene.create(one("1", "64Mi"));
    scene.until(&key, "ready", is_ready).await;
    let running = scene.runtime.list().await.unwrap();
    let web = running.iter().find(|sandbox| sandbox.spec.name == "web-n1").expect("the static pod runs");

    resize(&scene, &key, &sized("3", "64Mi"));
    scene.until(&key, "deferred", |s| condition(s, "PodResizePending") == "True Deferred").await;
    scene.runtime.exit_container(&web.containers[0].id, 0);
    scene.until(&key, "given", |s| actual_and_allocated(s) == ("3".into(), "3".into())).await;
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_below_what_is_used_waits_until_less_is_used_pod_12() {
    let scene = KubeletFixture::with_capacity(json!({"cpu": "4", "memory": "1Gi", "pods": "10"})).await;
    let key = scene.create(json!({"containers": [{"name": "a", "resources": sized("1", "256Mi")}]}));
    scene.until(&key, "ready", is_ready).await;
    let uid = scene.pod(&key).uid().to_string();
    let load = |mi: u64| HollowLoad { memory_bytes: mi << 20, ..HollowLoad::default() };
    scene.runtime.set_load(&uid, "a", load(200));

    resize(&scene, &key, &sized("1", "100Mi"));
    scene.until(&key, "refused", |s| condition(s, "PodResizeInProgress") == "True Error").await;
    let status = scene.status(&key);
    let condition_of = status.conditions.iter().flatten().find(|c| c.type_ == "PodResizeInProgress").unwrap();
    assert_eq!(
        condition_of.message.as_deref().unwrap(),
        "cannot decrease memory limits: [attempting to set pod memory limit (104857600) below current usage \
         (209715200), attempting to set container \"a\" memory limit (104857600) below current usage (209715200)]"
    );
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(events_of(&scene, "ResizeError").len(), 1, "tried again, recorded once");

    scene.runtime.set_load(&uid, "a", load(50));
    scene.until(&key, "resized", |s| condition(s, "PodResizeInProgress").is_empty()).await;
    assert_eq!(show(&scene.status(&key)), "Running a=ready/0");
    assert_eq!(events_of(&scene, "ResizeCompleted").len(), 1);
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn resources_of_the_whole_pod_are_in_its_status_while_they_hold_pod_12() {
    let scene = KubeletFixture::with_capacity(json!({"cpu": "4", "memory": "1Gi", "pods": "10"})).await;
    let whole = json!({"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"cpu": "2", "memory": "64Mi"}});
    let key = scene.create(json!({"resources": whole, "containers": [{"name": "a"}, {"name": "b"}]}));
    let plain = scene.create_named("plain", one("1", "64Mi"));
    for key in [&key, &plain] {
        scene.until(key, "ready", is_ready).await;
    }
    let shown = |key: &Key| {
        let status = serde_json::to_value(scene.status(key)).unwrap();
        (status["resources"].clone(), status["allocatedResources"].clone(), status["qosClass"].clone())
    };
    assert_eq!(shown(&key), (whole.clone(), whole["requests"].clone(), json!("Burstable")));
    assert_eq!(shown(&plain), (json!(null), json!(null), json!("Burstable")));
    // The request of the whole pod counts, although its containers request nothing.
    let late = scene.create_named("late", one("3", "64Mi"));
    scene.until(&late, "refused", |status| status.reason.as_deref() == Some("OutOfcpu")).await;
    scene.tasks.stop().await;
}
