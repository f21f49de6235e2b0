//! Executes the decisions for one Deployment.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::progress::{self, new_condition, reason};
use super::replica_sets::{ReplicaSets, new_replica_set};
use super::view::{Resize, Strategy, View, in_api};
use super::{DeploymentController, annotations, hash, history, recreate, rolling, scaling};
use crate::controller_ref::claim;
use api::ApiError;
use object::conditions::ConditionStatus;
use object::owner::{is_controlled_by, is_terminating};
use object::pod::is_terminal;
use object::selector::Selector;
use object::{Key, Kind, Revision, SharedObject};
use reconcile::optional;

/// The content of the status besides the counts.
#[derive(Default)]
struct RolloutStatus {
    revision: Option<i64>,
    condition: Option<DeploymentCondition>,
}

/// The parts of the status that a sync writes.
#[derive(Clone, Copy)]
enum StatusScope {
    /// Progress and failures too: the rollout is active.
    Rollout,
    /// Only counts: the rollout is not active.
    Counts,
}

impl DeploymentController {
    pub(super) fn sync(&self, deployment: &SharedObject<Deployment>) -> Result<(), ApiError> {
        if deployment.spec.selector == LabelSelector::default() {
            return self.refuse_everything(deployment);
        }
        let selector = Selector::from_field(&deployment.spec.selector);
        let owned = self.sets.controlled_by(deployment.uid());
        let orphans = self.orphans.of(deployment.namespace(), &self.sets);
        let all = claim(&self.api, deployment, &selector, owned.into_iter().chain(orphans))?;
        let new = history::find_new(deployment, &all).cloned();
        let mut sets = ReplicaSets { all, new };
        if is_terminating(&deployment.metadata) {
            return self.update_status(deployment, &sets, &RolloutStatus::default(), StatusScope::Counts);
        }
        if self.roll_back(deployment, &sets.all)? {
            return Ok(());
        }
        let rollout = self.refresh_new(deployment, &mut sets)?;
        let paused = deployment.spec.paused == Some(true);
        let view = sets.view(deployment);
        if paused || scaling::is_scaling_event(&view) {
            for resize in scaling::next_step(&view) {
                self.resize(deployment, &sets, &resize)?;
            }
            if paused {
                self.clean_up(deployment, &sets)?;
            }
            return self.update_status(deployment, &sets, &rollout, StatusScope::Counts);
        }
        match view.budget.strategy {
            Strategy::RollingUpdate => self.roll(deployment, &sets, &view, &rollout),
            Strategy::Recreate => self.recreate(deployment, &sets, &view, &rollout),
        }
    }

    fn roll(
        &self,
        deployment: &SharedObject<Deployment>,
        sets: &ReplicaSets,
        view: &View,
        rollout: &RolloutStatus,
    ) -> Result<(), ApiError> {
        if sets.new.is_none() {
            return self.create_new(deployment, sets, in_api(rolling::new_size(view, 0)));
        }
        let step = rolling::next_step(view);
        for resize in &step {
            self.resize(deployment, sets, resize)?;
        }
        if step.is_empty() {
            self.clean_up_when_complete(deployment, sets)?;
        }
        self.update_status(deployment, sets, rollout, StatusScope::Rollout)
    }

    fn recreate(
        &self,
        deployment: &SharedObject<Deployment>,
        sets: &ReplicaSets,
        view: &View,
        rollout: &RolloutStatus,
    ) -> Result<(), ApiError> {
        let old_pods_running = sets.old().any(|set| {
            self.pods.controlled_by(set.uid()).iter().any(|pod: &SharedObject<Pod>| !is_terminal(pod))
        });
        match (recreate::next_step(view, old_pods_running), view.new_member()) {
            (recreate::Action::ScaleDown(down), _) => {
                for resize in &down {
                    self.resize(deployment, sets, resize)?;
                }
            }
            (recreate::Action::Wait, _) => {}
            (recreate::Action::ScaleUp, None) => {
                return self.create_new(deployment, sets, in_api(view.budget.replicas));
            }
            (recreate::Action::ScaleUp, Some(new)) => {
                self.resize(deployment, sets, &Resize::new(new, view.budget.replicas))?;
                self.clean_up_when_complete(deployment, sets)?;
            }
        }
        self.update_status(deployment, sets, rollout, StatusScope::Rollout)
    }

