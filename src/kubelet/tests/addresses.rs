//! Tests of the allocation and release of the node's addresses (NET-1).

use super::*;

/// A node with the five pod addresses 127.1.0.2 to 127.1.0.6.
fn node_with_five_addresses() -> NodeConfig {
    NodeConfig { pod_range: Ipv4Net::new_assert([127, 1, 0, 0].into(), 29), ..config() }
}

const FIVE: [&str; 5] = ["127.1.0.2", "127.1.0.3", "127.1.0.4", "127.1.0.5", "127.1.0.6"];

fn once() -> Value {
    json!({"containers": [{"name": "c"}], "restartPolicy": "Never"})
}

async fn run_to_the_end(scene: &KubeletFixture, name: &str) -> Key {
    let key = scene.create_named(name, once());
    scene.until(&key, "ready", is_ready).await;
    scene.exit(&key, "c", 0).await;
    scene.until(&key, "done", |s| s.phase.as_deref() == Some("Succeeded")).await;
    key
}

/// The status of a pod that has ended still shows its address, which another pod may have by then (NET-1).
#[tokio::test(start_paused = true)]
async fn the_address_of_a_pod_that_has_ended_is_free_again() {
    let scene = KubeletFixture::start(HollowConfig::default(), node_with_five_addresses()).await;
    let stays = scene.create_named("stays", once());
    scene.until(&stays, "ready", is_ready).await;
    let mut ended = Vec::new();
    for number in 0..9 {
        let key = run_to_the_end(&scene, &format!("p{number}")).await;
        ended.push(scene.status(&key).pod_ip.unwrap());
    }
    let around = ["127.1.0.3", "127.1.0.4", "127.1.0.5", "127.1.0.6"];
    assert_eq!(ended, [&around[..], &around, &around[..1]].concat());
    // A pod that failed before it had a sandbox has no address either.
    let waits = json!({"containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": "none"}}]}],
        "restartPolicy": "Never", "activeDeadlineSeconds": 5});
    for number in 0..5 {
        let key = scene.create_named(&format!("late{number}"), waits.clone());
        scene.until(&key, "failed", |s| s.phase.as_deref() == Some("Failed")).await;
    }
    // A deleted pod does not release an address that another pod has by now.
    let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    for number in 0..9 {
        scene.api.delete(Kind::Pod, &key_of(&format!("p{number}")), &now).unwrap();
    }
    let mut running = vec![scene.status(&stays).pod_ip.unwrap()];
    for number in 0..4 {
        let key = scene.create_named(&format!("r{number}"), once());
        scene.until(&key, "ready", is_ready).await;
        running.push(scene.status(&key).pod_ip.unwrap());
    }
    running.sort();
    assert_eq!(running, FIVE);
    scene.tasks.stop().await;
}

/// Pods that run when a kubelet starts have their addresses; pods that ended before have none (SAFE-7).
#[tokio::test(start_paused = true)]
async fn after_a_restart_only_what_runs_has_an_address() {
    let scene = KubeletFixture::start(HollowConfig::default(), node_with_five_addresses()).await;
    for number in 0..3 {
        run_to_the_end(&scene, &format!("p{number}")).await;
    }
    let mut running = Vec::new();
    for number in 0..2 {
        let key = scene.create_named(&format!("before{number}"), once());
        scene.until(&key, "ready", is_ready).await;
        running.push(scene.status(&key).pod_ip.unwrap());
    }
    scene.kubelet.detach().await;
    let _again = scene.kubelets.start_node(node_with_five_addresses(), scene.runtime.clone()).await.unwrap();
    for number in 0..3 {
        let key = scene.create_named(&format!("after{number}"), once());
        scene.until(&key, "ready", is_ready).await;
        running.push(scene.status(&key).pod_ip.unwrap());
    }
    running.sort();
    assert_eq!(running, FIVE);
    scene.tasks.stop().await;
}

fn key_of(name: &str) -> Key {
    Key::new("default", name)
}
