//! The effects of storage classes: expansion, the default class, a pod's own claims (VOL-2).

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use podium::object::Kind;
use serde_json::json;

use super::super::cluster::key;
use super::{VolumeFixture, claim};

#[tokio::test(start_paused = true)]
async fn a_claim_grows_where_its_class_lets_it_vol_2() {
    let stage = VolumeFixture::new().await;
    stage.class("grows", &json!({}));
    stage.class("stays", &json!({"allowVolumeExpansion": false}));
    for class in ["grows", "stays"] {
        stage.create::<PersistentVolumeClaim>(claim(class, "1Gi", &json!({"storageClassName": class})));
    }
    stage.settle().await;
    let resize = |name: &str, size: &str| {
        let quantity = k8s_openapi::apimachinery::pkg::api::resource::Quantity(size.into());
        stage.api.modify::<PersistentVolumeClaim>(&key(name), |claim| {
            let requests =
                claim.spec.as_mut().unwrap().resources.as_mut().unwrap().requests.as_mut().unwrap();
            requests.insert("storage".into(), quantity.clone());
            Ok(())
        })
    };
    assert_eq!(
        resize("stays", "2Gi").unwrap_err().to_string(),
        "persistentvolumeclaims \"stays\" is forbidden: only dynamically provisioned pvc can be resized and the \
         storageclass that provisions the pvc must support resize"
    );
    resize("grows", "3Gi").unwrap();
    stage.settle().await;
    let made = stage.made_for("grows");
    assert_eq!(stage.describe_claim("grows"), format!("Bound {made} 3Gi"));
    assert_eq!(
        stage.volume(&made).unwrap().spec.as_ref().unwrap().capacity.as_ref().unwrap()["storage"].0,
        "3Gi"
    );
    let events = stage.events_of("PersistentVolumeClaim", "grows");
    assert!(events.contains(&format!("Resizing: External resizer is resizing volume {made}")), "{events:?}");
    assert!(events.contains(&"VolumeResizeSuccessful: Resize volume succeeded".to_string()), "{events:?}");
    assert!(
        resize("grows", "2Gi")
            .unwrap_err()
            .to_string()
            .contains("field can not be less than status.capacity")
    );
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn claims_without_a_class_get_the_default_even_late_vol_2() {
    let stage = VolumeFixture::new().await;
    let class_of = |name: &str| stage.claim(name).unwrap().spec.as_ref().unwrap().storage_class_name.clone();
    stage.create::<PersistentVolumeClaim>(claim("early", "1Gi", &json!({})));
    stage.create::<PersistentVolumeClaim>(claim("none", "1Gi", &json!({"storageClassName": ""})));
    stage.settle().await;
    assert_eq!(class_of("early"), None);
    let default = |name: &str| {
        json!({"metadata": {"name": name,
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}})
    };
    stage.class("first", &default("first"));
    stage.pass(2).await;
    assert_eq!(class_of("early").as_deref(), Some("first"));
    assert!(stage.describe_claim("early").starts_with("Bound pvc-"));
    assert_eq!((class_of("none").as_deref(), stage.describe_claim("none").as_str()), (Some(""), "Pending"));
    // The youngest of two defaults counts.
    stage.class("second", &default("second"));
    stage.create::<PersistentVolumeClaim>(claim("later", "1Gi", &json!({})));
    stage.settle().await;
    assert_eq!(class_of("later").as_deref(), Some("second"));
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pods_own_claim_comes_and_goes_with_it_vol_2() {
    let stage = VolumeFixture::new().await;
    stage.class("late", &json!({"volumeBindingMode": "WaitForFirstConsumer"}));
    let own = json!({"metadata": {"name": "p", "namespace": "default"}, "spec": {
        "containers": [{"name": "c", "image": "busybox"}],
        "volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {
            "metadata": {"labels": {"for": "p"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "late",
                "resources": {"requests": {"storage": "1Gi"}}}}}}]}});
    // A foreign claim of that name is not used.
    stage.create::<PersistentVolumeClaim>(claim("p-scratch", "1Gi", &json!({"storageClassName": "late"})));
    stage.create::<Pod>(own);
    stage.settle().await;
    let events = stage.events_of("Pod", "p").join("\n");
    let refused = "ephemeral volume scratch: PVC default/p-scratch was not created for pod default/p (pod is not owner)";
    assert!(events.contains(refused), "{events}");
    assert_eq!(stage.node_of("p"), None);
    stage.delete(Kind::PersistentVolumeClaim, "p-scratch");
    stage.pass(15).await;
    let made = stage.made_for("p-scratch");
    assert_eq!(stage.describe_claim("p-scratch"), format!("Bound {made} 1Gi"));
    assert!(stage.node_of("p").is_some());
    let labels = stage.claim("p-scratch").unwrap().metadata.labels.clone().unwrap();
    assert_eq!(labels["for"], "p");
    stage.end("p").await;
    stage.pass(2).await;
    assert_eq!(
        (stage.describe_claim("p-scratch").as_str(), stage.describe_volume(&made).as_str()),
        ("gone", "gone")
    );
    assert!(!stage.directory(&made).exists());
    stage.stop().await;
}
