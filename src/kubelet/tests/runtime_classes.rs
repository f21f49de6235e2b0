//! Pods with runtime classes that name handlers which this node has, or does not have.

use k8s_openapi::api::node::v1::RuntimeClass;

use super::*;

impl KubeletFixture {
    fn class(&self, name: &str, handler: &str) {
        let class = json!({"metadata": {"name": name}, "handler": handler});
        self.api.create_as::<RuntimeClass>(serde_json::from_value(class).unwrap()).unwrap();
    }

    fn sandbox_failures(&self, pod: &str) -> Vec<(String, i32)> {
        let events = self.api.list_as::<Event>(None);
        let about = events.iter().filter(|e| e.involved_object.name.as_deref() == Some(pod));
        about
            .filter(|e| e.reason.as_deref() == Some("FailedCreatePodSandBox"))
            .map(|e| (e.message.clone().unwrap_or_default(), e.count.unwrap_or(1)))
            .collect()
    }

    async fn until_reported(&self, condition: &str, holds: impl Fn(&Self) -> bool) {
        for _ in 0..10_000 {
            if holds(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("never: {condition}");
    }
}

fn of_class(class: &str) -> Value {
    json!({"containers": [{"name": "c"}], "runtimeClassName": class})
}

/// API-17: a pod never silently runs under another handler than the requested one.
#[tokio::test(start_paused = true)]
async fn a_pod_of_a_handler_that_the_node_does_not_have_waits_and_says_why_api_17() {
    const NO_RUNTIME: &str = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox \
                              runtime: no runtime for \"runsc\" is configured";
    let scene = KubeletFixture::new().await;
    scene.class("gvisor", "runsc");
    scene.class("plain", "runc");
    let plain = scene.create_named("plain", of_class("plain"));
    scene.until(&plain, "ready", is_ready).await;
    let waits = scene.create_named("waits", of_class("gvisor"));
    // The sandbox is retried repeatedly.
    let tried = |s: &KubeletFixture| matches!(&s.sandbox_failures("waits")[..], [(text, count)] if text == NO_RUNTIME && *count > 3);
    scene.until_reported("its event", tried).await;
    let status = scene.status(&waits);
    assert_eq!(status.phase.as_deref(), Some("Pending"));
    // The next try finds that the class was deleted or recreated.
    let options = DeleteOptions::default();
    scene.api.delete(Kind::RuntimeClass, &Key::new("", "gvisor"), &options).unwrap();
    let not_found = "Failed to create pod sandbox: runtimeclass.node.k8s.io \"gvisor\" not found";
    scene
        .until_reported("the class is missed", |s| {
            s.sandbox_failures("waits").iter().any(|(t, _)| t == not_found)
        })
        .await;
    scene.class("gvisor", "podium");
    scene.until(&waits, "ready", is_ready).await;
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_never_had_a_sandbox_can_be_deleted_and_the_node_names_its_handlers_api_17() {
    let scene = KubeletFixture::new().await;
    scene.class("gvisor", "runsc");
    let waits = scene.create_named("waits", of_class("gvisor"));
    scene.until_reported("its event", |s| !s.sandbox_failures("waits").is_empty()).await;
    scene.api.delete(Kind::Pod, &waits, &DeleteOptions::default()).unwrap();
    scene.until_reported("it is gone", |s| s.api.get(Kind::Pod, &waits).is_err()).await;
    let node = scene.api.get_as::<NodeObject>(&Key::new("", "n1")).unwrap();
    let handlers =
        node.status.as_ref().and_then(|status| status.runtime_handlers.clone()).unwrap_or_default();
    let names: Vec<_> = handlers.iter().filter_map(|handler| handler.name.as_deref()).collect();
    assert_eq!(names, ["", "podium", "runc"]);
    let features = handlers[0].features.clone().unwrap();
    assert_eq!(features.recursive_read_only_mounts, Some(true), "as the pods' statuses say");
    scene.tasks.stop().await;
}
