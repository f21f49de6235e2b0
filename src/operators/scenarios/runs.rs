//! Records the runs of scenarios (FAULT-2): in a ConfigMap of the cluster, for all its players, and in a file of the
//! user who runs the cluster. The next cluster reads that file, even if this one is `--ephemeral` or its data directory
//! was removed.
//!
//! Both are merged, never replaced by each other: two clusters of one user may write the file, and a snapshot may
//! restore an older ConfigMap. Neither can prevent the end of a scenario: errors go to the log.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use rustix::fs::{FlockOperation, OFlags, flock};

use api::{Api, ApiError};
use extension::scenario::{AllScenarioRuns, RUNS_NAME, RUNS_NAMESPACE, ScenarioRun};
use object::Key;

/// The maximum size of the file, in bytes; a larger one is not ours.
const LONGEST_FILE: u64 = 4 << 20;
/// Timeout of the file's lock: a suspended process may hold it.
const TO_JOIN: Duration = Duration::from_secs(5);

/// The runs of a cluster's scenarios.
#[derive(Clone)]
pub(super) struct Runs {
    api: Api,
    /// The user's file; `None` means that runs are recorded only in the cluster.
    file: Option<PathBuf>,
}

impl Runs {
    pub(super) fn new(api: &Api, file: Option<PathBuf>) -> Self {
        Self { api: api.clone(), file }
    }

    /// Merges the runs of the user's file and of the cluster, and writes the result to both.
    pub(super) async fn restore(&self) {
        self.keep_all(AllScenarioRuns::default()).await;
    }

    /// Records a run of the scenario `name`. A run that is already recorded is not recorded again.
    pub(super) async fn keep(&self, name: &str, run: ScenarioRun) {
        let mut news = AllScenarioRuns::default();
        news.add(name, run);
        self.keep_all(news).await;
    }

    async fn keep_all(&self, mut news: AllScenarioRuns) {
        news.merge(&self.load());
        if let Some(file) = self.file.clone() {
            let copy = news.clone();
            let joined = base::task::blocking(move || join_file(&file, &copy));
            let outcome = match tokio::time::timeout(TO_JOIN, joined).await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(panicked)) => Err(io::Error::other(panicked)),
                Err(_) => Err(io::Error::other("another process has locked the file")),
            };
            match outcome {
                Ok(all) => news = all,
                Err(error) => tracing::warn!("cannot store the results of scenarios for the user: {error}"),
            }
        }
        if let Err(error) = self.write(&news) {
            tracing::warn!("cannot store the results of scenarios in the cluster: {error}");
        }
    }

    fn load(&self) -> AllScenarioRuns {
        let map = self.api.get_as::<ConfigMap>(&key());
        map.ok().and_then(|map| map.data.as_ref().map(AllScenarioRuns::of_data)).unwrap_or_default()
    }

    /// Writes the ConfigMap; it is not created for a cluster without runs.
    fn write(&self, runs: &AllScenarioRuns) -> Result<(), ApiError> {
        let data = runs.to_data();
        let is_there = self.api.get_as::<ConfigMap>(&key()).is_ok();
        if !is_there && data.is_empty() {
            return Ok(());
        }
        if !is_there {
            let metadata = Key::new(RUNS_NAMESPACE, RUNS_NAME).metadata();
            let map = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
            return self.api.create_as(map).map(drop);
        }
        let change = self.api.modify::<ConfigMap>(&key(), |map| {
            map.data = Some(data.clone());
            Ok(())
        });
        change.map(drop)
    }
}

fn key() -> Key {
    Key::new(RUNS_NAMESPACE, RUNS_NAME)
}

/// Merges a file's runs with `news`, and writes and returns the result. Waits while another process has the file
/// locked.
fn join_file(path: &Path, news: &AllScenarioRuns) -> io::Result<AllScenarioRuns> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let has_news = !news.to_data().is_empty();
    // A user without runs gets no file.
    if !has_news && !path.exists() {
        return Ok(AllScenarioRuns::default());
    }
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(named)?;
    }
    let private = |path: &Path| {
        let flags = OFlags::NOFOLLOW.bits().cast_signed();
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(flags)
            .open(path)
    };
    let lock = private(&path.with_extension("lock")).map_err(named)?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|error| named(error.into()))?;
    let known = read(path).map_err(named)?;
    let mut all = known.clone();
    all.merge(news);
    if all != known {
        let fresh = path.with_extension("new");
        let write = || {
            let mut file = private(&fresh)?;
            file.set_len(0)?;
            file.write_all(&serde_json::to_vec_pretty(&all)?)?;
            file.sync_all()?;
            fs::rename(&fresh, path)
        };
        write().map_err(named)?;
    }
    Ok(all)
}

/// Reads a file's runs. A file with any other content is an error, and stays as it is.
fn read(path: &Path) -> io::Result<AllScenarioRuns> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(AllScenarioRuns::default()),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(LONGEST_FILE + 1).read_to_string(&mut text)?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > LONGEST_FILE {
        return Err(io::Error::other(format!("the file is longer than {LONGEST_FILE} bytes")));
    }
    let by_name: BTreeMap<String, Vec<ScenarioRun>> =
        base::json::from_str(&text).map_err(io::Error::other)?;
    let mut all = AllScenarioRuns::default();
    for (name, runs) in by_name {
        for run in runs {
            all.add(&name, run);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(name: &str, uid: &str, score: i32) -> AllScenarioRuns {
        let run =
            serde_json::from_value(json!({"uid": uid, "played": "p", "startedAt": "2026-11-21T00:00:00Z",
            "endedAt": "2026-11-21T00:01:00Z", "passed": true, "score": score}));
        let mut all = AllScenarioRuns::default();
        all.add(name, run.unwrap());
        all
    }

    #[test]
    fn scenario_runs_of_two_clusters_are_merged_in_one_file_fault_2() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("state/podium/scenario-runs.json");
        assert_eq!(join_file(&path, &AllScenarioRuns::default()).unwrap(), AllScenarioRuns::default());
        assert!(!path.parent().unwrap().exists(), "without runs no file is written");
        let threads: Vec<_> = (0..8)
            .map(|number| {
                let path = path.clone();
                std::thread::spawn(move || join_file(&path, &of("s", &format!("u{number}"), number)).unwrap())
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let all = join_file(&path, &AllScenarioRuns::default()).unwrap();
        assert_eq!(all.of("s").unwrap().all().len(), 8, "no run is lost");
        assert_eq!(all.of("s").unwrap().best().unwrap().score, 7);
    }

    #[test]
    fn a_file_that_is_something_else_stays_fault_2() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("scenario-runs.json");
        fs::write(&path, "my diary").unwrap();
        let error = join_file(&path, &of("s", "u", 1)).unwrap_err();
        assert!(error.to_string().contains("scenario-runs.json"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "my diary");
    }
}
