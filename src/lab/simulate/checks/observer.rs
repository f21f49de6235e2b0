//! A watcher of all kinds that matter: it receives durable changes, in the order of all writes, and runs the checkers
//! on each.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Node, Pod};
use rand::RngExt;

use super::{Checks, identity};
use crate::simulate::plan::{NAMESPACES, QUOTA_PODS};
use crate::simulate::world::{ControlPlane, World, node_name};
use api::{Change, ChangeKind, Snapshot, Visibility, Watcher};
use base::random;
use extension::node_fence::FENCED_TAINT;
use object::job::finished;
use object::owner::{controller_of, is_controlled_by};
use object::pod::is_terminal;
use object::well_known::taint::OUT_OF_SERVICE;
use object::{Kind, Object, Revision};

const WATCHED: [Kind; 13] = [
    Kind::Namespace,
    Kind::Node,
    Kind::Deployment,
    Kind::ReplicaSet,
    Kind::StatefulSet,
    Kind::Job,
    Kind::PodDisruptionBudget,
    Kind::ConfigMap,
    Kind::Pod,
    Kind::DaemonSet,
    Kind::CronJob,
    Kind::Service,
    Kind::EndpointSlice,
];
/// The interval after which the watcher connects to a control plane again.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(100);
/// In about one round in this many, a watch is resumed from a bookmark, and in as many a watch only receives a
/// bookmark.
const SELDOM: u32 = 20;

/// Watches for ever, each control plane in turn.
pub(crate) async fn observe(world: Arc<World>, checks: Arc<Checks>) {
    let mut changes = world.changes();
    let mut former: Option<ResumePoints> = None;
    let mut last_plane: Option<Arc<ControlPlane>> = None;
    loop {
        changes.borrow_and_update();
        if let Some(plane) = world.plane() {
            let newest = checks.history.newest();
            let is_new = !last_plane.as_ref().is_some_and(|met| Arc::ptr_eq(met, &plane));
            last_plane = Some(plane.clone());
            if is_new && plane.start_revision < newest {
                let message = format!(
                    "a control plane starts at revision {}, after {newest} was delivered",
                    plane.start_revision
                );
                world.trace.violation("durability", message);
            }
            tokio::select! {
                biased;
                _ = changes.changed() => {}
                () = follow(&world, &checks, &plane, &mut former) => {}
            }
        }
        tokio::time::sleep(RECONNECT_INTERVAL).await;
    }
}

/// The revision of each kind from which a client would resume its watch.
type ResumePoints = Vec<(Kind, Revision)>;

