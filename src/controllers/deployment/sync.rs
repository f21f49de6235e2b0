//! Carrying out what was decided for one Deployment.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet, ReplicaSetSpec,
};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use super::fleet::{Budget, Fleet, Member, Resize, Strategy};
use super::progress::{self, new_condition, reason};
use super::{DeploymentController, annotations, hash, history, recreate, rolling, scaling};
use crate::api::{ApiError, DeleteOptions};
use crate::controllers::claim::claim;
use crate::object::owner::{controller_reference, is_controlled_by, is_terminating};
use crate::object::readiness::is_terminal;
use crate::object::selector::{Labels, Selector};
use crate::object::{Key, Kind, Shared};

/// A Deployment's ReplicaSets: the one with its template, if there is one, and the others.
pub(super) struct Sets {
    pub(super) all: Vec<Shared<ReplicaSet>>,
    pub(super) new: Option<Shared<ReplicaSet>>,
}

impl Sets {
    fn old(&self) -> impl Iterator<Item = &Shared<ReplicaSet>> {
        let new = self.new.as_ref().map(|n| n.uid().to_string());
        self.all.iter().filter(move |set| Some(set.uid()) != new.as_deref())
    }

    fn fleet(&self, deployment: &Deployment) -> Fleet {
        let new = self.new.as_ref().map(Shared::uid);
        Fleet {
            budget: Budget::of(deployment),
            members: self.all.iter().map(|set| Member::of(set, Some(set.uid()) == new)).collect(),
            status_replicas: deployment.status.as_ref().and_then(|s| s.replicas).unwrap_or(0),
        }
    }
}

/// What a turn has to tell besides the counts.
#[derive(Default)]
struct News {
    revision: Option<i64>,
    condition: Option<DeploymentCondition>,
}

/// How a turn's status is made of the stored one.
#[derive(Clone, Copy)]
enum Telling {
    /// The rollout goes on: with progress and failures.
    Rollout,
    /// It does not: counts alone.
    Counts,
}

impl DeploymentController {
    pub(super) fn sync(&self, deployment: &Shared<Deployment>) -> Result<(), ApiError> {
        if deployment.spec.selector == LabelSelector::default() {
            return self.refuse_everything(deployment);
        }
        let selector = Selector::from_field(&deployment.spec.selector);
        let owned = self.sets.controlled_by(deployment.uid());
        let orphans = self.orphans.of(deployment.namespace(), &self.sets);
        let all = claim(&self.api, deployment, &selector, owned.into_iter().chain(orphans))?;
        let new = history::find_new(deployment, &all).cloned();
        let mut sets = Sets { all, new };
        if is_terminating(&deployment.metadata) {
            return self.tell(deployment, &sets, &News::default(), Telling::Counts);
        }
        if self.roll_back(deployment, &sets.all)? {
            return Ok(());
        }
        let news = self.refresh_new(deployment, &mut sets)?;
        let paused = deployment.spec.paused == Some(true);
        let fleet = sets.fleet(deployment);
        if paused || scaling::is_scaling_event(&fleet) {
            for resize in scaling::next_step(&fleet) {
                self.resize(deployment, &sets, &resize)?;
            }
            if paused {
                self.clean_up(deployment, &sets)?;
            }
            return self.tell(deployment, &sets, &news, Telling::Counts);
        }
        match fleet.budget.strategy {
            Strategy::RollingUpdate => self.roll(deployment, &sets, &fleet, &news),
            Strategy::Recreate => self.recreate(deployment, &sets, &fleet, &news),
        }
    }

    fn roll(
        &self,
        deployment: &Shared<Deployment>,
        sets: &Sets,
        fleet: &Fleet,
        news: &News,
    ) -> Result<(), ApiError> {
        if sets.new.is_none() {
            return self.create_new(deployment, sets, rolling::new_size(fleet, 0));
        }
        let step = rolling::next_step(fleet);
        for resize in &step {
            self.resize(deployment, sets, resize)?;
        }
        if step.is_empty() {
            self.clean_up_when_complete(deployment, sets)?;
        }
        self.tell(deployment, sets, news, Telling::Rollout)
    }

