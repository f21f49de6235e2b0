//! Carrying out what was decided for one StatefulSet.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};

use super::plan::{Ask, Member, Policy, State, Step, next_steps};
use super::status::{Revisions, count};
use super::{StatefulSets, identity, storage};
use crate::api::ApiError;
use crate::controllers::claim::claim_where;
use crate::controllers::history::template_of;
use crate::object::owner::is_terminating;
use crate::object::readiness::{is_terminal, phase};
use crate::object::selector::Selector;
use crate::object::{Key, Kind, Shared};

/// What is done to a pod, as events tell it.
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

/// One StatefulSet, with what it owns, for one turn.
struct Turn<'a> {
    set: &'a Shared<StatefulSet>,
    ask: Ask,
    pods: BTreeMap<i32, Shared<Pod>>,
    current: Shared<ControllerRevision>,
    update: Shared<ControllerRevision>,
}

impl StatefulSets {
    pub(super) fn sync(&self, set: &Shared<StatefulSet>) -> Result<(), ApiError> {
        let selector = Selector::from_field(&set.spec.selector);
        let pods = self.claim_pods(set, &selector)?;
        let told = Revisions::told(set.status.as_ref());
        if is_terminating(&set.metadata) {
            return self.tell(set, &pods, &told);
        }
        let known = self.history.of(set, &selector)?;
        let collisions = set.status.as_ref().and_then(|s| s.collision_count);
        let latest = self.history.latest(set, &set.spec.template, &known, collisions)?;
        let current = known.iter().find(|r| r.name() == told.current).unwrap_or(&latest.revision);
        let turn = Turn {
            set,
            ask: Ask::of(set),
            pods: by_ordinal(set, &pods),
            current: current.clone(),
            update: latest.revision.clone(),
        };
        let outcome = self.take_steps(&turn);
        let revisions = Revisions {
            current: turn.current.name().into(),
            update: turn.update.name().into(),
            collisions: latest.collisions,
        };
        self.tell(set, &pods, &revisions)?;
        let mut live: HashSet<&str> = pods.iter().map(|pod| identity::revision_of(pod)).collect();
        live.extend([turn.current.name(), turn.update.name()]);
        self.history.truncate(&known, &live, set.spec.revision_history_limit)?;
        outcome
    }

    fn claim_pods(
        &self,
        set: &Shared<StatefulSet>,
        selector: &Selector,
    ) -> Result<Vec<Shared<Pod>>, ApiError> {
        let owned = self.pods.controlled_by(set.uid());
        let orphans = self.orphans.of(set.namespace(), &self.pods);
        claim_where(
            &self.api,
            set,
            |pod| {
                let name = pod.name.as_deref().unwrap_or_default();
                identity::ordinal_of(set.name(), name).is_some() && selector.matches(pod.labels.as_ref())
            },
            owned.into_iter().chain(orphans),
        )
    }

