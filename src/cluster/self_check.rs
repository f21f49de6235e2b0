//! The cluster's self-check (SAFE-9): every few minutes it compares the state in memory with the disk, and the caches
//! of the control loops with the state.
//!
//! It reports differences in the log, by an event and the condition `podium.dev/StateDiffers` of the namespace
//! `kube-system`, and as `podium_state_differing_objects` in `/metrics`. A wrong cache is listed again; data that the
//! disk has lost is not silently rewritten.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::controller_status::Subsystem;
use api::{Api, ApiError};
use base::count::counted;
use base::task::Tasks;
use k8s_openapi::api::core::v1::Namespace;
use object::conditions;
use object::well_known::condition::PODIUM_STATE_DIFFERS;
use object::{Key, Kind};
use reconcile::{Caches, Difference, Recorder, WorkLoop};
use store::{Inspection, Store};

/// Timeout for the comparison with the disk.
const DISK: Duration = Duration::from_mins(1);
/// A cache that differs for this long without a change is wrong: caches lag by milliseconds.
const BEHIND: Duration = Duration::from_secs(10);

/// The result of a check.
#[derive(Debug, Default, PartialEq, Eq)]
struct SelfCheckReport {
    disk: Inspection,
    caches: Vec<Difference>,
}

pub(super) fn start(api: &Api, store: &Store, caches: &Caches, tasks: &Tasks) {
    let api = api.acting_as("podium-self-check");
    let (store, caches) = (store.clone(), caches.clone());
    let rounds = WorkLoop::start(&api, "self-check", Subsystem::Cluster, tasks);
    tasks.spawn_restarting("self-check", move || {
        run(api.clone(), store.clone(), caches.clone(), rounds.clone())
    });
}

async fn run(api: Api, store: Store, caches: Caches, rounds: Arc<WorkLoop>) {
    let recorder = Recorder::new(&api, "podium-self-check");
    loop {
        api.clock().sleep(api.timings().self_check_interval.0).await;
        let round = rounds.begin("memory, data directory and caches");
        let found = check(&api, &store, &caches).await;
        round.ends(found.message().map_or(Ok(()), Err));
        let kinds: BTreeSet<Kind> = found.caches.iter().map(|difference| difference.kind).collect();
        for kind in kinds {
            caches.relist(kind);
        }
        if let Err(error) = report(&api, &recorder, &found) {
            tracing::warn!("cannot record the result of the self-check: {error}");
        }
    }
}

/// Describes the current differences between memory and disk, or caches and memory; `None` if there are none.
pub async fn differences(api: &Api, store: &Store, caches: &Caches) -> Option<String> {
    check(api, store, caches).await.message()
}

async fn check(api: &Api, store: &Store, caches: &Caches) -> SelfCheckReport {
    // A disk that does not respond counts as no difference here; the tasks that wait for it report it.
    let disk = match tokio::time::timeout(DISK, store.inspect()).await {
        Ok(Ok(inspection)) => inspection.unwrap_or_default(),
        Ok(Err(_)) | Err(_) => Inspection::default(),
    };
    let mut wrong = caches.differences();
    if !wrong.is_empty() {
        api.clock().sleep(BEHIND).await;
        let again: BTreeSet<Difference> = caches.differences().into_iter().collect();
        wrong.retain(|difference| again.contains(difference));
    }
    api.metrics().self_checks().checked(disk.differing, wrong.len());
    SelfCheckReport { disk, caches: wrong }
}

impl SelfCheckReport {
    /// The message for the log and the event; `None` without a difference.
    fn message(&self) -> Option<String> {
        let mut parts = Vec::new();
        if self.disk.differing > 0 {
            parts.push(format!(
                "{} of {} {} between memory and the data directory: {}",
                self.disk.differing,
                counted(self.disk.objects, "object"),
                if self.disk.differing == 1 { "differs" } else { "differ" },
                self.disk.differences.join("; ")
            ));
        }
        if !self.caches.is_empty() {
            let shown = self.caches.iter().take(5).map(|difference| {
                let version = |revision: Option<object::Revision>| {
                    revision.map_or_else(|| "missing".to_owned(), |revision| format!("at {revision}"))
                };
                format!(
                    "{} {} is {} in the cache and {} in the state",
                    difference.kind,
                    difference.key,
                    version(difference.cached),
                    version(difference.stored)
                )
            });
            let shown = shown.collect::<Vec<_>>().join("; ");
            let objects = counted(self.caches.len(), "object");
            let differ = if self.caches.len() == 1 { "differs" } else { "differ" };
            parts.push(format!("{objects} {differ} between caches and the state: {shown}"));
        }
        (!parts.is_empty()).then(|| parts.join(". "))
    }
}

