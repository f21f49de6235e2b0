//! Changes of controllers' statuses for their watchers (CON-19): detected when a client asks, numbered, and
//! the same for all clients. Without clients, no work is done.
//!
//! **Versions.** Statuses are not stored, so the store has no revision for them. Changes are numbered,
//! beginning with the time of the first observation in microseconds. A client that watched an earlier process
//! therefore has an older number and gets 410 Expired.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::Api;
use crate::controller_status::{ControllerStatus, ProbeName};
use base::sort::SliceOrder;
use object::Revision;

/// The removed controllers that are remembered; a client that has not seen an older one lists again.
const MAX_REMOVED: usize = 1024;

/// The last observed status of a controller.
#[derive(Clone, Debug)]
pub struct ObservedController {
    /// Its name.
    pub name: ProbeName,
    /// Its status; `None` if it does not run.
    pub status: Option<Arc<ControllerStatus>>,
    /// The number of its last change.
    pub changed: Revision,
    /// The number at which it appeared.
    pub appeared: Revision,
}

/// All controllers as observed at one time.
#[derive(Clone, Debug)]
pub struct ControllerSnapshot {
    /// The number of the last change.
    pub revision: Revision,
    /// The present controllers, by name.
    pub all: Vec<ObservedController>,
    /// The removed ones, the latest last; `changed` is the number of the removal.
    pub(crate) removed: Vec<ObservedController>,
}

/// The changes after a client's number are no longer all known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangesExpired;

impl ControllerSnapshot {
    /// Returns the changes after this revision, in order; true for removed controllers.
    pub fn after(&self, revision: Revision) -> Vec<(&ObservedController, bool)> {
        let changed = self.all.iter().map(|one| (one, false));
        let all = changed.chain(self.removed.iter().map(|one| (one, true)));
        let mut after: Vec<_> = all.filter(|(one, _)| one.changed > revision).collect();
        after.order_by_key(|(one, _)| one.changed);
        after
    }
}

/// The last observation and its time.
#[derive(Default)]
pub(crate) struct ControllerHistory(
    // Held during the comparison: concurrent callers wait for the same result.
    Mutex<HistoryState>,
);

#[derive(Default)]
struct HistoryState {
    revision: u64,
    /// The time on the monotonic clock; `None` before the first observation.
    at: Option<Duration>,
    all: BTreeMap<ProbeName, ObservedController>,
    removed: VecDeque<ObservedController>,
    /// All changes after this number are known.
    complete_after: u64,
}

impl HistoryState {
    fn next(&mut self) -> Revision {
        self.revision += 1;
        Revision(self.revision)
    }

    fn take(&mut self, now: BTreeMap<ProbeName, Option<ControllerStatus>>) {
        let left: Vec<ProbeName> = self.all.keys().filter(|name| !now.contains_key(*name)).cloned().collect();
        for name in left {
            let Some(mut gone) = self.all.remove(&name) else { continue };
            gone.changed = self.next();
            self.removed.push_back(gone);
        }
        while self.removed.len() > MAX_REMOVED {
            let forgotten = self.removed.pop_front();
            self.complete_after = forgotten.map_or(self.complete_after, |gone| gone.changed.0);
        }
        for (name, status) in now {
            match self.all.get(&name) {
                Some(known) if known.status.as_deref() == status.as_ref() => {}
                known => {
                    let appeared = known.map(|known| known.appeared);
                    let changed = self.next();
                    let (status, came) = (status.map(Arc::new), appeared.unwrap_or(changed));
                    self.all
                        .insert(name.clone(), ObservedController { name, status, changed, appeared: came });
                }
            }
        }
    }
}

impl Api {
    /// Returns the statuses of all controllers, observed no longer than `age` ago or now.
    pub fn observe_controllers(&self, age: Duration) -> ControllerSnapshot {
        let mut seen = self.inner.observed_controllers.0.lock();
        let now = self.server_clock().monotonic();
        if seen.at.is_none() {
            let first = self.server_clock().now().as_microsecond();
            seen.revision = u64::try_from(first).unwrap_or(0).max(1);
            seen.complete_after = seen.revision;
        }
        if seen.at.is_none_or(|at| now.saturating_sub(at) >= age) {
            seen.take(self.controller_statuses());
            seen.at = Some(now);
        }
        ControllerSnapshot {
            revision: Revision(seen.revision),
            all: seen.all.values().cloned().collect(),
            removed: seen.removed.iter().cloned().collect(),
        }
    }

