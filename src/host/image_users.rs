//! Finds the containers of this machine's nodes that use images of the store, as their root or as a volume: read from
//! the journals of the nodes' hosts, so that it covers nodes that are not running.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::journal;
use super::protocol::Launch;

/// Returns `container NAME of pod NAMESPACE/NAME` for each container that uses the image, of every node below `nodes`.
pub fn containers_of_image(nodes: &Path, image_id: &str) -> Vec<String> {
    ImageUsers::read(nodes).users.remove(image_id).into_iter().flatten().collect()
}

/// The containers that use images, by the images' identities.
#[derive(Debug, Default)]
pub struct ImageUsers {
    users: BTreeMap<String, BTreeSet<String>>,
}

impl ImageUsers {
    /// Reads the containers of every node below `nodes`.
    pub fn read(nodes: &Path) -> Self {
        let nodes = fs::read_dir(nodes).into_iter().flatten().flatten().map(|node| node.path());
        let mut all = Self::default();
        for pod in nodes.flat_map(|node| journal::read(&node).into_values()) {
            for container in &pod.containers {
                let (name, spec) = (&container.launch.spec.name, &pod.spec);
                let user = format!("container {name} of pod {}/{}", spec.namespace, spec.name);
                for image in images_of(&container.launch) {
                    all.users.entry(image.to_owned()).or_default().insert(user.clone());
                }
            }
        }
        all
    }

    /// Returns true if a container uses the image.
    pub fn uses(&self, image_id: &str) -> bool {
        self.users.contains_key(image_id)
    }
}

/// The images that a container uses.
fn images_of(launch: &Launch) -> impl Iterator<Item = &str> {
    let volumes = launch.spec.mounts.iter().filter_map(|mount| mount.image.as_ref());
    std::iter::once(launch.image_id.as_str()).chain(volumes.map(|image| image.image_id.as_str()))
}

/// Returns the pods of one node with containers that use each image: `NAMESPACE/NAME` by image id.
pub fn pods_by_image(node: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut pods: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for pod in journal::read(node).into_values() {
        let name = format!("{}/{}", pod.spec.namespace, pod.spec.name);
        for image in pod.containers.iter().flat_map(|container| images_of(&container.launch)) {
            pods.entry(image.to_owned()).or_default().insert(name.clone());
        }
    }
    pods
}
