//! The scheduler's task: feeds the core with changes from the caches, and executes its actions.
//!
//! Invariant: the core has one user at a time: the task for a batch, or a step while the task is paused (`cycles.rs`).

mod bind;
mod cycles;
mod preempt;
mod report;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::core::{Core, CoreAction};
use crate::cycle::NominatingInfo;
use crate::explain::api_type::to_api;
#[cfg(test)]
use crate::explain::verdict::Verdict;
use crate::explain::verdict::Verdicts;
use crate::framework::{BindError, Binding};
use crate::profile::Profile;
use crate::queue::PendingCounts;
use crate::state::pod_info::{DEFAULT_SCHEDULER, PodInfo};
use api::Api;
use api::controller_status::{ControllerProbe, ReconcileResult};
use api::metrics::ScheduleResult;
use api::verdicts::{SchedulingVerdict, SchedulingVerdicts};
use base::panics::PanicSource;
use base::task::Tasks;
use bind::{BindOutcome, bind};
use cycles::SchedulerRun;
use object::{Key, Kind, Object, SharedObject};
use preempt::{clear_nomination, evict};
use reconcile::{Caches, Change, ChangeKind, Recorder};
use report::{UnscheduledReason, not_scheduled, scheduled};

/// The name of the scheduler's task, and its name among the controllers.
const SCHEDULER: &str = "scheduler";

/// The kinds that decisions depend on.
const WATCHED: [Kind; 11] = [
    Kind::Namespace,
    Kind::PodDisruptionBudget,
    Kind::Service,
    Kind::ReplicationController,
    Kind::ReplicaSet,
    Kind::StatefulSet,
    Kind::StorageClass,
    Kind::PersistentVolume,
    Kind::PersistentVolumeClaim,
    Kind::Node,
    Kind::Pod,
];

/// The watched kinds that select pods: the cluster-level constraints spread these pods.
const WORKLOADS: [Kind; 4] =
    [Kind::Service, Kind::ReplicationController, Kind::ReplicaSet, Kind::StatefulSet];

/// The source under which plugins' panics are counted.
const PLUGIN: PanicSource = ("scheduler", "plugin");

/// The scheduler's configuration.
pub struct SchedulerConfig {
    /// The profiles; pods choose one by `schedulerName`, and pods that name none of them are left alone.
    pub profiles: Vec<Profile>,
    /// The seed of choices among equally good nodes.
    pub(crate) seed: u64,
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
    pending_changes: PendingChanges,
    verdicts: Arc<Mutex<Verdicts>>,
    waiting: Mutex<PendingCounts>,
}

/// Changes from the caches that the core has not processed.
#[derive(Default)]
struct PendingChanges {
    changes: Mutex<Vec<Change>>,
    arrived: Notify,
}

impl Scheduler {
    /// Creates a scheduler; nothing happens before [`Scheduler::run`].
    pub fn new(api: &Api, caches: &Caches, config: SchedulerConfig) -> Self {
        let inner = Inner {
            api: api.clone(),
            caches: caches.clone(),
            recorder: Recorder::new(api, DEFAULT_SCHEDULER),
            profiles: config.profiles.into(),
            seed: config.seed,
            pending_changes: PendingChanges::default(),
            verdicts: Arc::default(),
            waiting: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Runs the scheduler as a task of `tasks` until `tasks` is stopped; then it may run again.
    pub fn run(&self, tasks: &Tasks) {
        // Drop changes left by an earlier run: they are outdated, and the new subscriptions replay all objects.
        drop(self.inner.pending_changes.take());
        let subscriptions = WATCHED.map(|kind| {
            let inner = self.inner.clone();
            self.inner.caches.watch(kind, move |change| inner.pending_changes.put(change.clone()))
        });
        self.inner.api.set_scheduling_verdicts(self.inner.clone());
        let run = Arc::new(SchedulerRun::new(&self.inner, tasks));
        let probe: Arc<dyn ControllerProbe> = run.clone();
        self.inner.api.controller_runs(SCHEDULER, &probe);
        tasks.spawn_restarting(SCHEDULER, move || {
            // The task owns the subscriptions and the probe, so that they live as long as the task.
            let _ = (&subscriptions, &probe);
            run.clone().schedule_forever()
        });
    }

    /// Returns the last attempt at a pod without a node: every filter's result for every node, and hints.
    #[cfg(test)]
    pub(crate) fn verdict(&self, pod_uid: &str) -> Option<Arc<Verdict>> {
        self.inner.verdicts.lock().get(pod_uid)
    }

    /// Returns the number of pods in each sub-queue.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> PendingCounts {
        *self.inner.waiting.lock()
    }
}

impl SchedulingVerdicts for Inner {
    fn verdict(&self, pod_uid: &str) -> Option<SchedulingVerdict> {
        let verdict = self.verdicts.lock().get(pod_uid)?;
        Some(to_api(&verdict, self.api.clock()))
    }
}

impl PendingChanges {
    fn put(&self, change: Change) {
        self.changes.lock().push(change);
        self.arrived.notify_one();
    }

