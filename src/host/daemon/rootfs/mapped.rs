//! Mounts that show files with the owners that they have in a pod's user namespace (`hostUsers: false`): a file of the
//! machine's user 0 belongs to root of the pod, and a file that root of the pod creates belongs to the machine's user 0.
//! Every pod shows the same files, with its own ids.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use super::mount::{attach, detached, hold};
use crate::daemon::os;
use crate::daemon::program::os_text;
use crate::daemon::user_namespace::PodUsers;

/// The rights of the pod on a mapped mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Write,
    Read,
}

/// Returns a mount, at no path yet, of the descriptor's directory or file with the owners of the pod. Mounts inside it
/// keep the machine's owners, as in runc.
pub(super) fn mapped(source: &OwnedFd, users: &PodUsers, access: Access) -> io::Result<OwnedFd> {
    let tree = detached(source)?;
    os::map_owners(&tree, &users.namespace, access == Access::Read).map_err(|error| {
        io::Error::other(format!(
            "failed to set MOUNT_ATTR_IDMAP: {} (the file system may not support id-mapped mounts)",
            os_text(&error)
        ))
    })?;
    Ok(tree)
}

/// Covers a directory with itself: from here on this process sees it with the owners of the pod.
pub(super) fn cover(directory: &Path, users: &PodUsers, access: Access) -> io::Result<()> {
    let place = hold(directory)?;
    attach(&mapped(&place, users, access)?, &place)
}
