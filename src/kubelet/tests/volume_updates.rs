//! Updates of the volumes of running pods, on a node with a disk.

use super::*;

/// An update that failed was lost: the pod read the old content until the object's next change.
#[tokio::test(start_paused = true)]
async fn a_failed_update_of_a_volume_is_retried_vol_1() {
    let machine = tempfile::tempdir().unwrap();
    let pods_dir = machine.path().join("nodes/n1/pods");
    let config = NodeConfig { hollow: false, pods_dir: pods_dir.clone(), ..config() };
    let scene = KubeletFixture::start(HollowConfig::default(), config).await;
    scene.kubelet.set_simulated_machine(Some(pressure::Observations::new()));
    let map = json!({"metadata": {"name": "m", "namespace": "default"}, "data": {"k": "old"}});
    let map = scene.api.create_as::<ConfigMap>(serde_json::from_value(map).unwrap()).unwrap().key();
    let key = scene.create(json!({"automountServiceAccountToken": false, "containers": [{"name": "c"}],
        "volumes": [{"name": "v", "configMap": {"name": "m"}}]}));
    scene.until(&key, "ready", is_ready).await;
    let file = pods_dir.join(scene.pod(&key).uid()).join("volumes/v/k");
    let content = || std::fs::read_to_string(&file).unwrap();
    assert_eq!(content(), "old");

    scene.kubelet.set_disk_fault(Some(DiskFault::Failing));
    let changed = scene.api.modify::<ConfigMap>(&map, |map| {
        map.data.get_or_insert_default().insert("k".into(), "new".into());
        Ok(())
    });
    changed.unwrap();
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(content(), "old", "the disk fails");

    scene.kubelet.set_disk_fault(None);
    scene.until(&key, "updated", |_| content() == "new").await;
    scene.tasks.stop().await;
}
