//! The removal of an image by a user, on the command line or through a node: refused while containers use it (IMG-3).

use std::path::Path;

use crate::store::RemoveError;
use crate::{ImageStore, StoredImage};
use host::containers_of_image;

/// Removes a name, or an image with all its names by its id, unless a container of a node below `nodes` uses the image.
/// Returns the removed names, and the id if the image itself was removed.
pub fn remove_unused(store: &ImageStore, nodes: &Path, requested: &str) -> Result<Vec<String>, RemoveError> {
    store.remove(requested, |image: &StoredImage| {
        let users = containers_of_image(nodes, &image.id);
        (!users.is_empty()).then(|| users.join(", "))
    })
}