/// Reports the differences, and withdraws the earlier report once there are none.
fn report(api: &Api, recorder: &Recorder, found: &SelfCheckReport) -> Result<(), ApiError> {
    let key = Key::new("", "kube-system");
    let message = found.message();
    let namespace = api.get_as::<Namespace>(&key)?;
    let all = namespace.status.as_ref().and_then(|status| status.conditions.as_ref());
    let current = conditions::get(all, PODIUM_STATE_DIFFERS);
    if current.and_then(|condition| condition.message.as_ref()) == message.as_ref() {
        return Ok(());
    }
    match &message {
        Some(message) => {
            tracing::error!("the state is inconsistent: {message}");
            recorder.warning(namespace.object(), "StateDiffers", message.as_str());
        }
        None => recorder.normal(namespace.object(), "StateAgrees", "The state is consistent again"),
    }
    let now = api.clock().time();
    let written = api.modify_status::<Namespace>(&key, |namespace| {
        let all = &mut namespace.status.get_or_insert_default().conditions;
        match message.as_deref() {
            Some(message) => {
                let next = conditions::new(PODIUM_STATE_DIFFERS, true, "Different", message, now.clone());
                conditions::set(all.get_or_insert_default(), next);
            }
            None => conditions::remove(all, PODIUM_STATE_DIFFERS),
        }
        Ok(())
    });
    written.map(drop)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::{ConfigMap, Event};

    use super::*;
    use api::ApiConfig;
    use base::clock::Clock;
    use object::SharedObject;
    use object::config::Timings;
    use store::faults::DiskFault;

    struct SelfCheckFixture {
        api: Api,
        store: Store,
        tasks: Tasks,
    }

    async fn cluster(store: Store) -> SelfCheckFixture {
        let clock = Clock::starting_at("2026-11-24T00:00:00Z".parse().unwrap());
        let config = ApiConfig { timings: Timings::default(), ..ApiConfig::default() };
        let api = Api::new(store.clone(), clock, config);
        let metadata = |name: &str| Key::new("", name).metadata();
        for name in ["default", "kube-system"] {
            api.create_as(Namespace { metadata: metadata(name), ..Namespace::default() }).unwrap();
        }
        let tasks = Tasks::new();
        let caches = Caches::new(&api, &tasks);
        caches.synced(Kind::ConfigMap).await;
        start(&api, &store, &caches, &tasks);
        SelfCheckFixture { api, store, tasks }
    }

    impl SelfCheckFixture {
        async fn wait(&self, minutes: u64) {
            self.api.clock().sleep(Duration::from_secs(60 * minutes + 20)).await;
        }

        fn write(&self, text: &str) {
            let metadata = Key::new("default", "map").metadata();
            let data = Some(BTreeMap::from([("k".to_owned(), text.to_owned())]));
            let map = ConfigMap { metadata, data, ..ConfigMap::default() };
            match self.api.get_as::<ConfigMap>(&Key::new("default", "map")) {
                Ok(_) => {
                    let changed = self.api.modify::<ConfigMap>(&Key::new("default", "map"), |fresh| {
                        fresh.data.clone_from(&map.data);
                        Ok(())
                    });
                    drop(changed.unwrap());
                }
                Err(_) => drop(self.api.create_as(map).unwrap()),
            }
        }

        fn reported(&self) -> Option<String> {
            let namespace = self.api.get_as::<Namespace>(&Key::new("", "kube-system")).unwrap();
            let conditions =
                namespace.status.clone().and_then(|status| status.conditions).unwrap_or_default();
            let condition =
                conditions.into_iter().find(|condition| condition.type_ == PODIUM_STATE_DIFFERS)?;
            assert_eq!(condition.status, "True");
            condition.message
        }

        fn reasons(&self) -> Vec<String> {
            let mut events = self.api.list_as::<Event>(None);
            events.sort_by_key(SharedObject::revision);
            events.iter().filter_map(|event| event.reason.clone()).collect()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lagging_cache_is_reported_and_listed_again_safe_9() {
        let cluster = cluster(Store::ephemeral()).await;
        cluster.write("1");
        cluster.wait(5).await;
        assert_eq!(cluster.reported(), None);
        cluster.store.hold_views(Some(Kind::ConfigMap));
        cluster.write("2");
        cluster.wait(5).await;
        let message = cluster.reported().unwrap();
        let expected = "1 object differs between caches and the state: ConfigMap default/map is at ";
        assert!(message.starts_with(expected), "{message}");
        // A new list corrects the copy, although its watch still receives nothing.
        cluster.wait(5).await;
        assert_eq!(cluster.reported(), None);
        assert_eq!(cluster.reasons(), ["StateDiffers", "StateAgrees"]);
        cluster.tasks.stop().await;
    }

    #[tokio::test]
    async fn a_disk_that_loses_writes_is_reported_safe_9() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let cluster = cluster(store.clone()).await;
        let caches = Caches::new(&cluster.api, &cluster.tasks);
        let recorder = Recorder::new(&cluster.api, "test");
        assert_eq!(check(&cluster.api, &store, &caches).await.message(), None);
        store.faults().set_disk(DiskFault::Forget);
        cluster.write("1");
        store.durable(store.revision()).await.unwrap();
        store.faults().set_disk(DiskFault::None);
        let found = check(&cluster.api, &store, &caches).await;
        let message = found.message().unwrap();
        let expected = "1 of 3 objects differs between memory and the data directory: configmaps.v1 default map is in memory \
                      and not on the disk";
        assert_eq!(message, expected);
        report(&cluster.api, &recorder, &found).unwrap();
        assert_eq!(cluster.reported().as_deref(), Some(expected));
        cluster.tasks.stop().await;
    }
}
