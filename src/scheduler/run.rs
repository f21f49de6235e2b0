//! The scheduler's task: feeds the core with what the caches show, and does what the core says.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::core::{Core, Step};
use super::cycle::Room;
use super::pod_info::DEFAULT_SCHEDULER;
use super::preempt::{clear_nomination, evict};
use super::profile::Profile;
use super::queue::{QueueTimes, Waiting};
use super::report::{NotScheduled, not_scheduled, scheduled};
use super::verdict::{Verdict, Verdicts};
use super::verdict_shown::shown;
use crate::api::Api;
use crate::api::verdicts::{SchedulingVerdict, SchedulingVerdicts};
use crate::base::task::Tasks;
use crate::object::{Kind, Object, Shared};
use crate::reconcile::{Caches, Change, ChangeKind, Recorder};

/// Pods decided before other tasks, and news, get their turn.
const BATCH: usize = 64;

/// What decisions depend on.
const WATCHED: [Kind; 6] = [
    Kind::Namespace,
    Kind::PodDisruptionBudget,
    Kind::Service,
    Kind::ReplicaSet,
    Kind::Node,
    Kind::Pod,
];

/// How the scheduler is set up.
pub struct SchedulerConfig {
    /// The profiles; pods choose by `schedulerName`, and those that name none of them are left alone.
    pub profiles: Vec<Profile>,
    /// Choices among equally good nodes follow from this.
    pub seed: u64,
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self { profiles: vec![Profile::default()], seed: 0 }
    }
}

/// A cheap handle to the scheduler.
#[derive(Clone)]
pub struct Scheduler {
    inner: Arc<Inner>,
}

struct Inner {
    api: Api,
    caches: Caches,
    recorder: Recorder,
    profiles: Arc<[Profile]>,
    seed: u64,
    inbox: Inbox,
    verdicts: Arc<Mutex<Verdicts>>,
    waiting: Mutex<Waiting>,
}

/// What the caches showed and the core has not taken in.
#[derive(Default)]
struct Inbox {
    changes: Mutex<Vec<Change>>,
    arrived: Notify,
}

