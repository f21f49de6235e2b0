//! Finds the containers of this machine's nodes that have a loaded image as their root: read from the journals of the
//! nodes' hosts, so that it covers nodes that are not running.

use std::fs;
use std::path::Path;

use super::journal;

/// Returns `container NAME of pod NAMESPACE/NAME` for each container with this root, of every node below `nodes`.
pub fn containers_with_root(nodes: &Path, root: &Path) -> Vec<String> {
    let nodes = fs::read_dir(nodes).into_iter().flatten().flatten().map(|node| node.path());
    let mut users = Vec::new();
    for pod in nodes.flat_map(|node| journal::read(&node).into_values()) {
        let of_root = |launch: &super::protocol::Launch| launch.image_root.as_deref() == Some(root);
        for container in pod.containers.iter().filter(|container| of_root(&container.launch)) {
            let (name, spec) = (&container.launch.spec.name, &pod.spec);
            users.push(format!("container {name} of pod {}/{}", spec.namespace, spec.name));
        }
    }
    users.sort();
    users
}
