//! A loaded image's files as a container's root (IMG-3): a private writable layer over them, and /proc, /dev and /sys
//! of its own.
//!
//! Runs in the forked child, in a mount namespace of its own. The image's files are never written. The image's links
//! are never trusted: every mount point is looked up as if the image were already the root.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive, mount_change,
    unmount,
};
use rustix::thread::UnshareFlags;

use super::dev::build_dev;
use super::devices::DeviceMounts;
use super::kernel;
use super::mount::{hold, link, lock_read_only};
use super::view::{BindMount, ImageRoot, UPPER, View};
use crate::daemon::os;
use crate::daemon::program::os_text;
use crate::daemon::user::User;
use base::root_dir::RootDir;

/// Applies the view to this process, for good; it already has its own mount namespace.
pub(in crate::daemon) fn enter(view: &View, image: &ImageRoot) -> Result<(), String> {
    let at = |context: &'static str| move |error: io::Error| format!("{context}: {}", os_text(&error));
    layer(view, image).map_err(at("root file system"))?;
    let root = RootDir::new(&view.root).map_err(at("root file system"))?;
    let devices = own_directories(view).map_err(at("root file system"))?;
    for show in &view.bind_mounts {
        put(&root, show).map_err(|error| show.failure(&error))?;
    }
    root.directory(&view.working_dir)
        .map_err(|error| format!("working directory {}: {}", view.working_dir.display(), os_text(&error)))?;
    drop(root);
    if view.read_only {
        lock_read_only(&view.root).map_err(at("read-only root"))?;
    }
    let change = || -> rustix::io::Result<()> {
        rustix::process::chdir(&view.root)?;
        rustix::process::pivot_root(".", ".")?;
        // The machine's root covers the new one at `.`: it must be removed before any path is looked up.
        unmount(".", UnmountFlags::DETACH)?;
        mount_change("/", MountPropagationFlags::PRIVATE)?;
        rustix::process::chdir("/")
    };
    change().map_err(|error| at("pivot_root")(error.into()))?;
    if view.every_device { Ok(()) } else { devices.forbid_other_devices().map_err(at("devices")) }
}

/// Mounts the image's files at the container's root, writable for it alone.
fn layer(view: &View, image: &ImageRoot) -> io::Result<()> {
    let layers = view.dir.join("layers");
    let (upper, work) = (layers.join(UPPER), layers.join("work-root"));
    fs::create_dir_all(&upper)?;
    fs::create_dir_all(&work)?;
    let about = fs::metadata(&image.files)?;
    fs::set_permissions(&upper, about.permissions())?;
    let (lower, held_upper, held_work) = (hold(&image.files)?, hold(&upper)?, hold(&work)?);
    let rights = if rustix::process::geteuid().is_root() { "" } else { ",userxattr" };
    let options = format!(
        "lowerdir={},upperdir={},workdir={}{rights}",
        link(&lower).display(),
        link(&held_upper).display(),
        link(&held_work).display()
    );
    let options = std::ffi::CString::new(options).map_err(io::Error::other)?;
    if mount("overlay", &view.root, "overlay", MountFlags::empty(), options.as_c_str()).is_err() {
        // The kernel allows no overlay here, or not on this file system. A full copy is slower and takes space, but is
        // as private.
        copy(&image.files, &view.root, &mut HashMap::new())?;
        mount_bind_recursive(&view.root, &view.root)?;
    }
    // The root is unbindable: otherwise a mount of a directory that contains it would show the root within itself.
    Ok(mount_change(&view.root, MountPropagationFlags::UNBINDABLE)?)
}

/// Copies a tree: types, modes, owners, and hard links.
fn copy(from: &Path, to: &Path, linked: &mut HashMap<u64, PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (place, about) = (to.join(entry.file_name()), entry.metadata()?);
        if about.is_symlink() {
            symlink(fs::read_link(entry.path())?, &place)?;
        } else if about.is_dir() {
            fs::create_dir(&place)?;
            copy(&entry.path(), &place, linked)?;
        } else if let Some(first) = linked.get(&about.ino()) {
            fs::hard_link(first, &place)?;
            continue;
        } else if about.is_file() {
            fs::copy(entry.path(), &place)?;
            if about.nlink() > 1 {
                linked.insert(about.ino(), place.clone());
            }
        } else {
            continue;
        }
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(&place, Some(about.uid()), Some(about.gid()))?;
        }
        if !about.is_symlink() {
            fs::set_permissions(&place, about.permissions())?;
        }
    }
    fs::set_permissions(to, fs::metadata(from)?.permissions())
}

