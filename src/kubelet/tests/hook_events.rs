//! Events about lifecycle hooks.

use super::*;
use crate::hooks::HookSuccess;

/// On a hollow node no server answers hooks, so their results come from the test; `probe::check` tests the requests.
#[tokio::test(start_paused = true)]
async fn a_hook_that_fell_back_to_http_is_reported_pod_6() {
    let scene = KubeletFixture::new().await;
    let key = scene.create(json!({"containers": [{"name": "a"}]}));
    scene.until(&key, "ready", is_ready).await;
    let uid = scene.pod(&key).uid().to_string();
    let id = scene.running_id(&key, "a").await;
    let servers = [(true, Some("127.1.0.2:443")), (true, None), (false, Some("[fd00::2]:8443"))];
    for (post_start, server) in servers {
        let result = Ok(HookSuccess { http_fallback: server.map(Into::into) });
        let hook = PodEvent::Hook { container: "a".into(), id: id.clone(), post_start, result };
        scene.kubelets.workers.push_event(&uid, hook);
    }
    let text = |server: &str| {
        format!(
            "LifecycleHTTPFallback: request to HTTPS lifecycle hook {server} got HTTP response, retry with HTTP \
             succeeded"
        )
    };
    let expected = ["127.1.0.2:443", "[fd00::2]:8443"].map(text);
    let fallbacks =
        || scene.events().into_iter().filter(|event| event.starts_with("Lifecycle")).collect::<Vec<_>>();
    scene.until(&key, "reported", |_| fallbacks().len() >= expected.len()).await;
    assert_eq!(fallbacks(), expected);
    let mut events = scene.api.list_as::<Event>(Some("default"));
    events.retain(|event| event.reason.as_deref() == Some("LifecycleHTTPFallback"));
    for event in &events {
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        assert_eq!(event.involved_object.name.as_deref(), Some("p"));
        assert_eq!(event.involved_object.field_path, None, "it is about the pod, as in Kubernetes");
    }
    scene.tasks.stop().await;
}
