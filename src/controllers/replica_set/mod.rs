//! ReplicaSets: a number of equal pods, no more and no fewer.

pub(super) mod rank;
mod status;

use std::cmp::Ordering;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::claim::{Orphans, claim};
use super::context::Context;
use crate::api::{Api, ApiError, DeleteOptions};
use crate::api::{Change, ChangeKind};
use crate::object::owner::{controller_of, controller_reference, is_terminating};
use crate::object::readiness::{is_active, is_terminal, ready_since};
use crate::object::selector::Selector;
use crate::object::{Key, Kind, Shared, Uid};
use crate::reconcile::{Cache, Expectations, ReconcileError, Reconciler, Recorder, WorkQueue};
use status::Failure;

/// Pods made or asked to go in one turn; the rest follows when those were seen.
const BURST: usize = 500;

/// Starts the controller.
pub(super) fn start(context: &Context) {
    let queue = context.queue();
    let controller = Arc::new(ReplicaSets {
        api: context.api.clone(),
        sets: context.caches.of(),
        pods: context.caches.of(),
        orphans: Orphans::default(),
        expectations: Expectations::new(),
        recorder: Recorder::new(&context.api, "replicaset-controller"),
        queue: queue.clone(),
    });
    let caches = vec![
        context.follow::<ReplicaSet, _>(&controller, ReplicaSets::set_changed),
        context.follow::<Pod, _>(&controller, ReplicaSets::pod_changed),
    ];
    context.run(controller, queue, caches);
}

struct ReplicaSets {
    api: Api,
    sets: Cache<ReplicaSet>,
    pods: Cache<Pod>,
    orphans: Orphans,
    expectations: Expectations<Uid>,
    recorder: Recorder,
    queue: WorkQueue<Key>,
}

impl Reconciler for ReplicaSets {
    type Key = Key;

    fn name(&self) -> &'static str {
        "replicaset"
    }

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Some(set) = self.sets.get(key) else { return Ok(()) };
        // What was done last has not come back yet: counting now would count wrongly. It comes with an
        // event of its own.
        if !self.expectations.satisfied(&set.uid().to_string()) {
            return Ok(());
        }
        let selector = Selector::from_field(&set.spec.selector);
        let owned = self.pods.controlled_by(set.uid());
        let terminating = owned.iter().filter(|p| is_terminating(&p.metadata) && !is_terminal(p)).count();
        let orphans = self.orphans.of(&key.namespace, &self.pods);
        let candidates = owned.into_iter().chain(orphans).filter(|pod| is_active(pod));
        let active = claim(&self.api, &set, &selector, candidates)?;
        let outcome = if is_terminating(&set.metadata) { Ok(()) } else { self.bring_to_size(&set, &active) };
        let failure = outcome.as_ref().err().map(|error| Failure {
            reason: if active.len() < wanted(&set) { "FailedCreate" } else { "FailedDelete" },
            message: error.to_string(),
        });
        self.tell_status(&set, &active, terminating, failure.as_ref())?;
        Ok(outcome?)
    }
}

fn wanted(set: &ReplicaSet) -> usize {
    usize::try_from(set.spec.replicas.unwrap_or(1)).unwrap_or(0)
}

impl ReplicaSets {
    fn set_changed(&self, change: &Change) {
        if change.kind == ChangeKind::Deleted {
            self.expectations.forget(&change.object.uid().to_string());
        }
        self.queue.add(change.object.key());
    }

    fn pod_changed(&self, change: &Change) {
        self.orphans.observe(change);
        let pod = &change.object;
        let owner = controller_of(pod.meta()).filter(|r| r.kind == "ReplicaSet");
        if let Some(owner) = owner {
            if change.kind == ChangeKind::Deleted {
                self.expectations.gone(&owner.uid, pod.uid());
            } else {
                self.expectations.seen(&owner.uid, pod.uid(), is_terminating(pod.meta()));
            }
        }
        if !is_relevant(change) {
            return;
        }
        let before = change.previous.as_ref().and_then(|p| controller_of(p.meta()));
        for owner in owner.into_iter().chain(before.filter(|r| r.kind == "ReplicaSet")) {
            self.queue.add(Key::new(pod.namespace(), owner.name.as_str()));
        }
        if controller_of(pod.meta()).is_none() && change.kind != ChangeKind::Deleted {
            for set in self.sets.in_namespace(pod.namespace()) {
                if Selector::from_field(&set.spec.selector).matches(pod.meta().labels.as_ref()) {
                    self.queue.add(set.key());
                }
            }
        }
    }

    /// Makes or removes pods until there are as many as wanted; stops at the first failing batch.
    fn bring_to_size(&self, set: &Shared<ReplicaSet>, active: &[Shared<Pod>]) -> Result<(), ApiError> {
        let wanted = wanted(set);
        match active.len().cmp(&wanted) {
            Ordering::Less => self.create_pods(set, (wanted - active.len()).min(BURST)),
            Ordering::Greater => self.delete_pods(set, active, (active.len() - wanted).min(BURST)),
            Ordering::Equal => Ok(()),
        }
    }

