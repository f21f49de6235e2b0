//! Disks are attached to one node at a time (VOL-3): the fifteen steps of attach and detach, with kubelets, scheduler
//! and controllers, on the manual clock; and the effects of partitions, fencing and crashes on them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, PersistentVolume, PersistentVolumeClaim, Pod, Taint};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use podium::api::DeleteOptions;
use podium::base::task::Tasks;
use podium::controllers::{Controllers as Registry, Settings};
use podium::extension::node_fence::NodeFence;
use podium::object::pod::{Phase, node_name, phase};
use podium::object::{Key, Kind, Object, SharedObject, TypedKind};
use podium::reconcile::Caches;
use podium::store::{Change, ChangeKind, Visibility, Watcher};
use podium::testing::{Cluster, Controllers, HollowNode};
use serde_json::{Value, json};

/// Time that containers take to end.
const STOP_TIME: Duration = Duration::from_secs(20);

/// A cluster of the nodes `a` and `b`, which reach the volume, and `c`, which does not, with controllers that the test
/// can stop and start.
struct DiskFixture {
    cluster: Cluster,
    attachers: Vec<Registry>,
    tasks: Tasks,
    watchers: [Watcher; 3],
    log: Vec<String>,
    /// Nodes that use the disk, by the API.
    users: BTreeSet<String>,
    /// The user has confirmed that a node is dead: its disk may be detached although the node reports it as in use.
    forced: bool,
}

