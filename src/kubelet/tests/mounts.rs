//! The mounts of containers, by their volumeMounts.

use super::*;

#[tokio::test(start_paused = true)]
async fn mounts_are_as_writable_as_they_say_vol_1() {
    let scene = KubeletFixture::new().await;
    for (volume, mount, expected) in [
        ("mine", json!({}), (false, false)),
        ("mine", json!({"readOnly": true}), (true, false)),
        ("mine", json!({"readOnly": true, "recursiveReadOnly": "Disabled"}), (true, false)),
        ("mine", json!({"readOnly": true, "recursiveReadOnly": "IfPossible"}), (true, true)),
        ("mine", json!({"readOnly": true, "recursiveReadOnly": "Enabled"}), (true, true)),
        ("mine", json!({"recursiveReadOnly": "IfPossible"}), (false, false)),
        ("map", json!({}), (true, false)),
    ] {
        let mut volume_mount = json!({"name": volume, "mountPath": "/v"});
        volume_mount.as_object_mut().unwrap().extend(mount.as_object().unwrap().clone());
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "default"}, "spec": {
            "containers": [{"name": "c", "volumeMounts": [volume_mount]}],
            "volumes": [{"name": "mine", "emptyDir": {}}, {"name": "map", "configMap": {"name": "m"}}]}}))
            .unwrap();
        let container = pod.spec.as_ref().unwrap().containers[0].clone();
        let mounts =
            volumes::mounts(&scene.kubelet.node, &SharedObject::from_value(pod), &container, &[]).unwrap();
        let mounts: Vec<_> = mounts.iter().map(|mount| (mount.read_only, mount.recursive)).collect();
        assert_eq!(mounts, [expected], "{volume} {volume_mount}");
    }
    scene.tasks.stop().await;
}
