//! Mounts an image's layers over each other, with a writable one on top.
//!
//! The layers are named by descriptors: the kernel's options have room for short names only, and the characters of a
//! path need no escape.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount,
};

use super::mount::{hold, link};
use base::layers::Layers;

/// Mounts the layers at `place`; writes go to `upper`. May change the working directory.
///
/// The marks of removed files are attributes that need no rights (`userxattr`), for root too: a layer that one user has
/// unpacked means the same to every other.
pub(super) fn mount(layers: &Layers, upper: &Path, work: &Path, place: &Path) -> io::Result<()> {
    let (upper, work) = (hold(upper)?, hold(work)?);
    one_by_one(layers, &upper, &work, place).or_else(|_| at_once(layers, &upper, &work, place))
}

/// With one option for each layer, since Linux 6.5.
fn one_by_one(layers: &Layers, upper: &OwnedFd, work: &OwnedFd, place: &Path) -> io::Result<()> {
    let overlay = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&overlay, "source", "overlay")?;
    for directory in layers.directories() {
        fsconfig_set_string(&overlay, "lowerdir+", link(&hold(directory)?))?;
    }
    fsconfig_set_string(&overlay, "upperdir", link(upper))?;
    fsconfig_set_string(&overlay, "workdir", link(work))?;
    fsconfig_set_flag(&overlay, "userxattr")?;
    fsconfig_create(&overlay)?;
    let tree = fsmount(&overlay, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    Ok(move_mount(&tree, "", CWD, place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// With all options in one page of text, which has room for several hundred descriptors.
fn at_once(layers: &Layers, upper: &OwnedFd, work: &OwnedFd, place: &Path) -> io::Result<()> {
    let held: Vec<OwnedFd> =
        layers.directories().iter().map(|directory| hold(directory)).collect::<Result<_, _>>()?;
    let names: Vec<String> = held.iter().map(|directory| directory.as_raw_fd().to_string()).collect();
    let options = format!(
        "lowerdir={},upperdir={},workdir={},userxattr",
        names.join(":"),
        upper.as_raw_fd(),
        work.as_raw_fd()
    );
    let options = CString::new(options).map_err(io::Error::other)?;
    rustix::process::chdir("/proc/self/fd")?;
    Ok(rustix::mount::mount("overlay", place, "overlay", MountFlags::empty(), options.as_c_str())?)
}
