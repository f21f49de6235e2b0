//! PodDisruptionBudgets: computes the number of pods that may be disrupted now (PDB-1).

mod scale;
mod stale;
mod status;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};

use super::context::Context;
use api::{Api, ApiError};
use api::{Change, ChangeKind};
use object::owner::is_terminating;
use object::pod::is_ready;
use object::selector::Selector;
use object::{Key, Kind, Object, Revision, SharedObject, go_format};
use reconcile::{Cache, LastWrites, ReconcileError, Reconciler, Recorder, WorkQueue, ignore_not_found};
use scale::ExpectedScale;
use status::{DisruptedPods, ExpectedCounts};

pub(super) fn start(context: &Context) {
    context
        .controller(|queue| DisruptionController {
            api: context.api.clone(),
            budgets: context.caches.of(),
            pods: context.caches.of(),
            recorder: Recorder::new(&context.api, "controllermanager"),
            last_writes: LastWrites::default(),
            queue,
        })
        .for_::<PodDisruptionBudget>()
        .watches::<Pod, _>(DisruptionController::pod_changed)
        .watches::<ReplicaSet, _>(DisruptionController::owner_changed)
        .watches::<Deployment, _>(DisruptionController::owner_changed)
        .watches::<StatefulSet, _>(DisruptionController::owner_changed)
        .watches::<ReplicationController, _>(DisruptionController::owner_changed)
        .run(&context.tasks);
    stale::start(context);
}

struct DisruptionController {
    api: Api,
    budgets: Cache<PodDisruptionBudget>,
    pods: Cache<Pod>,
    recorder: Recorder,
    last_writes: LastWrites<PodDisruptionBudgetStatus>,
    queue: WorkQueue<Key>,
}

impl Reconciler for DisruptionController {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Some(budget) = self.budgets.get(key) else { return Ok(()) };
        let selector = Selector::from_optional(budget.spec.as_ref().and_then(|s| s.selector.as_ref()));
        let mut pods = self.pods.in_namespace(&key.namespace);
        pods.retain(|pod| selector.matches(pod.metadata.labels.as_ref()));
        if pods.is_empty() {
            self.recorder.normal(budget.object(), "NoPods", "No matching pods found");
        }
        match self.expected(&budget, &pods) {
            Ok(expected) => self.update_status(&budget, &pods, expected)?,
            Err(message) => self.fail_safe(&budget, &message)?,
        }
        Ok(())
    }

    fn forget(&self, uid: &str) {
        self.last_writes.forget(uid);
    }
}

impl DisruptionController {
    fn pod_changed(&self, change: &Change) {
        let facts = |object: &Object| {
            object.get::<Pod>().map(|pod| {
                let meta = &pod.metadata;
                (is_ready(pod), is_terminating(meta), meta.labels.clone(), meta.owner_references.clone())
            })
        };
        let before = change.previous.as_ref();
        if change.kind == ChangeKind::Modified && before.is_some_and(|b| facts(b) == facts(&change.object)) {
            return;
        }
        for budget in self.budgets.in_namespace(change.object.namespace()) {
            let selector = Selector::from_optional(budget.spec.as_ref().and_then(|s| s.selector.as_ref()));
            let covers = |object: &Object| selector.matches(object.meta().labels.as_ref());
            if covers(&change.object) || before.is_some_and(|b| covers(b)) {
                self.queue.add(budget.key());
            }
        }
    }

    /// Queues the budgets that depend on the sizes of owners: a new size changes the number of pods that they expect.
    fn owner_changed(&self, change: &Change) {
        let generation = |object: &Object| object.meta().generation;
        let same_spec = change.previous.as_ref().is_some_and(|b| generation(b) == generation(&change.object));
        if change.kind == ChangeKind::Modified && same_spec {
            return;
        }
        for budget in self.budgets.in_namespace(change.object.namespace()) {
            if status::needs_scale(&budget) {
                self.queue.add(budget.key());
            }
        }
    }

