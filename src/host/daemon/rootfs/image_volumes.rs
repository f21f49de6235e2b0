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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rustix::mount::{MountPropagationFlags, mount_change};
    use rustix::thread::UnshareFlags;

    use super::*;
    use crate::daemon::os;

    /// IMG-11: the files of all layers are shown, by the kernel's overlay, which takes no writes, or as a copy where
    /// there are too many layers for it.
    #[test]
    fn an_image_volume_shows_the_files_of_all_layers_img_11() {
        if crate::needs::lacks(crate::needs::Need::Root, rustix::process::geteuid().is_root()) {
            return;
        }
        let around = tempfile::tempdir_in("/var/tmp").unwrap();
        let layer = |number: usize| -> PathBuf {
            let directory = around.path().join(format!("layer-{number}"));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join(format!("file-{number}")), "").unwrap();
            directory
        };
        for (count, is_copy) in [(1, false), (3, false), (600, true)] {
            let layers = Layers::new((0..count).map(layer).collect());
            let [place, copy] = ["place", "copy"].map(|name| around.path().join(format!("{count}-{name}")));
            let shown = std::thread::scope(|scope| {
                // In a mount namespace of the thread's own.
                let shown = scope.spawn(|| {
                    os::unshare(UnshareFlags::NEWNS)?;
                    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
                    mount_one(&layers, &place, &copy)?;
                    let is_read_only = fs::write(place.join("new"), "").is_err();
                    Ok::<_, io::Error>((fs::read_dir(&place)?.count(), is_read_only))
                });
                shown.join().unwrap().unwrap()
            });
            // A copy is locked where it is shown.
            let files = if is_copy { count + 1 } else { count };
            assert_eq!((shown, copy.exists()), ((files, !is_copy), is_copy), "{count}");
        }
        assert_eq!(fs::read_dir(around.path().join("layer-0")).unwrap().count(), 1, "no layer is written");
    }
}
