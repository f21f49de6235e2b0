//! The lower layer of a built-in image's root: directories as an image has them, and the machine's `/etc` without
//! anything that is the machine's own (`etc`, `accounts`). The machine's programs are shown above it, from the
//! machine's system directories.
//!
//! The layer is a copy in the host's memory, shared by all containers, which never write it. A copy is made again when
//! the machine's files have changed; containers that run keep theirs.

mod accounts;
mod etc;

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::rc::Rc;

pub use accounts::accounts_of_system;

use super::Host;
use super::error::os_error;
use crate::RuntimeError;
use base::removal::remove_tree;
use base::subordinate_ids::is_machine_root;

/// The machine's directories with its programs and libraries.
const SYSTEM: [&str; 7] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// Directories of every image, empty here, with their modes.
const EMPTY: [(&str, u32); 23] = [
    ("boot", 0o755),
    ("dev", 0o755),
    ("etc", 0o755),
    ("home", 0o755),
    ("media", 0o755),
    ("mnt", 0o755),
    ("opt", 0o755),
    ("proc", 0o555),
    ("root", 0o700),
    ("run", 0o755),
    ("run/lock", 0o1777),
    ("srv", 0o755),
    ("sys", 0o555),
    ("tmp", 0o1777),
    ("var", 0o755),
    ("var/cache", 0o755),
    ("var/lib", 0o755),
    ("var/local", 0o755),
    ("var/log", 0o755),
    ("var/opt", 0o755),
    ("var/spool", 0o755),
    ("var/tmp", 0o1777),
    ("work", 0o755),
];

/// Links of every image.
const LINKS: [(&str, &str); 3] =
    [("/run", "var/run"), ("/run/lock", "var/lock"), ("../proc/self/mounts", "etc/mtab")];

/// The mount points of the pod's own files.
const POD_FILES: [&str; 3] = ["etc/hostname", "etc/hosts", "etc/resolv.conf"];

/// Paths below the machine's root: a change of one makes a new copy necessary. Programs replace the files of `/etc`, which
/// changes the directory; people also edit them in place.
const WATCHED: [&str; 7] =
    ["", "etc", "etc/alternatives", "etc/group", "etc/ld.so.cache", "etc/passwd", "etc/ssl/certs"];

/// One copy; its directory is removed with the last container that uses it.
#[derive(Debug)]
pub(super) struct SystemFiles {
    /// The copy's directory.
    pub(super) base: PathBuf,
    /// The machine's directories to show at their paths.
    pub(super) directories: Vec<PathBuf>,
    /// The text of its `/etc/passwd`.
    pub(super) passwd: String,
    /// The text of its `/etc/group`.
    pub(super) group: String,
    state: MachineState,
}

impl Drop for SystemFiles {
    fn drop(&mut self) {
        if let Err(error) = remove_tree(&self.base) {
            eprintln!("cannot remove {}: {error}", self.base.display());
        }
    }
}

/// The times of the last changes of what [`WATCHED`] lists.
type MachineState = [Option<(i64, i64, i64, i64)>; WATCHED.len()];

fn state_of(machine: &Path) -> MachineState {
    WATCHED.map(|path| {
        let about = fs::metadata(machine.join(path)).ok()?;
        Some((about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()))
    })
}

impl SystemFiles {
    /// Copies the files of the machine with this root to a new directory.
    fn copy(machine: &Path, base: PathBuf) -> io::Result<Self> {
        // Before the copy: a change meanwhile makes another one necessary.
        let state = state_of(machine);
        remove_tree(&base)?;
        fs::create_dir_all(&base)?;
        fs::set_permissions(&base, fs::Permissions::from_mode(0o755))?;
        // From here on, an error removes the directory.
        let mut files =
            Self { base, directories: Vec::new(), passwd: String::new(), group: String::new(), state };
        let base = &files.base;
        for (path, mode) in EMPTY {
            let place = base.join(path);
            fs::create_dir(&place)?;
            fs::set_permissions(&place, fs::Permissions::from_mode(mode))?;
        }
        for (target, path) in LINKS {
            symlink(target, base.join(path))?;
        }
        for name in SYSTEM {
            files.directories.extend(system_directory(machine, base, name)?);
        }
        etc::copy(&machine.join("etc"), &base.join("etc"))?;
        let texts = accounts::write(&machine.join("etc"), &base.join("etc"))?;
        for path in POD_FILES {
            fs::write(base.join(path), "")?;
        }
        (files.passwd, files.group) = texts;
        Ok(files)
    }
}

