//! Deployments: maintain a number of equal pods, and replace them gradually when the template changes.
//!
//! [`view`] is the input of the decisions; [`rolling`], [`recreate`] and [`scaling`] decide sizes, [`history`]
//! revisions, [`progress`] conditions; [`sync`] executes them on [`replica_sets`].

mod annotations;
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
mod view;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;

use super::context::Context;
use super::controller_ref::{Orphans, owners_concerned};
use api::Api;
use api::{Change, ChangeKind};
use object::pod::is_terminal;
use object::selector::Selector;
use object::{Key, Kind};
use reconcile::{
    Cache, LastWrites, ReconcileError, Reconciler, Recorder, UpdateExpectations, WorkQueue, controller_key,
    optional,
};

pub(super) fn start(context: &Context) {
    context
        .controller(|queue| DeploymentController {
            api: context.api.clone(),
            deployments: context.caches.of(),
            sets: context.caches.of(),
            pods: context.caches.of(),
            orphans: Orphans::default(),
            updates: UpdateExpectations::default(),
            last_writes: LastWrites::default(),
            recorder: Recorder::new(&context.api, "deployment-controller"),
            queue,
        })
        .for_::<Deployment>()
        .watches::<ReplicaSet, _>(DeploymentController::set_changed)
        .watches::<Pod, _>(DeploymentController::pod_changed)
        .workers(5)
        .run(&context.tasks);
}

struct DeploymentController {
    api: Api,
    deployments: Cache<Deployment>,
    sets: Cache<ReplicaSet>,
    pods: Cache<Pod>,
    /// ReplicaSets without a controller.
    orphans: Orphans,
    /// ReplicaSets this controller wrote.
    updates: UpdateExpectations,
    last_writes: LastWrites<DeploymentStatus>,
    recorder: Recorder,
    queue: WorkQueue<Key>,
}

impl Reconciler for DeploymentController {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        // Read from the store: a size decided for an outdated cached spec would be written after the newer spec.
        let Some(deployment) = optional(self.api.get_as::<Deployment>(key))? else { return Ok(()) };
        // The ReplicaSets' change events cause another sync once the cache has caught up.
        if !self.updates.satisfied(deployment.uid(), &self.sets, &self.api) {
            return Ok(());
        }
        Ok(self.sync(&deployment)?)
    }

    fn forget(&self, uid: &str) {
        self.updates.forget(uid);
        self.last_writes.forget(uid);
    }
}

impl DeploymentController {
    fn set_changed(&self, change: &Change) -> Vec<Key> {
        self.orphans.observe(change);
        owners_concerned(change, &self.deployments, |d| Selector::from_field(&d.spec.selector))
    }

    /// A Deployment that recreates its pods waits until the last old one has ended.
    fn pod_changed(&self, change: &Change) -> Option<Key> {
        let ended = change.kind == ChangeKind::Deleted || change.object.get::<Pod>().is_some_and(is_terminal);
        if !ended {
            return None;
        }
        let set = self.sets.get(&controller_key(&change.object, Kind::ReplicaSet)?)?;
        let owner = controller_key(set.object(), Kind::Deployment)?;
        let recreates =
            |d: &Deployment| d.spec.strategy.as_ref().and_then(|s| s.type_.as_deref()) == Some("Recreate");
        self.deployments.get(&owner).is_some_and(|d| recreates(&d)).then_some(owner)
    }
}
