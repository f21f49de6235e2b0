//! The layout of a container's root over the machine's files: the machine's top-level directories, and a /proc, /dev
//! and /tmp of its own.

use std::fs;
use std::io;
use std::path::Path;

use rustix::mount::{MountPropagationFlags, mount_bind, mount_bind_recursive, mount_change};

use super::dev::build_dev;
use super::devices::DeviceMounts;
use super::kernel;
use super::mount::{lock_all_read_only, make_directory, symlink_if_missing};
use super::overlay;
use super::view::{RootLayout, View};

/// Directories under `/` for which the container gets its own.
const OWN: &[&str] = &["proc", "dev", "tmp"];

/// Builds the root, and returns the mounts under it, as the container will see them.
pub(in crate::daemon) fn build(view: &View) -> io::Result<RootLayout> {
    let root = &view.root;
    fs::create_dir_all(root)?;
    let mut layout = match &view.overlay {
        Some(overlay) => overlay::build(view, overlay)?,
        None => plain(view)?,
    };
    let proc = root.join("proc");
    make_directory(&proc)?;
    kernel::mount_proc(&view.proc, &proc)?;
    layout.machine.push("/proc".into());
    if !view.of_machine {
        make_directory(&root.join("tmp"))?;
        mount_bind_recursive(&view.tmp, root.join("tmp"))?;
        let (dev, terminals) = (root.join("dev"), view.terminals.as_deref());
        if view.overlay.is_some() {
            // Devices are created in a directory of the memory file system, not through the overlay.
            let made = view.layers.join("dev");
            make_directory(&made)?;
            make_directory(&dev)?;
            mount_bind(&made, &dev)?;
            layout.own.push("/dev".into());
        }
        build_dev(&dev, terminals)?;
        layout.devices = DeviceMounts::of(&dev)?;
    }
    show_sys(view, &mut layout)?;
    if !view.unmasked {
        kernel::mask(root, &mut layout.devices)?;
    }
    if let Some(hidden) = &view.hidden
        && hidden.cover(root, if view.of_machine { &[] } else { OWN })?
    {
        layout.machine.push(hidden.directory.clone());
    }
    Ok(layout)
}

/// Shows a read-only /sys: that of the container's own network if the kernel allows it, else the machine's. A
/// container with the machine's own view writes the machine's /sys as its user may.
fn show_sys(view: &View, layout: &mut RootLayout) -> io::Result<()> {
    let sys = view.root.join("sys");
    if !sys.is_dir() {
        return Ok(());
    }
    if view.own_network && kernel::mount_sys(&sys) {
        kernel::show_control_groups(&sys)?;
    } else {
        // Without an overlay, `plain` has bound the machine's /sys.
        if view.own_network && view.overlay.is_some() {
            mount_bind_recursive("/sys", &sys)?;
        }
        if !view.of_machine {
            lock_all_read_only(&sys)?;
        }
    }
    layout.machine.push("/sys".into());
    Ok(())
}

/// Binds each of the machine's top-level directories to its place in the root.
fn plain(view: &View) -> io::Result<RootLayout> {
    let root = &view.root;
    let mut layout = RootLayout::default();
    mount_bind_recursive(root, root)?;
    // The root is unbindable: otherwise a mount of a directory that contains it would show the root within itself.
    mount_change(root, MountPropagationFlags::UNBINDABLE)?;
    for entry in fs::read_dir("/")? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let place = root.join(&name);
        let renewed = OWN.iter().any(|own| name == *own) && !(view.of_machine && name != "proc");
        if renewed {
        } else if kind.is_symlink() {
            symlink_if_missing(&fs::read_link(entry.path())?, &place)?;
        } else if kind.is_dir() {
            make_directory(&place)?;
            mount_bind_recursive(entry.path(), &place)?;
            layout.machine.push(Path::new("/").join(&name));
        }
    }
    Ok(layout)
}