    /// Warns about a selector that matches every pod of the namespace.
    fn refuse_everything(&self, deployment: &SharedObject<Deployment>) -> Result<(), ApiError> {
        self.recorder.warning(
            deployment.object(),
            "SelectingAll",
            "This deployment is selecting all pods. A non-empty selector is required.",
        );
        self.write_status(deployment, |fresh, _| {
            fresh.status.get_or_insert_default().observed_generation = deployment.metadata.generation;
        })
        .map(drop)
    }

    /// Updates the new ReplicaSet; returns its part of the status.
    fn refresh_new(
        &self,
        deployment: &SharedObject<Deployment>,
        sets: &mut ReplicaSets,
    ) -> Result<RolloutStatus, ApiError> {
        self.refresh(deployment, sets)?;
        let Some(new) = &sets.new else { return Ok(RolloutStatus::default()) };
        let now = self.api.clock().now();
        let unknown = deployment
            .status
            .as_ref()
            .is_none_or(|status| progress::condition(status, progress::PROGRESSING).is_none());
        let found = format!("Found new replica set \"{}\"", new.name());
        Ok(RolloutStatus {
            revision: Some(annotations::revision(&new.metadata)),
            condition: (unknown && progress::deadline(deployment).is_some()).then(|| {
                new_condition(progress::PROGRESSING, ConditionStatus::True, reason::FOUND, found, now)
            }),
        })
    }

    /// Creates the ReplicaSet for the Deployment's template.
    fn create_new(
        &self,
        deployment: &SharedObject<Deployment>,
        sets: &ReplicaSets,
        replicas: i32,
    ) -> Result<(), ApiError> {
        let collisions = deployment.status.as_ref().and_then(|s| s.collision_count);
        let hash = hash::template_hash(&deployment.spec.template, collisions);
        let revision = history::next_revision(sets.all.iter());
        let set = new_replica_set(deployment, &hash, replicas, revision);
        let key = Key::of(&set.metadata);
        let now = self.api.clock().now();
        match self.api.create_as(set) {
            Ok(created) => {
                self.updates.expect(deployment.uid(), &created);
                if replicas > 0 {
                    let message = format!("Scaled up replica set {} from 0 to {replicas}", created.name());
                    self.recorder.normal(deployment.object(), "ScalingReplicaSet", message);
                }
                let message = format!("Created new replica set \"{}\"", created.name());
                let condition = progress::deadline(deployment).map(|_| {
                    new_condition(progress::PROGRESSING, ConditionStatus::True, reason::CREATED, message, now)
                });
                let sets = ReplicaSets {
                    all: sets.all.iter().cloned().chain([created.clone()]).collect(),
                    new: Some(created),
                };
                let rollout = RolloutStatus { revision: Some(revision), condition };
                self.update_status(deployment, &sets, &rollout, StatusScope::Rollout)
            }
            Err(error) if error.is_already_exists() => self.resolve_collision(deployment, &key),
            // In a terminating namespace nothing can be created, and nothing needs to be.
            Err(error) if error.is_namespace_terminating() => Ok(()),
            Err(error) => {
                let message = format!("Failed to create new replica set \"{}\": {error}", key.name);
                self.recorder.warning(deployment.object(), reason::CREATE_FAILED, message.as_str());
                if progress::deadline(deployment).is_some() {
                    self.write_status(deployment, |fresh, now| {
                        let condition = new_condition(
                            progress::PROGRESSING,
                            ConditionStatus::False,
                            reason::CREATE_FAILED,
                            message.as_str(),
                            now,
                        );
                        progress::set_condition(fresh.status.get_or_insert_default(), condition);
                    })?;
                }
                Err(error)
            }
        }
    }