    /// In batches that double: one bad template fails once, not five hundred times.
    fn create_pods(&self, set: &Shared<ReplicaSet>, count: usize) -> Result<(), ApiError> {
        let pod = pod_of(set);
        let (mut left, mut batch) = (count, 1);
        while left > 0 {
            let now = batch.min(left);
            let mut failure = None;
            for _ in 0..now {
                if let Err(error) = self.create_pod(set, pod.clone()) {
                    failure.get_or_insert(error);
                }
            }
            match failure {
                // Nothing can be made in a namespace that goes, and nothing needs to be.
                Some(error) if is_namespace_going(&error) => return Ok(()),
                Some(error) => return Err(error),
                None => {}
            }
            left -= now;
            batch *= 2;
        }
        Ok(())
    }

    fn create_pod(&self, set: &Shared<ReplicaSet>, pod: Pod) -> Result<(), ApiError> {
        match self.api.create_as(pod) {
            Ok(created) => {
                let owner = set.uid().to_string();
                self.expectations.expect_creation(&owner, created.uid());
                // The cache may have been faster than the line above.
                if let Some(shown) = self.pods.get(&created.key()).filter(|p| p.uid() == created.uid()) {
                    self.expectations.seen(&owner, shown.uid(), is_terminating(&shown.metadata));
                }
                let message = format!("Created pod: {}", created.name());
                self.recorder.normal(set.object(), "SuccessfulCreate", message);
                Ok(())
            }
            Err(error) => {
                if !is_namespace_going(&error) {
                    self.recorder.warning(set.object(), "FailedCreate", format!("Error creating: {error}"));
                }
                Err(error)
            }
        }
    }

    fn delete_pods(
        &self,
        set: &Shared<ReplicaSet>,
        active: &[Shared<Pod>],
        count: usize,
    ) -> Result<(), ApiError> {
        let related = self.related_pods(set, active);
        let mut failure = None;
        for pod in rank::first_to_go(active, &related, count, self.api.clock().now()) {
            if let Err(error) = self.delete_pod(set, pod) {
                failure.get_or_insert(error);
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Active pods of every ReplicaSet under the same controller: one Deployment's pods are spread as one.
    fn related_pods(&self, set: &Shared<ReplicaSet>, active: &[Shared<Pod>]) -> Vec<Shared<Pod>> {
        let mut related = active.to_vec();
        if let Some(owner) = controller_of(&set.metadata) {
            for sibling in self.sets.controlled_by(&owner.uid).iter().filter(|s| s.uid() != set.uid()) {
                related.extend(self.pods.controlled_by(sibling.uid()).into_iter().filter(|p| is_active(p)));
            }
        }
        related
    }

    fn delete_pod(&self, set: &Shared<ReplicaSet>, pod: &Shared<Pod>) -> Result<(), ApiError> {
        let owner = set.uid().to_string();
        // Before the deletion: the event that ends the expectation comes only once.
        self.expectations.expect_deletion(&owner, pod.uid());
        match self.api.delete(Kind::Pod, &pod.key(), &DeleteOptions::uid(pod.uid())) {
            Ok(_) => {
                let message = format!("Deleted pod: {}", pod.name());
                self.recorder.normal(set.object(), "SuccessfulDelete", message);
                Ok(())
            }
            Err(error) => {
                self.expectations.gone(&owner, pod.uid());
                // Gone already, or another of the same name: what was wanted.
                if error.is_not_found() || error.is_conflict() {
                    return Ok(());
                }
                self.recorder.warning(set.object(), "FailedDelete", format!("Error deleting: {error}"));
                Err(error)
            }
        }
    }

    fn tell_status(
        &self,
        set: &Shared<ReplicaSet>,
        active: &[Shared<Pod>],
        terminating: usize,
        failure: Option<&Failure>,
    ) -> Result<(), ApiError> {
        let now = self.api.clock().now();
        let counted = status::count(set, set.status.as_ref(), active, terminating, failure, now);
        if let Some(left) = counted.next_available {
            self.queue.add_after(set.key(), left);
        }
        if set.status.as_ref() == Some(&counted.status) {
            return Ok(());
        }
        let written = self.api.modify_status::<ReplicaSet>(&set.key(), |fresh| {
            if fresh.metadata.uid.as_deref() != Some(set.uid()) {
                return Err(ApiError::not_found(Kind::ReplicaSet, &set.key()));
            }
            let before = fresh.status.take();
            fresh.status =
                Some(status::count(set, before.as_ref(), active, terminating, failure, now).status);
            Ok(())
        });
        match written {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}

/// Whether a pod's change can change what its ReplicaSet does or tells.
fn is_relevant(change: &Change) -> bool {
    let (Some(before), Some(after)) =
        (change.previous.as_ref().and_then(|p| p.get::<Pod>()), change.object.get::<Pod>())
    else {
        return true;
    };
    let facts =
        |pod: &Pod| (is_active(pod), is_terminating(&pod.metadata), is_terminal(pod), ready_since(pod));
    change.kind != ChangeKind::Modified
        || facts(before) != facts(after)
        || before.metadata.labels != after.metadata.labels
        || before.metadata.owner_references != after.metadata.owner_references
}

fn is_namespace_going(error: &ApiError) -> bool {
    matches!(error, ApiError::Forbidden { causes, .. }
        if causes.iter().any(|c| c.reason == "NamespaceTerminating"))
}

/// The pod of a ReplicaSet's template, without a name yet.
fn pod_of(set: &Shared<ReplicaSet>) -> Pod {
    let template = set.spec.template.clone().unwrap_or_default();
    let meta = template.metadata.unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", set.name())),
            namespace: Some(set.namespace().to_string()),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![controller_reference(set.object())]),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}
