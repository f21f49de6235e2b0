//! The number of nodes that have each image, for ImageLocality.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::Node;

use crate::state::node_info::images_of;

/// For each image name the number of nodes that have it.
#[derive(Debug, Default)]
pub(crate) struct Images {
    nodes: HashMap<String, usize>,
}

impl Images {
    /// Returns the number of nodes with an image of this name.
    pub(crate) fn nodes_with(&self, name: &str) -> usize {
        self.nodes.get(name).copied().unwrap_or(0)
    }

    /// Adds the images of a node.
    pub(crate) fn update_node(&mut self, node: &Node) {
        for name in names(node) {
            *self.nodes.entry(name.clone()).or_default() += 1;
        }
    }

    /// Removes the images of a node.
    pub(crate) fn forget(&mut self, node: &Node) {
        for name in names(node) {
            if let Some(count) = self.nodes.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    self.nodes.remove(name);
                }
            }
        }
    }
}

/// Returns the distinct names of all images of a node.
fn names(node: &Node) -> Vec<&String> {
    let mut names: Vec<&String> =
        images_of(node).iter().flat_map(|image| image.names.iter().flatten()).collect();
    names.sort_unstable();
    names.dedup();
    names
}
