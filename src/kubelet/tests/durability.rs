//! Processes outlive a crash of the control plane: a container is started only once its pod is durable (SAFE-2).

use super::*;
use store::faults::DiskFault;

/// Creates a store on a disk with all writes durable, and a node on that store.
async fn on_disk() -> (tempfile::TempDir, Store, KubeletFixture) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("state")).unwrap();
    let scene = KubeletFixture::over(store.clone(), HollowConfig::default(), config()).await;
    // The node continues to write while the test waits for the disk.
    loop {
        let revision = store.revision();
        store.durable(revision).await.unwrap();
        if store.revision() == revision {
            return (directory, store, scene);
        }
    }
}

/// Waits for ten minutes, in which no container runs; after the disk is repaired, the pod runs.
async fn runs_once_it_is_durable(store: &Store, scene: &KubeletFixture, runtime: &HollowRuntime, key: &Key) {
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(
        runtime.list().await.unwrap().is_empty(),
        "a crash would take the pod back, and its program runs"
    );
    store.faults().set_disk(DiskFault::None);
    // The disk does not follow virtual time: what the kubelet writes meanwhile has to become durable, too.
    for _ in 0..1_000 {
        while store.durable(store.revision()).await.is_err() {
            tokio::task::yield_now().await;
        }
        if scene.status(key).phase.as_deref() == Some("Running") {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(5));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    scene.until(key, "it runs", |status| status.phase.as_deref() == Some("Running")).await;
}

#[tokio::test(start_paused = true)]
async fn a_new_node_starts_no_pod_that_the_disk_does_not_have_safe_2() {
    let (_directory, store, scene) = on_disk().await;
    store.faults().set_disk(DiskFault::Hang);
    let pod = json!({"metadata": {"name": "p", "namespace": "default"},
        "spec": {"nodeName": "n2", "containers": [{"name": "c", "image": "app:v1"}]}});
    let key = scene.api.create_as::<Pod>(serde_json::from_value(pod).unwrap()).unwrap().key();
    let clock = scene.api.clock().clone();
    let wall = Arc::new(move || clock.now());
    let catalogue = Arc::new(Catalogue::new(Vec::new(), "CONFIG"));
    let runtime = Arc::new(HollowRuntime::new(HollowConfig::default(), catalogue, wall));
    let second = NodeConfig {
        name: "n2".into(),
        ip: [127, 1, 1, 1].into(),
        pod_range: Ipv4Net::new_assert([127, 1, 1, 0].into(), 24),
        ..config()
    };
    let _kubelet = scene.kubelets.start_node(second, runtime.clone()).await.unwrap();
    runs_once_it_is_durable(&store, &scene, &runtime, &key).await;
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_delayed_by_a_failing_disk_start_when_it_works_again_safe_2() {
    let (_directory, store, scene) = on_disk().await;
    store.faults().set_disk(DiskFault::Fail);
    let key = scene.create(json!({"containers": [{"name": "c"}]}));
    assert!(store.durable(store.revision()).await.is_err());
    // The watch expires, too.
    store.compact(store.revision());
    runs_once_it_is_durable(&store, &scene, &scene.runtime, &key).await;
    scene.tasks.stop().await;
}