/// Mounts the container's /proc, /dev and /sys over the image's; returns the location of its devices.
fn own_directories(view: &View) -> io::Result<DeviceMounts> {
    let root = &view.root;
    let [proc, dev, sys] = ["proc", "dev", "sys"].map(|name| root.join(name));
    for path in [&proc, &dev, &sys] {
        match fs::symlink_metadata(path) {
            Ok(about) if about.is_dir() => continue,
            Ok(_) => fs::remove_file(path)?,
            Err(_) => {}
        }
        fs::create_dir(path)?;
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", &proc, "proc", flags, None)?;
    mount("tmpfs", &dev, "tmpfs", MountFlags::NOSUID, c"mode=755,size=65536k")?;
    build_dev(&dev, view.terminals.as_deref())?;
    let mut devices = DeviceMounts::of(&dev)?;
    // Programs look for processors and devices in /sys, and can do without if the kernel refuses the mount. The
    // machine's control groups, which root could write, are left out. In a user namespace no process can write them;
    // there they are mounted too, because the kernel does not separate them from /sys.
    let own = view.own_network && kernel::mount_sys(&sys);
    if !own && (mount_bind("/sys", &sys).is_ok() || mount_bind_recursive("/sys", &sys).is_ok()) {
        let _ = lock_read_only(&sys);
    }
    if !view.unmasked {
        kernel::mask(root, &mut devices)?;
    }
    Ok(devices)
}

/// Mounts a source at a path inside, creating the path if it is missing.
fn put(root: &RootDir, show: &BindMount) -> io::Result<()> {
    let source = show.hold()?;
    let is_directory = fs::metadata(link(&source))?.is_dir();
    let place = || -> io::Result<OwnedFd> {
        if is_directory { root.directory(&show.target) } else { root.file(&show.target) }
    };
    mount_bind_recursive(link(&source), link(&place()?))?;
    // The path now leads to the mount; before, it led to the directory below it.
    show.lock(&link(&place()?))
}

/// Makes this process appear as this user to itself: for the machine its user does not change.
pub(in crate::daemon) fn appear_as(user: &User) -> io::Result<()> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    os::unshare(UnshareFlags::NEWUSER)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{} {uid} 1", user.uid))?;
    fs::write("/proc/self/gid_map", format!("{} {gid} 1", user.gid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// IMG-3: without an overlay, each container gets its own copy of the image, and its writes stay in that copy.
    #[test]
    fn a_copy_is_as_the_image_and_private() {
        let around = tempfile::tempdir().unwrap();
        let (image, root) = (around.path().join("image"), around.path().join("root"));
        fs::create_dir_all(image.join("a/b")).unwrap();
        fs::create_dir(&root).unwrap();
        fs::write(image.join("a/program"), "code").unwrap();
        fs::set_permissions(image.join("a/program"), fs::Permissions::from_mode(0o4755)).unwrap();
        fs::set_permissions(image.join("a/b"), fs::Permissions::from_mode(0o1777)).unwrap();
        fs::hard_link(image.join("a/program"), image.join("a/b/same")).unwrap();
        symlink("../../elsewhere", image.join("a/link")).unwrap();
        copy(&image, &root, &mut HashMap::new()).unwrap();
        let about = |path: &str| fs::symlink_metadata(root.join(path)).unwrap();
        assert_eq!(about("a/program").permissions().mode() & 0o7777, 0o4755);
        assert_eq!(about("a/b").permissions().mode() & 0o7777, 0o1777);
        assert_eq!(fs::read_link(root.join("a/link")).unwrap(), Path::new("../../elsewhere"));
        assert_eq!(about("a/program").ino(), about("a/b/same").ino());
        fs::write(root.join("a/program"), "mine").unwrap();
        assert_eq!(fs::read_to_string(image.join("a/b/same")).unwrap(), "code");
    }
}
