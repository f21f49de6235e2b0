//! Dynamic provisioning: at once, or on the node of the first pod (VOL-2).

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use podium::object::Kind;
use serde_json::json;

use super::{VolumeFixture, claim, pod, volume};

#[tokio::test(start_paused = true)]
async fn an_immediate_class_provides_at_once_and_takes_back_vol_2() {
    let stage = VolumeFixture::new().await;
    stage.class("fast", &json!({}));
    stage.create::<PersistentVolumeClaim>(claim("c", "2Gi", &json!({"storageClassName": "fast"})));
    stage.settle().await;
    let made = stage.made_for("c");
    assert_eq!(stage.describe_claim("c"), format!("Bound {made} 2Gi"));
    assert!(stage.directory(&made).is_dir());
    assert_eq!(
        stage.events_of("PersistentVolumeClaim", "c"),
        [
            "ExternalProvisioning: Waiting for a volume to be created either by the external provisioner \
             'podium.dev/directory' or manually by the system administrator. If volume creation is delayed, please \
             verify that the provisioner is running and correctly registered."
                .to_string(),
            "Provisioning: External provisioner is provisioning volume for claim \"default/c\"".to_string(),
            format!("ProvisioningSucceeded: Successfully provisioned volume {made}"),
        ]
    );
    std::fs::write(stage.directory(&made).join("data"), "x").unwrap();
    // A kubelet that has not unmounted the directory holds it, and the volume with it.
    std::fs::write(stage.data_dir.path().join("held"), "").unwrap();
    stage.delete(Kind::PersistentVolumeClaim, "c");
    stage.pass(30).await;
    assert_eq!(stage.describe_volume(&made), "Released c");
    assert!(stage.directory(&made).join("data").exists());
    assert_eq!(
        stage.events_of("PersistentVolume", &made),
        [format!("VolumeDelete: volume {made} is still used by pod the-last-one")]
    );
    std::fs::remove_file(stage.data_dir.path().join("held")).unwrap();
    stage.pass(2).await;
    assert_eq!((stage.describe_volume(&made).as_str(), stage.directory(&made).exists()), ("gone", false));
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_first_consumer_decides_where_vol_2() {
    let stage = VolumeFixture::new().await;
    stage.class("late", &json!({"volumeBindingMode": "WaitForFirstConsumer"}));
    let hand =
        json!({"volumeBindingMode": "WaitForFirstConsumer", "provisioner": "kubernetes.io/no-provisioner"});
    stage.class("hand", &hand);
    stage.create::<PersistentVolumeClaim>(claim("c", "1Gi", &json!({"storageClassName": "late"})));
    stage.settle().await;
    let waiting = "WaitForFirstConsumer: waiting for first consumer to be created before binding";
    assert_eq!(
        (stage.describe_claim("c").as_str(), stage.events_of("PersistentVolumeClaim", "c")),
        ("Pending", vec![waiting.to_string()])
    );
    let mut there = pod("p", "c");
    there["spec"]["nodeSelector"] = json!({"host": "n2"});
    stage.create::<Pod>(there);
    stage.settle().await;
    let made = stage.made_for("c");
    assert_eq!(stage.describe_claim("c"), format!("Bound {made} 1Gi"));
    assert_eq!(stage.node_of("p").as_deref(), Some("n2"));
    let annotations = stage.claim("c").unwrap().metadata.annotations.clone().unwrap();
    assert_eq!(annotations["volume.kubernetes.io/selected-node"], "n2");
    assert_eq!(annotations["volume.kubernetes.io/storage-provisioner"], "podium.dev/directory");

    // Volumes created by hand on one node attract the pod there.
    let on_n1 = json!({"storageClassName": "hand", "nodeAffinity": {"required": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "host", "operator": "In", "values": ["n1"]}]}]}}});
    stage.create::<PersistentVolume>(volume("local", "1Gi", &on_n1));
    stage.create::<PersistentVolumeClaim>(claim("d", "1Gi", &json!({"storageClassName": "hand"})));
    stage.create::<PersistentVolumeClaim>(claim("e", "1Gi", &json!({"storageClassName": "hand"})));
    stage.settle().await;
    assert_eq!(stage.describe_claim("d"), "Pending");
    stage.create::<Pod>(pod("q", "d"));
    stage.settle().await;
    assert_eq!(
        (stage.describe_claim("d").as_str(), stage.node_of("q").as_deref()),
        ("Bound local 1Gi", Some("n1"))
    );
    stage.create::<Pod>(pod("r", "e"));
    stage.settle().await;
    assert_eq!(stage.node_of("r"), None);
    let events = stage.events_of("Pod", "r").join("\n");
    assert!(
        events
            .contains("0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."),
        "{events}"
    );
    // The volume that the claim waits for appears.
    stage.create::<PersistentVolume>(volume("another", "1Gi", &json!({"storageClassName": "hand"})));
    stage.pass(15).await;
    assert_eq!(stage.describe_claim("e"), "Bound another 1Gi");
    assert!(stage.node_of("r").is_some());
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_its_immediate_claim_and_for_a_claim_at_all_vol_2() {
    let stage = VolumeFixture::new().await;
    stage.create::<Pod>(pod("p", "c"));
    stage.settle().await;
    let events = stage.events_of("Pod", "p").join("\n");
    assert!(events.contains("0/2 nodes are available: persistentvolumeclaim \"c\" not found."), "{events}");
    stage.create::<PersistentVolumeClaim>(claim("c", "1Gi", &json!({"storageClassName": "soon"})));
    stage.pass(15).await;
    let events = stage.events_of("Pod", "p").join("\n");
    assert!(
        events.contains("0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."),
        "{events}"
    );
    assert_eq!(
        stage.events_of("PersistentVolumeClaim", "c"),
        ["ProvisioningFailed: storageclass.storage.k8s.io \"soon\" not found"]
    );
    stage.class("soon", &json!({}));
    stage.pass(15).await;
    assert!(stage.node_of("p").is_some(), "{:?}", stage.events_of("Pod", "p"));
    stage.stop().await;
}
