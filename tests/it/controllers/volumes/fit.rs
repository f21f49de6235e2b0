//! The match of claims and volumes, and their use by pods (VOL-2): modes, topology, deleted classes.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use podium::object::Kind;
use serde_json::json;

use super::{VolumeFixture, claim, pod, volume};

#[tokio::test(start_paused = true)]
async fn a_volume_must_allow_what_the_claim_will_do_vol_2() {
    let stage = VolumeFixture::new().await;
    let none = |more: serde_json::Value| {
        let mut spec = json!({"storageClassName": ""});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    for (name, more) in [
        ("once", json!({})),
        ("many", json!({"accessModes": ["ReadWriteOnce", "ReadWriteMany"]})),
        ("device", json!({"volumeMode": "Block"})),
    ] {
        stage.create::<PersistentVolume>(volume(name, "1Gi", &more));
    }
    for (name, more, expected) in [
        ("reader", json!({"accessModes": ["ReadOnlyMany"]}), "Pending"),
        ("shared", json!({"accessModes": ["ReadWriteMany"]}), "Bound many 1Gi"),
        ("raw", json!({"volumeMode": "Block"}), "Bound device 1Gi"),
        ("plain", json!({}), "Bound once 1Gi"),
        ("next", json!({}), "Pending"),
    ] {
        stage.create::<PersistentVolumeClaim>(claim(name, "1Gi", &none(more)));
        stage.settle().await;
        assert_eq!(stage.describe_claim(name), expected, "{name}");
    }
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn claims_that_a_directory_cannot_satisfy_fail_with_the_reason_vol_2() {
    let stage = VolumeFixture::new().await;
    stage.class("fast", &json!({}));
    stage.class("tuned", &json!({"mountOptions": ["noatime"]}));
    stage.class("foreign", &json!({"provisioner": "ebs.csi.aws.com"}));
    let of = |class: &str, more: serde_json::Value| {
        let mut spec = json!({"storageClassName": class});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let failed = "ProvisioningFailed: failed to provision volume with StorageClass";
    for (name, spec, expected) in [
        (
            "raw",
            of("fast", json!({"volumeMode": "Block"})),
            format!("{failed} \"fast\": podium.dev/directory does not support block volume provisioning"),
        ),
        (
            "choosy",
            of("fast", json!({"selector": {"matchLabels": {"a": "b"}}})),
            format!("{failed} \"fast\": claim.Spec.Selector is not supported"),
        ),
        (
            "options",
            of("tuned", json!({})),
            format!(
                "{failed} \"tuned\": Mount options are not supported by the provisioner but StorageClass \"tuned\" \
                 has mount options [\"noatime\"]"
            ),
        ),
        (
            // Another provisioner must create it: the claim waits, and names the provisioner.
            "cloud",
            of("foreign", json!({})),
            "ExternalProvisioning: Waiting for a volume to be created either by the external provisioner \
             'ebs.csi.aws.com' or manually by the system administrator. If volume creation is delayed, please \
             verify that the provisioner is running and correctly registered."
                .to_string(),
        ),
    ] {
        stage.create::<PersistentVolumeClaim>(claim(name, "1Gi", &spec));
        stage.settle().await;
        let events = stage.events_of("PersistentVolumeClaim", name);
        assert!(events.contains(&expected), "{name}: {events:?}");
        assert_eq!(stage.describe_claim(name), "Pending");
    }
    // An administrator creates one by hand.
    let by_hand = json!({"storageClassName": "foreign"});
    stage.create::<PersistentVolume>(volume("by-hand", "1Gi", &by_hand));
    stage.settle().await;
    assert_eq!(stage.describe_claim("cloud"), "Bound by-hand 1Gi");
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_for_one_pod_is_used_by_one_pod_at_a_time_vol_2() {
    let stage = VolumeFixture::new().await;
    stage.class("late", &json!({"volumeBindingMode": "WaitForFirstConsumer"}));
    let alone = json!({"storageClassName": "late", "accessModes": ["ReadWriteOncePod"]});
    stage.create::<PersistentVolumeClaim>(claim("mine", "1Gi", &alone));
    stage.create::<Pod>(pod("first", "mine"));
    stage.settle().await;
    assert!(stage.node_of("first").is_some());
    stage.create::<Pod>(pod("second", "mine"));
    stage.settle().await;
    assert_eq!(stage.node_of("second"), None);
    let events = stage.events_of("Pod", "second").join("\n");
    let why = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode";
    assert!(events.contains(why), "{events}");
    stage.end("first").await;
    stage.pass(15).await;
    assert!(stage.node_of("second").is_some(), "{:?}", stage.events_of("Pod", "second"));
    // ReadWriteOnce allows pods of one node to share the volume: a second pod is no conflict.
    stage.create::<PersistentVolumeClaim>(claim("node", "1Gi", &json!({"storageClassName": "late"})));
    stage.create::<Pod>(pod("third", "node"));
    stage.create::<Pod>(pod("fourth", "node"));
    stage.settle().await;
    assert!(stage.node_of("third").is_some() && stage.node_of("fourth").is_some());
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_follows_its_volume_or_stays_pending_vol_2() {
    let stage = VolumeFixture::new().await;
    let on_n2 = json!({"nodeAffinity": {"required": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "host", "operator": "In", "values": ["n2"]}]}]}}});
    stage.create::<PersistentVolume>(volume("local", "1Gi", &on_n2));
    stage.create::<PersistentVolumeClaim>(claim("c", "1Gi", &json!({"storageClassName": ""})));
    stage.settle().await;
    assert_eq!(stage.describe_claim("c"), "Bound local 1Gi", "bound at once, wherever the pods will be");
    stage.create::<Pod>(pod("p", "c"));
    let mut other_node = pod("q", "c");
    other_node["spec"]["nodeSelector"] = json!({"host": "n1"});
    stage.create::<Pod>(other_node);
    stage.settle().await;
    assert_eq!((stage.node_of("p").as_deref(), stage.node_of("q")), (Some("n2"), None));
    let events = stage.events_of("Pod", "q").join("\n");
    assert!(events.contains("1 node(s) had volume node affinity conflict"), "{events}");
    assert!(events.contains("1 node(s) didn't match Pod's node affinity/selector"), "{events}");
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pending_claim_names_its_pod_and_deleting_a_class_removes_no_claim_vol_2() {
    let stage = VolumeFixture::new().await;
    stage.class("late", &json!({"volumeBindingMode": "WaitForFirstConsumer"}));
    for name in ["c", "d"] {
        stage.create::<PersistentVolumeClaim>(claim(name, "1Gi", &json!({"storageClassName": "late"})));
    }
    let mut unschedulable = pod("p", "c");
    unschedulable["spec"]["nodeSelector"] = json!({"host": "n9"});
    stage.create::<Pod>(unschedulable);
    stage.create::<Pod>(pod("q", "d"));
    stage.pass(20).await;
    let events = stage.events_of("PersistentVolumeClaim", "c");
    assert!(
        events.contains(&"WaitForPodScheduled: waiting for pod p to be scheduled".to_string()),
        "{events:?}"
    );
    let made = stage.made_for("d");
    assert_eq!(stage.describe_claim("d"), format!("Bound {made} 1Gi"));

    stage.delete(Kind::StorageClass, "late");
    stage.pass(60).await;
    assert_eq!(stage.describe_claim("d"), format!("Bound {made} 1Gi"));
    // A pod that could not be scheduled does not hold the claim it waits with; a running one does.
    stage.delete(Kind::PersistentVolumeClaim, "c");
    stage.delete(Kind::PersistentVolumeClaim, "d");
    stage.settle().await;
    assert_eq!(
        (stage.describe_claim("c").as_str(), stage.describe_claim("d")),
        ("gone", format!("Bound {made} 1Gi going"))
    );
    stage.end("q").await;
    stage.pass(2).await;
    assert_eq!((stage.describe_claim("d").as_str(), stage.describe_volume(&made).as_str()), ("gone", "gone"));
    assert!(!stage.directory(&made).exists(), "the volume's policy outlives its class");
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_default_class_can_change_and_counts_for_claims_without_one_vol_2() {
    let stage = VolumeFixture::new().await;
    let class_of = |name: &str| stage.claim(name).unwrap().spec.as_ref().unwrap().storage_class_name.clone();
    let annotated = |name: &str, value: &str| json!({"metadata": {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": value}}});
    // Without a default class, a claim without a class is bound by hand, like one with an empty class.
    stage.create::<PersistentVolume>(volume("by-hand", "1Gi", &json!({})));
    stage.create::<PersistentVolumeClaim>(claim("first", "1Gi", &json!({})));
    stage.settle().await;
    assert_eq!((stage.describe_claim("first").as_str(), class_of("first")), ("Bound by-hand 1Gi", None));

    stage.class("old", &annotated("old", "true"));
    stage.class("new", &annotated("new", "false"));
    stage.create::<PersistentVolumeClaim>(claim("second", "1Gi", &json!({})));
    stage.settle().await;
    let flip = |name: &str, value: &str| {
        let key = podium::object::Key::new("", name);
        let changed = stage.api.modify::<k8s_openapi::api::storage::v1::StorageClass>(&key, |class| {
            let annotations = class.metadata.annotations.get_or_insert_default();
            annotations.insert("storageclass.kubernetes.io/is-default-class".into(), value.into());
            Ok(())
        });
        changed.unwrap();
    };
    flip("old", "false");
    flip("new", "true");
    stage.create::<PersistentVolumeClaim>(claim("third", "1Gi", &json!({})));
    stage.settle().await;
    assert_eq!(
        (class_of("first"), class_of("second").as_deref(), class_of("third").as_deref()),
        (None, Some("old"), Some("new")),
        "bound claims stay as they are"
    );
    stage.stop().await;
}
