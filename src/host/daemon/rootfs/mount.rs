//! Mounts and directories, in the few forms that a root file system needs.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, StatVfsMountFlags};
use rustix::mount::{
    MountFlags, MoveMountFlags, OpenTreeFlags, mount, mount_bind_recursive, mount_remount, move_mount,
    open_tree,
};

use crate::daemon::os;

/// Makes a mount and all mounts in it read-only.
pub(in crate::daemon) fn lock_all_read_only(target: &Path) -> io::Result<()> {
    match os::lock_mounts_read_only(target) {
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {}
        done => return done,
    }
    // A kernel before 5.12 needs one call for each mount.
    let target = fs::canonicalize(target)?;
    let mounts = fs::read(Path::new(OWN_PROCESS).join("mountinfo"))?;
    mount_points(&mounts)
        .filter(|point| point.starts_with(&target))
        .try_for_each(|point| lock_read_only(&point))
}

/// The mount points in `/proc/self/mountinfo`. Names are any bytes.
pub(in crate::daemon) fn mount_points(mountinfo: &[u8]) -> impl Iterator<Item = PathBuf> {
    mountinfo.split(|byte| *byte == b'\n').filter_map(|line| {
        let bytes = line.split(|byte| *byte == b' ').nth(4)?;
        let mut path = Vec::with_capacity(bytes.len());
        let mut rest = bytes;
        while let Some((first, after)) = rest.split_first() {
            // The kernel writes spaces and some other bytes as octal numbers.
            let number = after.get(..3).filter(|_| *first == b'\\');
            let number = number.and_then(|text| u8::from_str_radix(std::str::from_utf8(text).ok()?, 8).ok());
            path.push(number.unwrap_or(*first));
            rest = if number.is_some() { &after[3..] } else { after };
        }
        Some(PathBuf::from(std::ffi::OsString::from_vec(path)))
    })
}

/// Makes a mount read only.
pub(in crate::daemon) fn lock_read_only(target: &Path) -> io::Result<()> {
    match os::lock_mount_read_only(target) {
        // A kernel before 5.12 does not have this system call.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => remount(target, MountFlags::RDONLY),
        done => done,
    }
}

/// Returns a mount, at no path yet, of a descriptor's directory or file with the mounts in it.
pub(super) fn detached(held: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let clone = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(held, "", clone)
}

/// Moves a mount without a path to the descriptor's place.
pub(super) fn attach(tree: &OwnedFd, place: &OwnedFd) -> io::Result<()> {
    let by_descriptors = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(tree, "", place, "", by_descriptors)?)
}

/// Binds a descriptor's directory or file, with the mounts in it, to a further path.
pub(in crate::daemon) fn show(held: &OwnedFd, place: &Path) -> io::Result<()> {
    match detached(held) {
        Ok(tree) => Ok(move_mount(&tree, "", CWD, place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?),
        // On a kernel before 5.2, or if a filter of system calls refuses, bind the descriptor's path in /proc.
        Err(_) => Ok(mount_bind_recursive(link(held), place)?),
    }
}

pub(super) fn remount(target: &Path, more: MountFlags) -> io::Result<()> {
    // Flags that the machine locked must be repeated, or the change is refused.
    let locked = rustix::fs::statvfs(target)?.f_flag;
    let mut flags = MountFlags::BIND | more;
    for (set, flag) in [
        (StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ] {
        if locked.contains(set) {
            flags |= flag;
        }
    }
    Ok(mount_remount(target, flags, c"")?)
}

/// A descriptor that only names a file.
pub(in crate::daemon) fn hold(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

/// This process in the machine's /proc. The parent of the root is the root itself, or the machine's root while that still
/// covers a new one (`pivot_root`).
const OWN_PROCESS: &str = "/../proc/self";

/// A path that leads to the descriptor's file.
pub(in crate::daemon) fn link(descriptor: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("{OWN_PROCESS}/fd/{}", descriptor.as_raw_fd()))
}

/// Covers a directory with an empty one in memory.
pub(in crate::daemon) fn cover_with_memory(directory: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount("tmpfs", directory, "tmpfs", flags, c"mode=755,size=65536k")?)
}

/// Binds every entry of a directory to its place in another one, where further entries can be created.
pub(in crate::daemon) fn show_entries(original: &OwnedFd, directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(link(original))? {
        let entry = entry?;
        let (kind, place) = (entry.file_type()?, directory.join(entry.file_name()));
        if kind.is_symlink() {
            symlink(fs::read_link(entry.path())?, &place)?;
        } else {
            if kind.is_dir() {
                make_directory(&place)?;
            } else {
                fs::File::create(&place)?;
            }
            mount_bind_recursive(entry.path(), &place)?;
        }
    }
    Ok(())
}

/// Creates a directory that may exist already.
pub(in crate::daemon) fn make_directory(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Creates the directories of a writable layer of an overlay below `layers`: the one that takes the writes, and the
/// kernel's own.
pub(super) fn make_layer(layers: &Path, name: &str) -> io::Result<[PathBuf; 2]> {
    let directories = [layers.join(name), layers.join(format!("work-{name}"))];
    make_directory(layers)?;
    directories.iter().try_for_each(|directory| make_directory(directory))?;
    Ok(directories)
}

/// Creates a link that may exist already.
pub(in crate::daemon) fn symlink_if_missing(target: &Path, place: &Path) -> io::Result<()> {
    match symlink(target, place) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read_with_their_spaces_and_what_is_no_text() {
        let text = b"1 2 0:1 / / rw - ext4 a rw\n3 1 0:2 / /mnt/a\\040b\\134 rw shared:1 - tmpfs t rw\n\
            4 1 0:3 / /mnt/\xfc rw - tmpfs t rw\nshort\n";
        let points: Vec<_> = mount_points(text).collect();
        let no_text = std::ffi::OsString::from_vec(b"/mnt/\xfc".to_vec());
        assert_eq!(points, [Path::new("/"), Path::new("/mnt/a b\\"), Path::new(&no_text)]);
    }
}
