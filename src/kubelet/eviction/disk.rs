//! Measures a pod's disk usage: its emptyDirs, and each container's own files and logs.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;

use crate::node::Node;
use crate::runtime::PodUid;
use crate::{spec, volumes};
use object::SharedObject;

/// The disk usage of one pod, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PodDisk {
    /// By emptyDir volume.
    pub(super) volumes: BTreeMap<String, i64>,
    /// The usage of each container: its files outside volumes, and its logs.
    pub(super) containers: BTreeMap<String, i64>,
}

/// The paths of a pod's files.
struct PodDirectories {
    volumes: Vec<(String, PathBuf)>,
    containers: Vec<(String, Vec<PathBuf>)>,
}

async fn pod_directories(node: &Node, pod: &SharedObject<Pod>) -> PodDirectories {
    let volumes = spec::spec(pod)
        .volumes
        .iter()
        .flatten()
        .filter(|volume| volume.empty_dir.is_some())
        .map(|volume| (volume.name.clone(), volumes::volume_dir(node, pod, &volume.name)))
        .collect();
    let uid = pod.uid().to_string();
    let sandbox = node.runtime.inspect(&uid).await.ok().flatten();
    let containers = sandbox
        .into_iter()
        .flat_map(|sandbox| sandbox.containers)
        .map(|c| (c.name.clone(), node.runtime.container_dirs(&uid, &c.id)))
        .collect();
    PodDirectories { volumes, containers }
}

/// Measures a pod's usage of its node's disk.
pub(super) async fn of_pod(node: &Node, pod: &SharedObject<Pod>) -> PodDisk {
    if node.config.hollow {
        return PodDisk::default();
    }
    let places = pod_directories(node, pod).await;
    let measured = base::task::blocking(move || {
        let mut disk = PodDisk::default();
        for (name, dir) in places.volumes {
            *disk.volumes.entry(name).or_default() += size(&dir);
        }
        for (name, dirs) in places.containers {
            *disk.containers.entry(name).or_default() += dirs.iter().map(|dir| size(dir)).sum::<i64>();
        }
        disk
    });
    measured.await.unwrap_or_else(|error| {
        tracing::warn!("cannot measure the disk usage of pod {}: {error}", pod.key());
        PodDisk::default()
    })
}

/// Measures the disk usage of each pod's containers; volumes count as one more container, under a name that no
/// container has.
pub(super) async fn usage(
    node: &Node,
    pods: &[SharedObject<Pod>],
) -> BTreeMap<PodUid, BTreeMap<String, i64>> {
    let mut all = BTreeMap::new();
    for pod in pods {
        let disk = of_pod(node, pod).await;
        let mut used = disk.containers;
        used.insert(String::new(), disk.volumes.values().sum());
        all.insert(pod.uid().to_string(), used);
    }
    all
}

/// The disk usage of everything below a directory, in bytes; links are not followed, a file with several hard links
/// counts once for each.
fn size(dir: &Path) -> i64 {
    let mut total: u64 = 0;
    let mut open = vec![dir.to_path_buf()];
    // A directory that is gone has no size.
    let Ok(device) = std::fs::symlink_metadata(dir).map(|about| about.dev()) else { return 0 };
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let Ok(about) = entry.metadata() else { continue };
            total = total.saturating_add(about.blocks().saturating_mul(512));
            // Mounts in the directory are skipped.
            if about.is_dir() && about.dev() == device {
                open.push(entry.path());
            }
        }
    }
    i64::try_from(total).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_below_counts_and_links_are_not_followed_vol_1() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("d")).unwrap();
        std::fs::write(dir.path().join("d/f"), vec![1; 300_000]).unwrap();
        std::os::unix::fs::symlink("/", dir.path().join("all")).unwrap();
        let size = size(dir.path());
        assert!((300_000..400_000).contains(&size), "{size}");
    }
}