    /// Succeeds if all changes after this revision are known.
    pub fn knows_controllers_after(&self, revision: Revision) -> Result<(), ChangesExpired> {
        let seen = self.inner.observed_controllers.0.lock();
        let is_known = seen.at.is_some() && (seen.complete_after..=seen.revision).contains(&revision.0);
        is_known.then_some(()).ok_or(ChangesExpired)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller_status::{
        ControllerKeys, ControllerProbe, ControllerState, PauseTarget, ProbeSource, ReconcileRecord,
        StepError, Subsystem, WorkStatus,
    };
    use crate::test_api::api;
    use futures::FutureExt;
    use futures::future::BoxFuture;

    /// Kubelets of these nodes, each with this many errors.
    struct Nodes(Mutex<BTreeMap<&'static str, Option<u64>>>);

    fn status(errors: u64) -> ControllerStatus {
        ControllerStatus {
            state: ControllerState::Running,
            subsystem: Subsystem::Kubelet,
            pause: PauseTarget::Never("it is of a test"),
            takes_no_step: None,
            workers: None,
            started_at: jiff::Timestamp::UNIX_EPOCH,
            panics: 0,
            queue: None,
            work: WorkStatus { errors, ..WorkStatus::default() },
            counts: Vec::new(),
        }
    }

    impl ProbeSource for Nodes {
        fn statuses(&self) -> Vec<(ProbeName, Option<ControllerStatus>)> {
            self.0.lock().iter().map(|(name, errors)| ((*name).into(), errors.map(status))).collect()
        }

        fn find(&self, name: &str) -> Option<Option<Arc<dyn ControllerProbe>>> {
            let errors = *self.0.lock().get(name)?;
            Some(errors.map(|errors| Arc::new(TestStatus(errors)) as Arc<dyn ControllerProbe>))
        }
    }

    struct TestStatus(u64);

    impl ControllerProbe for TestStatus {
        fn status(&self) -> ControllerStatus {
            status(self.0)
        }

        fn keys(&self, _most: usize) -> ControllerKeys {
            ControllerKeys::default()
        }

        fn step(
            self: Arc<Self>,
            _: Option<String>,
        ) -> BoxFuture<'static, Result<ReconcileRecord, StepError>> {
            std::future::ready(Err(StepError::TakesNone("it is of a test"))).boxed()
        }
    }

    fn changes(look: &ControllerSnapshot, after: Revision) -> Vec<(String, bool, bool)> {
        let summary =
            |(one, gone): (&ObservedController, bool)| (one.name.to_string(), one.appeared > after, gone);
        look.after(after).into_iter().map(summary).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn controller_changes_are_numbered_and_the_same_for_all_readers_con_19() {
        let api = api(&[]);
        let clock = api.clock().clone();
        assert!(api.knows_controllers_after(Revision(1)).is_err(), "no observation was made yet");
        let nodes = Arc::new(Nodes(Mutex::new([("a", Some(0)), ("b", Some(0)), ("c", None)].into())));
        let source: Arc<dyn ProbeSource> = nodes.clone();
        api.add_controllers(&source);
        let first = api.observe_controllers(Duration::ZERO);
        assert_eq!(first.all.len(), 3);
        assert!(api.controller("a").unwrap().is_some() && api.controller("c").unwrap().is_none());
        assert!(api.controller("d").is_none());
        // An equal status is no change.
        assert_eq!(api.observe_controllers(Duration::ZERO).revision, first.revision);
        *nodes.0.lock() = [("a", Some(1)), ("c", None), ("d", Some(0))].into();
        let age = Duration::from_secs(1);
        assert_eq!(api.observe_controllers(age).revision, first.revision, "it was looked a moment ago");
        clock.sleep(age).await;
        let second = api.observe_controllers(age);
        assert_eq!(second.revision.0, first.revision.0 + 3);
        let of = |name: &str, came, gone| (name.to_owned(), came, gone);
        assert_eq!(
            changes(&second, first.revision),
            [of("b", false, true), of("a", false, false), of("d", true, false)]
        );
        // A client that has seen the first change gets the others.
        assert_eq!(changes(&second, Revision(first.revision.0 + 1)).len(), 2);
        assert!(api.knows_controllers_after(first.revision).is_ok());
        assert!(api.knows_controllers_after(Revision(second.revision.0 + 1)).is_err(), "another process's");
        assert!(api.knows_controllers_after(Revision(7)).is_err(), "older than this process");
        // One that returns counts as new.
        *nodes.0.lock() = [("b", Some(0))].into();
        let third = api.observe_controllers(Duration::ZERO);
        assert_eq!(changes(&third, second.revision).last(), Some(&of("b", true, false)));
        drop((nodes, source));
        assert!(
            api.observe_controllers(Duration::ZERO).all.is_empty(),
            "they are gone with who tells of them"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn removed_controllers_are_remembered_in_bounded_memory_safe_10() {
        let api = api(&[]);
        let nodes = Arc::new(Nodes(Mutex::default()));
        let source: Arc<dyn ProbeSource> = nodes.clone();
        api.add_controllers(&source);
        let first = api.observe_controllers(Duration::ZERO).revision;
        for _ in 0..=MAX_REMOVED {
            *nodes.0.lock() = [("a", Some(0))].into();
            api.observe_controllers(Duration::ZERO);
            nodes.0.lock().clear();
            api.observe_controllers(Duration::ZERO);
        }
        let last = api.observe_controllers(Duration::ZERO);
        assert_eq!(last.removed.len(), MAX_REMOVED);
        assert!(
            api.knows_controllers_after(first).is_err() && api.knows_controllers_after(last.revision).is_ok()
        );
        assert!(api.knows_controllers_after(Revision(first.0 + 2)).is_ok());
    }
}