impl DiskFixture {
    /// Starts this many attach/detach controllers at once, without a leader among them.
    async fn with_attachers(count: usize) -> Self {
        let node = |name: &str| HollowNode::new(name).label("disk", if name == "c" { "far" } else { "near" });
        let builder = Cluster::builder().hollow_nodes(0).controllers(Controllers::except(["attachdetach"]));
        let builder = builder.hollow_node(node("a")).hollow_node(node("b")).hollow_node(node("c"));
        let cluster = builder
            .config("{hollow: {stopDuration: 20}, timings: {watchHistoryRetention: 86400}}")
            .start()
            .await
            .unwrap();
        let (api, tasks) = (cluster.api().clone(), Tasks::new());
        let disabled: Vec<String> =
            Registry::names().filter(|name| *name != "attachdetach").map(str::to_owned).collect();
        let start = || {
            let settings = Settings { disabled: disabled.clone(), ..Settings::default() };
            Registry::start(&api, &Caches::new(&api, &tasks), &tasks, settings)
        };
        let attachers = (0..count).map(|_| start()).collect();
        let watch = |kind| api.watch(kind, api.revision(), Visibility::Applied);
        let watchers = [Kind::Pod, Kind::VolumeAttachment, Kind::Node].map(watch);
        let mut stage = Self {
            cluster,
            attachers,
            tasks,
            watchers,
            log: Vec::new(),
            users: BTreeSet::new(),
            forced: false,
        };
        // Steps 1 and 2.
        stage.create::<PersistentVolume>(
            json!({"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"], "csi": {"driver": "disk.podium.dev", "volumeHandle": "disk-1",
                "volumeAttributes": {"path": "/nowhere"}},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions":
                [{"key": "disk", "operator": "In", "values": ["near"]}]}]}}}}),
        );
        stage.create::<PersistentVolumeClaim>(json!({"metadata": {"name": "data", "namespace": "default"},
            "spec": {"storageClassName": "", "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}}}));
        stage.settle().await;
        stage
    }

    fn create<T: TypedKind>(&self, manifest: Value) -> SharedObject<T> {
        let object = Object::new(T::decode(manifest).unwrap());
        let created = self.cluster.api().create(object, &podium::api::WriteOptions::default()).unwrap();
        SharedObject::from_object(&created).unwrap()
    }

    /// Steps 3 and 9: creates a pod that uses the claim, and may run on any node but this one.
    fn pod(&self, name: &str, not_on: &str) {
        self.create::<Pod>(json!({"metadata": {"name": name, "namespace": "default"}, "spec": {
            "terminationGracePeriodSeconds": 60,
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms":
                [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [not_on]}]}]}}},
            "containers": [{"name": "c", "image": "app"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}}));
    }

    fn delete(&self, pod: &str) {
        let key = Key::new("default", pod);
        self.cluster.api().delete(Kind::Pod, &key, &DeleteOptions::default()).unwrap();
    }

    async fn settle(&mut self) {
        self.cluster.settle().await.unwrap();
        self.record_changes();
    }

    async fn advance(&mut self, seconds: u64) {
        self.cluster.advance(Duration::from_secs(seconds)).await.unwrap();
        self.record_changes();
    }

    /// Records the changes, and checks after each that no two nodes have the disk.
    fn record_changes(&mut self) {
        let mut changes: Vec<Change> = Vec::new();
        for watcher in &mut self.watchers {
            loop {
                let some = watcher.take().unwrap();
                if some.is_empty() {
                    break;
                }
                changes.extend(some);
            }
        }
        changes.sort_by_key(|change| change.revision);
        for change in changes {
            self.check_rules(&change);
            self.log.extend(describe(&change));
        }
    }

    /// Checks at every change: at most one node uses the disk, it is attached where it is used, and a running pod uses
    /// it.
    fn check_rules(&mut self, change: &Change) {
        let (name, log) = (change.object.name().to_owned(), &self.log);
        let gone = change.kind == ChangeKind::Deleted;
        if change.object.get::<Node>().is_some() {
            if in_use(&change.object).is_some() && !gone {
                self.users.insert(name);
            } else {
                self.users.remove(&name);
            }
        } else if let Some(attachment) = change.object.get::<VolumeAttachment>() {
            let node = &attachment.spec.node_name;
            let others = self.users.iter().any(|user| user != node);
            match change.kind {
                ChangeKind::Added => assert!(self.forced || !others, "{node} {:?} {log:?}", self.users),
                ChangeKind::Deleted => assert!(self.forced || !self.users.contains(node), "{node} {log:?}"),
                ChangeKind::Modified => {}
            }
        } else if let Some(pod) = change.object.get::<Pod>() {
            let node = node_name(pod).unwrap_or_default();
            if phase(pod) == Phase::Running && !gone && pod_started(change) {
                assert!(self.users.contains(node), "{name} runs on {node}: {log:?}");
            }
        }
        assert!(self.forced || self.users.len() <= 1, "{:?} {log:?}", self.users);
    }

    fn running(&self) -> BTreeSet<String> {
        let pods = self.cluster.api().list_as::<Pod>(None);
        let running = pods.iter().filter(|pod| phase(pod) == Phase::Running);
        running.map(|pod| format!("{} on {}", pod.name(), node_name(pod).unwrap())).collect()
    }

    /// The node that the disk is attached to.
    fn attached(&self) -> Option<String> {
        let attachments = self.cluster.api().list_as::<VolumeAttachment>(None);
        assert!(attachments.len() <= 1, "there can be one");
        attachments.first().map(|attachment| attachment.spec.node_name.clone())
    }

    fn events(&self, reason: &str) -> Vec<String> {
        let events = self.cluster.api().list_as::<Event>(None);
        let of_reason = events.iter().filter(|event| event.reason.as_deref() == Some(reason));
        let described = of_reason.map(|event| {
            let about = event.involved_object.name.clone().unwrap_or_default();
            format!("{about}: {}", event.message.clone().unwrap_or_default())
        });
        described.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Every attach controller crashes and restarts with only the data in the store.
    async fn crash(&self) {
        for attacher in &self.attachers {
            assert!(attacher.stop_one("attachdetach").await);
            assert!(attacher.start_one("attachdetach"));
        }
    }

    /// Restarts a kubelet in each of these rounds, down for `period` milliseconds, and the controllers in every third
    /// one.
    async fn disturb(&mut self, period: u64, rounds: usize) {
        for (round, node) in ["a", "b"].into_iter().cycle().take(rounds).enumerate() {
            self.cluster.silence_node(node).await.unwrap();
            tokio::time::sleep(Duration::from_millis(period)).await;
            self.cluster.wake_node(node).await.unwrap();
            if round % 3 == 0 {
                self.crash().await;
            }
            tokio::time::sleep(Duration::from_millis(period)).await;
            self.record_changes();
        }
    }

    /// Steps 3 to 11.
    async fn run_until_b_waits(&mut self) {
        self.pod("pod-1", "b");
        self.settle().await;
        assert_eq!(self.running(), ["pod-1 on a".to_owned()].into());
        self.delete("pod-1");
        self.pod("pod-2", "a");
        self.settle().await;
    }

    /// Confirms that a node is dead, as a user.
    fn taint_out_of_service(&mut self, node: &str) {
        self.forced = true;
        let tainted = self.cluster.api().modify::<Node>(&Key::new("", node), |node| {
            let taints = node.spec.get_or_insert_default().taints.get_or_insert_default();
            taints.push(Taint {
                key: "node.kubernetes.io/out-of-service".into(),
                value: Some("nodeshutdown".into()),
                effect: "NoExecute".into(),
                time_added: None,
            });
            Ok(())
        });
        tainted.unwrap();
    }

    async fn stop(self) {
        for attacher in &self.attachers {
            attacher.stop().await;
        }
        self.tasks.stop().await;
        self.cluster.stop().await;
    }
}