    /// One at a time in order; in parallel in batches that double, so that what cannot be made fails once.
    fn take_steps(&self, turn: &Turn<'_>) -> Result<(), ApiError> {
        let now = self.api.clock().now();
        let min_ready_seconds = turn.set.spec.min_ready_seconds.unwrap_or(0);
        let members = turn.pods.iter().map(|(ordinal, pod)| {
            let member = Member {
                state: State::of(pod, min_ready_seconds, now),
                updated: identity::revision_of(pod) == turn.update.name(),
                sound: self.is_sound(turn, *ordinal, pod),
            };
            (*ordinal, member)
        });
        let steps = next_steps(&turn.ask, &members.collect());
        let (mut rest, mut batch) = (steps.as_slice(), 1);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(batch.min(rest.len()));
            let mut failure = None;
            for step in now {
                if let Err(error) = self.take(turn, *step) {
                    failure.get_or_insert(error);
                }
            }
            if let Some(error) = failure {
                return Err(error);
            }
            rest = later;
            batch = if turn.ask.policy == Policy::Parallel { batch * 2 } else { 1 };
        }
        Ok(())
    }

    fn take(&self, turn: &Turn<'_>, step: Step) -> Result<(), ApiError> {
        match step {
            Step::Create(ordinal) => self.create(turn, ordinal),
            Step::Delete(ordinal) => match turn.pods.get(&ordinal) {
                Some(pod) if is_terminal(pod) => self.replace_ended(turn, ordinal, pod),
                Some(pod) => self.delete(turn.set, pod),
                None => Ok(()),
            },
            Step::Mend(ordinal) => {
                turn.pods.get(&ordinal).map_or(Ok(()), |pod| self.mend(turn, ordinal, pod))
            }
        }
    }

    fn create(&self, turn: &Turn<'_>, ordinal: i32) -> Result<(), ApiError> {
        let set = turn.set;
        let (revision, template) = if turn.ask.is_updated_at(ordinal) {
            (&turn.update, set.spec.template.clone())
        } else {
            let template = template_of(Kind::StatefulSet, &set.spec.template, &turn.current)?;
            (&turn.current, template)
        };
        let pod = identity::new_pod(set, &template, revision.name(), ordinal);
        let name = pod.metadata.name.clone().unwrap_or_default();
        if self.waits_for_claims(set, ordinal, &name) {
            return Ok(());
        }
        match self.make_claims(set, ordinal, &name).and_then(|()| self.control.make(set.object(), pod)) {
            Ok(created) => {
                self.record(set, Verb::Create, &name, None);
                self.hand_over_claims(turn, ordinal, &created).map(drop)
            }
            // Nothing can be made in a namespace that goes, and nothing needs to be.
            Err(error) if error.is_namespace_going() => Ok(()),
            // Somebody else's pod has the name: its end brings the set back to the queue.
            Err(error) if error.is_already_exists() => Ok(()),
            Err(error) => {
                self.record(set, Verb::Create, &name, Some(&error));
                Err(error)
            }
        }
    }

    fn delete(&self, set: &Shared<StatefulSet>, pod: &Shared<Pod>) -> Result<(), ApiError> {
        let outcome = self.control.remove(set.object(), pod);
        match &outcome {
            Ok(true) => self.record(set, Verb::Delete, pod.name(), None),
            Ok(false) => {}
            Err(error) => self.record(set, Verb::Delete, pod.name(), Some(error)),
        }
        outcome.map(drop)
    }

    /// Removes a pod that ended, longer after each failure in this place.
    fn replace_ended(&self, turn: &Turn<'_>, ordinal: i32, pod: &Shared<Pod>) -> Result<(), ApiError> {
        let (set, now) = (turn.set, self.api.clock().monotonic());
        let wait = self.failures.wait(set.uid(), pod.name(), now);
        if !wait.is_zero() && turn.ask.ordinals.contains(&ordinal) {
            self.queue.add_after(set.key(), wait);
            return Ok(());
        }
        self.failures.removed(set.uid(), pod.name(), now);
        self.delete(set, pod)
    }

    /// Whether a pod's identity, volumes and claims are as they should be; of one that is condemned only its
    /// claims' owners matter. Only a pod that waits for its claims gets new ones.
    fn is_sound(&self, turn: &Turn<'_>, ordinal: i32, pod: &Shared<Pod>) -> bool {
        let set = turn.set;
        let is_condemned = !turn.ask.ordinals.contains(&ordinal);
        let keeper = storage::keeper(set, is_condemned);
        let claims = storage::claim_names(set, ordinal).all(|name| match self.claim(set, &name) {
            Some(claim) => {
                let owners = storage::owners(&claim.metadata, set, pod, keeper);
                claim.metadata.owner_references.as_deref().unwrap_or_default() == owners
            }
            None => is_condemned || phase(pod) != "Pending",
        });
        let is_whole =
            || identity::is_labelled(&pod.metadata, ordinal) && storage::has_volumes(set, ordinal, pod);
        claims && (is_condemned || is_whole())
    }

    fn mend(&self, turn: &Turn<'_>, ordinal: i32, pod: &Shared<Pod>) -> Result<(), ApiError> {
        let set = turn.set;
        let outcome = self.mend_pod(turn, ordinal, pod);
        match &outcome {
            Ok(false) => {}
            Ok(true) => self.record(set, Verb::Update, pod.name(), None),
            Err(error) if error.is_not_found() || error.is_namespace_going() => return Ok(()),
            Err(error) => self.record(set, Verb::Update, pod.name(), Some(error)),
        }
        outcome.map(drop)
    }

    /// True when there was something to mend besides missing claims.
    fn mend_pod(&self, turn: &Turn<'_>, ordinal: i32, pod: &Shared<Pod>) -> Result<bool, ApiError> {
        let set = turn.set;
        let is_condemned = !turn.ask.ordinals.contains(&ordinal);
        let mut changed = false;
        if !is_condemned {
            if phase(pod) == "Pending" || !storage::has_volumes(set, ordinal, pod) {
                self.make_claims(set, ordinal, pod.name())?;
            }
            let mended = self.api.modify::<Pod>(&pod.key(), |fresh| {
                if fresh.metadata.uid.as_deref() != Some(pod.uid()) {
                    return Err(ApiError::not_found(Kind::Pod, &pod.key()));
                }
                identity::label(&mut fresh.metadata, ordinal);
                if !storage::has_volumes(set, ordinal, fresh)
                    && let Some(spec) = &mut fresh.spec
                {
                    spec.volumes = storage::volumes_with_claims(set, ordinal, spec.volumes.take());
                }
                Ok(())
            })?;
            changed |= mended.object().revision() != pod.object().revision();
        }
        changed |= self.hand_over_claims(turn, ordinal, pod)?;
        Ok(changed && !is_condemned)
    }

    fn claim(&self, set: &Shared<StatefulSet>, name: &str) -> Option<Shared<PersistentVolumeClaim>> {
        self.api.get_as(&Key::new(set.namespace(), name)).ok()
    }

    /// Whether claims that an earlier pod leaves behind must go before the next pod of its name comes: it
    /// would lose its storage while it runs.
    fn waits_for_claims(&self, set: &Shared<StatefulSet>, ordinal: i32, pod_name: &str) -> bool {
        storage::goes_when_scaled(set)
            && storage::claim_names(set, ordinal)
                .filter_map(|name| self.claim(set, &name))
                .any(|claim| storage::is_of_earlier_pod(&claim.metadata, pod_name))
    }

    /// Makes the claims of a pod that are not there; tries all, and tells of each.
    fn make_claims(&self, set: &Shared<StatefulSet>, ordinal: i32, pod_name: &str) -> Result<(), ApiError> {
        let mut failure = None;
        for claim in storage::new_claims(set, ordinal) {
            let name = claim.metadata.name.clone().unwrap_or_default();
            if let Some(there) = self.claim(set, &name) {
                if is_terminating(&there.metadata) {
                    failure.get_or_insert(ApiError::Unavailable(format!("pvc {name} is being deleted")));
                }
                continue;
            }
            match self.api.create_as(claim) {
                Ok(_) => {
                    let message =
                        format!("create Claim {name} Pod {pod_name} in StatefulSet {} success", set.name());
                    self.control.recorder().normal(set.object(), "SuccessfulCreate", message);
                }
                Err(error) if error.is_already_exists() => {}
                Err(error) => {
                    if !error.is_namespace_going() {
                        let message = format!(
                            "create Claim {name} for Pod {pod_name} in StatefulSet {} failed error: {error}",
                            set.name()
                        );
                        self.control.recorder().warning(set.object(), "FailedCreate", message);
                    }
                    failure.get_or_insert(error);
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Gives a pod's claims the owners they go with; true when some had others.
    fn hand_over_claims(&self, turn: &Turn<'_>, ordinal: i32, pod: &Shared<Pod>) -> Result<bool, ApiError> {
        let set = turn.set;
        let keeper = storage::keeper(set, !turn.ask.ordinals.contains(&ordinal));
        let mut changed = false;
        for claim in storage::claim_names(set, ordinal).filter_map(|name| self.claim(set, &name)) {
            let after = self.api.modify::<PersistentVolumeClaim>(&claim.key(), |fresh| {
                let owners = storage::owners(&fresh.metadata, set, pod, keeper);
                fresh.metadata.owner_references = Some(owners).filter(|owners| !owners.is_empty());
                Ok(())
            });
            match after {
                Ok(after) => changed |= after.object().revision() != claim.object().revision(),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(changed)
    }

    /// Writes the status when it changed, and comes back when a ready pod becomes available.
    fn tell(
        &self,
        set: &Shared<StatefulSet>,
        pods: &[Shared<Pod>],
        revisions: &Revisions,
    ) -> Result<(), ApiError> {
        let counted = count(set, pods, revisions, self.api.clock().now());
        if let Some(left) = counted.next_available {
            self.queue.add_after(set.key(), left);
        }
        if set.status.as_ref() == Some(&counted.status) {
            return Ok(());
        }
        let written = self.api.modify_status::<StatefulSet>(&set.key(), |fresh| {
            if fresh.metadata.uid.as_deref() != Some(set.uid()) {
                return Err(ApiError::not_found(Kind::StatefulSet, &set.key()));
            }
            fresh.status = Some(counted.status.clone());
            Ok(())
        });
        match written {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    fn record(&self, set: &Shared<StatefulSet>, verb: Verb, pod: &str, failure: Option<&dyn Display>) {
        let (name, lower) = (verb.name(), verb.name().to_lowercase());
        let what = format!("{lower} Pod {pod} in StatefulSet {}", set.name());
        match failure {
            None => {
                let message = format!("{what} successful");
                self.control.recorder().normal(set.object(), &format!("Successful{name}"), message);
            }
            Some(error) => {
                let message = format!("{what} failed error: {error}");
                self.control.recorder().warning(set.object(), &format!("Failed{name}"), message);
            }
        }
    }
}

fn by_ordinal(set: &Shared<StatefulSet>, pods: &[Shared<Pod>]) -> BTreeMap<i32, Shared<Pod>> {
    let ordinals =
        pods.iter().filter_map(|pod| Some((identity::ordinal_of(set.name(), pod.name())?, pod.clone())));
    ordinals.collect()
}
