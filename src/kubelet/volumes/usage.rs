//! Free space and capacity of claims' volumes, as their file systems report it (`stats/summary`).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::volume_dir;
use crate::node::Node;
use api::usage::VolumeUsage;
use object::SharedObject;
use object::storage::claims_of;

/// The usage by pod uid and volume name, for the claims of these pods that are on the node. A file system that does not
/// respond within `timeout` is skipped, and all others of the node are skipped until it responds.
pub(crate) async fn of_claims(
    node: &Node,
    pods: &[SharedObject<Pod>],
    timeout: Duration,
) -> BTreeMap<String, BTreeMap<String, VolumeUsage>> {
    let places: Vec<(String, String, PathBuf)> = pods
        .iter()
        .flat_map(|pod| {
            claims_of(pod).map(move |used| {
                (pod.uid().to_owned(), used.volume.to_owned(), volume_dir(node, pod, used.volume))
            })
        })
        .collect();
    if node.config.hollow || places.is_empty() {
        return BTreeMap::new();
    }
    let Ok(turn) = node.volume_measurements.clone().try_acquire_owned() else { return BTreeMap::new() };
    let look = base::task::blocking(move || {
        let _permit = turn;
        let mut all: BTreeMap<String, BTreeMap<String, VolumeUsage>> = BTreeMap::new();
        for (pod, volume, place) in places {
            // The claim's link does not exist before the pod is set up.
            if let Ok(about) = rustix::fs::statvfs(&place) {
                all.entry(pod).or_default().insert(volume, usage(&about));
            }
        }
        all
    });
    tokio::time::timeout(timeout, look).await.ok().and_then(Result::ok).unwrap_or_default()
}

fn usage(about: &rustix::fs::StatVfs) -> VolumeUsage {
    let bytes = |blocks: u64| blocks.saturating_mul(about.f_frsize);
    VolumeUsage {
        capacity_bytes: bytes(about.f_blocks),
        available_bytes: bytes(about.f_bavail),
        used_bytes: bytes(about.f_blocks.saturating_sub(about.f_bfree)),
        inodes: about.f_files,
        inodes_free: about.f_ffree,
    }
}