    /// Handles the case that the new ReplicaSet's name is taken: either the ReplicaSet exists already and the cache
    /// does not show it yet, or another template has the same hash.
    fn resolve_collision(&self, deployment: &SharedObject<Deployment>, key: &Key) -> Result<(), ApiError> {
        let there = self.api.get_as::<ReplicaSet>(key)?;
        let same =
            there.spec.template.as_ref().is_some_and(|t| hash::same_template(t, &deployment.spec.template));
        if same && is_controlled_by(&there.metadata, deployment.uid()) {
            self.updates.expect(deployment.uid(), &there);
            self.queue.add(deployment.key());
            return Ok(());
        }
        let before = deployment.status.as_ref().and_then(|s| s.collision_count);
        // The change of the status causes another sync.
        self.write_status(deployment, |fresh, _| {
            let status = fresh.status.get_or_insert_default();
            if status.collision_count == before {
                status.collision_count = Some(before.unwrap_or(0).saturating_add(1));
            }
        })
        .map(drop)
    }

    fn clean_up_when_complete(
        &self,
        deployment: &SharedObject<Deployment>,
        sets: &ReplicaSets,
    ) -> Result<(), ApiError> {
        match &deployment.status {
            Some(status) if progress::is_complete(deployment, status) => self.clean_up(deployment, sets),
            _ => Ok(()),
        }
    }

    /// Writes the status if it has changed, and requeues the Deployment for the end of the rollout's deadline.
    fn update_status(
        &self,
        deployment: &SharedObject<Deployment>,
        sets: &ReplicaSets,
        rollout: &RolloutStatus,
        scope: StatusScope,
    ) -> Result<(), ApiError> {
        let (mut check_after, mut held) = (None, None);
        let written = self.write_status(deployment, |fresh, now| {
            let there = fresh.status.clone();
            if let Some(revision) = rollout.revision {
                let of_deployment = fresh.metadata.annotations.get_or_insert_default();
                of_deployment.insert(annotations::REVISION.into(), revision.to_string());
            }
            let mut before = fresh.status.take().unwrap_or_default();
            if !is_terminating(&fresh.metadata) {
                progress::note_pause(deployment, &mut before, now);
            }
            if let Some(condition) = rollout.condition.clone() {
                progress::set_condition(&mut before, condition);
            }
            let after = next_status(scope, deployment, &before, sets, now);
            check_after = match scope {
                StatusScope::Rollout => progress::check_after(deployment, &after, now),
                StatusScope::Counts => None,
            };
            let is_there = there.as_ref() == Some(&after);
            held = self.last_writes.hold(deployment.uid(), Revision::of(&fresh.metadata), is_there, &after);
            fresh.status = if held.is_some() { there } else { Some(after) };
        })?;
        if let Some(written) = written.filter(|_| held.is_none()) {
            self.last_writes.record_write(deployment.uid(), written);
        }
        if let Some(delay) = held.or(check_after) {
            self.queue.add_after(deployment.key(), delay);
        }
        Ok(())
    }

    /// Changes status and annotations of this Deployment; fails with a conflict if its generation has changed since it
    /// was read, or another Deployment has its name. Returns the resulting version; `None` if it no longer exists.
    fn write_status(
        &self,
        deployment: &SharedObject<Deployment>,
        mut edit: impl FnMut(&mut Deployment, Timestamp),
    ) -> Result<Option<Revision>, ApiError> {
        let now = self.api.clock().now();
        let written = self.api.modify_status::<Deployment>(&deployment.key(), |fresh| {
            let same = fresh.metadata.uid.as_deref() == Some(deployment.uid())
                && fresh.metadata.generation == deployment.metadata.generation;
            if !same {
                return Err(ApiError::modified(Kind::Deployment, deployment.name()));
            }
            edit(fresh, now);
            Ok(())
        });
        Ok(optional(written)?.map(|deployment| deployment.object().revision()))
    }
}

fn next_status(
    scope: StatusScope,
    deployment: &Deployment,
    before: &DeploymentStatus,
    sets: &ReplicaSets,
    now: Timestamp,
) -> DeploymentStatus {
    let update_status = match scope {
        StatusScope::Rollout => progress::rolled_out,
        StatusScope::Counts => progress::counted,
    };
    update_status(deployment, before, &sets.all, sets.new.as_ref(), now)
}
