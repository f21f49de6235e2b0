//! Carrying out what was decided for one StatefulSet.

use std::collections::HashSet;
use std::fmt::Display;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::Pod;

use super::ask::Ask;
use super::member::{Member, Members};
use super::plan::{Step, next_steps};
use super::roster::Roster;
use super::seat::Seat;
use super::status::{Revisions, count};
use super::{StatefulSets, identity, storage};
use crate::api::ApiError;
use crate::controllers::controller_ref::claim_where;
use crate::controllers::history::template_of;
use crate::controllers::pod_control::BURST;
use crate::object::owner::is_terminating;
use crate::object::pod::{Phase, is_terminal, phase};
use crate::object::selector::Selector;
use crate::object::{Kind, Shared};
use crate::reconcile::ignore_not_found;

/// When a set that had more to do than a turn may is looked at again.
const NEXT_BURST: Duration = Duration::from_secs(1);

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
    roster: Roster,
    current: Shared<ControllerRevision>,
    update: Shared<ControllerRevision>,
}

impl StatefulSets {
    pub(super) fn sync(&self, set: &Shared<StatefulSet>) -> Result<(), ApiError> {
        let selector = Selector::from_field(&set.spec.selector);
        let roster = self.roster(set, &selector)?;
        let told = Revisions::told(set.status.as_ref());
        if is_terminating(&set.metadata) {
            self.tell(set, &roster, &told)?;
            self.rosters.keep(set.uid(), roster);
            return Ok(());
        }
        let known = self.history.of(set, &selector)?;
        let collisions = set.status.as_ref().and_then(|s| s.collision_count);
        let latest = self.history.latest(set, &set.spec.template, &known, collisions)?;
        let current = known.iter().find(|r| r.name() == told.current).unwrap_or(&latest.revision).clone();
        let mut turn = Turn { set, ask: Ask::of(set), roster, current, update: latest.revision.clone() };
        let outcome = self.take_steps(&mut turn);
        let revisions = Revisions {
            current: turn.current.name().into(),
            update: turn.update.name().into(),
            collisions: latest.collisions,
        };
        self.tell(set, &turn.roster, &revisions)?;
        self.forget_old(&turn, &known)?;
        self.rosters.keep(set.uid(), turn.roster);
        outcome
    }

    /// The pods of the set, after adopting and releasing what its selector says.
    fn roster(&self, set: &Shared<StatefulSet>, selector: &Selector) -> Result<Roster, ApiError> {
        let mut roster = self.rosters.take(set.uid(), || self.pods.controlled_by(set.uid()));
        let orphans = self.orphans.of(set.namespace(), &self.pods);
        let claimed = claim_where(
            &self.api,
            set,
            |pod| {
                let name = pod.name.as_deref().unwrap_or_default();
                identity::ordinal_of(set.name(), name).is_some() && selector.matches(pod.labels.as_ref())
            },
            roster.take_fresh().chain(orphans),
        )?;
        for pod in claimed {
            roster.seat(set, pod);
        }
        roster.look(set, self.api.clock().now());
        Ok(roster)
    }

    /// Forgets the oldest revisions beyond the limit that no pod is of.
    fn forget_old(&self, turn: &Turn<'_>, known: &[Shared<ControllerRevision>]) -> Result<(), ApiError> {
        let limit = turn.set.spec.revision_history_limit;
        // As long as there are no more than that, who uses which need not be asked.
        if limit.is_none_or(|limit| usize::try_from(limit).is_ok_and(|limit| known.len() <= limit)) {
            return Ok(());
        }
        let mut live: HashSet<&str> = turn.roster.seats().map(|(_, seat)| seat.revision.as_str()).collect();
        live.extend([turn.current.name(), turn.update.name()]);
        self.history.truncate(known, &live, limit)
    }

    /// Takes the steps in their order. After a pod that cannot be made no other is tried: what is refused fails
    /// once. Pods that go still do: they may be what there is no room for.
    fn take_steps(&self, turn: &mut Turn<'_>) -> Result<(), ApiError> {
        let (set, ask, update) = (turn.set, &turn.ask, turn.update.name());
        let member = |(ordinal, seat): (i32, &mut Seat)| {
            let is_condemned = !ask.ordinals.contains(&ordinal);
            if !seat.claims_are_sound {
                seat.claims_are_sound = self.has_sound_claims(set, ordinal, &seat.pod, is_condemned);
            }
            let sound = seat.claims_are_sound && (is_condemned || seat.is_whole);
            (ordinal, Member { state: seat.state, updated: seat.revision == update, sound })
        };
        let members = Members::in_order(turn.roster.seats_mut().map(member).collect());
        let turn = &*turn;
        let steps = next_steps(&turn.ask, &members);
        if steps.len() >= BURST {
            // What was done comes back with its own events, but not what had to be left.
            self.queue.add_after(set.key(), NEXT_BURST);
        }
        let (mut may_create, mut may_delete, mut failure) = (true, true, None);
        for step in steps {
            let (creates, deletes) = (matches!(step, Step::Create(_)), matches!(step, Step::Delete(_)));
            if creates && !may_create || deletes && !may_delete {
                continue;
            }
            let Err(error) = self.take(turn, step) else { continue };
            may_create &= !creates;
            // Claims that are to go with a pod may not say so yet: it stays.
            may_delete &= !matches!(step, Step::Mend(_));
            // Nothing can be made in a namespace that goes, and nothing needs to be.
            if !error.is_namespace_going() {
                failure.get_or_insert(error);
            }
        }
        failure.map_or(Ok(()), Err)
    }

    fn take(&self, turn: &Turn<'_>, step: Step) -> Result<(), ApiError> {
        match step {
            Step::Create(ordinal) => self.create(turn, ordinal),
            Step::Delete(ordinal) => match turn.roster.pod(ordinal) {
                Some(pod) if is_terminal(pod) => self.replace_ended(turn, ordinal, pod),
                Some(pod) => self.delete(turn.set, pod),
                None => Ok(()),
            },
            Step::Mend(ordinal) => {
                turn.roster.pod(ordinal).map_or(Ok(()), |pod| self.mend(turn, ordinal, pod))
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
                let is_condemned = false;
                self.hand_over_claims(set, ordinal, &created, is_condemned).map(drop)
            }
            Err(error) if error.is_namespace_going() => Err(error),
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
            if phase(pod) == Phase::Pending || !storage::has_volumes(set, ordinal, pod) {
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
        changed |= self.hand_over_claims(set, ordinal, pod, is_condemned)?;
        Ok(changed && !is_condemned)
    }

    /// Writes the status when it changed, and comes back when a ready pod becomes available.
    fn tell(
        &self,
        set: &Shared<StatefulSet>,
        roster: &Roster,
        revisions: &Revisions,
    ) -> Result<(), ApiError> {
        let counted = count(set, roster, revisions);
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
        ignore_not_found(written)
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