    fn take(&self) -> Vec<Change> {
        std::mem::take(&mut *self.changes.lock())
    }
}

fn apply_change(inner: &Inner, core: &mut Core, kind: ChangeKind, object: &Arc<Object>) {
    let now = inner.api.clock().monotonic();
    let deleted = kind == ChangeKind::Deleted;
    if let Some(node) = SharedObject::<Node>::from_object(object) {
        if deleted { core.node_deleted(node.name(), now) } else { core.node_changed(node, now) }
    } else if let Some(namespace) = SharedObject::<Namespace>::from_object(object) {
        let labels = (!deleted).then(|| namespace.metadata.labels.clone().unwrap_or_default());
        core.namespace_changed(namespace.name(), labels, now);
    } else if let Some(budget) = SharedObject::<PodDisruptionBudget>::from_object(object) {
        if deleted { core.budget_deleted(&budget.key(), now) } else { core.budget_changed(&budget, now) }
    } else if let Some(claim) = SharedObject::<PersistentVolumeClaim>::from_object(object) {
        core.claim_changed(&claim, deleted, now);
    } else if let Some(volume) = SharedObject::<PersistentVolume>::from_object(object) {
        core.volume_changed(&volume, deleted, now);
    } else if let Some(class) = SharedObject::<StorageClass>::from_object(object) {
        core.class_changed(&class, deleted, now);
    } else if WORKLOADS.contains(&object.kind()) {
        core.workload_changed(object, deleted, now);
    } else if let Some(pod) = SharedObject::<Pod>::from_object(object) {
        if deleted {
            core.pod_deleted(pod.uid(), now);
        } else if let Some(gated) = core.pod_changed(pod, now) {
            not_scheduled(
                &inner.api,
                &inner.recorder,
                &gated.pod,
                if gated.pod.is_gated() {
                    UnscheduledReason::SchedulingGated
                } else {
                    UnscheduledReason::Unschedulable
                },
                gated.message,
                &NominatingInfo::Unchanged,
            );
        }
    }
}

/// Executes an action of the core; returns the pod and the result.
fn execute(inner: &Inner, core: &mut Core, step: CoreAction) -> (Key, ReconcileResult) {
    let Inner { api, recorder, .. } = inner;
    match step {
        CoreAction::Bind { attempt, node } => {
            let pod = attempt.pod.clone();
            let now = api.clock().monotonic();
            let binding = Binding { api, pod: &pod, node: &node };
            let bound = catch_unwind(AssertUnwindSafe(|| bind(&inner.profiles, &binding)));
            let bound = match bound {
                Ok(bound) => bound,
                Err(panic) => {
                    core.bind_failed(attempt, now);
                    return (pod.key(), panicked(inner, &pod, panic.as_ref()));
                }
            };
            let result = match bound {
                BindOutcome::Done => {
                    attempted(api, &pod, ScheduleResult::Scheduled);
                    scheduled(recorder, &pod, &node);
                    ReconcileResult::Scheduled(node.to_string())
                }
                BindOutcome::Later(timeout) => {
                    core.bind_later(attempt, node, timeout, now);
                    ReconcileResult::Waiting
                }
                BindOutcome::Failed(error) => {
                    core.bind_failed(attempt, now);
                    match error {
                        BindError::Failed(why) => failed(inner, &pod, format!("binding rejected: {why}")),
                        // The change that overtook the binding will arrive.
                        BindError::Overtaken(_) => ReconcileResult::Done,
                    }
                }
            };
            (pod.key(), result)
        }
        CoreAction::Unschedulable { pod, message, nomination: room, outranked } => {
            attempted(api, &pod, ScheduleResult::Unschedulable);
            if let NominatingInfo::Preempted(preemption) = &room {
                evict(api, recorder, &pod, preemption);
            }
            for lower in outranked {
                clear_nomination(api, &lower);
            }
            not_scheduled(api, recorder, &pod, UnscheduledReason::Unschedulable, &message, &room);
            (pod.key(), ReconcileResult::Unschedulable(message))
        }
        CoreAction::Failed { pod, message } => {
            tracing::error!(pod = %pod.key(), "{message}");
            (pod.key(), failed(inner, &pod, message))
        }
        CoreAction::Panicked { pod, message } => (pod.key(), panicked(inner, &pod, &message)),
    }
}

/// Reports a plugin's panic; it costs its pod one attempt.
fn panicked(inner: &Inner, pod: &PodInfo, panic: &(dyn Any + Send)) -> ReconcileResult {
    let message = inner.api.contained().record(PLUGIN, panic);
    failed(inner, pod, format!("a plugin panicked: {message}"));
    ReconcileResult::Panicked(message)
}

fn attempted(api: &Api, pod: &PodInfo, result: ScheduleResult) {
    api.metrics().scheduler().attempted(pod.scheduler_name(), result);
}

/// Reports an error that is not the pod's fault.
fn failed(inner: &Inner, pod: &PodInfo, message: String) -> ReconcileResult {
    let Inner { api, recorder, .. } = inner;
    attempted(api, pod, ScheduleResult::Error);
    not_scheduled(
        api,
        recorder,
        pod,
        UnscheduledReason::SchedulerError,
        &message,
        &NominatingInfo::Unchanged,
    );
    ReconcileResult::Failed(message)
}

#[cfg(test)]
mod tests;
