//! A Deployment's ReplicaSets: builds, updates, resizes and deletes them.
//!
//! Never decides a size, and never writes the Deployment.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use super::view::{Budget, ReplicaSetView, Resize, View, in_api};
use super::{DeploymentController, annotations, history};
use api::ApiError;
use object::owner::controller_reference;
use object::selector::Labels;
use object::well_known::label::POD_TEMPLATE_HASH;
use object::{Key, Kind, SharedObject};
use reconcile::preconditions;

/// A Deployment's ReplicaSets: the one with its template, if it exists, and the others.
pub(super) struct ReplicaSets {
    pub(super) all: Vec<SharedObject<ReplicaSet>>,
    pub(super) new: Option<SharedObject<ReplicaSet>>,
}

impl ReplicaSets {
    /// Returns all but the new one.
    pub(super) fn old(&self) -> impl Iterator<Item = &SharedObject<ReplicaSet>> {
        let new = self.new.as_ref().map(|n| n.uid().to_string());
        self.all.iter().filter(move |set| Some(set.uid()) != new.as_deref())
    }

    /// Returns the numbers for the decisions.
    pub(super) fn view(&self, deployment: &Deployment) -> View {
        let new = self.new.as_ref().map(SharedObject::uid);
        View {
            budget: Budget::of(deployment),
            members: self.all.iter().map(|set| ReplicaSetView::of(set, Some(set.uid()) == new)).collect(),
            status_replicas: deployment.status.as_ref().and_then(|s| s.replicas).map_or(0, i64::from),
        }
    }
}

impl DeploymentController {
    /// Updates annotations and `minReadySeconds` of the new ReplicaSet.
    pub(super) fn refresh(
        &self,
        deployment: &SharedObject<Deployment>,
        sets: &mut ReplicaSets,
    ) -> Result<(), ApiError> {
        let Some(new) = sets.new.clone() else { return Ok(()) };
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
        sets.new = Some(refreshed);
        Ok(())
    }

    /// Resizes a ReplicaSet, if it still has the size on which the decision was based.
    pub(super) fn resize(
        &self,
        deployment: &SharedObject<Deployment>,
        sets: &ReplicaSets,
        resize: &Resize,
    ) -> Result<(), ApiError> {
        let Some(set) = sets.all.iter().find(|set| set.name() == resize.name) else { return Ok(()) };
        let budget = Budget::of(deployment);
        let resized = self.api.modify::<ReplicaSet>(&set.key(), |fresh| {
            expect_same(fresh, set)?;
            fresh.spec.replicas = Some(in_api(resize.to));
            let of_set = fresh.metadata.annotations.get_or_insert_default();
            annotations::set_sizes(of_set, in_api(budget.replicas), in_api(budget.max_replicas()));
            Ok(())
        })?;
        self.note_written(deployment, set, &resized);
        let (from, to) = (resize.from, i64::from(in_api(resize.to)));
        if from != to {
            let direction = if to > from { "up" } else { "down" };
            let message = format!("Scaled {direction} replica set {} from {from} to {to}", set.name());
            self.recorder.normal(deployment.object(), "ScalingReplicaSet", message);
        }
        Ok(())
    }

    fn note_written(
        &self,
        deployment: &SharedObject<Deployment>,
        before: &SharedObject<ReplicaSet>,
        after: &SharedObject<ReplicaSet>,
    ) {
        if before.object().revision() != after.object().revision() {
            self.updates.expect(deployment.uid(), after);
        }
    }

    /// Deletes old ReplicaSets beyond the history limit.
    pub(super) fn clean_up(
        &self,
        deployment: &SharedObject<Deployment>,
        sets: &ReplicaSets,
    ) -> Result<(), ApiError> {
        for set in history::to_clean_up(deployment.spec.revision_history_limit, sets.old()) {
            // If it has changed since, the event causes another sync.
            preconditions::delete_unchanged(&self.api, set)?;
        }
        Ok(())
    }
}

/// Refuses to change a ReplicaSet that differs from the one the decision was based on.
fn expect_same(fresh: &ReplicaSet, seen: &SharedObject<ReplicaSet>) -> Result<(), ApiError> {
    let same = fresh.metadata.uid.as_deref() == Some(seen.uid()) && fresh.spec.replicas == seen.spec.replicas;
    if same { Ok(()) } else { Err(ApiError::modified(Kind::ReplicaSet, seen.name())) }
}

/// Builds the ReplicaSet for a Deployment's template, which has this hash.
pub(super) fn new_replica_set(
    deployment: &SharedObject<Deployment>,
    hash: &str,
    replicas: i32,
    revision: i64,
) -> ReplicaSet {
    let with_hash = |labels: Option<&Labels>| {
        let mut labels = labels.cloned().unwrap_or_default();
        labels.insert(POD_TEMPLATE_HASH.to_string(), hash.to_string());
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
    annotations::set_sizes(&mut of_set, in_api(budget.replicas), in_api(budget.max_replicas()));
    ReplicaSet {
        metadata: ObjectMeta {
            labels,
            annotations: Some(of_set),
            owner_references: Some(vec![controller_reference(deployment.object())]),
            ..Key::new(deployment.namespace(), format!("{}-{hash}", deployment.name())).metadata()
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
