//! Disk pressure: what no running pod needs goes before a pod does (NODE-4).

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn space_left(megabytes: i64) -> pressure::Observations {
    let seen = pressure::Observation { available: megabytes << 20, capacity: 1000 << 20 };
    BTreeMap::from([(pressure::Signal::NodefsAvailable, seen)])
}

/// A node that evicts below 100 MiB, with 50 MiB left; the removal of images leaves this much. Returns the fixture and
/// the number of removals.
async fn node_with_full_disk(after_removal: i64) -> (Arc<KubeletFixture>, Arc<AtomicUsize>) {
    let eviction = serde_json::from_value(json!({"hard": {"nodefs.available": "100Mi"}})).unwrap();
    let config = NodeConfig { eviction, ..config() };
    let scene = Arc::new(KubeletFixture::start(HollowConfig::default(), config).await);
    let removals = Arc::new(AtomicUsize::new(0));
    let (count, node) = (removals.clone(), Arc::downgrade(&scene));
    scene.kubelets.set_image_removal(Box::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
        if let Some(scene) = node.upgrade() {
            scene.kubelet.set_simulated_machine(Some(space_left(after_removal)));
        }
        Box::pin(async {})
    }));
    (scene, removals)
}

#[tokio::test(start_paused = true)]
async fn unused_images_go_before_any_pod_node_4() {
    let (scene, removals) = node_with_full_disk(500).await;
    let key = scene.create(json!({"containers": [{"name": "c"}]}));
    scene.until(&key, "ready", is_ready).await;
    scene.kubelet.set_simulated_machine(Some(space_left(50)));
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(
        (show(&scene.status(&key)).as_str(), removals.load(Ordering::SeqCst)),
        ("Running c=ready/0", 1)
    );
    assert_eq!(node_condition(&scene, "DiskPressure"), "True KubeletHasDiskPressure");
    let reclaims = "EvictionThresholdMet: Attempting to reclaim ephemeral-storage";
    assert!(node_events(&scene).contains(&reclaims.to_owned()));
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_goes_if_unused_images_do_not_suffice_node_4() {
    let (scene, removals) = node_with_full_disk(60).await;
    let key = scene.create(json!({"containers": [{"name": "c"}]}));
    scene.until(&key, "ready", is_ready).await;
    scene.kubelet.set_simulated_machine(Some(space_left(50)));
    scene.until(&key, "evicted", |s| s.phase.as_deref() == Some("Failed")).await;
    assert!(removals.load(Ordering::SeqCst) > 0);
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_containers_of_ended_pods_go_first_and_their_status_stays_node_4() {
    let (scene, _) = node_with_full_disk(60).await;
    let ended = scene.create_named("ended", json!({"restartPolicy": "Never", "containers": [{"name": "c"}]}));
    scene.until(&ended, "ready", is_ready).await;
    scene.exit(&ended, "c", 0).await;
    scene.until(&ended, "ended", |s| s.phase.as_deref() == Some("Succeeded")).await;
    let status = scene.status(&ended);
    let uid = scene.pod(&ended).uid().to_string();
    scene.kubelet.set_simulated_machine(Some(space_left(50)));
    tokio::time::sleep(Duration::from_mins(1)).await;
    let sandbox = scene.runtime.inspect(&uid).await.unwrap();
    assert!(sandbox.is_none_or(|sandbox| sandbox.containers.is_empty()));
    assert_eq!(scene.status(&ended), status);
    scene.tasks.stop().await;
}
