//! Environments of any size.

use super::*;

/// A manifest of two kilobytes used 22 GB, all of the machine's memory; now the pod waits and shows the reason (SEC-2).
#[tokio::test(start_paused = true)]
async fn a_pod_with_a_doubling_environment_waits_with_create_container_error() {
    let scene = KubeletFixture::new().await;
    let mut env = vec![json!({"name": "E0", "value": "x".repeat(1000)})];
    env.extend((1..=30).map(|n| json!({"name": format!("E{n}"), "value": format!("$(E{0})$(E{0})", n - 1)})));
    let key = scene.create(json!({"containers": [{"name": "a", "env": env}]}));
    scene.until(&key, "refused", |s| show(s) == "Pending a=CreateContainerError/0").await;
    let status = scene.status(&key);
    let waiting = status.container_statuses.unwrap()[0].state.clone().unwrap().waiting.unwrap();
    let message = waiting.message.unwrap();
    assert!(message.starts_with("variable E8 is 256000 bytes long"), "{message}");
    scene.api.delete(Kind::Pod, &key, &DeleteOptions::default()).unwrap();
    scene.until_deleted(&key).await;
    scene.tasks.stop().await;
}
