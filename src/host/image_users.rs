//! Finds the containers of this machine's nodes that run an image of the store: read from the journals of the nodes'
//! hosts, so that it covers nodes that are not running.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::journal;

/// Returns `container NAME of pod NAMESPACE/NAME` for each container of the image, of every node below `nodes`.
pub fn containers_of_image(nodes: &Path, image_id: &str) -> Vec<String> {
    let nodes = fs::read_dir(nodes).into_iter().flatten().flatten().map(|node| node.path());
    let mut users = Vec::new();
    for pod in nodes.flat_map(|node| journal::read(&node).into_values()) {
        for container in pod.containers.iter().filter(|container| container.launch.image_id == image_id) {
            let (name, spec) = (&container.launch.spec.name, &pod.spec);
            users.push(format!("container {name} of pod {}/{}", spec.namespace, spec.name));
        }
    }
    users.sort();
    users
}

/// Returns the pods of one node with containers of each image: `NAMESPACE/NAME` by image id.
pub fn pods_by_image(node: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut pods: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for pod in journal::read(node).into_values() {
        let name = format!("{}/{}", pod.spec.namespace, pod.spec.name);
        for container in &pod.containers {
            pods.entry(container.launch.image_id.clone()).or_default().insert(name.clone());
        }
    }
    pods
}
