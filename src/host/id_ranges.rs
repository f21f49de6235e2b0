//! The ranges of ids that pods with user namespaces of their own have on this machine (POD-18).
//!
//! A cluster knows the ranges of its pods from the journals of its nodes' hosts, also those of nodes that are not running.
//! Of the pods of other clusters it knows that their hosts hold locks: a host locks a file of the machine for each range
//! in use. The kernel drops the lock when the host ends, however it ends.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::{IdRange, PodUid, journal};
use base::sort::CollectMap;

/// The directory with a file for each range that was ever in use since the machine has started. Only root has pods with
/// ranges of ids.
const LOCKS: &str = "/run/podium/ids";

/// Returns the range of each pod that has one, of every node below `nodes`.
pub fn id_ranges_of_pods(nodes: &Path) -> BTreeMap<PodUid, IdRange> {
    let nodes = fs::read_dir(nodes).into_iter().flatten().flatten().map(|node| node.path());
    let pods = nodes.flat_map(|node| journal::read(&node));
    pods.filter_map(|(uid, pod)| Some((uid, pod.spec.users?))).collect_map()
}

/// Returns true if no pod of any cluster on this machine uses the range. A range whose lock cannot be read counts
/// as free: the host, which must lock it, reports the reason.
pub fn is_id_range_free(range: IdRange) -> bool {
    is_free(Path::new(LOCKS), range)
}

/// Keeps a range from the pods of other clusters, as long as the file is open.
#[cfg(target_os = "linux")]
pub(crate) fn lock_id_range(range: IdRange) -> io::Result<File> {
    lock(Path::new(LOCKS), range)
}

fn lock_file(directory: &Path, range: IdRange) -> PathBuf {
    directory.join(range.first.to_string())
}

fn is_free(directory: &Path, range: IdRange) -> bool {
    let Ok(file) = File::open(lock_file(directory, range)) else { return true };
    flock(&file, FlockOperation::NonBlockingLockShared) != Err(Errno::WOULDBLOCK)
}

fn lock(directory: &Path, range: IdRange) -> io::Result<File> {
    let path = lock_file(directory, range);
    let failed = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    let mut options = File::options();
    let file = options.create(true).append(true).mode(0o600).open(&path).map_err(failed)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(io::Error::other(format!(
            "a pod of another cluster on this machine has the ids from {}; the next attempt uses others",
            range.first
        ))),
        Err(error) => Err(failed(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// POD-18: a range is locked by one host at a time, and is free again when that has ended.
    #[test]
    fn a_range_in_use_is_not_free_for_another_cluster_pod_18() {
        let directory = tempfile::tempdir().unwrap();
        let locks = directory.path().join("ids");
        let [one, other] = [1, 2].map(|number| IdRange { first: number * IdRange::COUNT });
        assert!(is_free(&locks, one), "nothing was ever locked");
        let held = lock(&locks, one).unwrap();
        assert!(!is_free(&locks, one) && is_free(&locks, other));
        let refused = lock(&locks, one).unwrap_err().to_string();
        assert!(refused.contains("the ids from 65536"), "{refused}");
        let _other = lock(&locks, other).unwrap();
        drop(held);
        assert!(is_free(&locks, one));
        let _again = lock(&locks, one).unwrap();
    }
}
