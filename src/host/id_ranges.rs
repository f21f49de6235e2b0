//! Finds the ranges of ids that pods with user namespaces of their own have on this machine: read from the journals of
//! the nodes' hosts, so that it covers nodes that are not running.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{IdRange, PodUid, journal};

/// Returns the range of each pod that has one, of every node below `nodes`.
pub fn id_ranges_of_pods(nodes: &Path) -> BTreeMap<PodUid, IdRange> {
    let nodes = fs::read_dir(nodes).into_iter().flatten().flatten().map(|node| node.path());
    let pods = nodes.flat_map(|node| journal::read(&node));
    pods.filter_map(|(uid, pod)| Some((uid, pod.spec.users?))).collect()
}