impl Scheduler {
    /// A scheduler; nothing happens before [`Scheduler::run`].
    pub fn new(api: &Api, caches: &Caches, config: SchedulerConfig) -> Self {
        let inner = Inner {
            api: api.clone(),
            caches: caches.clone(),
            recorder: Recorder::new(api, DEFAULT_SCHEDULER),
            profiles: config.profiles.into(),
            seed: config.seed,
            inbox: Inbox::default(),
            verdicts: Arc::default(),
            waiting: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Schedules in a task of `tasks` until that stops.
    pub fn run(&self, tasks: &Tasks) {
        for kind in WATCHED {
            let inner = self.inner.clone();
            self.inner.caches.on_any_change(kind, move |change| inner.inbox.put(change.clone()));
        }
        self.inner.api.set_scheduling_verdicts(self.inner.clone());
        let inner = self.inner.clone();
        tasks.spawn_restarting("scheduler", move || schedule_forever(inner.clone()));
    }

    /// The last attempt at a pod that has no node: what every filter said of every node, and what would help.
    pub fn verdict(&self, pod_uid: &str) -> Option<Arc<Verdict>> {
        self.inner.verdicts.lock().get(pod_uid)
    }

    /// How many pods wait where.
    pub fn waiting(&self) -> Waiting {
        *self.inner.waiting.lock()
    }
}

impl SchedulingVerdicts for Inner {
    fn verdict(&self, pod_uid: &str) -> Option<SchedulingVerdict> {
        let verdict = self.verdicts.lock().get(pod_uid)?;
        Some(shown(&verdict, self.api.clock()))
    }
}

impl Inbox {
    fn put(&self, change: Change) {
        self.changes.lock().push(change);
        self.arrived.notify_one();
    }

    fn take(&self) -> Vec<Change> {
        std::mem::take(&mut *self.changes.lock())
    }
}

async fn schedule_forever(inner: Arc<Inner>) {
    for kind in WATCHED {
        inner.caches.synced(kind).await;
    }
    let times = QueueTimes::of(inner.api.timings());
    let mut core = Core::new(inner.profiles.clone(), times, inner.seed, inner.verdicts.clone());
    // After a restart the core starts from what the caches show; what also waits in the inbox comes twice.
    for kind in WATCHED {
        for object in inner.caches.objects(kind) {
            take_in(&inner, &mut core, ChangeKind::Added, &object);
        }
    }
    loop {
        for change in inner.inbox.take() {
            take_in(&inner, &mut core, change.kind, &change.object);
        }
        let busy = work_batch(&inner, &mut core);
        *inner.waiting.lock() = core.waiting();
        if busy {
            tokio::task::yield_now().await;
            continue;
        }
        wait(&inner, &core).await;
    }
}

/// Waits for news, or for the time at which a pod is to be tried again.
async fn wait(inner: &Inner, core: &Core) {
    let clock = inner.api.clock();
    let due = async {
        match core.next_wake() {
            Some(at) => clock.sleep(at.saturating_sub(clock.monotonic())).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = inner.inbox.arrived.notified() => {}
        () = due => {}
    }
}

fn take_in(inner: &Inner, core: &mut Core, kind: ChangeKind, object: &Arc<Object>) {
    let now = inner.api.clock().monotonic();
    let gone = kind == ChangeKind::Deleted;
    if let Some(node) = Shared::<Node>::from_object(object) {
        if gone { core.node_gone(node.name(), now) } else { core.node_changed(node, now) }
    } else if let Some(namespace) = Shared::<Namespace>::from_object(object) {
        let labels = (!gone).then(|| namespace.metadata.labels.clone().unwrap_or_default());
        core.namespace_changed(namespace.name(), labels, now);
    } else if let Some(budget) = Shared::<PodDisruptionBudget>::from_object(object) {
        if gone { core.budget_gone(&budget.key()) } else { core.budget_changed(&budget) }
    } else if matches!(object.kind(), Kind::Service | Kind::ReplicaSet) {
        core.workload_changed(object, gone);
    } else if let Some(pod) = Shared::<Pod>::from_object(object) {
        if gone {
            core.pod_gone(pod.uid(), now);
        } else if let Some(gated) = core.pod_changed(pod, now) {
            not_scheduled(
                &inner.api,
                &inner.recorder,
                &gated.pod,
                NotScheduled::SchedulingGated,
                gated.message,
                &Room::Unchanged,
            );
        }
    }
}

/// Decides some pods; whether there are more.
fn work_batch(inner: &Inner, core: &mut Core) -> bool {
    for _ in 0..BATCH {
        let Some(step) = core.step(inner.api.clock().monotonic()) else { return false };
        carry_out(inner, core, step);
    }
    true
}

fn carry_out(inner: &Inner, core: &mut Core, step: Step) {
    let Inner { api, recorder, .. } = inner;
    match step {
        Step::Bind { attempt, node } => {
            let pod = attempt.pod.clone();
            match api.bind(&pod.key(), pod.uid(), &node) {
                Ok(_) => scheduled(recorder, &pod, &node),
                Err(error) => {
                    core.bind_failed(attempt, api.clock().monotonic());
                    // Deleted or bound by another meanwhile: its event is on the way, nobody need be told.
                    if !error.is_not_found() && !error.is_conflict() {
                        let message = format!("binding rejected: {error}");
                        not_scheduled(api, recorder, &pod, NotScheduled::SchedulerError, &message, &Room::Unchanged);
                    }
                }
            }
        }
        Step::Unschedulable { pod, message, room, outranked } => {
            if let Room::Made(preemption) = &room {
                evict(api, recorder, &pod, preemption);
            }
            for lower in outranked {
                clear_nomination(api, &lower);
            }
            not_scheduled(api, recorder, &pod, NotScheduled::Unschedulable, &message, &room);
        }
        Step::Failed { pod, message } => {
            tracing::error!(pod = %pod.key(), "{message}");
            not_scheduled(api, recorder, &pod, NotScheduled::SchedulerError, &message, &Room::Unchanged);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::{Event, PodCondition};
    use serde_json::{Value, json};

    use super::*;
    use crate::api::{ApiConfig, DeleteOptions};
    use crate::base::clock::Clock;
    use crate::object::Key;
    use crate::store::Store;

    struct Cluster {
        api: Api,
        scheduler: Scheduler,
    }

    impl Cluster {
        fn start(nodes: &[(&str, &str)]) -> Self {
            let clock = Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap());
            let api = Api::new(Store::ephemeral(), clock, ApiConfig::default());
            let tasks = Tasks::new();
            let scheduler = Scheduler::new(&api, &Caches::new(&api, &tasks), SchedulerConfig::default());
            scheduler.run(&tasks);
            let cluster = Self { api, scheduler };
            cluster.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}));
            cluster.create(json!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": "default", "namespace": "default"}}));
            for (name, cpu) in nodes {
                cluster.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}));
                cluster.resize(name, cpu);
            }
            cluster
        }

        fn create(&self, value: Value) {
            let object = Object::from_any_value(value).unwrap();
            self.api.create(object, &crate::api::WriteOptions::default()).unwrap();
        }

