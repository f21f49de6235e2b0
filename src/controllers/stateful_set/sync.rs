//! Executes the decisions for one StatefulSet.

use std::collections::HashSet;
use std::fmt::Display;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::Pod;

use super::desired::DesiredSet;
use super::member::{Member, Members};
use super::new_pod::new_pod;
use super::plan::{Action, next_steps};
use super::pod_cache::PodCache;
use super::pod_state::PodState;
use super::status::{Revisions, count};
use super::{StatefulSets, identity, storage};
use crate::controller_ref::claim_where;
use crate::history::template_of;
use crate::pod_control::BURST;
use api::ApiError;
use object::owner::is_terminating;
use object::pod::{Phase, is_terminal, phase};
use object::selector::Selector;
use object::{Key, Kind, SharedObject};
use reconcile::preconditions;

/// The delay before the next sync of a set with more to do than one sync may.
const NEXT_BURST: Duration = Duration::from_secs(1);

/// The verb in events.
#[derive(Clone, Copy)]
enum Verb {
    Create,
    Update,
    Delete,
}

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Update => "Update",
            Self::Delete => "Delete",
        }
    }
}

/// One StatefulSet with its pods, for one sync.
struct SyncContext<'a> {
    set: &'a SharedObject<StatefulSet>,
    desired: DesiredSet,
    pod_cache: PodCache,
    current: SharedObject<ControllerRevision>,
    update: SharedObject<ControllerRevision>,
}

impl StatefulSets {
    pub(super) fn sync(&self, set: &SharedObject<StatefulSet>) -> Result<(), ApiError> {
        let selector = Selector::from_field(&set.spec.selector);
        let pod_cache = self.pod_cache(set, &selector)?;
        let before = Revisions::of_status(set.status.as_ref());
        if is_terminating(&set.metadata) {
            self.update_status(set, &pod_cache, &before)?;
            self.pod_caches.store(set.uid(), pod_cache);
            return Ok(());
        }
        let known = self.history.of(set, &selector)?;
        let collisions = set.status.as_ref().and_then(|s| s.collision_count);
        let latest = self.history.latest(set, &set.spec.template, &known, collisions)?;
        let current = known.iter().find(|r| r.name() == before.current).unwrap_or(&latest.revision).clone();
        let mut context = SyncContext {
            set,
            desired: DesiredSet::of(set),
            pod_cache,
            current,
            update: latest.revision.clone(),
        };
        let outcome = self.take_steps(&mut context);
        let revisions = Revisions {
            current: context.current.name().into(),
            update: context.update.name().into(),
            collisions: latest.collisions,
        };
        self.update_status(set, &context.pod_cache, &revisions)?;
        self.forget_old(&context, &known)?;
        self.pod_caches.store(set.uid(), context.pod_cache);
        outcome
    }

    /// Returns the pods of the set, after adopting and releasing by its selector.
    fn pod_cache(&self, set: &SharedObject<StatefulSet>, selector: &Selector) -> Result<PodCache, ApiError> {
        let mut pod_cache = self.pod_caches.take(set.uid(), || self.pods.controlled_by(set.uid()));
        let orphans = self.orphans.of(set.namespace(), &self.pods);
        let claimed = claim_where(
            &self.api,
            set,
            |pod| {
                let name = pod.name.as_deref().unwrap_or_default();
                identity::ordinal_of(set.name(), name).is_some() && selector.matches(pod.labels.as_ref())
            },
            pod_cache.take_fresh().chain(orphans),
        )?;
        for pod in claimed {
            pod_cache.insert(set, pod);
        }
        pod_cache.refresh(set, self.api.clock().now());
        Ok(pod_cache)
    }

    /// Deletes the oldest revisions beyond the limit that have no pods.
    fn forget_old(
        &self,
        context: &SyncContext<'_>,
        revisions: &[SharedObject<ControllerRevision>],
    ) -> Result<(), ApiError> {
        let limit = context.set.spec.revision_history_limit;
        // Below the limit the pods' revisions need not be determined.
        if limit.is_none_or(|limit| usize::try_from(limit).is_ok_and(|limit| revisions.len() <= limit)) {
            return Ok(());
        }
        let mut live: HashSet<&str> =
            context.pod_cache.pod_states().map(|(_, pod_state)| pod_state.revision.as_str()).collect();
        live.extend([context.current.name(), context.update.name()]);
        self.history.truncate(revisions, &live, limit)
    }

