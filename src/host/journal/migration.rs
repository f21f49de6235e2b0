//! Reads the files of hosts up to protocol 2: one for each sandbox and container, in directories below `pods/UID`.
//!
//! Such a host may have died before this version came; this preserves its pods' logs and exits.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Deserialize;

use super::{JournaledContainer, JournaledPod, JournaledPods, container_dir, pod_dir};
use crate::protocol::Launch;
use crate::{ContainerId, ContainerRecord, PodUid, SandboxSpec};
use base::sort::CollectMap;

const SANDBOX: &str = "sandbox.json";
const CONTAINER: &str = "record.json";

#[derive(Deserialize)]
struct StoredSandbox {
    spec: SandboxSpec,
    created_at: Timestamp,
}

#[derive(Deserialize)]
struct StoredContainer {
    record: ContainerRecord,
    launch: Launch,
}

fn below(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn json<T: serde::de::DeserializeOwned>(file: &Path) -> Option<T> {
    base::json::from_slice(&fs::read(file).ok()?).ok()
}

pub(super) fn read(node: &Path) -> JournaledPods {
    let pod = |directory: PathBuf| {
        let StoredSandbox { spec, created_at } = json(&directory.join(SANDBOX))?;
        let containers = below(&directory).filter_map(|directory| json(&directory.join(CONTAINER)));
        let containers = containers
            .map(|StoredContainer { record, launch }| JournaledContainer { record, launch })
            .collect();
        Some((spec.pod_uid.clone(), JournaledPod { spec, created_at, containers }))
    };
    below(&node.join("pods")).filter_map(pod).collect_map()
}

/// Moves each container's files to their current paths; then nothing of the old format is read again.
pub(super) fn migrate(node: &Path, pod: &PodUid, containers: &[ContainerId]) {
    let directory = pod_dir(node, pod);
    if !directory.join(SANDBOX).exists() {
        return;
    }
    let moved = containers.iter().try_for_each(|id| {
        let (from, to) = (directory.join(&id.0), container_dir(node, id));
        to.parent().map_or(Ok(()), fs::create_dir_all)?;
        match fs::rename(&from, &to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    });
    if let Err(error) = moved.and_then(|()| fs::remove_file(directory.join(SANDBOX))) {
        eprintln!("cannot move {} of an earlier version: {error}", directory.display());
    }
}