async fn follow(world: &World, checks: &Checks, plane: &ControlPlane, former: &mut Option<ResumePoints>) {
    // There is no await between the lists, so all kinds are listed at one revision.
    let revision = plane.api.revision();
    let (mut watchers, mut lists) = (Vec::<(Kind, Watcher)>::new(), Vec::<(Kind, Snapshot)>::new());
    let resumed = former.take();
    for kind in WATCHED {
        let at = resumed.iter().flatten().find(|(of, _)| *of == kind).map(|(_, at)| *at);
        // A revision that is newer than the store was lost with the control plane that reported it: then list instead
        // of resuming.
        let known = at.filter(|at| *at <= revision);
        if let Some(at) = known.filter(|at| plane.api.watch(kind, *at, Visibility::Durable).take().is_ok()) {
            watchers.push((kind, plane.api.watch(kind, at, Visibility::Durable)));
        } else {
            lists.push((kind, plane.api.list(kind, None)));
            watchers.push((kind, plane.api.watch(kind, revision, Visibility::Durable)));
        }
    }
    if plane.api.durable(revision).await.is_err() {
        return;
    }
    for (kind, list) in &lists {
        if *kind == Kind::Pod {
            checks.selections.record_gap(checks.history.last_delivered(Kind::Pod), list.revision);
        }
        for wrong in checks.history.listed(*kind, list) {
            world.trace.violation("watch guarantees", wrong);
        }
    }
    for object in lists.iter().flat_map(|(_, list)| &list.objects) {
        checks.rollouts.changed(object, &checks.history);
    }
    let mut newest = checks.history.newest();
    loop {
        // An error means that the control plane has ended.
        if plane.api.durable(newest.next()).await.is_err() {
            *former = Some(watchers.iter().map(|(kind, _)| (*kind, checks.history.newest())).collect());
            return;
        }
        let mut all: Vec<Change> = Vec::new();
        for (_, watcher) in &mut watchers {
            match take_all(watcher) {
                Some(changes) => all.extend(changes),
                // The history since the watch's revision no longer exists: list again.
                None => return,
            }
        }
        all.sort_by_key(|change| change.revision);
        for change in &all {
            newest = newest.max(change.revision);
            look(world, checks, change);
        }
        newest = newest.max(durable_now(plane, newest));
        // Bookmarks and new connections come rarely and at random, so that simulations differ; neither may change what
        // the watcher knows.
        for (kind, watcher) in &mut watchers {
            match random::rng().random_range(0..SELDOM * 9) {
                0 => {
                    if let Some(bookmark) = watcher.bookmark() {
                        checks.history.bookmarked(*kind, bookmark);
                        *watcher = plane.api.watch(*kind, bookmark, Visibility::Durable);
                    }
                }
                1 => {
                    if let Some(bookmark) = watcher.bookmark() {
                        checks.history.bookmarked(*kind, bookmark);
                    }
                }
                _ => {}
            }
        }
        // The writes of a few milliseconds are processed together, instead of waking for each.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Returns the newest durable revision: writes of kinds that are not watched advance it, too.
fn durable_now(plane: &ControlPlane, newest: Revision) -> Revision {
    let mut watcher = plane.api.watch(Kind::Event, newest, Visibility::Durable);
    let taken = take_all(&mut watcher).unwrap_or_default();
    taken.last().map_or(newest, |change| change.revision)
}

/// Returns every change that is due; `None` if the watch's history no longer exists.
fn take_all(watcher: &mut Watcher) -> Option<Vec<Change>> {
    let mut all = Vec::new();
    loop {
        let changes = watcher.take().ok()?;
        if changes.is_empty() {
            return Some(all);
        }
        all.extend(changes);
    }
}

fn look(world: &World, checks: &Checks, change: &Change) {
    let object = &change.object;
    let (kind, key) = (object.kind(), object.key());
    world.trace.record(format!("{} {:?} {} {key}", change.revision, change.kind, kind.info().name));
    if let Some(wrong) = checks.history.changed(change) {
        world.trace.violation("watch guarantees", wrong);
    }
    if kind == Kind::Deployment && change.kind == ChangeKind::Deleted {
        checks.rollouts.deleted(&key);
        return;
    }
    for wrong in checks.rollouts.changed(object, &checks.history) {
        world.trace.violation("rollout bounds", wrong);
    }
    if kind == Kind::Node {
        fenced(world, change);
    }
    if kind == Kind::Job && change.kind == ChangeKind::Added {
        only_one(world, checks, object);
    }
    if kind == Kind::Pod {
        checks.selections.changed(change);
        match change.kind {
            ChangeKind::Added => quota(world, checks),
            ChangeKind::Deleted => completed(world, object),
            ChangeKind::Modified => {}
        }
        identity::look(world);
    }
}

/// Checks quotas (POL-1): the existing pods fit into the quota.
fn quota(world: &World, checks: &Checks) {
    let counts = |object: &Arc<Object>| {
        object.namespace() == NAMESPACES[1]
            && object.meta().deletion_timestamp.is_none()
            && object.get::<Pod>().is_some_and(|pod| !is_terminal(pod))
    };
    let pods = checks.history.objects(Kind::Pod).iter().filter(|pod| counts(pod)).count();
    if pods > QUOTA_PODS {
        world.trace.violation("quotas", format!("{pods} pods, but the quota allows {QUOTA_PODS}"));
    }
}

/// Checks CronJobs (CJ-1): one with `concurrencyPolicy: Forbid` never has a second unfinished Job.
fn only_one(world: &World, checks: &Checks, job: &Arc<Object>) {
    let Some(owner) = controller_of(job.meta()).filter(|owner| owner.kind == "CronJob") else { return };
    let cron_jobs = checks.history.objects(Kind::CronJob);
    let forbids = cron_jobs.iter().filter(|cron_job| cron_job.uid() == owner.uid).any(|cron_job| {
        let policy =
            cron_job.get::<CronJob>().and_then(|cron_job| cron_job.spec.concurrency_policy.as_deref());
        policy == Some("Forbid")
    });
    let at_work = |other: &&Arc<Object>| {
        let is_over = other.get::<Job>().is_some_and(|job| finished(job).is_some());
        other.uid() != job.uid() && is_controlled_by(other.meta(), &owner.uid) && !is_over
    };
    let jobs = checks.history.objects(Kind::Job);
    if let Some(other) = jobs.iter().find(at_work).filter(|_| forbids) {
        let message = format!("Job {} is created while Job {} is active", job.key(), other.key());
        world.trace.violation("one Job at a time", message);
    }
}

/// Checks fencing (SAFE-5): a node is marked out of service only after all its processes are dead.
fn fenced(world: &World, change: &Change) {
    let is_out = |object: &Arc<Object>| {
        let taints = object.get::<Node>().and_then(|node| node.spec.as_ref()?.taints.as_ref());
        taints
            .into_iter()
            .flatten()
            .any(|taint| taint.key == OUT_OF_SERVICE && taint.value.as_deref() == Some(FENCED_TAINT))
    };
    if !is_out(&change.object) || change.previous.as_ref().is_some_and(is_out) {
        return;
    }
    let name = change.object.key().name;
    for (node, (_, pod, _)) in world.running() {
        if node_name(node) == *name {
            world.trace.violation("fencing", format!("{name} is reported as fenced while {pod} runs there"));
        }
    }
}

/// Checks removals of pods (SAFE-1): a pod's object is removed only after its processes have ended.
fn completed(world: &World, object: &Arc<Object>) {
    for (node, (_, name, uid)) in world.running() {
        if uid == object.uid() {
            let message = format!("{name} was removed while it runs on {}", node_name(node));
            world.trace.violation("deletion rights", message);
        }
    }
}
