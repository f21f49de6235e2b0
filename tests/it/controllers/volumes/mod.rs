//! Volumes and claims by scenario (VOL-2): the persistent-volumes page, on virtual time, with the scheduler.

mod binding;
mod classes;
mod fit;
mod provisioning;
mod reclaim;
mod runs;

use k8s_openapi::api::core::v1::{Event, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use podium::api::DeleteOptions;
use podium::controllers::{Settings, VolumeDirectory};
use podium::object::storage::DIRECTORY_PROVISIONER;
use podium::object::{Key, Kind, SharedObject};
use podium::scheduler::{Scheduler, SchedulerConfig};
use serde_json::{Value, json};

use super::cluster::{Cluster, key};

/// Controllers that do not monitor nodes: the test decides about the pods on them.
const NO_KUBELETS: &[&str] = &["podgc", "nodelifecycle", "taint-eviction-controller"];

/// A cluster with a scheduler, two nodes, and a place for volumes.
struct VolumeFixture {
    cluster: Cluster,
    data_dir: tempfile::TempDir,
    _scheduler: Scheduler,
}

impl std::ops::Deref for VolumeFixture {
    type Target = Cluster;
    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl VolumeFixture {
    async fn new() -> Self {
        Self::without(&[]).await
    }

    async fn without(disabled: &[&str]) -> Self {
        let place = tempfile::tempdir().unwrap();
        // A pod of this name holds its volume: a kubelet that has not unmounted it.
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
        let stage = Self { cluster, data_dir: place, _scheduler: scheduler };
        stage.settle().await;
        stage
    }

    async fn stop(self) {
        self.cluster.stop().await;
    }

    fn volume(&self, name: &str) -> Option<SharedObject<PersistentVolume>> {
        self.api.get_as(&Key::new("", name)).ok()
    }

    fn claim(&self, name: &str) -> Option<SharedObject<PersistentVolumeClaim>> {
        self.api.get_as(&key(name)).ok()
    }

    /// Formats a volume as `phase` or `phase claim`, with `going` if it is terminating.
    fn describe_volume(&self, name: &str) -> String {
        let Some(volume) = self.volume(name) else { return "gone".into() };
        let claim = volume.spec.as_ref().unwrap().claim_ref.as_ref().and_then(|r| r.name.clone());
        let phase = volume.status.as_ref().and_then(|s| s.phase.clone()).unwrap_or_default();
        let going = if volume.metadata.deletion_timestamp.is_some() { " going" } else { "" };
        format!("{phase} {}{going}", claim.unwrap_or_default()).trim_end().to_string()
    }

    fn describe_claim(&self, name: &str) -> String {
        let Some(claim) = self.claim(name) else { return "gone".into() };
        let volume = claim.spec.as_ref().unwrap().volume_name.clone().unwrap_or_default();
        let status = claim.status.clone().unwrap_or_default();
        let size = status.capacity.and_then(|c| c.get("storage").map(|q| q.0.clone())).unwrap_or_default();
        let going = if claim.metadata.deletion_timestamp.is_some() { " going" } else { "" };
        let text = format!("{} {volume} {size}{going}", status.phase.unwrap_or_default());
        text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Returns the name of the volume that was created for a claim.
    fn made_for(&self, claim: &str) -> String {
        format!("pvc-{}", self.claim(claim).unwrap().uid())
    }

    fn directory(&self, volume: &str) -> std::path::PathBuf {
        self.data_dir.path().join("volumes").join(volume)
    }

    fn delete(&self, kind: Kind, name: &str) {
        let key = if kind.namespaced() { key(name) } else { Key::new("", name) };
        self.api.delete(kind, &key, &DeleteOptions::default()).unwrap();
    }

    fn node_of(&self, pod: &str) -> Option<String> {
        self.get::<Pod>(pod).spec.as_ref().unwrap().node_name.clone()
    }

    /// Ends a pod as its kubelet does: the object is removed.
    async fn end(&self, pod: &str) {
        let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        self.api.delete(Kind::Pod, &key(pod), &now).unwrap();
        self.settle().await;
    }

    /// Formats the events about an object as `reason: message`, in order.
    fn events_of(&self, kind: &str, name: &str) -> Vec<String> {
        let mut events = self.api.list_as::<Event>(None);
        let about = |e: &SharedObject<Event>| {
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
