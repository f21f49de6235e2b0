//! Binding and release of claims and volumes (VOL-2).

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use podium::object::{Key, Kind};
use serde_json::json;

use super::{VolumeFixture, claim, pod, volume};

#[tokio::test(start_paused = true)]
async fn a_claim_gets_the_smallest_volume_and_leaves_it_released_vol_2() {
    let stage = VolumeFixture::new().await;
    stage.create::<PersistentVolumeClaim>(claim("c", "5Gi", &json!({"storageClassName": ""})));
    stage.settle().await;
    assert_eq!(stage.describe_claim("c"), "Pending");
    let unset = "FailedBinding: no persistent volumes available for this claim and no storage class is set";
    assert_eq!(stage.events_of("PersistentVolumeClaim", "c"), [unset]);
    for (name, size) in [("big", "50Gi"), ("small", "4Gi"), ("mid", "8Gi")] {
        stage.create::<PersistentVolume>(volume(name, size, &json!({})));
    }
    stage.settle().await;
    // The first volume that came was bound, because the claim had waited.
    assert_eq!(stage.describe_claim("c"), "Bound big 50Gi");
    assert_eq!(
        (stage.describe_volume("big").as_str(), stage.describe_volume("mid").as_str()),
        ("Bound c", "Available")
    );
    stage.create::<PersistentVolumeClaim>(claim("d", "5Gi", &json!({"storageClassName": ""})));
    stage.settle().await;
    assert_eq!(stage.describe_claim("d"), "Bound mid 8Gi");
    let bound = stage.claim("d").unwrap();
    let annotations = bound.metadata.annotations.clone().unwrap();
    assert_eq!(annotations["pv.kubernetes.io/bind-completed"], "yes");
    assert_eq!(annotations["pv.kubernetes.io/bound-by-controller"], "yes");
    let retained = stage.volume("mid").unwrap();
    let reference = retained.spec.as_ref().unwrap().claim_ref.clone().unwrap();
    assert_eq!(
        (reference.uid.as_deref(), reference.kind.as_deref()),
        (Some(bound.uid()), Some("PersistentVolumeClaim"))
    );

    stage.delete(Kind::PersistentVolumeClaim, "d");
    stage.settle().await;
    assert_eq!(
        (stage.describe_claim("d").as_str(), stage.describe_volume("mid").as_str()),
        ("gone", "Released d")
    );
    // A claim of the same name is another claim; the volume is free once an administrator clears its reference.
    stage.create::<PersistentVolumeClaim>(claim("d", "5Gi", &json!({"storageClassName": ""})));
    stage.settle().await;
    assert_eq!(
        (stage.describe_claim("d").as_str(), stage.describe_volume("mid").as_str()),
        ("Pending", "Released d")
    );
    stage
        .api
        .modify::<PersistentVolume>(&Key::new("", "mid"), |v| {
            v.spec.as_mut().unwrap().claim_ref = None;
            Ok(())
        })
        .unwrap();
    stage.settle().await;
    assert_eq!(
        (stage.describe_claim("d").as_str(), stage.describe_volume("mid").as_str()),
        ("Bound mid 8Gi", "Bound d")
    );
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn claims_and_volumes_can_be_meant_for_one_another_vol_2() {
    let stage = VolumeFixture::new().await;
    let none = json!({"storageClassName": ""});
    // The claim names the volume, which is created later; another claim would fit it as well.
    stage.create::<PersistentVolumeClaim>(claim(
        "picky",
        "1Gi",
        &json!({"storageClassName": "", "volumeName": "v"}),
    ));
    stage.settle().await;
    stage.create::<PersistentVolume>(volume("v", "1Gi", &json!({})));
    stage.settle().await;
    assert_eq!(stage.describe_claim("picky"), "Bound v 1Gi");
    // The volume names the claim, and stays reserved for it although another claim comes first.
    let reserved = json!({"claimRef": {"namespace": "default", "name": "late"}});
    stage.create::<PersistentVolume>(volume("reserved", "1Gi", &reserved));
    stage.create::<PersistentVolumeClaim>(claim("early", "1Gi", &none));
    stage.settle().await;
    assert_eq!(
        (stage.describe_claim("early").as_str(), stage.describe_volume("reserved").as_str()),
        ("Pending", "Available late")
    );
    stage.create::<PersistentVolumeClaim>(claim("late", "1Gi", &none));
    stage.settle().await;
    assert_eq!(stage.describe_claim("late"), "Bound reserved 1Gi");
    let of_user = stage.volume("reserved").unwrap().metadata.annotations.clone().unwrap_or_default();
    assert!(!of_user.contains_key("pv.kubernetes.io/bound-by-controller"));
    // Claims that request a volume that does not fit, or that belongs to another claim.
    stage.create::<PersistentVolume>(volume("slow", "1Gi", &json!({"storageClassName": "slow"})));
    let named = |volume: &str| json!({"storageClassName": "", "volumeName": volume});
    stage.create::<PersistentVolumeClaim>(claim("wrong", "1Gi", &named("slow")));
    stage.create::<PersistentVolumeClaim>(claim("second", "1Gi", &named("v")));
    stage.settle().await;
    assert_eq!(
        (stage.describe_claim("wrong").as_str(), stage.describe_claim("second").as_str()),
        ("Pending slow", "Pending v")
    );
    assert_eq!(
        stage.events_of("PersistentVolumeClaim", "wrong"),
        ["VolumeMismatch: Cannot bind to requested volume \"slow\": storageClassName does not match"]
    );
    // A claim selects volumes by labels.
    let selecting = json!({"storageClassName": "", "selector": {"matchLabels": {"disk": "ssd"}}});
    stage.create::<PersistentVolumeClaim>(claim("choosy", "1Gi", &selecting));
    stage.create::<PersistentVolume>(volume(
        "hdd",
        "1Gi",
        &json!({"claimRef": {"namespace": "default", "name": "x"}}),
    ));
    let mut ssd = volume("ssd", "3Gi", &json!({}));
    ssd["metadata"]["labels"] = json!({"disk": "ssd"});
    stage.delete(Kind::PersistentVolumeClaim, "early");
    stage.settle().await;
    stage.create::<PersistentVolume>(ssd);
    stage.settle().await;
    assert_eq!(stage.describe_claim("choosy"), "Bound ssd 3Gi");
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_loses_its_volume_is_lost_vol_2() {
    let stage = VolumeFixture::new().await;
    stage.create::<PersistentVolume>(volume("v", "1Gi", &json!({})));
    stage.create::<PersistentVolumeClaim>(claim("c", "1Gi", &json!({"storageClassName": ""})));
    stage.settle().await;
    // The volume is deleted first, and waits for its claim.
    stage.delete(Kind::PersistentVolume, "v");
    stage.settle().await;
    assert_eq!(
        (stage.describe_claim("c").as_str(), stage.describe_volume("v").as_str()),
        ("Bound v 1Gi", "Bound c going")
    );
    // A forced deletion removes it.
    stage
        .api
        .modify::<PersistentVolume>(&Key::new("", "v"), |v| {
            v.metadata.finalizers = None;
            Ok(())
        })
        .unwrap();
    stage.settle().await;
    assert_eq!((stage.describe_claim("c").as_str(), stage.describe_volume("v").as_str()), ("Lost v", "gone"));
    assert_eq!(
        stage.events_of("PersistentVolumeClaim", "c"),
        ["ClaimLost: Bound claim has lost its PersistentVolume. Data on the volume is lost!"]
    );
    stage.create::<Pod>(pod("p", "c"));
    stage.settle().await;
    let events = stage.events_of("Pod", "p").join("\n");
    assert!(
        events.contains("persistentvolumeclaim \"c\" bound to non-existent persistentvolume \"v\""),
        "{events}"
    );
    stage.stop().await;
}