/// The volumes that a node reports as in use.
fn in_use(object: &Arc<Object>) -> Option<Vec<String>> {
    object.get::<Node>()?.status.as_ref()?.volumes_in_use.clone().filter(|all| !all.is_empty())
}

/// Returns true if this change reports the pod as running.
fn pod_started(change: &Change) -> bool {
    let before = change.previous.as_ref().and_then(|before| before.get::<Pod>());
    before.is_none_or(|before| phase(before) != Phase::Running)
}

/// The name of a change, if it is a step of the sequence.
fn describe(change: &Change) -> Option<String> {
    let name = change.object.name();
    let gone = change.kind == ChangeKind::Deleted;
    if let Some(pod) = change.object.get::<Pod>() {
        let before = change.previous.as_ref().and_then(|before| before.get::<Pod>());
        let is_new = |what: &dyn Fn(&Pod) -> bool| what(pod) && !before.is_some_and(what);
        let what = match () {
            () if gone => "gone".to_owned(),
            () if is_new(&|pod| phase(pod) == Phase::Running) => "runs".to_owned(),
            () if is_new(&|pod| pod.metadata.deletion_timestamp.is_some()) => "is asked to end".to_owned(),
            () if is_new(&|pod| node_name(pod).is_some()) => format!("bound to {}", node_name(pod)?),
            () => return None,
        };
        return Some(format!("{name} {what}"));
    }
    if let Some(attachment) = change.object.get::<VolumeAttachment>() {
        let node = &attachment.spec.node_name;
        return match change.kind {
            ChangeKind::Added => Some(format!("attached to {node}")),
            ChangeKind::Deleted => Some(format!("detached from {node}")),
            ChangeKind::Modified => None,
        };
    }
    let (before, now) = (change.previous.as_ref().and_then(in_use), in_use(&change.object));
    match (before, now) {
        (None, Some(_)) => Some(format!("{name} uses it")),
        (Some(_), None) => Some(format!("{name} has let go")),
        _ => None,
    }
}

/// The events from the first pod's end on.
const STEPS_AFTER_POD_END: [&str; 6] =
    ["a has let go", "pod-1 gone", "detached from a", "attached to b", "b uses it", "pod-2 runs"];
/// The events before that.
const STEPS_BEFORE_POD_END: [&str; 6] = [
    "pod-1 bound to a", "attached to a", "a uses it", "pod-1 runs", "pod-1 is asked to end",
    "pod-2 bound to b",
];