    /// Takes the steps in order. If a pod cannot be created, no other one is tried, so that a refusal is reported once.
    /// Deletions continue: they may free the resources that are missing.
    fn take_steps(&self, context: &mut SyncContext<'_>) -> Result<(), ApiError> {
        let (set, desired, update) = (context.set, &context.desired, context.update.name());
        let member = |(ordinal, pod_state): (i32, &mut PodState)| {
            let is_condemned = !desired.ordinals.contains(&ordinal);
            if !pod_state.claims_are_sound {
                pod_state.claims_are_sound =
                    self.has_sound_claims(set, ordinal, &pod_state.pod, is_condemned);
            }
            let sound = pod_state.claims_are_sound && (is_condemned || pod_state.is_whole);
            (ordinal, Member { state: pod_state.state, updated: pod_state.revision == update, sound })
        };
        let members = Members::in_order(context.pod_cache.pod_states_mut().map(member).collect());
        let context = &*context;
        let steps = next_steps(&context.desired, &members);
        if steps.len() >= BURST {
            // There may be more steps than this burst, for which no event causes a sync.
            self.queue.add_after(set.key(), NEXT_BURST);
        }
        let (mut may_create, mut may_delete, mut failure) = (true, true, None);
        for step in steps {
            let (creates, deletes) = (matches!(step, Action::Create(_)), matches!(step, Action::Delete(_)));
            if creates && !may_create || deletes && !may_delete {
                continue;
            }
            let Err(error) = self.take(context, step) else { continue };
            may_create &= !creates;
            // A failed repair may have left a pod's claims without the owner with which they are to be deleted. Until
            // the owner is set, no pod is deleted.
            may_delete &= !matches!(step, Action::Repair(_));
            // In a terminating namespace nothing can be created, and nothing needs to be.
            if !error.is_namespace_terminating() {
                failure.get_or_insert(error);
            }
        }
        failure.map_or(Ok(()), Err)
    }

    fn take(&self, context: &SyncContext<'_>, step: Action) -> Result<(), ApiError> {
        match step {
            Action::Create(ordinal) => self.create(context, ordinal),
            Action::Delete(ordinal) => match context.pod_cache.pod(ordinal) {
                Some(pod) if is_terminal(pod) => self.replace_ended(context, ordinal, pod),
                Some(pod) => self.delete(context.set, pod),
                None => Ok(()),
            },
            Action::Repair(ordinal) => {
                context.pod_cache.pod(ordinal).map_or(Ok(()), |pod| self.repair(context, ordinal, pod))
            }
        }
    }

    fn create(&self, context: &SyncContext<'_>, ordinal: i32) -> Result<(), ApiError> {
        let set = context.set;
        let (revision, template) = if context.desired.is_updated_at(ordinal) {
            (&context.update, set.spec.template.clone())
        } else {
            let template = template_of(Kind::StatefulSet, &set.spec.template, &context.current)?;
            (&context.current, template)
        };
        let pod = new_pod(set, &template, revision.name(), ordinal);
        let name = pod.metadata.name.clone().unwrap_or_default();
        if self.waits_for_claims(set, ordinal, &name) {
            return Ok(());
        }
        let left =
            self.vacancies.wait(&Key::new(set.namespace(), name.as_str()), self.api.clock().monotonic());
        if !left.is_zero() {
            self.queue.add_after(set.key(), left);
            return Ok(());
        }
        let replicas = context.desired.ordinals.len();
        let make =
            |_| self.make_claims(set, ordinal, &name).and_then(|()| self.control.make(set.object(), pod));
        match self.pace.spend(set.uid(), replicas, 1, self.api.clock().monotonic(), make) {
            Err(wait) => {
                self.queue.add_after(set.key(), wait);
                Ok(())
            }
            Ok(Ok(created)) => {
                self.record(set, Verb::Create, &name, None);
                let is_condemned = false;
                self.hand_over_claims(set, ordinal, &created, is_condemned).map(drop)
            }
            Ok(Err(error)) if error.is_namespace_terminating() => Err(error),
            // Another owner's pod has the name: its deletion causes another sync.
            Ok(Err(error)) if error.is_already_exists() => Ok(()),
            Ok(Err(error)) => {
                self.record(set, Verb::Create, &name, Some(&error));
                Err(error)
            }
        }
    }

