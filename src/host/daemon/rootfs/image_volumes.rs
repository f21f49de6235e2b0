//! The files of images as volumes (IMG-11): the layers of each are mounted over each other and read-only at a place of
//! the container's own, from where they are shown at their mount path like any other volume.

use std::fs;
use std::io;
use std::path::Path;

use rustix::mount::mount_bind_recursive;

use super::layers::mount_read_only;
use super::mount::hold;
use super::view::View;
use base::layers::Layers;

/// The directory of copies below a container's own directory on disk.
const COPIES: &str = "image-volumes";

/// Mounts the files of all image volumes at their first places. Runs in the container's mount namespace.
pub(super) fn mount(view: &View) -> Result<(), String> {
    for (number, show) in view.bind_mounts.iter().enumerate() {
        let Some(layers) = &show.image else { continue };
        let copy = view.dir.join(COPIES).join(number.to_string());
        mount_one(layers, &show.source, &copy).map_err(|error| show.failure(&error))?;
    }
    Ok(())
}

fn mount_one(layers: &Layers, place: &Path, copy: &Path) -> io::Result<()> {
    let empty = place.with_extension("empty");
    fs::create_dir_all(place)?;
    fs::create_dir_all(&empty)?;
    if mount_read_only(layers, &empty, &hold(place)?).is_ok() {
        return Ok(());
    }
    // The kernel allows no overlay here: a full copy is slower and takes space, but shows the same.
    fs::create_dir_all(copy)?;
    layers.copy(copy)?;
    Ok(mount_bind_recursive(copy, place)?)
}
