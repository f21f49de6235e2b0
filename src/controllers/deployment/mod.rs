//! Deployments: changing the version of a number of equal pods gradually.
//!
//! [`fleet`] is what the decisions see; [`rolling`], [`recreate`] and [`scaling`] decide sizes, [`history`]
//! revisions, [`progress`] conditions; [`sync`] carries it out on [`replica_sets`].

mod annotations;
mod fleet;
mod hash;
mod history;
mod progress;
mod recreate;
mod replica_sets;
mod rollback;
mod rolling;
mod scaling;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;

use super::claim::Orphans;
use super::context::Context;
use super::seen::Written;
use crate::api::Api;
use crate::api::{Change, ChangeKind};
use crate::object::owner::controller_of;
use crate::object::pod::is_terminal;
use crate::object::selector::Selector;
use crate::object::{Key, Object};
use crate::reconcile::{Cache, ReconcileError, Reconciler, Recorder, WorkQueue, found};

/// Starts the controller.
pub(super) fn start(context: &Context) {
    let queue = context.queue();
    let controller = Arc::new(DeploymentController {
        api: context.api.clone(),
        deployments: context.caches.of(),
        sets: context.caches.of(),
        pods: context.caches.of(),
        orphans: Orphans::default(),
        written: Written::default(),
        recorder: Recorder::new(&context.api, "deployment-controller"),
        queue: queue.clone(),
    });
    let caches = vec![
        context.follow::<Deployment, _>(&controller, DeploymentController::deployment_changed),
        context.follow::<ReplicaSet, _>(&controller, DeploymentController::set_changed),
        context.follow::<Pod, _>(&controller, DeploymentController::pod_changed),
    ];
    context.run(controller, queue, caches);
}

struct DeploymentController {
    api: Api,
    deployments: Cache<Deployment>,
    sets: Cache<ReplicaSet>,
    pods: Cache<Pod>,
    /// ReplicaSets without a controller.
    orphans: Orphans,
    /// ReplicaSets this controller wrote.
    written: Written,
    recorder: Recorder,
    queue: WorkQueue<Key>,
}

impl Reconciler for DeploymentController {
    type Key = Key;

    fn name(&self) -> &'static str {
        "deployment"
    }

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        // From the store: a size decided for an older spec would be carried out after the newer one.
        let Some(deployment) = found(self.api.get_as::<Deployment>(key))? else { return Ok(()) };
        // The ReplicaSets' change events come back here once the cache has caught up.
        if !self.written.is_seen(deployment.uid(), &self.sets, &self.api) {
            return Ok(());
        }
        Ok(self.sync(&deployment)?)
    }
}

impl DeploymentController {
    fn deployment_changed(&self, change: &Change) {
        if change.kind == ChangeKind::Deleted {
            self.written.forget(change.object.uid());
        }
        self.queue.add(change.object.key());
    }

    fn set_changed(&self, change: &Change) {
        self.orphans.observe(change);
        let set = &change.object;
        let before = change.previous.as_ref().and_then(|p| owner_key(p));
        for owner in owner_key(set).into_iter().chain(before) {
            self.queue.add(owner);
        }
        if controller_of(set.meta()).is_none() && change.kind != ChangeKind::Deleted {
            for deployment in self.deployments.in_namespace(set.namespace()) {
                if Selector::from_field(&deployment.spec.selector).matches(set.meta().labels.as_ref()) {
                    self.queue.add(deployment.key());
                }
            }
        }
    }

    /// A Deployment that recreates its pods waits for the last old one to end.
    fn pod_changed(&self, change: &Change) {
        let ended = change.kind == ChangeKind::Deleted || change.object.get::<Pod>().is_some_and(is_terminal);
        if !ended {
            return;
        }
        let pod = &change.object;
        let Some(set) = controller_of(pod.meta()).filter(|r| r.kind == "ReplicaSet") else { return };
        let set = self.sets.get(&Key::new(pod.namespace(), set.name.as_str()));
        let Some(owner) = set.and_then(|set| owner_key(set.object())) else { return };
        let recreates =
            |d: &Deployment| d.spec.strategy.as_ref().and_then(|s| s.type_.as_deref()) == Some("Recreate");
        if self.deployments.get(&owner).is_some_and(|d| recreates(&d)) {
            self.queue.add(owner);
        }
    }
}

/// The Deployment that controls a ReplicaSet.
fn owner_key(set: &Object) -> Option<Key> {
    let owner = controller_of(set.meta()).filter(|r| r.kind == "Deployment")?;
    Some(Key::new(set.namespace(), owner.name.as_str()))
}