    fn delete(&self, set: &SharedObject<StatefulSet>, pod: &SharedObject<Pod>) -> Result<(), ApiError> {
        self.vacancies.deletes(pod.uid());
        let outcome = self.control.remove(set.object(), pod);
        if !matches!(outcome, Ok(true)) {
            self.vacancies.deletion_failed(pod.uid());
        }
        match &outcome {
            Ok(true) => self.record(set, Verb::Delete, pod.name(), None),
            Ok(false) => {}
            Err(error) => self.record(set, Verb::Delete, pod.name(), Some(error)),
        }
        outcome.map(drop)
    }

    /// Deletes an ended pod, with a longer delay after each failure of this ordinal.
    fn replace_ended(
        &self,
        context: &SyncContext<'_>,
        ordinal: i32,
        pod: &SharedObject<Pod>,
    ) -> Result<(), ApiError> {
        let (set, now) = (context.set, self.api.clock().monotonic());
        let wait = self.failures.wait(set.uid(), pod.name(), now);
        if !wait.is_zero() && context.desired.ordinals.contains(&ordinal) {
            self.queue.add_after(set.key(), wait);
            return Ok(());
        }
        self.failures.removed(set.uid(), pod.name(), now);
        self.delete(set, pod)
    }

    fn repair(
        &self,
        context: &SyncContext<'_>,
        ordinal: i32,
        pod: &SharedObject<Pod>,
    ) -> Result<(), ApiError> {
        let set = context.set;
        let outcome = self.repair_pod(context, ordinal, pod);
        match &outcome {
            Ok(false) => {}
            Ok(true) => self.record(set, Verb::Update, pod.name(), None),
            Err(error) if error.is_not_found() || error.is_namespace_terminating() => return Ok(()),
            Err(error) => self.record(set, Verb::Update, pod.name(), Some(error)),
        }
        outcome.map(drop)
    }

    /// Returns true if there was something to repair besides missing claims.
    fn repair_pod(
        &self,
        context: &SyncContext<'_>,
        ordinal: i32,
        pod: &SharedObject<Pod>,
    ) -> Result<bool, ApiError> {
        let set = context.set;
        let is_condemned = !context.desired.ordinals.contains(&ordinal);
        let mut changed = false;
        if !is_condemned {
            if phase(pod) == Phase::Pending || !storage::has_volumes(set, ordinal, pod) {
                self.make_claims(set, ordinal, pod.name())?;
            }
            let repaired = preconditions::modify(&self.api, pod, |fresh| {
                identity::label(&mut fresh.metadata, ordinal);
                if !storage::has_volumes(set, ordinal, fresh)
                    && let Some(spec) = &mut fresh.spec
                {
                    spec.volumes = storage::volumes_with_claims(set, ordinal, spec.volumes.take());
                }
                Ok(())
            })?;
            changed |= repaired.object().revision() != pod.object().revision();
        }
        changed |= self.hand_over_claims(set, ordinal, pod, is_condemned)?;
        Ok(changed && !is_condemned)
    }

    /// Writes the status if it has changed, and requeues the set for the time when a ready pod becomes available.
    fn update_status(
        &self,
        set: &SharedObject<StatefulSet>,
        pod_cache: &PodCache,
        revisions: &Revisions,
    ) -> Result<(), ApiError> {
        let counted = count(set, pod_cache, revisions);
        if let Some(left) = counted.next_available {
            self.queue.add_after(set.key(), left);
        }
        let is_there = set.status.as_ref() == Some(&counted.status);
        let held = self.last_writes.write(set, is_there, &counted.status, || {
            preconditions::modify_status(&self.api, set, |fresh| fresh.status = Some(counted.status.clone()))
        })?;
        if let Some(left) = held {
            self.queue.add_after(set.key(), left);
        }
        Ok(())
    }

    fn record(&self, set: &SharedObject<StatefulSet>, verb: Verb, pod: &str, failure: Option<&dyn Display>) {
        let (name, lower) = (verb.name(), verb.name().to_lowercase());
        let action = format!("{lower} Pod {pod} in StatefulSet {}", set.name());
        match failure {
            None => {
                let message = format!("{action} successful");
                self.control.recorder().normal(set.object(), &format!("Successful{name}"), message);
            }
            Some(error) => {
                let message = format!("{action} failed error: {error}");
                self.control.recorder().warning(set.object(), &format!("Failed{name}"), message);
            }
        }
    }
}
