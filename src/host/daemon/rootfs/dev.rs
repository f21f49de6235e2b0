//! A /dev for a container.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode};
use rustix::mount::{mount_bind, mount_bind_recursive};

use super::devices::{DEVICES, TERMINALS};
use super::mount::{make_directory, symlink_if_missing};

/// Read and write for every user.
const MODE: Mode = Mode::from_raw_mode(0o666);

/// A small /dev: the harmless devices, each as a mount of its own, terminals, and a directory for shared memory.
pub(in crate::daemon) fn build_dev(dev: &Path, terminals: Option<&Path>) -> io::Result<()> {
    make_directory(dev)?;
    for name in DEVICES {
        let (source, place) = (Path::new("/dev").join(name), dev.join(name));
        let Ok(about) = source.metadata() else { continue };
        // In the root of a debug container, which is its target's, the device exists already.
        let made = match rustix::fs::mknodat(CWD, &place, FileType::CharacterDevice, MODE, about.rdev()) {
            Ok(()) => true,
            Err(_) => fs::symlink_metadata(&place).is_ok_and(|there| there.rdev() == about.rdev()),
        };
        if made {
            fs::set_permissions(&place, fs::Permissions::from_mode(MODE.bits()))?;
            mount_bind(&place, &place)?;
        } else {
            // A process in a user namespace may not create devices: show the machine's device instead.
            fs::File::options().create(true).append(true).open(&place)?;
            mount_bind_recursive(&source, &place)?;
        }
    }
    for name in [TERMINALS, "shm"] {
        make_directory(&dev.join(name))?;
    }
    let terminals = terminals.unwrap_or(Path::new("/dev/pts"));
    if terminals.exists() {
        mount_bind_recursive(terminals, dev.join(TERMINALS))?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        // A link and not a device, because the kernel would find no terminals beside a mounted one.
        ("ptmx", "pts/ptmx"),
    ] {
        symlink_if_missing(Path::new(target), &dev.join(name))?;
    }
    Ok(())
}
