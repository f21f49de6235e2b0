//! Restores the whole cluster from a snapshot.
//!
//! Before any change, the snapshot is read completely, and another is taken of the current state. From then on the
//! phase of the ClusterRestore is [`RestorePhase::Ending`]: controllers and scheduler are stopped, pods are deleted,
//! and their nodes report their ends. The wait for a pod on an unresponsive node is limited; then the pod stays as it
//! is, and keeps its name. Then the claims' content is replaced, and the state is written, with the end of the restore
//! in the same write.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::{Api, ApiError, Change, Rewrite};
use base::random;
use extension::cluster_snapshot::{
    COMPLETE, ClusterRestore, ClusterRestoreStatus, ClusterSnapshot, ClusterSnapshotSpec, RestorePhase,
};
use ipnet::IpNet;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use object::conditions::{self, ConditionStatus};
use object::owner::is_terminating;
use object::pod::is_mirror;
use object::well_known::annotation::{PODIUM_BEFORE_RESTORE, PODIUM_FIRST_RESTORE};
use object::{Key, Kind, Object, SharedObject, TypedKind};
use reconcile::{ignore_not_found, preconditions};

use super::plan::{Plan, RestoreMapping, plan};
use super::{
    DISK, SavedState, SnapshotController, SnapshotFailure, SnapshotHooks, SnapshotMetadata, blocking,
    is_ready, set_condition,
};

/// The time that nodes get to report the ends of pods, beyond the grace periods.
const BEYOND_GRACE: Duration = Duration::from_secs(30);
/// The interval at which the ends of pods are checked.
const LOOK: Duration = Duration::from_millis(50);
/// The longest message of a condition in bytes, without the mark that the rest is missing; Kubernetes allows 32 KiB.
const MAX_MESSAGE: usize = 32 * 1024 - 4;
/// Timeout for the caches to show the restored state.
const CACHES: Duration = Duration::from_secs(30);

impl<H: SnapshotHooks> SnapshotController<H> {
    /// Executes or continues a restore; returns true if it cannot begin yet and must be retried.
    pub(super) async fn restore(&self, restore: &SharedObject<ClusterRestore>) -> bool {
        let mut again = false;
        match self.prepare(restore).await {
            Ok(archive) => {
                // An error ends a started restore, without a retry: a cluster whose controllers stay stopped is worse
                // than one in its old state.
                if let Err(trouble) = self.execute(restore, archive).await {
                    self.fail(restore, trouble);
                }
            }
            Err(SnapshotFailure::Later(message)) if restore.phase() == RestorePhase::Pending => {
                self.record_waiting(restore, &message);
                again = true;
            }
            Err(trouble) => self.fail(restore, trouble),
        }
        self.hooks.start_control_loops().await;
        again
    }