    fn expected(
        &self,
        budget: &SharedObject<PodDisruptionBudget>,
        pods: &[SharedObject<Pod>],
    ) -> Result<ExpectedCounts, String> {
        let count = i32::try_from(pods.len()).unwrap_or(i32::MAX);
        let scale_result = if status::needs_scale(budget) {
            scale::expected_scale(&self.api, pods)
        } else {
            Ok(ExpectedScale::default())
        };
        let expected = scale_result.map_err(|error| error.to_string()).and_then(|scale| {
            if scale.unmanaged {
                self.warn_of_unmanaged(budget);
            }
            status::expected(budget, count, scale.replicas).map_err(|error| error.to_string())
        });
        if let Err(message) = &expected {
            let message = format!("Failed to calculate the number of expected pods: {message}");
            self.recorder.warning(budget.object(), "CalculateExpectedPodCountFailed", message);
        }
        expected
    }

    fn warn_of_unmanaged(&self, budget: &SharedObject<PodDisruptionBudget>) {
        let selector = budget.spec.as_ref().and_then(|s| s.selector.as_ref());
        let selector = selector.map_or_else(|| "nil".to_string(), go_format::label_selector);
        self.recorder.warning(
            budget.object(),
            "UnmanagedPods",
            format!(
                "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. \
                 As a result, the status of the PDB cannot be calculated correctly, which may result in undefined \
                 behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB to an \
                 integer value."
            ),
        );
    }

    fn update_status(
        &self,
        budget: &SharedObject<PodDisruptionBudget>,
        pods: &[SharedObject<Pod>],
        expected: ExpectedCounts,
    ) -> Result<(), ApiError> {
        let mut disrupted = DisruptedPods::default();
        // An eviction may have used the budget since it was read. The evictions under way are therefore taken from the
        // version that is replaced.
        self.write(budget, |fresh, before, now| {
            let evictions = before.and_then(|s| s.disrupted_pods.as_ref());
            let timeout = self.api.timings().disruption_timeout.0;
            disrupted = status::disrupted(evictions, pods, timeout, now);
            let healthy = status::count_healthy(pods, &disrupted);
            status::status(fresh, before, expected, healthy, &disrupted, now)
        })?;
        for pod in pods.iter().filter(|p| disrupted.overdue.iter().any(|name| name == p.name())) {
            let message = format!("Pod was expected by PDB {} to be deleted but it wasn't", budget.key());
            self.recorder.warning(pod.object(), "NotDeleted", message);
        }
        if let Some(delay) = disrupted.recheck {
            self.queue.add_after(budget.key(), delay);
        }
        Ok(())
    }

    fn fail_safe(&self, budget: &SharedObject<PodDisruptionBudget>, message: &str) -> Result<(), ApiError> {
        self.write(budget, |_, before, now| status::failed(before, message, now))
    }

    fn write(
        &self,
        budget: &SharedObject<PodDisruptionBudget>,
        mut make: impl FnMut(
            &PodDisruptionBudget,
            Option<&PodDisruptionBudgetStatus>,
            Timestamp,
        ) -> PodDisruptionBudgetStatus,
    ) -> Result<(), ApiError> {
        let now = self.api.clock().now();
        let mut held = None;
        let written = self.api.modify_status::<PodDisruptionBudget>(&budget.key(), |fresh| {
            let same = fresh.metadata.uid.as_deref() == Some(budget.uid())
                && fresh.metadata.generation == budget.metadata.generation;
            if !same {
                return Err(ApiError::modified(Kind::PodDisruptionBudget, budget.name()));
            }
            let before = fresh.status.take();
            let after = make(fresh, before.as_ref(), now);
            let is_there = before.as_ref() == Some(&after);
            held = self.last_writes.hold(budget.uid(), Revision::of(&fresh.metadata), is_there, &after);
            fresh.status = if held.is_some() { before } else { Some(after) };
            Ok(())
        });
        match (&written, held) {
            (_, Some(left)) => self.queue.add_after(budget.key(), left),
            (Ok(written), None) => self.last_writes.record_write(budget.uid(), written.object().revision()),
            (Err(_), None) => {}
        }
        ignore_not_found(written)
    }
}
