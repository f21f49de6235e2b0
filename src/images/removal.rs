//! The removal of an image by a user, on the command line or through a node: refused while containers use it (IMG-3).

use std::cell::OnceCell;
use std::path::Path;

use crate::store::RemoveError;
use crate::{ImageStore, StoredImage};
use host::{ImageUsers, containers_of_image};

/// Removes a name, or an image with all its names by its id, unless a container of a node below `nodes` uses the image.
/// Returns the removed names, and the id if the image itself was removed.
pub fn remove_unused(store: &ImageStore, nodes: &Path, requested: &str) -> Result<Vec<String>, RemoveError> {
    store.remove(requested, |image: &StoredImage| {
        let users = containers_of_image(nodes, &image.id);
        (!users.is_empty()).then(|| users.join(", "))
    })
}

/// Removes names, each with its image if it was the last one, unless a container of a node below `nodes` uses the image.
/// Reads the nodes' containers once. Returns the names that are gone.
pub fn remove_unused_names(
    store: &ImageStore,
    nodes: &Path,
    names: &[String],
) -> Result<Vec<String>, RemoveError> {
    let users = OnceCell::new();
    store.remove_names(names, |image| users.get_or_init(|| ImageUsers::read(nodes)).uses(&image.id))
}