#[tokio::test(start_paused = true)]
async fn a_disk_goes_from_pod_to_pod_step_by_step_vol_3() {
    for attachers in [1, 2, 3] {
        let mut stage = DiskFixture::with_attachers(attachers).await;
        stage.run_until_b_waits().await;
        assert_eq!(stage.log, STEPS_BEFORE_POD_END, "{attachers}");
        assert_eq!(stage.attached().as_deref(), Some("a"));
        assert_eq!(
            stage.events("FailedAttachVolume"),
            ["pod-2: Multi-Attach error for volume \"v\" Volume is already used by pod(s) pod-1"]
        );
        let node: SharedObject<Node> = stage.cluster.api().get_as(&Key::new("", "a")).unwrap();
        let status = node.status.as_ref().unwrap();
        let unique = "kubernetes.io/csi/disk.podium.dev^disk-1";
        assert_eq!(status.volumes_in_use.as_ref().unwrap(), &[unique]);
        assert_eq!(status.volumes_attached.as_ref().unwrap()[0].name, unique);

        stage.advance(STOP_TIME.as_secs() + 2).await;
        assert_eq!(stage.log, [STEPS_BEFORE_POD_END, STEPS_AFTER_POD_END].concat(), "{attachers}");
        let attached = stage.events("SuccessfulAttachVolume");
        assert_eq!(
            attached,
            ["pod-1", "pod-2"].map(|pod| format!("{pod}: AttachVolume.Attach succeeded for volume \"v\" "))
        );
        let node: SharedObject<Node> = stage.cluster.api().get_as(&Key::new("", "a")).unwrap();
        let status = node.status.as_ref().unwrap();
        assert_eq!((&status.volumes_in_use, &status.volumes_attached), (&None, &None));
        stage.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_crashes_at_any_step_changes_nothing_vol_3_safe_6() {
    let mut stage = DiskFixture::with_attachers(2).await;
    stage.crash().await;
    stage.pod("pod-1", "b");
    for _ in 0..40 {
        // The controllers may crash at any point of their work.
        stage.crash().await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stage.settle().await;
    stage.delete("pod-1");
    stage.pod("pod-2", "a");
    for _ in 0..(STOP_TIME.as_millis() as u64 + 2_000) / 50 {
        stage.crash().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stage.advance(5).await;
    assert_eq!(stage.log, [STEPS_BEFORE_POD_END, STEPS_AFTER_POD_END].concat());
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cut_keeps_the_attachment_until_it_heals_vol_3_safe_4() {
    let mut stage = DiskFixture::with_attachers(1).await;
    stage.run_until_b_waits().await;
    stage.cluster.silence_node("a").await.unwrap();
    stage.advance(3600).await;
    assert_eq!(stage.log, STEPS_BEFORE_POD_END, "B waits for ever");
    assert_eq!(stage.attached().as_deref(), Some("a"));
    let waits = stage.events("FailedMount");
    assert!(
        waits
            .iter()
            .any(|event| event
                .starts_with("pod-2: Unable to attach or mount volumes: unmounted volumes=[data]")),
        "{waits:?}"
    );
    stage.cluster.wake_node("a").await.unwrap();
    stage.advance(60).await;
    assert_eq!(stage.log, [STEPS_BEFORE_POD_END, STEPS_AFTER_POD_END].concat(), "nothing ran twice");
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_out_of_service_node_loses_its_attachments_vol_3_gc_2() {
    let mut stage = DiskFixture::with_attachers(2).await;
    stage.run_until_b_waits().await;
    stage.cluster.silence_node("a").await.unwrap();
    stage.taint_out_of_service("a");
    stage.advance(30).await;
    assert_eq!(stage.log, STEPS_BEFORE_POD_END, "it is Ready as far as anybody knows");
    stage.advance(30).await;
    let fenced = ["pod-1 gone", "detached from a", "attached to b", "b uses it", "pod-2 runs"];
    assert_eq!(stage.log[STEPS_BEFORE_POD_END.len()..], fenced);
    assert_eq!(
        stage.events("VolumeForceDetached"),
        ["a: Volume \"v\" is detached from node a by force: the node is out of service"]
    );
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn fencing_hands_a_disk_over_vol_3_safe_5() {
    let mut stage = DiskFixture::with_attachers(2).await;
    stage.run_until_b_waits().await;
    stage.cluster.silence_node("a").await.unwrap();
    stage.advance(600).await;
    assert_eq!(stage.log, STEPS_BEFORE_POD_END);
    stage.forced = true;
    stage.create::<NodeFence>(
        json!({"metadata": {"name": "a"}, "spec": {"reason": "nothing is heard of it"}}),
    );
    stage.advance(5).await;
    let fenced = ["pod-1 gone", "detached from a", "attached to b", "b uses it", "pod-2 runs"];
    assert_eq!(stage.log[STEPS_BEFORE_POD_END.len()..], fenced);
    // The node comes back without the disk, and does not take it.
    stage.cluster.wake_node("a").await.unwrap();
    stage.advance(60).await;
    assert_eq!(stage.log[STEPS_BEFORE_POD_END.len() + fenced.len()..], ["a has let go"]);
    assert_eq!(stage.running(), ["pod-2 on b".to_owned()].into());
    stage.stop().await;
}

/// A kubelet that crashes after any step finds its disks, and reports each as in use as long as a process of it runs.
#[tokio::test(start_paused = true)]
async fn a_kubelet_that_restarts_keeps_its_disks_vol_3_safe_7() {
    let mut stage = DiskFixture::with_attachers(1).await;
    stage.pod("pod-1", "b");
    stage.settle().await;
    stage.cluster.silence_node("a").await.unwrap();
    stage.cluster.wake_node("a").await.unwrap();
    stage.settle().await;
    assert_eq!(stage.log, STEPS_BEFORE_POD_END[..4], "nothing was let go of in between");
    // Deleted by force while its kubelet is down: the object is gone, the processes run.
    stage.cluster.silence_node("a").await.unwrap();
    let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    stage.cluster.api().delete(Kind::Pod, &Key::new("default", "pod-1"), &now).unwrap();
    stage.pod("pod-2", "a");
    stage.advance(600).await;
    assert_eq!(stage.attached().as_deref(), Some("a"), "it is in use, as far as the API knows");
    assert_eq!(stage.running(), BTreeSet::new());
    stage.cluster.wake_node("a").await.unwrap();
    stage.advance(60).await;
    let after = [
        "pod-1 gone", "pod-2 bound to b", "a has let go", "detached from a", "attached to b", "b uses it",
        "pod-2 runs",
    ];
    assert_eq!(stage.log[4..], after);
    stage.stop().await;
}

/// The kubelets of both nodes crash and restart repeatedly, and the controllers beside them: the steps are the same,
/// and no identity runs twice (each change is checked against the rules).
#[tokio::test(start_paused = true)]
async fn kubelets_that_crash_at_any_step_change_nothing_vol_3_safe_6() {
    for period in [1, 3, 7, 40] {
        let mut stage = DiskFixture::with_attachers(2).await;
        stage.pod("pod-1", "b");
        stage.disturb(period, 30).await;
        stage.settle().await;
        stage.delete("pod-1");
        stage.pod("pod-2", "a");
        stage.disturb(period, 30).await;
        stage.advance(STOP_TIME.as_secs() - 1).await;
        stage.disturb(period, 60).await;
        stage.advance(3 * STOP_TIME.as_secs()).await;
        assert_eq!(stage.running(), ["pod-2 on b".to_owned()].into(), "{period} {:?}", stage.log);
        // A kubelet that crashes between mounting a disk and its first container mounts it again.
        let steps: BTreeSet<&str> = stage.log.iter().map(String::as_str).collect();
        let expected: BTreeSet<&str> = STEPS_BEFORE_POD_END.into_iter().chain(STEPS_AFTER_POD_END).collect();
        assert_eq!(steps, expected, "{period} {:?}", stage.log);
        stage.stop().await;
    }
}

/// An attachment deleted by hand is restored on the node that uses the disk, not on a node that waits for it.
#[tokio::test(start_paused = true)]
async fn an_attachment_deleted_by_hand_is_restored_on_the_node_that_uses_the_disk_vol_3() {
    let mut stage = DiskFixture::with_attachers(2).await;
    stage.run_until_b_waits().await;
    let api = stage.cluster.api().clone();
    let key = api.list_as::<VolumeAttachment>(None)[0].key();
    api.delete(Kind::VolumeAttachment, &key, &DeleteOptions::default()).unwrap();
    stage.settle().await;
    assert_eq!(stage.attached().as_deref(), Some("a"), "a plain delete waits for the node");
    stage.forced = true;
    api.modify::<VolumeAttachment>(&key, |attachment| {
        attachment.metadata.finalizers = None;
        Ok(())
    })
    .unwrap();
    stage.settle().await;
    assert_eq!(stage.attached().as_deref(), Some("a"));
    stage.forced = false;
    stage.advance(STOP_TIME.as_secs() + 2).await;
    assert_eq!(stage.running(), ["pod-2 on b".to_owned()].into());
    let tail = &stage.log[stage.log.len() - STEPS_AFTER_POD_END.len()..];
    assert_eq!(tail, STEPS_AFTER_POD_END);
    stage.stop().await;
}

/// Two copies of the controller with different caches would otherwise attach and detach as fast as the machine can.
#[tokio::test(start_paused = true)]
async fn an_attachment_that_is_taken_away_again_and_again_comes_back_more_slowly_vol_3_safe_6() {
    let mut stage = DiskFixture::with_attachers(1).await;
    stage.run_until_b_waits().await;
    let api = stage.cluster.api().clone();
    let key = api.list_as::<VolumeAttachment>(None)[0].key();
    stage.forced = true;
    let mut times = 0;
    while stage.attached().as_deref() == Some("a") {
        times += 1;
        assert!(times < 10, "it is attached without end");
        api.modify::<VolumeAttachment>(&key, |attachment| {
            attachment.metadata.finalizers = None;
            Ok(())
        })
        .unwrap();
        api.delete(Kind::VolumeAttachment, &key, &DeleteOptions::default()).unwrap();
        stage.settle().await;
    }
    assert!(times > 3, "the first times it comes back at once: {times}");
    stage.advance(6).await;
    assert_eq!(stage.attached().as_deref(), Some("a"));
    stage.forced = false;
    stage.advance(STOP_TIME.as_secs() + 2).await;
    assert_eq!(stage.running(), ["pod-2 on b".to_owned()].into());
    stage.stop().await;
}

/// Pods of one node share a disk; a finished pod holds none, though its object stays.
#[tokio::test(start_paused = true)]
async fn a_finished_pod_holds_no_disk_vol_3() {
    let mut stage = DiskFixture::with_attachers(1).await;
    stage.pod("pod-1", "b");
    stage.pod("beside", "b");
    stage.settle().await;
    assert_eq!(stage.running(), ["beside on a".to_owned(), "pod-1 on a".to_owned()].into());
    for name in ["pod-1", "beside"] {
        stage.cluster.api().modify::<Pod>(&Key::new("default", name), |_| Ok(())).unwrap();
        stage.delete(name);
        stage.advance(STOP_TIME.as_secs() + 2).await;
        assert_eq!(stage.attached().is_some(), name == "pod-1", "until the last has ended");
    }
    stage.create::<Pod>(
        json!({"metadata": {"name": "job", "namespace": "default"}, "spec": {"restartPolicy": "Never",
        "nodeName": "a", "containers": [{"name": "c", "image": "app"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}}),
    );
    stage.settle().await;
    assert_eq!(stage.attached().as_deref(), Some("a"));
    stage.cluster.pod("default", "job").succeed().await.unwrap();
    stage.pod("pod-2", "a");
    stage.settle().await;
    let job: SharedObject<Pod> = stage.cluster.api().get_as(&Key::new("default", "job")).unwrap();
    assert_eq!(phase(&job), Phase::Succeeded, "its object stays");
    assert_eq!(stage.running(), ["pod-2 on b".to_owned()].into());
    stage.stop().await;
}