/// Prepares one of the machine's system directories: a link into another one is copied; of a directory the path is
/// returned.
fn system_directory(machine: &Path, base: &Path, name: &str) -> io::Result<Option<PathBuf>> {
    let (source, place) = (machine.join(name), base.join(name));
    let Ok(about) = fs::symlink_metadata(&source) else { return Ok(None) };
    let inside = |real: PathBuf| real.starts_with(machine.join("usr"));
    if about.is_symlink() && fs::canonicalize(&source).is_ok_and(inside) {
        symlink(fs::read_link(&source)?, &place)?;
        return Ok(None);
    }
    if !source.is_dir() {
        return Ok(None);
    }
    fs::create_dir(&place)?;
    if !is_machine_root() {
        // Root's directories have no owner in the user namespace, and no process there could write in them. These, which
        // belong to the container's user, are merged with them.
        own_subdirectories(&source, &place)?;
        own_subdirectories(&source.join("local"), &place.join("local"))?;
    }
    fs::set_permissions(&place, source.metadata()?.permissions())?;
    Ok(Some(Path::new("/").join(name)))
}

/// Creates a directory for each subdirectory of the machine's directory.
fn own_subdirectories(source: &Path, place: &Path) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(source) else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        let place = place.join(entry.file_name());
        if entry.file_type()?.is_dir() && !place.exists() {
            fs::create_dir_all(&place)?;
            fs::set_permissions(&place, fs::Permissions::from_mode(0o755))?;
        }
    }
    Ok(())
}

impl Host {
    /// Returns the present copy of the system's files; `None` without namespaces, where containers see the machine's.
    pub(super) fn system_files(&self) -> Result<Option<Rc<SystemFiles>>, RuntimeError> {
        let Some(memory) = &self.memory else { return Ok(None) };
        let machine = Path::new("/");
        let mut present = self.system_files.borrow_mut();
        if present.as_ref().is_none_or(|files| files.state != state_of(machine)) {
            let number = self.system_copies.get() + 1;
            self.system_copies.set(number);
            let base = memory.join("system-files").join(number.to_string());
            let copy = SystemFiles::copy(machine, base).map_err(os_error("system files"))?;
            *present = Some(Rc::new(copy));
        }
        Ok(present.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IMG-2: the root of a built-in image has links for links, the machine's directories for directories, and nothing
    /// else of the machine.
    #[test]
    fn a_copy_has_the_directories_of_an_image_and_nothing_of_the_machines_img_2() {
        let around = tempfile::tempdir().unwrap();
        let (machine, base) = (around.path().join("machine"), around.path().join("base"));
        for path in ["usr/lib", "sbin", "etc", "root/.ssh", "home/me", "data", "var/lib/secret"] {
            fs::create_dir_all(machine.join(path)).unwrap();
        }
        symlink("usr/lib", machine.join("lib")).unwrap();
        symlink("/nowhere", machine.join("lib64")).unwrap();
        fs::write(machine.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
        fs::write(machine.join("etc/shadow"), "root:secret:1::::::\n").unwrap();
        let files = SystemFiles::copy(&machine, base.clone()).unwrap();
        assert_eq!(files.directories, [Path::new("/usr"), Path::new("/sbin")]);
        assert_eq!(fs::read_link(base.join("lib")).unwrap(), Path::new("usr/lib"));
        for path in ["lib64", "root/.ssh", "home/me", "data", "var/lib/secret", "bin"] {
            assert!(fs::symlink_metadata(base.join(path)).is_err(), "{path}");
        }
        assert!(!fs::read_to_string(base.join("etc/shadow")).unwrap().contains("secret"));
        assert!(files.passwd.starts_with("root:x:0:0:"), "{}", files.passwd);
        assert_eq!(files.state, state_of(&machine));
        fs::write(machine.join("etc/group"), "root:x:0:\n").unwrap();
        assert_ne!(files.state, state_of(&machine), "a change is seen");
        drop(files);
        assert!(!base.exists(), "removed with its last user");
    }
}
