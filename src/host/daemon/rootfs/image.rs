//! An image's files as a container's root (IMG-2, IMG-3): a private writable layer over them (`layers`), and /proc,
//! /dev and /sys of its own.
//!
//! Runs in the forked child, in a mount namespace of its own. The image's files are never written. The image's links
//! are never trusted: every mount point is looked up as if the image were already the root.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change, unmount,
};

use super::dev::build_dev;
use super::devices::DeviceMounts;
use super::kernel;
use super::layers;
use super::mapped::{Access, mapped};
use super::mount::{attach, cover_with_memory, hold, link, lock_all_read_only, lock_read_only, show_entries};
use super::view::{BindMount, ImageRoot, View};
use crate::daemon::program::os_text;
use base::root_dir::RootDir;

/// Applies the view to this process, for good; it already has its own mount namespace.
pub(in crate::daemon) fn enter(view: &View, image: &ImageRoot) -> Result<(), String> {
    let at = |context: &'static str| move |error: io::Error| format!("{context}: {}", os_text(&error));
    let mut own = layers::build(view, image).map_err(at("root file system"))?;
    let root = RootDir::new(&view.root).map_err(at("root file system"))?;
    let devices = own_directories(view).map_err(at("root file system"))?;
    let is_builtin = !image.machine.is_empty();
    if is_builtin {
        own.push(hold(&view.root.join("dev")).map_err(|error| at("root file system")(error.into()))?);
    }
    for show in &view.bind_mounts {
        put(view, &root, show, &mut own).map_err(|error| show.failure(&error))?;
    }
    working_dir(view, &root, is_builtin, &mut own)
        .map_err(|error| format!("working directory {}: {}", view.working_dir.display(), os_text(&error)))?;
    drop(root);
    if view.read_only {
        own.iter().try_for_each(|mount| lock_read_only(&link(mount))).map_err(at("read-only root"))?;
    }
    drop(own);
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
    kernel::mount_proc(&view.proc, &proc)?;
    mount("tmpfs", &dev, "tmpfs", MountFlags::NOSUID, c"mode=755,size=65536k")?;
    build_dev(&dev, view.terminals.as_deref())?;
    let mut devices = DeviceMounts::of(&dev)?;
    if view.own_network && kernel::mount_sys(&sys) {
        kernel::show_control_groups(&sys)?;
    } else if mount_bind_recursive("/sys", &sys).is_ok() {
        // Programs look for processors and devices in /sys, and can do without if the kernel refuses the mount.
        lock_all_read_only(&sys)?;
    }
    if !view.unmasked {
        kernel::mask(root, &mut devices)?;
    }
    Ok(devices)
}

/// Mounts a source at a path inside, creating the path if it is missing. Adds mounts that the container may write to
/// `own`.
fn put(view: &View, root: &RootDir, show: &BindMount, own: &mut Vec<OwnedFd>) -> io::Result<()> {
    let source = view.as_machine(|| show.hold())?;
    let is_directory = fs::metadata(link(&source))?.is_dir();
    let make = || -> io::Result<OwnedFd> {
        if is_directory { root.directory(&show.target) } else { root.file(&show.target) }
    };
    let place = make().or_else(|error| {
        // Without an overlay, the machine's directories are read-only.
        if error.kind() != io::ErrorKind::ReadOnlyFilesystem {
            return Err(error);
        }
        let existing = |path: &&Path| root.open(path, OFlags::PATH | OFlags::DIRECTORY).is_ok();
        let nearest = show.target.ancestors().skip(1).find(existing).unwrap_or(Path::new("/"));
        let original = root.directory(nearest)?;
        cover_with_memory(&link(&original))?;
        let top = root.directory(nearest)?;
        show_entries(&original, &link(&top))?;
        own.push(top);
        make()
    })?;
    // The files of an image volume already have the pod's owners.
    let users = view.users.as_ref().filter(|_| show.image.is_none());
    let of_pod = users.map(|users| mapped(&source, users, Access::Write));
    match of_pod {
        Some(Err(error)) if !show.of_system => return Err(error),
        Some(Ok(tree)) => attach(&tree, &place)?,
        Some(Err(_)) | None => mount_bind_recursive(link(&source), link(&place))?,
    }
    // The path now leads to the mount; before, it led to the directory below it.
    let top = make()?;
    show.lock(&link(&top))
}

/// Creates the working directory if it is missing. That of a built-in image is on disk, since a program may write much
/// into it, and the image's own layer is in memory.
fn working_dir(view: &View, root: &RootDir, is_builtin: bool, own: &mut Vec<OwnedFd>) -> io::Result<()> {
    let path = &view.working_dir;
    let is_missing = || root.open(path, OFlags::PATH).is_err_and(|error| error == Errno::NOENT);
    if is_builtin && !view.read_only && is_missing() {
        let source = view.dir.join("working-dir");
        view.as_machine(|| fs::create_dir_all(&source))?;
        return put(view, root, &BindMount::new(source, path.clone()), own);
    }
    root.directory(path).map(drop)
}