    /// Reads the snapshot, and takes a snapshot of the current state.
    async fn prepare(&self, restore: &SharedObject<ClusterRestore>) -> Result<SavedState, SnapshotFailure> {
        let name = restore.spec.snapshot.clone();
        let missing = || SnapshotFailure::Final("NoSuchSnapshot", format!("no ready snapshot {name:?}"));
        let snapshot = self.api.get_as::<ClusterSnapshot>(&Key::new("", name.as_str()));
        if !snapshot.is_ok_and(|snapshot| is_ready(&snapshot)) {
            return Err(missing());
        }
        let (hooks, of) = (self.hooks.clone(), name.clone());
        let archive = blocking(move || hooks.read(&of)).await??;
        let is_first =
            restore.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(PODIUM_FIRST_RESTORE));
        if restore.phase() == RestorePhase::Pending {
            let before = if is_first { None } else { Some(self.take_before(restore).await?) };
            let now = self.api.clock().now();
            self.write_restore(restore, |status| {
                status.phase = RestorePhase::Ending;
                status.started_at = Some(Time(now));
                status.before.clone_from(&before);
                let message = "waiting for all pods to stop";
                set_condition(
                    &mut status.conditions,
                    COMPLETE,
                    ConditionStatus::False,
                    ("PodsEnd", message),
                    now,
                );
            })?;
            let message = format!("Stopping all pods; then snapshot {name} is restored");
            self.recorder.normal(restore.object(), "RestoreStarted", message);
        }
        Ok(archive)
    }

    /// Takes a snapshot of the current state, so that a restore can be undone, and returns its name. A previous attempt
    /// may have created the object; a snapshot without the restore's uid may have another state, and stays as it is.
    async fn take_before(&self, restore: &SharedObject<ClusterRestore>) -> Result<String, SnapshotFailure> {
        let mut number = 1;
        loop {
            let suffix = if number == 1 { String::new() } else { format!("-{number}") };
            let name: String =
                format!("before-{}", restore.name()).chars().take(253 - suffix.len()).collect();
            let name = format!("{}{suffix}", name.trim_end_matches(['.', '-']));
            let annotation = (PODIUM_BEFORE_RESTORE.to_owned(), restore.uid().to_owned());
            let made = ClusterSnapshot {
                metadata: ObjectMeta {
                    annotations: Some([annotation].into()),
                    ..Key::new("", name.as_str()).metadata()
                },
                spec: ClusterSnapshotSpec { claims: restore.spec.claims, ..ClusterSnapshotSpec::default() },
                status: None,
            };
            if let Err(error) = self.api.create_as(made)
                && !error.is_already_exists()
            {
                return Err(error.into());
            }
            let snapshot = self.api.get_as::<ClusterSnapshot>(&Key::new("", name.as_str()))?;
            let annotations = snapshot.metadata.annotations.as_ref();
            let its_restore = annotations.and_then(|all| all.get(PODIUM_BEFORE_RESTORE));
            let is_of_restore = its_restore.is_some_and(|uid| uid == restore.uid());
            if is_of_restore && !is_terminating(&snapshot.metadata) {
                self.sync_snapshot(&snapshot).await?;
                return Ok(name);
            }
            number += 1;
        }
    }

    async fn execute(
        &self,
        restore: &SharedObject<ClusterRestore>,
        archive: SavedState,
    ) -> Result<(), SnapshotFailure> {
        self.hooks.stop_control_loops().await;
        self.end_pods(restore.spec.grace_period_seconds).await?;
        let mut notes = Vec::new();
        if restore.spec.claims == Some(true) {
            self.restore_claims(&restore.spec.snapshot, &archive.about, &mut notes).await?;
        }
        let taken_at = archive.about.taken_at;
        let changes = self.write_state(restore, archive, notes).await?;
        let message = format!("The cluster is as it was at {taken_at}; controllers continue");
        self.recorder.normal(restore.object(), "RestoreCompleted", message);
        self.wait_for_caches(&changes).await;
        Ok(())
    }

    /// Deletes every pod and waits until their nodes report their ends.
    async fn end_pods(&self, grace: Option<i64>) -> Result<(), SnapshotFailure> {
        let mut deadline: Option<Timestamp> = None;
        loop {
            let now = self.api.clock().steady();
            // Pods created during the wait end too.
            let changes = self.api.rewrite(ClusterRestore::kind(), |all| {
                let ends = all
                    .objects
                    .iter()
                    .filter(|object| object.get::<Pod>().is_some_and(|pod| !is_mirror(pod)));
                ends.filter_map(|pod| self.api.end_of(pod, grace)).collect()
            })?;
            let left = self.api.list_as::<Pod>(None);
            let left: Vec<_> = left.iter().filter(|pod| !is_mirror(pod)).collect();
            if left.is_empty() {
                return Ok(());
            }
            if deadline.is_none() || !changes.is_empty() {
                let grace = left.iter().filter_map(|pod| pod.metadata.deletion_grace_period_seconds).max();
                let grace = Duration::from_secs(grace.unwrap_or(0).unsigned_abs());
                deadline = Some(base::clock::saturating_after(now, grace.saturating_add(BEYOND_GRACE)));
            }
            if deadline.is_some_and(|until| until <= now) {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Restores the claims' content, except where a process may still use it.
    async fn restore_claims(
        &self,
        name: &str,
        about: &SnapshotMetadata,
        notes: &mut Vec<String>,
    ) -> Result<(), SnapshotFailure> {
        let used = self.wait_for_users(&about.claims).await?;
        let (hooks, name, claims) = (self.hooks.clone(), name.to_owned(), about.claims.clone());
        let in_use = used.clone();
        let restored = blocking(move || {
            let mut free = claims.iter().filter(|volume| !in_use.contains(*volume));
            free.try_for_each(|volume| hooks.restore_volume(&name, volume))
        });
        restored.await??;
        if !used.is_empty() {
            let names = used.into_iter().collect::<Vec<_>>().join(", ");
            notes.push(format!("volumes that were not restored, because pods still use them: {names}"));
        }
        Ok(())
    }

    /// Waits until no pod uses these volumes any more: a pod ends a moment before its mounts. Returns those still in
    /// use after the timeout.
    async fn wait_for_users(&self, volumes: &[String]) -> Result<BTreeSet<String>, SnapshotFailure> {
        let deadline = base::clock::saturating_after(self.api.clock().steady(), BEYOND_GRACE);
        let mut left: BTreeSet<String> = volumes.iter().cloned().collect();
        loop {
            let hooks = self.hooks.clone();
            let look = move || {
                left.retain(|volume| hooks.is_volume_used(volume));
                left
            };
            left = blocking(look).await?;
            if left.is_empty() || deadline <= self.api.clock().steady() {
                return Ok(left);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Replaces the current state by the snapshot's, and records that the restore is done.
    async fn write_state(
        &self,
        restore: &SharedObject<ClusterRestore>,
        archive: SavedState,
        notes: Vec<String>,
    ) -> Result<Vec<Change>, SnapshotFailure> {
        let (api, hooks, of) = (self.api.clone(), self.hooks.clone(), restore.clone());
        let changes = blocking(move || rewrite(&api, &*hooks, &of, archive, notes)).await??;
        let Some(changes) = changes else {
            return Err(SnapshotFailure::Final("Deleted", "the restore was deleted".to_owned()));
        };
        if let Some(last) = changes.last() {
            // The restored state should be durable before the controllers continue, because readers wait for the disk
            // too.
            let durable = tokio::time::timeout(DISK, self.api.durable(last.revision)).await;
            if !matches!(durable, Ok(Ok(()))) {
                tracing::warn!("the restored state is not on disk yet");
            }
        }
        Ok(changes)
    }

    /// Waits until the caches show the changes: controllers that start with the old state would create objects that
    /// already exist.
    async fn wait_for_caches(&self, changes: &[Change]) {
        let last_of_kinds: std::collections::HashMap<Kind, &Change> =
            changes.iter().map(|change| (change.object.kind(), change)).collect();
        let shown = async {
            while !last_of_kinds.values().all(|change| self.caches.shows(change)) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(CACHES, shown).await.is_err() {
            tracing::warn!("caches do not show the restored state yet");
        }
    }

    fn record_waiting(&self, restore: &SharedObject<ClusterRestore>, message: &str) {
        let now = self.api.clock().now();
        let is_reported = |status: &ClusterRestoreStatus| {
            conditions::get(status.conditions.as_ref(), COMPLETE).is_some_and(|one| one.message == message)
        };
        if restore.status.as_ref().is_some_and(is_reported) {
            return;
        }
        let written = self.write_restore(restore, |status| {
            set_condition(
                &mut status.conditions,
                COMPLETE,
                ConditionStatus::False,
                ("Waiting", message),
                now,
            );
        });
        if let Err(error) = written {
            tracing::warn!("cannot write the status of restore {}: {error}", restore.name());
        }
    }

    fn fail(&self, restore: &SharedObject<ClusterRestore>, failure: SnapshotFailure) {
        let (reason, message) = match failure {
            SnapshotFailure::Final(reason, message) => (reason, message),
            SnapshotFailure::Later(message) => ("RestoreFailed", message),
        };
        let message = message.as_str();
        let now = self.api.clock().now();
        self.recorder.warning(restore.object(), "RestoreFailed", message);
        let written = self.write_restore(restore, |status| {
            status.phase = RestorePhase::Failed;
            status.completed_at = Some(Time(now));
            set_condition(&mut status.conditions, COMPLETE, ConditionStatus::False, (reason, message), now);
        });
        if let Err(error) = written {
            tracing::warn!("cannot write the status of restore {}: {error}", restore.name());
        }
    }

    fn write_restore(
        &self,
        restore: &SharedObject<ClusterRestore>,
        change: impl Fn(&mut ClusterRestoreStatus),
    ) -> Result<(), ApiError> {
        ignore_not_found(preconditions::modify_status(&self.api, restore, |fresh| {
            change(fresh.status.get_or_insert_default());
        }))
    }
}

/// Writes the snapshot's state, all of it at once; none if the restore was deleted.
fn rewrite(
    api: &Api,
    hooks: &impl SnapshotHooks,
    restore: &SharedObject<ClusterRestore>,
    archive: SavedState,
    notes: Vec<String>,
) -> Result<Option<Vec<Change>>, ApiError> {
    let then = &archive.about;
    let ranges: Vec<(IpNet, IpNet)> = (then.services.iter())
        .filter_map(|then| {
            let is_v4 = |net: &IpNet| matches!(net, IpNet::V4(_));
            hooks.services().iter().find(|now| is_v4(now) == is_v4(then)).map(|now| (*then, *now))
        })
        .collect();
    let places =
        RestoreMapping { services: ranges, data_dir: (then.data_dir.clone(), hooks.data_dir().to_owned()) };
    let moment = api.clock().time();
    let mut is_there = false;
    let changes = api.rewrite(ClusterRestore::kind(), |now| {
        let current = now
            .objects
            .iter()
            .find(|object| object.kind() == ClusterRestore::kind() && object.uid() == restore.uid());
        let Some(current) = current else { return Vec::new() };
        is_there = true;
        let planned = plan(&now.objects, archive.objects, &places, &moment, random::uuid);
        let mut writes = Vec::with_capacity(planned.writes.len() + 1);
        let done = completed(current, &archive.about, &planned, notes, &moment);
        writes.extend(planned.writes);
        writes.extend(done.map(|object| Rewrite::Set(Box::new(object))));
        writes
    })?;
    Ok(is_there.then_some(changes))
}

fn names_of(pods: &[Key]) -> String {
    pods.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the restore with the status of a completed one.
fn completed(
    current: &Arc<Object>,
    about: &SnapshotMetadata,
    planned: &Plan,
    mut notes: Vec<String>,
    moment: &Time,
) -> Option<Object> {
    notes.insert(0, format!("the cluster is as it was at {}", about.taken_at));
    if !planned.skipped.is_empty() {
        let names = names_of(&planned.skipped);
        notes.push(format!("pods not restored, because pods with their names have not ended: {names}"));
    }
    if !planned.left_behind.is_empty() {
        let names = names_of(&planned.left_behind);
        notes.push(format!(
            "pods left as they are, because their nodes have not reported their ends: {names}"
        ));
    }
    if !planned.retained_volumes.is_empty() {
        let names = planned.retained_volumes.join(", ");
        notes.push(format!("volumes that are not in the snapshot are retained: {names}"));
    }
    let mut object = Object::clone(current);
    let mut message = notes.join("; ");
    if message.len() > MAX_MESSAGE {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE));
        message.push_str(" …");
    }
    object.change(|restore: &mut ClusterRestore| {
        let status = restore.status.get_or_insert_default();
        status.phase = RestorePhase::Completed;
        status.completed_at = Some(moment.clone());
        let outcome = ("Restored", message.as_str());
        set_condition(&mut status.conditions, COMPLETE, ConditionStatus::True, outcome, moment.0);
    })?;
    Some(object)
}
