//! A /dev for a container.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode};
use rustix::mount::mount_bind_recursive;

use super::mount::{make_directory, symlink_if_missing};

/// A small /dev: the harmless devices and terminals, and a place for shared memory.
pub(in crate::daemon) fn build_dev(dev: &Path) -> io::Result<()> {
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
        symlink_if_missing(Path::new(&format!("/proc/self/fd{target}")), &dev.join(name))?;
    }
    Ok(())
}
