//! The cluster's data directory, which containers do not see: processes of pods run as the same user as Podium, so they
//! could otherwise read its keys, its sockets and other pods' volumes.
//!
//! The parts of it that belong to the pod (volumes, the pod's own files) are mounted from their paths there, before the
//! container's root is entered.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::mount::mount_bind;

use super::mount::{lock_read_only, make_directory};

/// A directory of the machine's, and the directory shown in its place.
#[derive(Clone, Debug)]
pub(in crate::daemon) struct MaskedDirectory {
    /// The path of the hidden directory, without symbolic links.
    pub(in crate::daemon) directory: PathBuf,
    /// The empty directory that is shown instead.
    pub(in crate::daemon) nothing: PathBuf,
}

impl MaskedDirectory {
    /// Hides this directory; its replacement lies in the host's memory.
    pub(in crate::daemon) fn new(directory: &Path, memory: &Path) -> io::Result<Self> {
        let nothing = memory.join("nothing");
        make_directory(&nothing)?;
        fs::set_permissions(&nothing, fs::Permissions::from_mode(0o555))?;
        Ok(Self { directory: fs::canonicalize(directory)?, nothing })
    }

    /// Covers the directory in a root under construction, unless it is below one of the container's own top-level
    /// directories; returns true if it was covered.
    pub(super) fn cover(&self, root: &Path, own: &[&str]) -> io::Result<bool> {
        let Ok(inside) = self.directory.strip_prefix("/") else { return Ok(false) };
        let place = root.join(inside);
        if own.iter().any(|own| inside.starts_with(own)) || !place.is_dir() {
            return Ok(false);
        }
        mount_bind(&self.nothing, &place)?;
        lock_read_only(&place)?;
        Ok(true)
    }
}