    fn recreate(
        &self,
        deployment: &Shared<Deployment>,
        sets: &Sets,
        fleet: &Fleet,
        news: &News,
    ) -> Result<(), ApiError> {
        let old_pods_running = sets
            .old()
            .any(|set| self.pods.controlled_by(set.uid()).iter().any(|pod: &Shared<Pod>| !is_terminal(pod)));
        match (recreate::next_step(fleet, old_pods_running), fleet.new_member()) {
            (recreate::Step::ScaleDown(down), _) => {
                for resize in &down {
                    self.resize(deployment, sets, resize)?;
                }
            }
            (recreate::Step::Wait, _) => {}
            (recreate::Step::ScaleUp, None) => {
                return self.create_new(deployment, sets, fleet.budget.replicas);
            }
            (recreate::Step::ScaleUp, Some(new)) => {
                self.resize(deployment, sets, &Resize::new(new, fleet.budget.replicas))?;
                self.clean_up_when_complete(deployment, sets)?;
            }
        }
        self.tell(deployment, sets, news, Telling::Rollout)
    }

    /// A selector that matches everything would take every pod of the namespace.
    fn refuse_everything(&self, deployment: &Shared<Deployment>) -> Result<(), ApiError> {
        self.recorder.warning(
            deployment.object(),
            "SelectingAll",
            "This deployment is selecting all pods. A non-empty selector is required.",
        );
        self.write_status(deployment, |fresh, _| {
            fresh.status.get_or_insert_default().observed_generation = deployment.metadata.generation;
        })
    }

    /// Brings annotations and `minReadySeconds` of the new ReplicaSet up to date.
    fn refresh_new(&self, deployment: &Shared<Deployment>, sets: &mut Sets) -> Result<News, ApiError> {
        let Some(new) = sets.new.clone() else { return Ok(News::default()) };
        let revision = history::next_revision(sets.old());
        let refreshed = self.api.modify::<ReplicaSet>(&new.key(), |set| {
            expect_same(set, &new)?;
            let of_set = set.metadata.annotations.get_or_insert_default();
            annotations::sync(of_set, &deployment.metadata, revision);
            set.spec.min_ready_seconds = deployment.spec.min_ready_seconds;
            Ok(())
        })?;
        self.note_written(deployment, &new, &refreshed);
        if let Some(slot) = sets.all.iter_mut().find(|set| set.uid() == new.uid()) {
            *slot = refreshed.clone();
        }
        let now = self.api.clock().now();
        let unknown = deployment
            .status
            .as_ref()
            .is_none_or(|status| progress::condition(status, progress::PROGRESSING).is_none());
        let found = format!("Found new replica set \"{}\"", refreshed.name());
        let news = News {
            revision: Some(annotations::revision(&refreshed.metadata)),
            condition: (unknown && progress::deadline(deployment).is_some())
                .then(|| new_condition(progress::PROGRESSING, "True", reason::FOUND, found, now)),
        };
        sets.new = Some(refreshed);
        Ok(news)
    }

