//! Volumes and claims by scenario (VOL-2): the persistent-volumes page, on virtual time, with the scheduler.

use k8s_openapi::api::core::v1::{Event, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use podium::api::DeleteOptions;
use podium::controllers::{Controllers, Settings, VolumeDirectory};
use podium::object::storage::DIRECTORY_PROVISIONER;
use podium::object::{Key, Kind, Shared};
use podium::scheduler::{Scheduler, SchedulerConfig};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::cluster::{Cluster, key};

/// Nodes that are never looked at: what becomes of pods on them is the test's.
const NO_KUBELETS: &[&str] = &["podgc", "nodelifecycle", "taint-eviction-controller"];

/// A cluster with a scheduler, two nodes, and a place for volumes.
struct Stage {
    cluster: Cluster,
    place: tempfile::TempDir,
    _scheduler: Scheduler,
}

impl std::ops::Deref for Stage {
    type Target = Cluster;
    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Stage {
    async fn new() -> Self {
        Self::without(&[]).await
    }

    async fn without(disabled: &[&str]) -> Self {
        let place = tempfile::tempdir().unwrap();
        // A pod of this name keeps its volume: a kubelet that has not let go.
        let held = place.path().join("held");
        let volumes = VolumeDirectory::new(place.path().join("volumes"), move |_| {
            held.exists().then(|| "the-last-one".to_string())
        });
        let disabled = [NO_KUBELETS, disabled].concat();
        let settings = Settings { volumes: Some(volumes), ..Settings::default() };
        let cluster = Cluster::start_with(&disabled, settings);
        for name in ["n1", "n2"] {
            cluster.create::<Node>(json!({"metadata": {"name": name, "labels": {"host": name}},
                "status": {"capacity": {"cpu": "8", "memory": "8Gi", "pods": "20"},
                    "conditions": [{"type": "Ready", "status": "True"}]}}));
        }
        let scheduler = Scheduler::new(&cluster.api, &cluster.caches, SchedulerConfig::default());
        scheduler.run(&cluster.tasks);
        let stage = Self { cluster, place, _scheduler: scheduler };
        stage.settle().await;
        stage
    }

    async fn stop(self) {
        self.cluster.stop().await;
    }

    fn volume(&self, name: &str) -> Option<Shared<PersistentVolume>> {
        self.api.get_as(&Key::new("", name)).ok()
    }

    fn claim(&self, name: &str) -> Option<Shared<PersistentVolumeClaim>> {
        self.api.get_as(&key(name)).ok()
    }

    /// `phase` or `phase claim`, and `going` when it is.
    fn volume_told(&self, name: &str) -> String {
        let Some(volume) = self.volume(name) else { return "gone".into() };
        let claim = volume.spec.as_ref().unwrap().claim_ref.as_ref().and_then(|r| r.name.clone());
        let phase = volume.status.as_ref().and_then(|s| s.phase.clone()).unwrap_or_default();
        let going = if volume.metadata.deletion_timestamp.is_some() { " going" } else { "" };
        format!("{phase} {}{going}", claim.unwrap_or_default()).trim_end().to_string()
    }

    fn claim_told(&self, name: &str) -> String {
        let Some(claim) = self.claim(name) else { return "gone".into() };
        let volume = claim.spec.as_ref().unwrap().volume_name.clone().unwrap_or_default();
        let status = claim.status.clone().unwrap_or_default();
        let size = status.capacity.and_then(|c| c.get("storage").map(|q| q.0.clone())).unwrap_or_default();
        let going = if claim.metadata.deletion_timestamp.is_some() { " going" } else { "" };
        let text = format!("{} {volume} {size}{going}", status.phase.unwrap_or_default());
        text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// What was made for a claim.
    fn made_for(&self, claim: &str) -> String {
        format!("pvc-{}", self.claim(claim).unwrap().uid())
    }

    fn directory(&self, volume: &str) -> std::path::PathBuf {
        self.place.path().join("volumes").join(volume)
    }

    fn delete(&self, kind: Kind, name: &str) {
        let key = if kind.namespaced() { key(name) } else { Key::new("", name) };
        self.api.delete(kind, &key, &DeleteOptions::default()).unwrap();
    }

    fn node_of(&self, pod: &str) -> Option<String> {
        self.get::<Pod>(pod).spec.as_ref().unwrap().node_name.clone()
    }

    /// The kubelet is done with a pod: its object goes.
    async fn end(&self, pod: &str) {
        let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        self.api.delete(Kind::Pod, &key(pod), &now).unwrap();
        self.settle().await;
    }

    /// `reason: message` of the events about an object, in order.
    fn told_of(&self, kind: &str, name: &str) -> Vec<String> {
        let mut events = self.api.list_as::<Event>(None);
        let about = |e: &Shared<Event>| {
            e.involved_object.kind.as_deref() == Some(kind) && e.involved_object.name.as_deref() == Some(name)
        };
        events.retain(about);
        events.sort_by_key(|e| (e.first_timestamp.clone(), e.name().to_string()));
        let text = |o: &Option<String>| o.clone().unwrap_or_default();
        events.iter().map(|e| format!("{}: {}", text(&e.reason), text(&e.message))).collect()
    }

    fn class(&self, name: &str, more: &Value) {
        let mut class = json!({"metadata": {"name": name}, "provisioner": DIRECTORY_PROVISIONER,
            "volumeBindingMode": "Immediate", "reclaimPolicy": "Delete", "allowVolumeExpansion": true});
        class.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.create::<StorageClass>(class);
    }
}

fn volume(name: &str, size: &str, more: &Value) -> Value {
    let mut spec = json!({"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": format!("/srv/{name}")}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "spec": spec})
}

fn claim(name: &str, size: &str, more: &Value) -> Value {
    let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

fn pod(name: &str, claim: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default"}, "spec": {
        "containers": [{"name": "c", "image": "busybox"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}})
}

#[tokio::test(start_paused = true)]
async fn a_claim_gets_the_smallest_volume_and_leaves_it_released_vol_2() {
    let stage = Stage::new().await;
    stage.create::<PersistentVolumeClaim>(claim("c", "5Gi", &json!({"storageClassName": ""})));
    stage.settle().await;
    assert_eq!(stage.claim_told("c"), "Pending");
    let unset = "FailedBinding: no persistent volumes available for this claim and no storage class is set";
    assert_eq!(stage.told_of("PersistentVolumeClaim", "c"), [unset]);
    for (name, size) in [("big", "50Gi"), ("small", "4Gi"), ("mid", "8Gi")] {
        stage.create::<PersistentVolume>(volume(name, size, &json!({})));
    }
    stage.settle().await;
    // Whichever came first was taken: the claim had waited.
    assert_eq!(stage.claim_told("c"), "Bound big 50Gi");
    assert_eq!(
        (stage.volume_told("big").as_str(), stage.volume_told("mid").as_str()),
        ("Bound c", "Available")
    );
    stage.create::<PersistentVolumeClaim>(claim("d", "5Gi", &json!({"storageClassName": ""})));
    stage.settle().await;
    assert_eq!(stage.claim_told("d"), "Bound mid 8Gi");
    let bound = stage.claim("d").unwrap();
    let annotations = bound.metadata.annotations.clone().unwrap();
    assert_eq!(annotations["pv.kubernetes.io/bind-completed"], "yes");
    assert_eq!(annotations["pv.kubernetes.io/bound-by-controller"], "yes");
    let kept = stage.volume("mid").unwrap();
    let reference = kept.spec.as_ref().unwrap().claim_ref.clone().unwrap();
    assert_eq!(
        (reference.uid.as_deref(), reference.kind.as_deref()),
        (Some(bound.uid()), Some("PersistentVolumeClaim"))
    );

    stage.delete(Kind::PersistentVolumeClaim, "d");
    stage.settle().await;
    assert_eq!((stage.claim_told("d").as_str(), stage.volume_told("mid").as_str()), ("gone", "Released d"));
    // A claim of the same name is another claim; the volume is free when an administrator says so.
    stage.create::<PersistentVolumeClaim>(claim("d", "5Gi", &json!({"storageClassName": ""})));
    stage.settle().await;
    assert_eq!(
        (stage.claim_told("d").as_str(), stage.volume_told("mid").as_str()),
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
        (stage.claim_told("d").as_str(), stage.volume_told("mid").as_str()),
        ("Bound mid 8Gi", "Bound d")
    );
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn claims_and_volumes_can_be_meant_for_one_another_vol_2() {
    let stage = Stage::new().await;
    let none = json!({"storageClassName": ""});
    // The claim names the volume, which is made later; another claim would fit it as well.
    stage.create::<PersistentVolumeClaim>(claim(
        "picky",
        "1Gi",
        &json!({"storageClassName": "", "volumeName": "v"}),
    ));
    stage.settle().await;
    stage.create::<PersistentVolume>(volume("v", "1Gi", &json!({})));
    stage.settle().await;
    assert_eq!(stage.claim_told("picky"), "Bound v 1Gi");
    // The volume names the claim, and keeps for it although another asks first.
    let kept = json!({"claimRef": {"namespace": "default", "name": "late"}});
    stage.create::<PersistentVolume>(volume("reserved", "1Gi", &kept));
    stage.create::<PersistentVolumeClaim>(claim("early", "1Gi", &none));
    stage.settle().await;
    assert_eq!(
        (stage.claim_told("early").as_str(), stage.volume_told("reserved").as_str()),
        ("Pending", "Available late")
    );
    stage.create::<PersistentVolumeClaim>(claim("late", "1Gi", &none));
    stage.settle().await;
    assert_eq!(stage.claim_told("late"), "Bound reserved 1Gi");
    let of_user = stage.volume("reserved").unwrap().metadata.annotations.clone().unwrap_or_default();
    assert!(!of_user.contains_key("pv.kubernetes.io/bound-by-controller"));
    // Asking for a volume that cannot serve, or that another has.
    stage.create::<PersistentVolume>(volume("slow", "1Gi", &json!({"storageClassName": "slow"})));
    let named = |volume: &str| json!({"storageClassName": "", "volumeName": volume});
    stage.create::<PersistentVolumeClaim>(claim("wrong", "1Gi", &named("slow")));
    stage.create::<PersistentVolumeClaim>(claim("second", "1Gi", &named("v")));
    stage.settle().await;
    assert_eq!(
        (stage.claim_told("wrong").as_str(), stage.claim_told("second").as_str()),
        ("Pending slow", "Pending v")
    );
    assert_eq!(
        stage.told_of("PersistentVolumeClaim", "wrong"),
        ["VolumeMismatch: Cannot bind to requested volume \"slow\": storageClassName does not match"]
    );
    // Labels.
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
    assert_eq!(stage.claim_told("choosy"), "Bound ssd 3Gi");
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_loses_its_volume_is_lost_vol_2() {
    let stage = Stage::new().await;
    stage.create::<PersistentVolume>(volume("v", "1Gi", &json!({})));
    stage.create::<PersistentVolumeClaim>(claim("c", "1Gi", &json!({"storageClassName": ""})));
    stage.settle().await;
    // Deleted first, the volume waits for its claim.
    stage.delete(Kind::PersistentVolume, "v");
    stage.settle().await;
    assert_eq!(
        (stage.claim_told("c").as_str(), stage.volume_told("v").as_str()),
        ("Bound v 1Gi", "Bound c going")
    );
    // By force it is gone.
    stage
        .api
        .modify::<PersistentVolume>(&Key::new("", "v"), |v| {
            v.metadata.finalizers = None;
            Ok(())
        })
        .unwrap();
    stage.settle().await;
    assert_eq!((stage.claim_told("c").as_str(), stage.volume_told("v").as_str()), ("Lost v", "gone"));
    assert_eq!(
        stage.told_of("PersistentVolumeClaim", "c"),
        ["ClaimLost: Bound claim has lost its PersistentVolume. Data on the volume is lost!"]
    );
    stage.create::<Pod>(pod("p", "c"));
    stage.settle().await;
    let told = stage.told_of("Pod", "p").join("\n");
    assert!(
        told.contains("persistentvolumeclaim \"c\" bound to non-existent persistentvolume \"v\""),
        "{told}"
    );
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_in_use_is_protected_in_either_order_vol_2() {
    let stage = Stage::new().await;
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
    assert_eq!(stage.claim_told("c"), "Bound v 1Gi going");
    assert_eq!(stage.volume_told("v"), "Bound c going");
    // A pod that comes now does not get it.
    stage.create::<Pod>(pod("q", "c"));
    stage.settle().await;
    assert_eq!(stage.node_of("q"), None);
    let told = stage.told_of("Pod", "q").join("\n");
    assert!(told.contains("persistentvolumeclaim \"c\" is being deleted"), "{told}");
    stage.end("q").await;
    assert_eq!(stage.claim_told("c"), "Bound v 1Gi going");
    stage.end("p").await;
    assert_eq!((stage.claim_told("c").as_str(), stage.volume_told("v").as_str()), ("gone", "gone"));
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_immediate_class_provides_at_once_and_takes_back_vol_2() {
    let stage = Stage::new().await;
    stage.class("fast", &json!({}));
    stage.create::<PersistentVolumeClaim>(claim("c", "2Gi", &json!({"storageClassName": "fast"})));
    stage.settle().await;
    let made = stage.made_for("c");
    assert_eq!(stage.claim_told("c"), format!("Bound {made} 2Gi"));
    assert!(stage.directory(&made).is_dir());
    assert_eq!(
        stage.told_of("PersistentVolumeClaim", "c"),
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
    // A kubelet that has not let go holds the directory, and the volume with it.
    std::fs::write(stage.place.path().join("held"), "").unwrap();
    stage.delete(Kind::PersistentVolumeClaim, "c");
    stage.pass(30).await;
    assert_eq!(stage.volume_told(&made), "Released c");
    assert!(stage.directory(&made).join("data").exists());
    assert_eq!(
        stage.told_of("PersistentVolume", &made),
        [format!("VolumeDelete: volume {made} is still used by pod the-last-one")]
    );
    std::fs::remove_file(stage.place.path().join("held")).unwrap();
    stage.pass(2).await;
    assert_eq!((stage.volume_told(&made).as_str(), stage.directory(&made).exists()), ("gone", false));
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_first_consumer_decides_where_vol_2() {
    let stage = Stage::new().await;
    stage.class("late", &json!({"volumeBindingMode": "WaitForFirstConsumer"}));
    let hand =
        json!({"volumeBindingMode": "WaitForFirstConsumer", "provisioner": "kubernetes.io/no-provisioner"});
    stage.class("hand", &hand);
    stage.create::<PersistentVolumeClaim>(claim("c", "1Gi", &json!({"storageClassName": "late"})));
    stage.settle().await;
    let waiting = "WaitForFirstConsumer: waiting for first consumer to be created before binding";
    assert_eq!(
        (stage.claim_told("c").as_str(), stage.told_of("PersistentVolumeClaim", "c")),
        ("Pending", vec![waiting.to_string()])
    );
    let mut there = pod("p", "c");
    there["spec"]["nodeSelector"] = json!({"host": "n2"});
    stage.create::<Pod>(there);
    stage.settle().await;
    let made = stage.made_for("c");
    assert_eq!(stage.claim_told("c"), format!("Bound {made} 1Gi"));
    assert_eq!(stage.node_of("p").as_deref(), Some("n2"));
    let annotations = stage.claim("c").unwrap().metadata.annotations.clone().unwrap();
    assert_eq!(annotations["volume.kubernetes.io/selected-node"], "n2");
    assert_eq!(annotations["volume.kubernetes.io/storage-provisioner"], "podium.dev/directory");

    // Volumes made by hand on one node draw the pod there.
    let on_n1 = json!({"storageClassName": "hand", "nodeAffinity": {"required": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "host", "operator": "In", "values": ["n1"]}]}]}}});
    stage.create::<PersistentVolume>(volume("local", "1Gi", &on_n1));
    stage.create::<PersistentVolumeClaim>(claim("d", "1Gi", &json!({"storageClassName": "hand"})));
    stage.create::<PersistentVolumeClaim>(claim("e", "1Gi", &json!({"storageClassName": "hand"})));
    stage.settle().await;
    assert_eq!(stage.claim_told("d"), "Pending");
    stage.create::<Pod>(pod("q", "d"));
    stage.settle().await;
    assert_eq!(
        (stage.claim_told("d").as_str(), stage.node_of("q").as_deref()),
        ("Bound local 1Gi", Some("n1"))
    );
    stage.create::<Pod>(pod("r", "e"));
    stage.settle().await;
    assert_eq!(stage.node_of("r"), None);
    let told = stage.told_of("Pod", "r").join("\n");
    assert!(
        told.contains("0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."),
        "{told}"
    );
    // What it waits for comes.
    stage.create::<PersistentVolume>(volume("another", "1Gi", &json!({"storageClassName": "hand"})));
    stage.pass(15).await;
    assert_eq!(stage.claim_told("e"), "Bound another 1Gi");
    assert!(stage.node_of("r").is_some());
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_its_immediate_claim_and_for_a_claim_at_all_vol_2() {
    let stage = Stage::new().await;
    stage.create::<Pod>(pod("p", "c"));
    stage.settle().await;
    let told = stage.told_of("Pod", "p").join("\n");
    assert!(told.contains("0/2 nodes are available: persistentvolumeclaim \"c\" not found."), "{told}");
    stage.create::<PersistentVolumeClaim>(claim("c", "1Gi", &json!({"storageClassName": "soon"})));
    stage.pass(15).await;
    let told = stage.told_of("Pod", "p").join("\n");
    assert!(
        told.contains("0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."),
        "{told}"
    );
    assert_eq!(
        stage.told_of("PersistentVolumeClaim", "c"),
        ["ProvisioningFailed: storageclass.storage.k8s.io \"soon\" not found"]
    );
    stage.class("soon", &json!({}));
    stage.pass(15).await;
    assert!(stage.node_of("p").is_some(), "{:?}", stage.told_of("Pod", "p"));
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn retained_volumes_and_unfit_ones_stay_vol_2() {
    let stage = Stage::new().await;
    stage.class("keep", &json!({"reclaimPolicy": "Retain"}));
    stage.create::<PersistentVolumeClaim>(claim("c", "1Gi", &json!({"storageClassName": "keep"})));
    stage.settle().await;
    let made = stage.made_for("c");
    std::fs::write(stage.directory(&made).join("data"), "x").unwrap();
    stage.delete(Kind::PersistentVolumeClaim, "c");
    stage.settle().await;
    assert_eq!(stage.volume_told(&made), "Released c");
    stage.delete(Kind::PersistentVolume, &made);
    stage.settle().await;
    assert_eq!(stage.volume_told(&made), "gone");
    assert!(stage.directory(&made).join("data").exists(), "the data is the user's to remove");

    // Whoever writes a volume by hand cannot have something else removed by it.
    let outside = stage.place.path().join("outside");
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
    assert_eq!(stage.volume_told("forged"), "Released d");
    assert!(stage.told_of("PersistentVolume", "forged")[0].starts_with("VolumeFailedDelete: "));
    assert_eq!(stage.volume_told("plain"), "Failed e");
    assert_eq!(
        stage.told_of("PersistentVolume", "plain"),
        ["VolumeFailedDelete: host_path deleter only supports /tmp/.+ but received provided /srv/plain"]
    );
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_deleted_before_its_claim_takes_its_directory_along_vol_2() {
    let stage = Stage::new().await;
    stage.class("fast", &json!({}));
    stage.create::<PersistentVolumeClaim>(claim("c", "1Gi", &json!({"storageClassName": "fast"})));
    stage.settle().await;
    let made = stage.made_for("c");
    stage.delete(Kind::PersistentVolume, &made);
    stage.settle().await;
    assert_eq!(stage.volume_told(&made), "Bound c going");
    assert!(stage.directory(&made).is_dir());
    stage.delete(Kind::PersistentVolumeClaim, "c");
    stage.settle().await;
    assert_eq!((stage.volume_told(&made).as_str(), stage.directory(&made).exists()), ("gone", false));

    // The policy in force at the end counts.
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

#[tokio::test(start_paused = true)]
async fn a_claim_grows_where_its_class_lets_it_vol_2() {
    let stage = Stage::new().await;
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
    assert_eq!(stage.claim_told("grows"), format!("Bound {made} 3Gi"));
    assert_eq!(
        stage.volume(&made).unwrap().spec.as_ref().unwrap().capacity.as_ref().unwrap()["storage"].0,
        "3Gi"
    );
    let told = stage.told_of("PersistentVolumeClaim", "grows");
    assert!(told.contains(&format!("Resizing: External resizer is resizing volume {made}")), "{told:?}");
    assert!(told.contains(&"VolumeResizeSuccessful: Resize volume succeeded".to_string()), "{told:?}");
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
    let stage = Stage::new().await;
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
    assert!(stage.claim_told("early").starts_with("Bound pvc-"));
    assert_eq!((class_of("none").as_deref(), stage.claim_told("none").as_str()), (Some(""), "Pending"));
    // The youngest of two defaults counts.
    stage.class("second", &default("second"));
    stage.create::<PersistentVolumeClaim>(claim("later", "1Gi", &json!({})));
    stage.settle().await;
    assert_eq!(class_of("later").as_deref(), Some("second"));
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pods_own_claim_comes_and_goes_with_it_vol_2() {
    let stage = Stage::new().await;
    stage.class("late", &json!({"volumeBindingMode": "WaitForFirstConsumer"}));
    let own = json!({"metadata": {"name": "p", "namespace": "default"}, "spec": {
        "containers": [{"name": "c", "image": "busybox"}],
        "volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {
            "metadata": {"labels": {"for": "p"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "late",
                "resources": {"requests": {"storage": "1Gi"}}}}}}]}});
    // A claim of that name which is another's is not taken.
    stage.create::<PersistentVolumeClaim>(claim("p-scratch", "1Gi", &json!({"storageClassName": "late"})));
    stage.create::<Pod>(own);
    stage.settle().await;
    let told = stage.told_of("Pod", "p").join("\n");
    let refused = "ephemeral volume scratch: PVC default/p-scratch was not created for pod default/p (pod is not owner)";
    assert!(told.contains(refused), "{told}");
    assert_eq!(stage.node_of("p"), None);
    stage.delete(Kind::PersistentVolumeClaim, "p-scratch");
    stage.pass(15).await;
    let made = stage.made_for("p-scratch");
    assert_eq!(stage.claim_told("p-scratch"), format!("Bound {made} 1Gi"));
    assert!(stage.node_of("p").is_some());
    let labels = stage.claim("p-scratch").unwrap().metadata.labels.clone().unwrap();
    assert_eq!(labels["for"], "p");
    stage.end("p").await;
    stage.pass(2).await;
    assert_eq!((stage.claim_told("p-scratch").as_str(), stage.volume_told(&made).as_str()), ("gone", "gone"));
    assert!(!stage.directory(&made).exists());
    stage.stop().await;
}

/// What a random run does to a cluster.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Claim(u8),
    Unclaim(u8),
    Use(u8),
    Leave(u8),
    Restart(usize),
    Pass(u8),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        3 => (0..3u8).prop_map(Deed::Claim),
        2 => (0..3u8).prop_map(Deed::Unclaim),
        3 => (0..3u8).prop_map(Deed::Use),
        2 => (0..3u8).prop_map(Deed::Leave),
        3 => any::<usize>().prop_map(Deed::Restart),
        2 => (0..20u8).prop_map(Deed::Pass),
    ]
}

const RESTARTED: [&str; 5] = [
    "persistentvolume-binder",
    "directory-provisioner",
    "pvc-protection-controller",
    "pv-protection-controller",
    "persistentvolume-expander",
];

async fn act(stage: &Stage, controllers: &Controllers, deed: Deed) {
    let class = |n: u8| if n == 0 { "now" } else { "late" };
    let (claim_name, pod_name) = (|n: u8| format!("c{n}"), |n: u8| format!("p{n}"));
    // What is there already, or gone, is as good as done.
    match deed {
        Deed::Claim(n) => {
            let value = claim(&claim_name(n), "1Gi", &json!({"storageClassName": class(n)}));
            let _ = stage.api.create_as(serde_json::from_value::<PersistentVolumeClaim>(value).unwrap());
        }
        Deed::Unclaim(n) => {
            let _ = stage.api.delete(
                Kind::PersistentVolumeClaim,
                &key(&claim_name(n)),
                &DeleteOptions::default(),
            );
        }
        Deed::Use(n) => {
            let value = pod(&pod_name(n), &claim_name(n));
            let _ = stage.api.create_as(serde_json::from_value::<Pod>(value).unwrap());
        }
        Deed::Leave(n) => {
            let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
            let _ = stage.api.delete(Kind::Pod, &key(&pod_name(n)), &now);
        }
        Deed::Restart(n) => {
            let name = RESTARTED[n % RESTARTED.len()];
            controllers.stop_one(name).await;
            // Others go on meanwhile.
            tokio::task::yield_now().await;
            controllers.start_one(name);
        }
        Deed::Pass(millis) => tokio::time::sleep(std::time::Duration::from_millis(u64::from(millis))).await,
    }
}

/// However it came about: every claim has its volume or waits for a pod, every volume its claim, every directory
/// its volume.
fn check(stage: &Stage) -> Result<(), TestCaseError> {
    let claims = stage.api.list_as::<PersistentVolumeClaim>(None);
    let volumes = stage.api.list_as::<PersistentVolume>(None);
    for claim in &claims {
        let told = stage.claim_told(claim.name());
        let used = stage.get_pod(claim.name()).is_some();
        let late = claim.name() != "c0";
        if claim.metadata.deletion_timestamp.is_some() {
            prop_assert!(used, "{}: {told} is held by nobody", claim.name());
        } else if used || !late || told != "Pending" {
            prop_assert_eq!(told, format!("Bound pvc-{} 1Gi", claim.uid()));
        }
    }
    for volume in &volumes {
        let name = volume.spec.as_ref().unwrap().claim_ref.as_ref().unwrap().uid.clone().unwrap();
        prop_assert!(claims.iter().any(|c| c.uid() == name), "{} is nobody's", volume.name());
        prop_assert!(stage.directory(volume.name()).is_dir());
    }
    let directories = std::fs::read_dir(stage.place.path().join("volumes")).into_iter().flatten().count();
    prop_assert_eq!(directories, volumes.len());
    Ok(())
}

impl Stage {
    /// The pod that uses a claim of a random run, on its node.
    fn get_pod(&self, claim: &str) -> Option<Shared<Pod>> {
        let pod: Shared<Pod> = self.api.get_as(&key(&claim.replace('c', "p"))).ok()?;
        pod.spec.as_ref()?.node_name.as_ref()?;
        Some(pod)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// VOL-2, SAFE-6: controllers that start anew at any point bring everything to the same end.
    #[test]
    fn restarts_change_nothing_vol_2(deeds in prop::collection::vec(deed(), 1..25)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let stage = Stage::new().await;
            stage.class("now", &json!({}));
            stage.class("late", &json!({"volumeBindingMode": "WaitForFirstConsumer"}));
            for deed in deeds {
                act(&stage, &stage.controllers, deed).await;
            }
            stage.pass(60).await;
            let outcome = check(&stage);
            stage.stop().await;
            outcome
        })?;
    }
}
