//! Mounts that show files with the owners that they have in a pod's user namespace (`hostUsers: false`): a file of the
//! machine's user 0 belongs to root of the pod, and a file that root of the pod creates belongs to the machine's user 0.
//! Every pod shows the same files, with its own ids.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use super::mount::hold;
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
    let clone = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(source, "", clone)?;
    os::map_owners(&tree, &users.namespace, access == Access::Read).map_err(|error| {
        io::Error::other(format!(
            "failed to set MOUNT_ATTR_IDMAP: {} (the file system may not support id-mapped mounts)",
            os_text(&error)
        ))
    })?;
    Ok(tree)
}

/// Moves a new mount to the descriptor's place.
pub(super) fn attach(tree: &OwnedFd, place: &OwnedFd) -> io::Result<()> {
    let by_descriptors = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(tree, "", place, "", by_descriptors)?)
}

/// Covers a directory with itself: from here on this process sees it with the owners of the pod.
pub(super) fn cover(directory: &Path, users: &PodUsers, access: Access) -> io::Result<()> {
    let place = hold(directory)?;
    attach(&mapped(&place, users, access)?, &place)
}