        fn resize(&self, node: &str, cpu: &str) {
            let status: k8s_openapi::api::core::v1::NodeStatus =
                serde_json::from_value(json!({"capacity": {"cpu": cpu, "memory": "8Gi", "pods": "110"},
                    "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}}))
                .unwrap();
            let edit = |node: &mut Node| {
                node.status = Some(status.clone());
                Ok(())
            };
            self.api.modify_status::<Node>(&Key::new("", node), edit).unwrap();
        }

        fn pod(&self, name: &str, cpu: &str, more: Value) {
            let mut spec = json!({"containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]});
            if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
                spec.extend(more);
            }
            self.create(json!({"apiVersion": "v1", "kind": "Pod", "spec": spec,
                "metadata": {"name": name, "namespace": "default"}}));
        }

        fn get(&self, pod: &str) -> Shared<Pod> {
            self.api.get_as::<Pod>(&Key::new("default", pod)).unwrap()
        }

        fn node_of(&self, pod: &str) -> Option<String> {
            self.get(pod).spec.as_ref()?.node_name.clone()
        }

        fn condition(&self, pod: &str) -> Option<PodCondition> {
            let conditions = self.get(pod).status.as_ref()?.conditions.clone()?;
            conditions.into_iter().find(|c| c.type_ == "PodScheduled")
        }

        fn events(&self, pod: &str) -> Vec<(String, String, i32)> {
            let told = self.api.list_as::<Event>(Some("default"));
            let about = told.iter().filter(|e| e.involved_object.name.as_deref() == Some(pod));
            let text = |field: &Option<String>| field.clone().unwrap_or_default();
            about.map(|e| (text(&e.reason), text(&e.message), e.count.unwrap_or(0))).collect()
        }

        /// Waits, on virtual time, until this holds.
        async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
            for _ in 0..10_000 {
                if holds(self) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            panic!("never: {what}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pods_are_bound_and_told_why_not_sch_1_sch_9() {
        let cluster = Cluster::start(&[("a", "1"), ("b", "1"), ("c", "2")]);
        for n in 0..4 {
            cluster.pod(&format!("p{n}"), "1", json!({}));
        }
        cluster.pod("big", "3", json!({}));
        cluster.pod("gated", "1m", json!({"schedulingGates": [{"name": "example.com/wait"}]}));
        cluster.pod("foreign", "1m", json!({"schedulerName": "mine"}));
        cluster.until("four bound", |c| (0..4).all(|n| c.node_of(&format!("p{n}")).is_some())).await;
        let mut nodes: Vec<String> = (0..4).filter_map(|n| cluster.node_of(&format!("p{n}"))).collect();
        nodes.sort();
        assert_eq!(nodes, ["a", "b", "c", "c"]);
        let on = cluster.node_of("p0").unwrap();
        let assigned = format!("Successfully assigned default/p0 to {on}");
        assert_eq!(cluster.events("p0"), [("Scheduled".into(), assigned, 1)]);
        assert_eq!(cluster.condition("p0").unwrap().status, "True");

        cluster.until("big was tried", |c| c.condition("big").is_some()).await;
        let message = "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: \
                       3 Preemption is not helpful for scheduling.";
        let told = cluster.condition("big").unwrap();
        assert_eq!((told.status.as_str(), told.reason.as_deref()), ("False", Some("Unschedulable")));
        assert_eq!(told.message.as_deref(), Some(message));
        assert_eq!(cluster.events("big"), [("FailedScheduling".into(), message.into(), 1)]);
        let verdict = cluster.scheduler.verdict(cluster.get("big").uid()).expect("the last attempt's verdict");
        assert_eq!(verdict.table.rows().filter(|row| row.refused().is_some()).count(), 3);

        let revision = cluster.api.revision();
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(cluster.api.revision(), revision, "a pod that fits nowhere costs nothing");
        let waiting = Waiting { unschedulable: 1, gated: 1, ..Waiting::default() };
        assert_eq!(cluster.scheduler.waiting(), waiting);
        cluster.resize("c", "6");
        cluster.until("big bound", |c| c.node_of("big").as_deref() == Some("c")).await;
        assert_eq!(cluster.condition("big").unwrap().status, "True");
        assert!(cluster.scheduler.verdict(cluster.get("big").uid()).is_none());

        let gated = cluster.condition("gated").unwrap();
        assert_eq!(gated.reason.as_deref(), Some("SchedulingGated"));
        let open = |pod: &mut Pod| {
            pod.spec.as_mut().unwrap().scheduling_gates = None;
            Ok(())
        };
        cluster.api.modify::<Pod>(&Key::new("default", "gated"), open).unwrap();
        cluster.until("the gate is open", |c| c.node_of("gated").is_some()).await;
        assert_eq!((cluster.node_of("foreign"), cluster.condition("foreign")), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deleted_pods_room_goes_to_the_next_sch_1() {
        let cluster = Cluster::start(&[("a", "1")]);
        cluster.pod("first", "1", json!({}));
        cluster.until("first bound", |c| c.node_of("first").is_some()).await;
        cluster.pod("second", "1", json!({}));
        cluster.until("second waits", |c| c.condition("second").is_some()).await;
        let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        cluster.api.delete(Kind::Pod, &Key::new("default", "first"), &now).unwrap();
        cluster.until("second bound", |c| c.node_of("second").as_deref() == Some("a")).await;
    }
}
