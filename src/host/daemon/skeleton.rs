//! The bones of a container's root: the machine's top-level directories, and a /proc, /dev and /tmp of its own.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change};

use super::layered::{self, Bones};
use super::mounts::View;

/// Directories under `/` that the container gets anew.
const OWN: &[&str] = &["proc", "dev", "tmp"];

/// Makes a directory that may be there already.
pub(super) fn make_directory(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Builds the root, and gives what was mounted under it, as the container will see it.
pub(super) fn build(view: &View) -> io::Result<Bones> {
    let root = &view.root;
    fs::create_dir_all(root)?;
    let mut bones = match &view.layered {
        Some(layered) => layered::build(view, layered)?,
        None => plain(view)?,
    };
    let proc = root.join("proc");
    make_directory(&proc)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    // Who shares the machine's processes may not be allowed a new one of them.
    mount("proc", &proc, "proc", flags, None).or_else(|_| mount_bind_recursive("/proc", &proc))?;
    bones.machine.push("/proc".into());
    if !view.of_machine {
        fs::set_permissions(&view.tmp, fs::Permissions::from_mode(0o1777))?;
        make_directory(&root.join("tmp"))?;
        mount_bind_recursive(&view.tmp, root.join("tmp"))?;
        let dev = root.join("dev");
        if view.layered.is_some() {
            // Devices are made in memory itself, not through the layer.
            let made = view.layers.join("dev");
            build_dev(&made)?;
            make_directory(&dev)?;
            mount_bind_recursive(&made, &dev)?;
            bones.own.push("/dev".into());
        } else {
            build_dev(&dev)?;
        }
    }
    Ok(bones)
}

/// The machine's directories themselves, each bound in its place.
fn plain(view: &View) -> io::Result<Bones> {
    let root = &view.root;
    let mut bones = Bones::default();
    mount_bind_recursive(root, root)?;
    // Unbindable: showing the directory that our own root lies in must not show the root in itself.
    mount_change(root, MountPropagationFlags::UNBINDABLE)?;
    for entry in fs::read_dir("/")? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let place = root.join(&name);
        let renewed = OWN.iter().any(|own| name == *own) && !(view.of_machine && name != "proc");
        if renewed {
        } else if kind.is_symlink() {
            link(&fs::read_link(entry.path())?, &place)?;
        } else if kind.is_dir() {
            make_directory(&place)?;
            mount_bind_recursive(entry.path(), &place)?;
            bones.machine.push(Path::new("/").join(&name));
        }
    }
    Ok(bones)
}

/// A small /dev: the harmless devices and terminals, and a place for shared memory.
pub(super) fn build_dev(dev: &Path) -> io::Result<()> {
    make_directory(dev)?;
    for name in ["null", "zero", "full", "random", "urandom", "tty", "ptmx"] {
        let (source, place) = (Path::new("/dev").join(name), dev.join(name));
        let Ok(about) = source.metadata() else { continue };
        let mode = Mode::from_raw_mode(0o666);
        match rustix::fs::mknodat(CWD, &place, FileType::CharacterDevice, mode, about.rdev()) {
            Ok(()) => fs::set_permissions(&place, fs::Permissions::from_mode(0o666))?,
            Err(rustix::io::Errno::EXIST) => {}
            Err(_) => {
                // Not allowed in a user namespace: then the machine's own.
                fs::File::create(&place)?;
                mount_bind_recursive(&source, &place)?;
            }
        }
    }
    for name in ["pts", "shm"] {
        make_directory(&dev.join(name))?;
    }
    if Path::new("/dev/pts").exists() {
        mount_bind_recursive("/dev/pts", dev.join("pts"))?;
    }
    for (name, target) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
        link(Path::new(&format!("/proc/self/fd{target}")), &dev.join(name))?;
    }
    Ok(())
}

/// Makes a link that may be there already.
fn link(target: &Path, place: &Path) -> io::Result<()> {
    match symlink(target, place) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
