//! An image's files as a container's root (IMG-3): its layers with a private writable one over them, and /proc, /dev and /sys
//! of its own.
//!
//! Runs in the forked child, in a mount namespace of its own. The image's files are never written. The image's links
//! are never trusted: every mount point is looked up as if the image were already the root.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive, mount_change,
    unmount,
};
use rustix::thread::UnshareFlags;

use super::dev::build_dev;
use super::devices::DeviceMounts;
use super::kernel;
use super::layers;
use super::mount::{link, lock_read_only};
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

/// Mounts the image's layers at the container's root, below one that is the container's own.
fn layer(view: &View, image: &ImageRoot) -> io::Result<()> {
    let layers = view.dir.join("layers");
    let (upper, work) = (layers.join(UPPER), layers.join("work-root"));
    fs::create_dir_all(&upper)?;
    fs::create_dir_all(&work)?;
    fs::set_permissions(&upper, fs::metadata(image.layers.directory(0))?.permissions())?;
    if layers::mount(&image.layers, &upper, &work, &view.root).is_err() {
        // The kernel allows no overlay here, or not on this file system. A full copy is slower and takes space, but is
        // as private.
        image.layers.copy(&view.root)?;
        mount_bind_recursive(&view.root, &view.root)?;
    }
    // The root is unbindable: otherwise a mount of a directory that contains it would show the root within itself.
    Ok(mount_change(&view.root, MountPropagationFlags::UNBINDABLE)?)
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
