//! Creates and deletes the pods of an owner, records events, and remembers writes that the cache does not show yet.
//!
//! Never decides the number of pods, nor which ones to delete.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::context::Context;
use api::{Api, ApiError, Change, ChangeKind, DeleteOptions};
use object::owner::{controller_of, controller_reference, is_terminating};
use object::pod::{Phase, is_ready, is_terminal, phase, ready_since};
use object::{Kind, Object, SharedObject, Uid};
use reconcile::{Cache, Expectations, Recorder};

/// The most pods an owner gets or loses in one sync, as in Kubernetes; the rest follows once the cache shows these.
/// This limits the cost of a sync, for any desired size.
pub(super) const BURST: usize = 500;

/// The pod operations of one controller.
pub(super) struct PodControl {
    api: Api,
    pods: Cache<Pod>,
    expectations: Expectations<Uid>,
    recorder: Recorder,
}

impl PodControl {
    /// Creates the pod operations of a controller; `component` is the source of its events.
    pub(super) fn new(context: &Context, component: &str) -> Self {
        Self {
            api: context.api.clone(),
            pods: context.caches.of(),
            expectations: Expectations::new(),
            recorder: Recorder::new(&context.api, component),
        }
    }

    /// Returns the controller's event recorder.
    pub(super) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Observes a pod's change; controllers of owners of this kind must pass on every one.
    pub(super) fn observe(&self, change: &Change, owner: Kind) {
        let pod = change.object.meta();
        let Some(owner) = controller_of(pod).filter(|r| r.kind == owner.info().name) else { return };
        if change.kind == ChangeKind::Deleted {
            self.expectations.deletion_observed(&owner.uid, change.object.uid());
        } else {
            self.expectations.creation_observed(&owner.uid, change.object.uid(), is_terminating(pod));
        }
    }

    /// Returns true if the cache shows all writes made for the owner with this uid.
    pub(super) fn is_caught_up(&self, owner: &str) -> bool {
        self.expectations.satisfied(&owner.to_string())
    }

    /// Returns the time for which the cache may still lag behind the writes for the owner with this uid; `None` if it
    /// has caught up. The caller requeues the owner after it: see [`Expectations::waits`].
    pub(super) fn waits(&self, owner: &str) -> Option<Duration> {
        self.expectations.waits(&owner.to_string())
    }

    /// Drops a deleted owner.
    pub(super) fn forget(&self, owner: &str) {
        self.expectations.forget(&owner.to_string());
    }

    /// Creates pods one after the other, each built only when needed, until one fails: one bad template or full quota
    /// fails once, not five hundred times.
    pub(super) fn create_all(
        &self,
        owner: &Object,
        pods: impl IntoIterator<Item = Pod>,
    ) -> Result<(), ApiError> {
        for pod in pods.into_iter().take(BURST) {
            match self.create(owner, pod) {
                Ok(()) => {}
                // In a terminating namespace nothing can be created, and nothing needs to be.
                Err(error) if error.is_namespace_terminating() => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn create(&self, owner: &Object, pod: Pod) -> Result<(), ApiError> {
        match self.make(owner, pod) {
            Ok(created) => {
                let message = format!("Created pod: {}", created.name());
                self.recorder.normal(owner, "SuccessfulCreate", message);
                Ok(())
            }
            Err(error) => {
                if !error.is_namespace_terminating() {
                    self.recorder.warning(owner, "FailedCreate", format!("Error creating: {error}"));
                }
                Err(error)
            }
        }
    }

    /// Creates one pod and expects to see it; the caller records the event.
    pub(super) fn make(&self, owner: &Object, pod: Pod) -> Result<SharedObject<Pod>, ApiError> {
        let created = self.api.create_as(pod)?;
        let uid = owner.uid().to_string();
        self.expectations.expect_creation(&uid, created.uid());
        // The cache may have shown it before the expectation was set.
        if let Some(shown) = self.pods.get(&created.key()).filter(|p| p.uid() == created.uid()) {
            self.expectations.creation_observed(&uid, shown.uid(), is_terminating(&shown.metadata));
        }
        Ok(created)
    }

    /// Deletes these pods, a burst at most; returns the first failure.
    pub(super) fn delete_all<'p>(
        &self,
        owner: &Object,
        pods: impl IntoIterator<Item = &'p SharedObject<Pod>>,
    ) -> Result<(), ApiError> {
        let mut failure = None;
        for pod in pods.into_iter().take(BURST) {
            if let Err(error) = self.delete(owner, pod) {
                failure.get_or_insert(error);
            }
        }
        failure.map_or(Ok(()), Err)
    }

    fn delete(&self, owner: &Object, pod: &SharedObject<Pod>) -> Result<(), ApiError> {
        match self.remove(owner, pod) {
            Ok(true) => {
                self.recorder.normal(owner, "SuccessfulDelete", format!("Deleted pod: {}", pod.name()));
                Ok(())
            }
            Ok(false) => Ok(()),
            Err(error) => {
                self.recorder.warning(owner, "FailedDelete", format!("Error deleting: {error}"));
                Err(error)
            }
        }
    }

    /// Deletes one pod and expects to see that; the caller records the event. Returns false if it was gone already.
    pub(super) fn remove(&self, owner: &Object, pod: &SharedObject<Pod>) -> Result<bool, ApiError> {
        let uid = owner.uid().to_string();
        // Before the deletion, because the event that fulfils the expectation comes only once.
        self.expectations.expect_deletion(&uid, pod.uid());
        match self.api.delete(Kind::Pod, &pod.key(), &DeleteOptions::uid(pod.uid())) {
            Ok(_) => Ok(true),
            Err(error) => {
                self.expectations.deletion_observed(&uid, pod.uid());
                // Already gone, or replaced by another with its name: nothing to do.
                if error.is_not_found_or_conflict() { Ok(false) } else { Err(error) }
            }
        }
    }
}

/// Returns true if a pod's change can affect its owner's actions or status.
pub(super) fn is_relevant(change: &Change) -> bool {
    let (Some(before), Some(after)) =
        (change.previous.as_ref().and_then(|p| p.get::<Pod>()), change.object.get::<Pod>())
    else {
        return true;
    };
    // A pod serves if it is ready and running; the two may come in different writes.
    let serves = |pod: &Pod| (is_ready(pod), is_ready(pod) && phase(pod) == Phase::Running);
    let facts = |pod: &Pod| (is_terminating(&pod.metadata), is_terminal(pod), serves(pod), ready_since(pod));
    change.kind != ChangeKind::Modified
        || facts(before) != facts(after)
        || before.metadata.labels != after.metadata.labels
        || before.metadata.owner_references != after.metadata.owner_references
}

/// Builds the pod of an owner's template, without a name yet.
pub(super) fn pod_of(owner: &Object, template: &PodTemplateSpec) -> Pod {
    let meta = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", owner.name())),
            namespace: Some(owner.namespace().to_string()),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![controller_reference(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}
