//! `kill -9` during writes, repeatedly on one data directory: acknowledged writes persist, deleted objects stay
//! deleted, and no revision is used twice (SAFE-2).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::instance::DataDir;

const ROUNDS: usize = 20;
const WRITERS: usize = 6;

/// The expected values of each name: the last acknowledged one, or none once its deletion was acknowledged. Both are
/// possible if a write is pending when the process is killed.
#[derive(Clone, Debug, Default)]
struct ExpectedValues {
    values: BTreeMap<String, Vec<Option<usize>>>,
    /// The highest revision in a response to a write.
    acknowledged: u64,
}

type SharedValues = Arc<Mutex<ExpectedValues>>;

/// Each writer creates its names, changes them twice, and deletes every third one.
async fn write(
    api: Api<ConfigMap>,
    writer: usize,
    round: usize,
    shared: SharedValues,
    count: Arc<AtomicUsize>,
) {
    for n in 0.. {
        let name = format!("r{round}-w{writer}-{n}");
        for step in 0..4 {
            let deletes = step == 3;
            if deletes && n % 3 != 0 {
                continue;
            }
            let value = (!deletes).then_some(step);
            // From now on the stored value may be this one.
            shared.lock().unwrap().values.entry(name.clone()).or_insert_with(|| vec![None]).push(value);
            // Sizes from a line to more than a disk's block.
            let data = json!({"step": step.to_string(), "filling": "x".repeat(n % 7 * 3000)});
            let object = json!({"metadata": {"name": name}, "data": data});
            let revision = match step {
                0 => {
                    let object = serde_json::from_value(object).unwrap();
                    api.create(&PostParams::default(), &object)
                        .await
                        .map(|made| made.metadata.resource_version)
                }
                1 | 2 => {
                    let change = Patch::Merge(object);
                    let changed = api.patch(&name, &PatchParams::default(), &change).await;
                    changed.map(|changed| changed.metadata.resource_version)
                }
                _ => api.delete(&name, &DeleteParams::default()).await.map(|_| None),
            };
            let Ok(revision) = revision else { return };
            let mut expected = shared.lock().unwrap();
            expected.values.insert(name.clone(), vec![value]);
            let revision = revision.map_or(0, |revision| revision.parse().unwrap());
            expected.acknowledged = expected.acknowledged.max(revision);
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Of 20 kills during the writes of six clients, none loses a write, and a revision that a reader has seen is never
/// assigned again.
#[tokio::test(flavor = "multi_thread")]
async fn twenty_kills_under_writes_lose_nothing_safe_2() {
    let home = DataDir::new();
    let shared = SharedValues::default();
    let mut highest_seen = 0;
    for round in 0..=ROUNDS {
        let instance = home.start(&["--nodes", "0"]);
        let api: Api<ConfigMap> = Api::namespaced(instance.impatient_client().await, "default");
        let list = api.list(&ListParams::default()).await.unwrap();
        let revision: u64 = list.metadata.resource_version.unwrap().parse().unwrap();
        let mut there: BTreeMap<String, usize> = BTreeMap::new();
        for object in list.items.into_iter().filter(|object| object.data.is_some()) {
            let step = object.data.unwrap().get("step").map(|step| step.parse().unwrap());
            there.extend(object.metadata.name.zip(step));
        }
        let expected = shared.lock().unwrap().clone();
        assert!(revision >= expected.acknowledged, "round {round}: {revision} < {}", expected.acknowledged);
        assert!(revision >= highest_seen, "round {round}: {highest_seen} was seen, {revision} is the newest");
        for (name, may_be) in &expected.values {
            let found = there.get(name).copied();
            assert!(may_be.contains(&found), "round {round}: {name} is {found:?}, not one of {may_be:?}");
        }
        for (name, found) in there {
            // Its value is certain now.
            shared.lock().unwrap().values.insert(name, vec![Some(found)]);
        }
        if round == ROUNDS {
            instance.stop();
            return;
        }

        let (count, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| tokio::spawn(write(api.clone(), writer, round, shared.clone(), count.clone())))
            .collect();
        let reader = tokio::spawn({
            let (api, over) = (api.clone(), over.clone());
            async move {
                let mut highest = 0;
                while !over.load(Ordering::Relaxed) {
                    let Ok(list) = api.list(&ListParams::default().limit(1)).await else { break };
                    highest = highest.max(list.metadata.resource_version.unwrap().parse().unwrap());
                }
                highest
            }
        });
        // From the first write to well into the groups that are committed together.
        while count.load(Ordering::Relaxed) < round * 7 % 80
            && !writers.iter().any(tokio::task::JoinHandle::is_finished)
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        instance.crash();
        over.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.await.unwrap();
        }
        highest_seen = highest_seen.max(reader.await.unwrap());
    }
}
