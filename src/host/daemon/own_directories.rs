//! The directories of a container attempt on the machine.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Host;
use super::container::{Container, TERMINATION_LOG};
use super::error::os_error;
use super::pod::Pod;
use super::user::User;
use crate::journal::{container_dir, tmp_dir};
use crate::protocol::Launch;
use crate::{ContainerId, RuntimeError};
use base::removal::remove_tree;
use programs::IMAGE_DIRECTORY;

/// The directories of one attempt.
pub(super) struct OwnDirectories {
    /// On disk; created on the first write.
    pub(super) dir: PathBuf,
    /// Its own /tmp on disk.
    pub(super) tmp: PathBuf,
    /// In memory, where there are namespaces.
    pub(super) private: PathBuf,
    /// Its root, or the root of the debugged container, which it then shares.
    pub(super) root: PathBuf,
    /// The /tmp that it sees; `None` if that is in the machine's own view or in a loaded image's files.
    pub(super) visible_tmp: Option<PathBuf>,
    /// The directory of the layers with the writes of the debugged container, if it shares that root.
    pub(super) shared_layers: Option<PathBuf>,
}

impl OwnDirectories {
    /// Creates the directories that the container needs from its start. `beside` is the debugged container, if this one
    /// shares its root.
    pub(super) fn create(
        host: &Host,
        pod: &Pod,
        launch: &Launch,
        id: &ContainerId,
        beside: Option<&Container>,
    ) -> Result<Self, RuntimeError> {
        let (dir, tmp) = (container_dir(&host.dir, id), tmp_dir(&host.dir, id));
        let private = pod.private.join(&id.0);
        let root = beside.map_or(&private, |target| &target.private).join("root");
        // Without namespaces, or if the container sees the machine's own view or a loaded image's files, it uses the
        // /tmp that is in these.
        let own_tmp = host.isolation.namespaces && !launch.host_view && !launch.has_image_files();
        let visible_tmp = own_tmp.then(|| beside.map_or(&tmp, |target| &target.tmp).clone());
        for path in [Some(&private), Some(&root), visible_tmp.as_ref()].into_iter().flatten() {
            // The directories exist only if they are those of a debug container's target, and even these end with the
            // target's host.
            make_directories(path).map_err(os_error("container directory"))?;
        }
        fs::File::create(private.join(TERMINATION_LOG)).map_err(os_error("termination log"))?;
        if let Some(tmp) = &visible_tmp {
            fs::set_permissions(tmp, fs::Permissions::from_mode(0o1777)).map_err(os_error("/tmp"))?;
        }
        let shared_layers = beside.map(|target| target.private.join("layers"));
        Ok(Self { dir, tmp, private, root, visible_tmp, shared_layers })
    }

    /// Removes the directories of an attempt that did not start; a failure leaves them to the next host.
    pub(super) fn remove(&self) {
        for path in [&self.private, &self.tmp, &self.dir] {
            if let Err(error) = remove_tree(path) {
                eprintln!("cannot remove {}: {error}", path.display());
            }
        }
    }

    /// Gives the files that the container's program must be able to write to its user.
    pub(super) fn give_to(&self, user: &User, launch: &Launch) -> Result<(), RuntimeError> {
        let own = [self.private.join("root"), self.tmp.clone(), self.private.join(TERMINATION_LOG)];
        // The image's program must be able to fill its own directories.
        let image = (0..launch.directories.len()).map(|n| self.dir.join("directories").join(n.to_string()));
        let image = image.flat_map(|path| [path.join(IMAGE_DIRECTORY), path]);
        for path in own.into_iter().chain(image).filter(|path| path.exists()) {
            std::os::unix::fs::chown(path, Some(user.uid), Some(user.gid)).map_err(os_error("chown"))?;
        }
        Ok(())
    }
}

/// Creates a directory that may exist already; almost always only its last component is missing.
fn make_directories(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir_all(path),
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