    /// Makes the ReplicaSet of the Deployment's template.
    fn create_new(
        &self,
        deployment: &Shared<Deployment>,
        sets: &Sets,
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
                self.written.note(deployment.uid(), &created);
                if replicas > 0 {
                    let message = format!("Scaled up replica set {} from 0 to {replicas}", created.name());
                    self.recorder.normal(deployment.object(), "ScalingReplicaSet", message);
                }
                let message = format!("Created new replica set \"{}\"", created.name());
                let condition = progress::deadline(deployment)
                    .map(|_| new_condition(progress::PROGRESSING, "True", reason::CREATED, message, now));
                let sets = Sets {
                    all: sets.all.iter().cloned().chain([created.clone()]).collect(),
                    new: Some(created),
                };
                let news = News { revision: Some(revision), condition };
                self.tell(deployment, &sets, &news, Telling::Rollout)
            }
            Err(error) if error.is_already_exists() => self.resolve_collision(deployment, &key),
            // Nothing can be made in a namespace that goes, and nothing needs to be.
            Err(error) if error.is_namespace_going() => Ok(()),
            Err(error) => {
                let message = format!("Failed to create new replica set \"{}\": {error}", key.name);
                self.recorder.warning(deployment.object(), reason::CREATE_FAILED, message.as_str());
                if progress::deadline(deployment).is_some() {
                    self.write_status(deployment, |fresh, now| {
                        let condition = new_condition(
                            progress::PROGRESSING,
                            "False",
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

    /// The name of the new ReplicaSet is taken: by itself, which the cache does not show yet, or by
    /// another template with the same hash.
    fn resolve_collision(&self, deployment: &Shared<Deployment>, key: &Key) -> Result<(), ApiError> {
        let there = self.api.get_as::<ReplicaSet>(key)?;
        let same =
            there.spec.template.as_ref().is_some_and(|t| hash::same_template(t, &deployment.spec.template));
        if same && is_controlled_by(&there.metadata, deployment.uid()) {
            self.written.note(deployment.uid(), &there);
            self.queue.add(deployment.key());
            return Ok(());
        }
        let before = deployment.status.as_ref().and_then(|s| s.collision_count);
        // The change of the status brings the Deployment back to the queue.
        self.write_status(deployment, |fresh, _| {
            let status = fresh.status.get_or_insert_default();
            if status.collision_count == before {
                status.collision_count = Some(before.unwrap_or(0) + 1);
            }
        })
    }

    /// Gives a ReplicaSet its size, if it still has the one the decision was based on.
    fn resize(&self, deployment: &Shared<Deployment>, sets: &Sets, resize: &Resize) -> Result<(), ApiError> {
        let Some(set) = sets.all.iter().find(|set| set.name() == resize.name) else { return Ok(()) };
        let budget = Budget::of(deployment);
        let resized = self.api.modify::<ReplicaSet>(&set.key(), |fresh| {
            expect_same(fresh, set)?;
            fresh.spec.replicas = Some(resize.to);
            let of_set = fresh.metadata.annotations.get_or_insert_default();
            annotations::set_sizes(of_set, budget.replicas, budget.max_replicas());
            Ok(())
        })?;
        self.note_written(deployment, set, &resized);
        let (from, to) = (resize.from, resize.to);
        if from != to {
            let direction = if to > from { "up" } else { "down" };
            let message = format!("Scaled {direction} replica set {} from {from} to {to}", set.name());
            self.recorder.normal(deployment.object(), "ScalingReplicaSet", message);
        }
        Ok(())
    }

    fn note_written(
        &self,
        deployment: &Shared<Deployment>,
        before: &Shared<ReplicaSet>,
        after: &Shared<ReplicaSet>,
    ) {
        if before.object().revision() != after.object().revision() {
            self.written.note(deployment.uid(), after);
        }
    }

    fn clean_up_when_complete(&self, deployment: &Shared<Deployment>, sets: &Sets) -> Result<(), ApiError> {
        match &deployment.status {
            Some(status) if progress::is_complete(deployment, status) => self.clean_up(deployment, sets),
            _ => Ok(()),
        }
    }

    /// Forgets old ReplicaSets beyond the history limit.
    fn clean_up(&self, deployment: &Shared<Deployment>, sets: &Sets) -> Result<(), ApiError> {
        for set in history::to_clean_up(deployment.spec.revision_history_limit, sets.old()) {
            let options = DeleteOptions {
                resource_version: Some(set.object().revision()),
                ..DeleteOptions::uid(set.uid())
            };
            match self.api.delete(Kind::ReplicaSet, &set.key(), &options) {
                // Changed since: it is looked at again when the cache shows the change.
                Err(error) if !error.is_not_found() && !error.is_conflict() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes the status, once and only when it changed, and comes back when the rollout's deadline ends.
    fn tell(
        &self,
        deployment: &Shared<Deployment>,
        sets: &Sets,
        news: &News,
        telling: Telling,
    ) -> Result<(), ApiError> {
        let mut check_after = None;
        self.write_status(deployment, |fresh, now| {
            if let Some(revision) = news.revision {
                let of_deployment = fresh.metadata.annotations.get_or_insert_default();
                of_deployment.insert(annotations::REVISION.into(), revision.to_string());
            }
            let mut before = fresh.status.take().unwrap_or_default();
            if !is_terminating(&fresh.metadata) {
                progress::note_pause(deployment, &mut before, now);
            }
            if let Some(condition) = news.condition.clone() {
                progress::set_condition(&mut before, condition);
            }
            let after = next_status(telling, deployment, &before, sets, now);
            check_after = match telling {
                Telling::Rollout => progress::check_after(deployment, &after, now),
                Telling::Counts => None,
            };
            fresh.status = Some(after);
        })?;
        if let Some(delay) = check_after {
            self.queue.add_after(deployment.key(), delay);
        }
        Ok(())
    }

    /// Changes the status (and annotations) of this very Deployment as it was read.
    fn write_status(
        &self,
        deployment: &Shared<Deployment>,
        mut edit: impl FnMut(&mut Deployment, Timestamp),
    ) -> Result<(), ApiError> {
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
        match written {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}

fn next_status(
    telling: Telling,
    deployment: &Deployment,
    before: &DeploymentStatus,
    sets: &Sets,
    now: Timestamp,
) -> DeploymentStatus {
    let tell = match telling {
        Telling::Rollout => progress::rolled_out,
        Telling::Counts => progress::counted,
    };
    tell(deployment, before, &sets.all, sets.new.as_ref(), now)
}

/// Refuses to change a ReplicaSet that is not as the decision saw it.
fn expect_same(fresh: &ReplicaSet, seen: &Shared<ReplicaSet>) -> Result<(), ApiError> {
    let same = fresh.metadata.uid.as_deref() == Some(seen.uid()) && fresh.spec.replicas == seen.spec.replicas;
    if same { Ok(()) } else { Err(ApiError::modified(Kind::ReplicaSet, seen.name())) }
}

fn new_replica_set(deployment: &Shared<Deployment>, hash: &str, replicas: i32, revision: i64) -> ReplicaSet {
    let with_hash = |labels: Option<&Labels>| {
        let mut labels = labels.cloned().unwrap_or_default();
        labels.insert(hash::HASH_LABEL.to_string(), hash.to_string());
        Some(labels)
    };
    let mut template = deployment.spec.template.clone();
    let meta = template.metadata.get_or_insert_default();
    meta.labels = with_hash(meta.labels.as_ref());
    let labels = meta.labels.clone();
    let selector = LabelSelector {
        match_labels: with_hash(deployment.spec.selector.match_labels.as_ref()),
        ..deployment.spec.selector.clone()
    };
    let budget = Budget::of(deployment);
    let mut of_set = std::collections::BTreeMap::new();
    annotations::sync(&mut of_set, &deployment.metadata, revision);
    annotations::set_sizes(&mut of_set, budget.replicas, budget.max_replicas());
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", deployment.name())),
            namespace: Some(deployment.namespace().to_string()),
            labels,
            annotations: Some(of_set),
            owner_references: Some(vec![controller_reference(deployment.object())]),
            ..ObjectMeta::default()
        },
        spec: ReplicaSetSpec {
            replicas: Some(replicas),
            min_ready_seconds: deployment.spec.min_ready_seconds,
            selector,
            template: Some(template),
        },
        status: None,
    }
}
