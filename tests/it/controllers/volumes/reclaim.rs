//! Volumes in use stay, and volumes of deleted claims are reclaimed (VOL-2).

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use podium::object::storage::DIRECTORY_PROVISIONER;
use podium::object::{Key, Kind};
use serde_json::json;

use super::{VolumeFixture, claim, pod, volume};

#[tokio::test(start_paused = true)]
async fn volumes_and_claims_in_use_are_protected_in_either_order_of_deletion_vol_2() {
    let stage = VolumeFixture::new().await;
    stage.create::<PersistentVolume>(volume("v", "1Gi", &json!({})));
    stage.create::<PersistentVolumeClaim>(claim("c", "1Gi", &json!({"storageClassName": ""})));
    stage.create::<Pod>(pod("p", "c"));
    stage.settle().await;
    assert!(stage.node_of("p").is_some());
    let finalizers =
        |meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| meta.finalizers.clone();
    assert_eq!(finalizers(&stage.claim("c").unwrap().metadata).unwrap(), ["kubernetes.io/pvc-protection"]);
    assert_eq!(finalizers(&stage.volume("v").unwrap().metadata).unwrap(), ["kubernetes.io/pv-protection"]);
    stage.delete(Kind::PersistentVolume, "v");
    stage.delete(Kind::PersistentVolumeClaim, "c");
    stage.settle().await;
    assert_eq!(stage.describe_claim("c"), "Bound v 1Gi going");
    assert_eq!(stage.describe_volume("v"), "Bound c going");
    // A pod that is created now does not get the volume.
    stage.create::<Pod>(pod("q", "c"));
    stage.settle().await;
    assert_eq!(stage.node_of("q"), None);
    let events = stage.events_of("Pod", "q").join("\n");
    assert!(events.contains("persistentvolumeclaim \"c\" is being deleted"), "{events}");
    stage.end("q").await;
    assert_eq!(stage.describe_claim("c"), "Bound v 1Gi going");
    stage.end("p").await;
    assert_eq!((stage.describe_claim("c").as_str(), stage.describe_volume("v").as_str()), ("gone", "gone"));
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn retained_volumes_and_unfit_ones_stay_vol_2() {
    let stage = VolumeFixture::new().await;
    stage.class("keep", &json!({"reclaimPolicy": "Retain"}));
    stage.create::<PersistentVolumeClaim>(claim("c", "1Gi", &json!({"storageClassName": "keep"})));
    stage.settle().await;
    let made = stage.made_for("c");
    std::fs::write(stage.directory(&made).join("data"), "x").unwrap();
    stage.delete(Kind::PersistentVolumeClaim, "c");
    stage.settle().await;
    assert_eq!(stage.describe_volume(&made), "Released c");
    stage.delete(Kind::PersistentVolume, &made);
    stage.settle().await;
    assert_eq!(stage.describe_volume(&made), "gone");
    assert!(stage.directory(&made).join("data").exists(), "the data is the user's to remove");

    // A volume written by hand cannot cause the removal of other directories.
    let outside = stage.data_dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let mut forged = volume("forged", "1Gi", &json!({"persistentVolumeReclaimPolicy": "Delete"}));
    forged["spec"]["hostPath"] = json!({"path": outside.to_str().unwrap()});
    forged["metadata"]["annotations"] = json!({"pv.kubernetes.io/provisioned-by": DIRECTORY_PROVISIONER});
    stage.create::<PersistentVolume>(forged);
    let plain = json!({"persistentVolumeReclaimPolicy": "Delete"});
    stage.create::<PersistentVolume>(volume("plain", "2Gi", &plain));
    for (name, volume) in [("d", "forged"), ("e", "plain")] {
        let named = json!({"storageClassName": "", "volumeName": volume});
        stage.create::<PersistentVolumeClaim>(claim(name, "1Gi", &named));
        stage.settle().await;
        stage.delete(Kind::PersistentVolumeClaim, name);
        stage.settle().await;
    }
    assert!(outside.is_dir());
    assert_eq!(stage.describe_volume("forged"), "Released d");
    assert!(stage.events_of("PersistentVolume", "forged")[0].starts_with("VolumeFailedDelete: "));
    assert_eq!(stage.describe_volume("plain"), "Failed e");
    assert_eq!(
        stage.events_of("PersistentVolume", "plain"),
        ["VolumeFailedDelete: host_path deleter only supports /tmp/.+ but received provided /srv/plain"]
    );
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_deleted_before_its_claim_takes_its_directory_along_vol_2() {
    let stage = VolumeFixture::new().await;
    stage.class("fast", &json!({}));
    stage.create::<PersistentVolumeClaim>(claim("c", "1Gi", &json!({"storageClassName": "fast"})));
    stage.settle().await;
    let made = stage.made_for("c");
    stage.delete(Kind::PersistentVolume, &made);
    stage.settle().await;
    assert_eq!(stage.describe_volume(&made), "Bound c going");
    assert!(stage.directory(&made).is_dir());
    stage.delete(Kind::PersistentVolumeClaim, "c");
    stage.settle().await;
    assert_eq!((stage.describe_volume(&made).as_str(), stage.directory(&made).exists()), ("gone", false));

    // The policy at the time of the claim's deletion counts.
    for (from, to, left) in [("Delete", "Retain", true), ("Retain", "Delete", false)] {
        let name = format!("from-{}", from.to_lowercase());
        stage.class(&name, &json!({"reclaimPolicy": from}));
        stage.create::<PersistentVolumeClaim>(claim(&name, "1Gi", &json!({"storageClassName": name})));
        stage.settle().await;
        let made = stage.made_for(&name);
        stage
            .api
            .modify::<PersistentVolume>(&Key::new("", made.as_str()), |v| {
                v.spec.as_mut().unwrap().persistent_volume_reclaim_policy = Some(to.into());
                Ok(())
            })
            .unwrap();
        stage.settle().await;
        stage.delete(Kind::PersistentVolumeClaim, &name);
        stage.settle().await;
        assert_eq!(stage.directory(&made).exists(), left, "{from} to {to}");
    }
    stage.stop().await;
}
