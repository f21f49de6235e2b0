//! The record of a node host's pods and containers, for the next host: one journal of lines.
//!
//! Each line is one JSON entry, and the entries in order give the current state. A line that was torn when the machine
//! lost power is not JSON and is ignored. No write waits for the disk: if the machine loses power, the recorded
//! processes end with it, and everything that was reported to the API is durable there.
//!
//! Architecture Invariant: only the node's host writes; any process may read at any time.

mod migration;
mod writer;

pub(crate) use writer::Journal;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::protocol::Launch;
use crate::{ContainerExit, ContainerId, ContainerRecord, PodUid, SandboxSpec};
use base::sort::SliceOrder;

/// The journal, below a node's directory.
pub(crate) const JOURNAL: &str = "journal";

/// One event.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "one at a time, on its way to or from a line")]
pub(crate) enum Entry<'a> {
    /// A sandbox was created, or recreated: its ended containers stay.
    Sandbox { spec: Cow<'a, SandboxSpec>, created_at: Timestamp },
    /// A container has executed its program, or a rewritten journal records its whole state.
    Container { pod: Cow<'a, PodUid>, record: Cow<'a, ContainerRecord>, launch: Cow<'a, Launch> },
    /// A container has ended.
    Exit { id: Cow<'a, ContainerId>, exit: Cow<'a, ContainerExit> },
    /// A container was removed.
    #[serde(rename = "ContainerGone")]
    ContainerRemoved(Cow<'a, ContainerId>),
    /// A pod was removed, with its containers.
    #[serde(rename = "SandboxGone")]
    SandboxRemoved(Cow<'a, PodUid>),
}

/// A pod as the journal records it.
#[derive(Debug)]
pub(crate) struct JournaledPod {
    pub(crate) spec: SandboxSpec,
    pub(crate) created_at: Timestamp,
    /// Oldest first.
    pub(crate) containers: Vec<JournaledContainer>,
}

/// A container as the journal records it.
#[derive(Debug)]
pub(crate) struct JournaledContainer {
    pub(crate) record: ContainerRecord,
    pub(crate) launch: Launch,
}

/// Every pod that the journal of a node records.
pub(crate) type JournaledPods = BTreeMap<PodUid, JournaledPod>;

/// The directories below a node's directory that have a subdirectory for each container.
pub(crate) const CONTAINER_DIRS: [&str; 2] = ["containers", "tmp"];

/// The directory of a container's log and its image's directories, below a node's directory; created on the first
/// write.
pub fn container_dir(node: &Path, id: &ContainerId) -> PathBuf {
    node.join(CONTAINER_DIRS[0]).join(&id.0)
}

/// A container's /tmp, below a node's directory.
pub fn tmp_dir(node: &Path, id: &ContainerId) -> PathBuf {
    node.join(CONTAINER_DIRS[1]).join(&id.0)
}

/// The directory of a pod's files on disk, below a node's directory: its volumes, and its own files if they are not in
/// memory.
pub fn pod_dir(node: &Path, pod: &PodUid) -> PathBuf {
    node.join("pods").join(pod)
}

/// Reads the journal of a node's hosts, including an earlier version's.
pub(crate) fn read(node: &Path) -> JournaledPods {
    let mut pods = migration::read(node);
    let Ok(journal) = fs::File::open(node.join(JOURNAL)) else { return pods };
    for line in BufReader::new(journal).split(b'\n').map_while(Result::ok) {
        if let Ok(entry) = base::json::from_slice(&line) {
            apply(&mut pods, entry);
        }
    }
    for pod in pods.values_mut() {
        pod.containers.order_by_key(|container| container.record.started_at);
    }
    pods
}

/// Moves an earlier version's files of a pod to their current paths. Their records must be in the journal by now.
pub(crate) fn migrate(node: &Path, pod: &PodUid, containers: &[ContainerId]) {
    migration::migrate(node, pod, containers);
}

fn apply(pods: &mut JournaledPods, entry: Entry<'_>) {
    match entry {
        Entry::Sandbox { spec, created_at } => {
            let spec = spec.into_owned();
            let containers = pods.remove(&spec.pod_uid).map(|known| known.containers).unwrap_or_default();
            pods.insert(spec.pod_uid.clone(), JournaledPod { spec, created_at, containers });
        }
        Entry::Container { pod, record, launch } => {
            if let Some(pod) = pods.get_mut(&*pod) {
                pod.containers.retain(|known| known.record.id != record.id);
                let (record, launch) = (record.into_owned(), launch.into_owned());
                pod.containers.push(JournaledContainer { record, launch });
            }
        }
        Entry::Exit { id, exit } => {
            let mut all = pods.values_mut().flat_map(|pod| &mut pod.containers);
            if let Some(container) = all.find(|known| known.record.id == *id) {
                container.record.pid = None;
                container.record.exit = Some(exit.into_owned());
            }
        }
        Entry::ContainerRemoved(id) => {
            for pod in pods.values_mut() {
                pod.containers.retain(|known| known.record.id != *id);
            }
        }
        Entry::SandboxRemoved(uid) => {
            pods.remove(&*uid);
        }
    }
}
