//! The data directory: one instance at a time, private to its owner (API-1, CLI-6).
//!
//! Files that Podium did not create are neither read nor removed: `ownership` decides which directories Podium accepts.
//! An existing directory keeps its mode.

mod abandoned;
mod ownership;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

pub use abandoned::remove_abandoned_data_dirs;
use base::removal::remove_tree;
use base::subordinate_ids::{file_owners, is_machine_root};
use ownership::{DirectoryState, LOCK, OwnershipMark};

/// The data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// Another instance uses it.
    #[error("{} is in use by another podium with pid {pid}; stop that one or choose another --data-dir", directory.display())]
    Locked {
        /// The directory.
        directory: PathBuf,
        /// The other instance.
        pid: String,
    },
    /// Another user owns the directory: that user's files could mislead even root, and a podium run by root would leave
    /// files that the user cannot remove.
    #[error(
        "{} belongs to user {owner}, and this podium runs as user {us}; choose another --data-dir",
        directory.display()
    )]
    OfAnother {
        /// The directory.
        directory: PathBuf,
        /// Its owner's id.
        owner: u32,
        /// The id of the user that runs Podium.
        us: u32,
    },
    /// Other users can write to the directory: they could replace our files with theirs.
    #[error(
        "{} can be written by others (mode {mode:04o}); choose another --data-dir, such as {}",
        directory.display(),
        directory.join("podium").display()
    )]
    Open {
        /// The directory.
        directory: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// An unmarked directory contains a file with one of our names.
    #[error(
        "{} contains {name}, which is not Podium's; choose another --data-dir, or move {name} away",
        directory.display()
    )]
    NotOurs {
        /// The directory.
        directory: PathBuf,
        /// The file that is in the way.
        name: String,
    },
    /// An ephemeral run would remove a cluster that is to stay.
    #[error(
        "{} contains a cluster, which --ephemeral would delete at the end; omit --ephemeral, or choose another \
         --data-dir",
        directory.display()
    )]
    Persistent {
        /// The directory.
        directory: PathBuf,
    },
    /// A secret's file is not private to this user: other users may know its content, or may have written it.
    #[error(
        "{} gives access to the cluster, but is not a private file of this user (mode {mode:04o}); delete it, and \
         Podium creates a new one",
        path.display()
    )]
    NotPrivate {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A secret that cannot be used.
    #[error("{}: {reason}; delete it, and Podium creates a new one", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The defect.
        reason: &'static str,
    },
    /// Files of containers belong to ids that this process does not have: it could remove only a part of them.
    #[error(
        "{} has files of the subordinate user ids of an earlier run, which this process does not have; delete it with \
         them, or by rm as root",
        directory.display()
    )]
    OfOtherIds {
        /// The directory.
        directory: PathBuf,
    },
    /// The file system refuses.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path that failed.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The platform has no default directory for data: the user's home is unknown.
    #[error("no home directory; set the data directory with --data-dir")]
    NoHome,
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> DataDirError {
    let path = path.to_path_buf();
    |source| DataDirError::Io { path, source }
}

/// The file that records the subordinate ids of the directory's files.
pub(super) const OF_IDS: &str = "user-ids";
/// The files of a cluster's identity: its keys and their certificates.
const IDENTITY: [&str; 5] = ["ca.crt", "ca.key", "sa.key", "front-proxy-ca.crt", "front-proxy-ca.key"];
/// The minimum length of a token; a shorter one could be guessed.
const SHORTEST_TOKEN: usize = 16;

/// Returns `podium` in the user's data directory.
pub fn default_data_dir() -> Result<PathBuf, DataDirError> {
    Ok(base::user_dirs::data_dir().ok_or(DataDirError::NoHome)?.join("podium"))
}

/// A data directory that is locked by this process until this is dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    // The kernel releases the lock when this descriptor closes, even if the process is killed.
    #[cfg_attr(not(test), expect(dead_code, reason = "held, never asked"))]
    lock: File,
    ephemeral: Option<Ephemeral>,
}

/// The part of an ephemeral run's directory that is removed at the end: only files that Podium creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ephemeral {
    /// The whole directory, which is a temporary one.
    Whole,
    /// Our files, and the directory, which this run created, unless other files remain in it.
    Created,
    /// Our files; the directory existed before and stays.
    Contents,
}

impl DataDir {
    /// Opens a directory, creating it if it does not exist.
    pub fn open(path: &Path, ephemeral: bool) -> Result<Self, DataDirError> {
        let kind = if path.exists() { Ephemeral::Contents } else { Ephemeral::Created };
        Self::take(path, ephemeral.then_some(kind))
    }

    /// Creates a new temporary directory that is removed at the end.
    pub fn temporary() -> Result<Self, DataDirError> {
        Self::temporary_in(&std::env::temp_dir())
    }

    fn temporary_in(parent: &Path) -> Result<Self, DataDirError> {
        let name = abandoned::temporary_name();
        let mut data = Self::take(&parent.join(format!("{name}.new")), Some(Ephemeral::Whole))?;
        // The directory gets its name after it is locked: another instance that starts now takes a directory with this
        // name and a free lock for that of a killed instance, and removes it.
        let path = data.path.with_file_name(name);
        fs::rename(&data.path, &path).map_err(at(&path))?;
        data.path = path;
        Ok(data)
    }

    fn take(path: &Path, ephemeral: Option<Ephemeral>) -> Result<Self, DataDirError> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(at(path))?;
        let path = path.canonicalize().map_err(at(path))?;
        let mark = OwnershipMark { ephemeral: ephemeral.is_some() };
        if ownership::judge(&path)? == DirectoryState::Unused {
            if mark.ephemeral && ownership::has_logs(&path) {
                return Err(DataDirError::NotOurs { directory: path, name: "logs".into() });
            }
            ownership::mark_first(&path, mark)?;
        }
        let mut lock = lock(&path)?;
        // From here on no other process changes the directory.
        match ownership::judge(&path)? {
            DirectoryState::Persistent if mark.ephemeral => {
                return Err(DataDirError::Persistent { directory: path });
            }
            // An ephemeral run that was killed left these files, which it would have removed at its end.
            DirectoryState::Ephemeral => ownership::remove_contents(&path).map_err(at(&path))?,
            DirectoryState::Persistent | DirectoryState::Unused => {}
        }
        ownership::mark(&path, mark)?;
        overwrite(&mut lock, &format!("{}\n", std::process::id())).map_err(at(&path.join(LOCK)))?;
        Ok(Self { path, lock, ephemeral })
    }

    /// Returns true if a directory has a cluster's data, or images that were loaded or pulled for one.
    pub fn is_used(path: &Path) -> Result<bool, DataDirError> {
        Ok(ownership::judge(path)? != DirectoryState::Unused || ownership::has_stored_images(path))
    }

    /// Removes everything that Podium has in the directory, with loaded images, and the directory itself unless other
    /// files remain. Returns false if some do.
    pub fn delete(&self) -> Result<bool, DataDirError> {
        let recorded = self.read(OF_IDS);
        if recorded.is_some() && recorded != file_owners() && !is_machine_root() {
            return Err(DataDirError::OfOtherIds { directory: self.path.clone() });
        }
        ownership::remove_everything(&self.path).map_err(at(&self.path))?;
        for directory in [&self.path.join("images"), &self.path] {
            match fs::remove_dir(directory) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => return Ok(false),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(directory)(error)),
                _ => {}
            }
        }
        Ok(true)
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a secret, created by `make` if its file is missing or empty.
    pub(super) fn secret(&self, name: &str, make: impl FnOnce() -> String) -> Result<String, DataDirError> {
        let path = self.path.join(name);
        match ownership::read_private(&path)? {
            Some(text) if !text.trim().is_empty() => return Ok(text),
            Some(_) => tracing::warn!("{} is empty; creating a new one", path.display()),
            None => {}
        }
        let text = make();
        self.write(name, &text)?;
        Ok(text)
    }

    /// Returns the bearer token of the cluster's owner, created by `make` if there is none.
    pub(super) fn token(&self, make: impl FnOnce() -> String) -> Result<String, DataDirError> {
        let token = self.secret("token", make)?.trim().to_string();
        if token.len() < SHORTEST_TOKEN || !token.chars().all(|letter| letter.is_ascii_graphic()) {
            let reason = "a token must be one line of at least 16 visible ASCII characters";
            return Err(DataDirError::Unusable { path: self.path.join("token"), reason });
        }
        Ok(token)
    }

    /// Reads a secret that another module creates.
    pub(super) fn read_secret(&self, name: &str) -> Result<Option<String>, DataDirError> {
        ownership::read_private(&self.path.join(name))
    }

    /// Copies the identity of another data directory's cluster: its certificates and tokens are valid here too.
    pub fn take_identity(&self, of: &Path) -> Result<(), DataDirError> {
        for name in IDENTITY {
            if let Some(text) = ownership::read_private(&of.join(name))? {
                self.write(name, &text)?;
            }
        }
        Ok(())
    }

    /// Returns a small file's content.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path.join(name)).ok()
    }

    /// Writes a private file.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), DataDirError> {
        let path = self.path.join(name);
        match self.ephemeral {
            // The file of an ephemeral run need not survive a crash, so there is no wait for the disk.
            Some(_) => write_unsynced(&path, text),
            None => write_private(&path, text),
        }
    }

    /// Creates a private directory below the data directory.
    pub(super) fn directory(&self, name: &str) -> Result<PathBuf, DataDirError> {
        let path = self.path.join(name);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(at(&path))?;
        Ok(path)
    }
}

/// Writes a file that only its owner can read. After a crash the file has its old or its new content, never a part.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<(), DataDirError> {
    put_private(path, text, File::sync_all)
}

/// Like [`write_private`], but without a sync: after a crash of the machine the content may be lost.
fn write_unsynced(path: &Path, text: &str) -> Result<(), DataDirError> {
    put_private(path, text, |_| Ok(()))
}

/// Replaces a private file that other programs write, too. Unlike [`write_private`], it never overwrites the file in
/// place: a crash would destroy content that only this file has. The file retains its owner.
pub(crate) fn replace_private(path: &Path, text: &str) -> Result<(), DataDirError> {
    let owner = fs::metadata(path).ok();
    write_beside(path, text, |file| {
        if let Some(owner) = &owner {
            // Only root can give a file to its owner; a user's file is the user's already.
            let _ = std::os::unix::fs::fchown(file, Some(owner.uid()), Some(owner.gid()));
        }
        file.sync_all()
    })
    .map_err(at(path))
}

/// Writes a private file. A file that already has this content is not written. If the disk has no space for a second
/// file, the existing one is overwritten in place, which needs few new blocks.
fn put_private(
    path: &Path,
    text: &str,
    finish: impl Fn(&File) -> io::Result<()>,
) -> Result<(), DataDirError> {
    let found = ownership::read_private(path).ok().flatten();
    if found.as_deref() == Some(text) {
        return Ok(());
    }
    let written = write_beside(path, text, &finish).or_else(|error| {
        if found.is_none() || !is_full(&error) {
            return Err(error);
        }
        let flags = OFlags::NOFOLLOW.bits().cast_signed();
        let mut file = OpenOptions::new().write(true).custom_flags(flags).open(path)?;
        overwrite(&mut file, text)?;
        finish(&file)
    });
    written.map_err(at(path))
}

/// Writes a private file under a temporary name, applies `finish` to it, and renames it.
fn write_beside(path: &Path, text: &str, finish: impl Fn(&File) -> io::Result<()>) -> io::Result<()> {
    let temporary = path.with_extension(format!("new-{:08x}", rand::random::<u32>()));
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        finish(&file)?;
        fs::rename(&temporary, path)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

/// Replaces the content of a file in place, which needs disk space only for the part beyond the previous length.
fn overwrite(file: &mut File, text: &str) -> io::Result<()> {
    file.rewind()?;
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Returns the id of the process that runs on a data directory: the process has written it into the lock file, and has
/// that file open.
pub fn running_instance(directory: &Path) -> Option<u32> {
    let lock = directory.join(LOCK);
    let pid: u32 = fs::read_to_string(&lock).ok()?.trim().parse().ok()?;
    let about = fs::metadata(&lock).ok()?;
    let opened = match fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(opened) => opened.flatten(),
        // The instance is in another user namespace than this process, which a program of its console may be.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return is_locked_by(pid, about.ino()).then_some(pid);
        }
        Err(_) => return None,
    };
    let is_lock = |file: fs::DirEntry| {
        fs::metadata(file.path()).is_ok_and(|open| (open.dev(), open.ino()) == (about.dev(), about.ino()))
    };
    opened.into_iter().any(is_lock).then_some(pid)
}

/// Returns true if a process has a lock on the file with this inode. While other locks come and go, the kernel's list may
/// lack one, so it is read up to three times.
fn is_locked_by(pid: u32, inode: u64) -> bool {
    (0..3).any(|_| holds_lock(&base::optional_file::read_optional("/proc/locks"), pid, inode))
}

/// Returns true if a process has a lock on the file with this inode, by the text of `/proc/locks`. The numbers of devices
/// are not compared: file systems with volumes of their own show others there.
fn holds_lock(locks: &str, pid: u32, inode: u64) -> bool {
    let holds = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let is_flock = fields.next() == Some("FLOCK");
        let (holder, file) = (fields.nth(2), fields.next());
        let of_file = file.and_then(|file| file.rsplit(':').next()?.parse().ok());
        is_flock && holder.and_then(|holder| holder.parse().ok()) == Some(pid) && of_file == Some(inode)
    };
    locks.lines().any(holds)
}

fn lock(directory: &Path) -> Result<File, DataDirError> {
    let path = directory.join(LOCK);
    loop {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut lock = options.open(&path).map_err(at(&path))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut pid = String::new();
            let _ = lock.read_to_string(&mut pid);
            let pid = pid.trim().to_string();
            let pid = if pid.is_empty() { "unknown".into() } else { pid };
            return Err(DataDirError::Locked { directory: directory.to_path_buf(), pid });
        }
        // An ephemeral instance that has just ended may have removed this lock file: then another one is opened.
        let opened = lock.metadata().map_err(at(&path))?;
        if path.metadata().is_ok_and(|now| (now.dev(), now.ino()) == (opened.dev(), opened.ino())) {
            return Ok(lock);
        }
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        let removed = match self.ephemeral {
            None => return,
            Some(Ephemeral::Whole) => remove_tree(&self.path),
            Some(kind) => ownership::remove_data_dir(&self.path).and_then(|()| match kind {
                Ephemeral::Created => not_empty_is_fine(fs::remove_dir(&self.path)),
                _ => Ok(()),
            }),
        };
        if let Err(error) = removed {
            tracing::warn!("cannot clean up {}: {error}", self.path.display());
        }
    }
}

/// A directory that still contains files of other programs stays; that is no error.
fn not_empty_is_fine(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn names(path: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_lock_is_found_among_those_of_the_machine_cli_6() {
        let parent = tempfile::tempdir().unwrap();
        let held = DataDir::open(&parent.path().join("data"), false).unwrap();
        let inode = held.lock.metadata().unwrap().ino();
        assert!(is_locked_by(std::process::id(), inode));
        assert!(!is_locked_by(std::process::id(), u64::MAX) && !is_locked_by(u32::MAX, inode));
        assert!(!holds_lock("1: FLOCK\n\n", 1, 1));
    }

    #[test]
    fn a_deleted_cluster_leaves_only_the_users_files_img_12() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        let make = || {
            let data = DataDir::open(&path, false).unwrap();
            data.write("token", "secret").unwrap();
            fs::create_dir_all(path.join("images/store/layers/a/root")).unwrap();
            fs::write(path.join("images/store/tags.json"), "{}").unwrap();
            data
        };
        assert!(make().delete().unwrap());
        assert!(!path.exists());
        fs::create_dir(&path).unwrap();
        fs::create_dir(path.join("logs")).unwrap();
        assert!(!DataDir::is_used(&path).unwrap(), "not every directory named logs is of a cluster");
        fs::remove_dir(path.join("logs")).unwrap();
        let data = make();
        fs::write(path.join("images/mine.yaml"), "").unwrap();
        assert!(!data.delete().unwrap());
        assert_eq!(
            (names(&path), names(&path.join("images"))),
            (vec!["images".into()], vec!["mine.yaml".into()])
        );
    }

    /// A container of an ordinary user may close the directories of its claim; root's rights would open them.
    #[test]
    fn a_deleted_cluster_leaves_no_closed_directories_of_its_claims_vol_2() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        let data = DataDir::open(&path, false).unwrap();
        let closed = path.join("volumes/claim/closed");
        fs::create_dir_all(&closed).unwrap();
        fs::write(closed.join("file"), "").unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                set_capabilities(None, sets).unwrap();
                assert!(data.delete().unwrap());
            });
        });
        assert!(!path.exists());
    }

    #[test]
    fn a_second_instance_reports_the_pid_of_the_first_cli_6() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        let first = DataDir::open(&path, false).unwrap();
        for ephemeral in [false, true] {
            let error = DataDir::open(&path, ephemeral).unwrap_err().to_string();
            assert!(error.contains(&format!("pid {}", std::process::id())), "{error}");
        }
        assert_eq!(mode(&path), 0o700);
        drop(first);
        DataDir::open(&path, false).unwrap();
    }

    #[test]
    fn an_ephemeral_directory_loses_only_our_files_cli_2() {
        let parent = tempfile::tempdir().unwrap();
        fs::write(parent.path().join("mine.txt"), "keep").unwrap();
        let data = DataDir::open(parent.path(), true).unwrap();
        let token = data.secret("token", || "secret".into()).unwrap();
        assert_eq!(
            (token.as_str(), data.secret("token", || "other".into()).unwrap().as_str()),
            ("secret", "secret")
        );
        assert_eq!(mode(&data.path().join("token")), 0o600);
        data.directory("nodes").unwrap();
        drop(data);
        assert_eq!(names(parent.path()), ["mine.txt"]);
        let path = parent.path().join("new");
        drop(DataDir::open(&path, true).unwrap());
        assert!(!path.exists(), "a directory that the run made goes with it");
        let data = DataDir::open(&path, true).unwrap();
        fs::write(path.join("mine.txt"), "keep").unwrap();
        drop(data);
        assert_eq!(names(&path), ["mine.txt"]);
    }

    /// An ephemeral run would remove the persistent cluster at its end (CLI-2).
    #[test]
    fn an_ephemeral_run_refuses_a_persistent_cluster_and_changes_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        let data = DataDir::open(&path, false).unwrap();
        data.token(|| "a".repeat(40)).unwrap();
        drop(data);
        let before = names(&path);
        let error = DataDir::open(&path, true).unwrap_err().to_string();
        assert!(error.contains("omit --ephemeral"), "{error}");
        assert_eq!(names(&path), before);
        // A directory of a version that wrote no marks.
        fs::remove_file(path.join("podium.json")).unwrap();
        for key in ["ca.key", "sa.key"] {
            write_private(&path.join(key), "key").unwrap();
        }
        assert!(matches!(DataDir::open(&path, true), Err(DataDirError::Persistent { .. })));
        drop(DataDir::open(&path, false).unwrap());
        assert_eq!(fs::read_to_string(path.join("token")).unwrap(), "a".repeat(40));
    }

    /// Podium neither uses nor removes files of other programs that have the same names (CLI-2).
    #[test]
    fn a_directory_with_files_of_our_names_is_refused() {
        for name in
            ["token", "logs/mine.txt", "volumes/mine.txt", "nodes/mine.txt", "state/x", "lock", "slot"]
        {
            let parent = tempfile::tempdir().unwrap();
            let file = parent.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "mine").unwrap();
            for ephemeral in [true, false] {
                let first = name.split('/').next().unwrap();
                // The console alone logs into a directory that no cluster has used.
                if (first, ephemeral) == ("logs", false) {
                    continue;
                }
                let error = DataDir::open(parent.path(), ephemeral).unwrap_err().to_string();
                assert!(error.contains(&format!("contains {first}, which is not Podium's")), "{error}");
                assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
                assert_eq!(names(parent.path()), [first]);
            }
        }
    }

    /// An existing directory keeps its mode, and one that others may write to is refused.
    #[test]
    fn the_mode_of_a_directory_is_never_changed() {
        for (given, used) in [(0o700, true), (0o755, true), (0o750, true), (0o775, false), (0o1777, false)] {
            let parent = tempfile::tempdir().unwrap();
            let path = parent.path().join("data");
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(given)).unwrap();
            for ephemeral in [true, false] {
                match DataDir::open(&path, ephemeral) {
                    Ok(data) => {
                        assert!(used, "{given:o}");
                        for name in names(data.path()) {
                            assert_eq!(mode(&path.join(&name)) & 0o077, 0, "{name}");
                        }
                    }
                    Err(error) => {
                        assert!(!used, "{given:o}: {error}");
                        assert!(error.to_string().contains(&format!("(mode {given:04o})")), "{error}");
                        assert_eq!(names(&path), Vec::<String>::new());
                    }
                }
                assert_eq!(mode(&path), given);
            }
        }
    }

    /// The user could not remove the files that root leaves in the user's directory.
    #[test]
    fn a_directory_of_another_user_is_refused() {
        let another = if rustix::process::geteuid().is_root() {
            let parent = tempfile::tempdir().unwrap();
            std::os::unix::fs::chown(parent.path(), Some(4711), None).unwrap();
            parent.keep()
        } else {
            PathBuf::from("/etc")
        };
        let error = DataDir::open(&another, false).unwrap_err();
        assert!(matches!(error, DataDirError::OfAnother { .. }), "{error}");
        if another != Path::new("/etc") {
            fs::remove_dir(&another).unwrap();
        }
    }

    /// With an empty token, every client had the owner's rights.
    #[test]
    fn an_empty_token_is_replaced_and_an_invalid_or_exposed_one_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let data = DataDir::open(&parent.path().join("data"), false).unwrap();
        let path = data.path().join("token");
        let good = || "g".repeat(43);
        for empty in ["", "\n", "  "] {
            write_private(&path, empty).unwrap();
            assert_eq!(data.token(good).unwrap(), good());
            assert_eq!(fs::read_to_string(&path).unwrap(), good());
        }
        write_private(&path, &format!("{}\n", good())).unwrap();
        assert_eq!(data.token(|| panic!("there is one")).unwrap(), good());
        for bad in ["short", "two words that are long enough", "sixteen\u{1b}letters and more"] {
            write_private(&path, bad).unwrap();
            let error = data.token(good).unwrap_err().to_string();
            assert!(error.contains("delete it, and Podium creates a new one"), "{error}");
        }
        write_private(&path, &good()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(data.token(good), Err(DataDirError::NotPrivate { .. })));
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        assert!(data.token(good).is_err(), "a link is followed nowhere");
    }

    /// The files of a killed ephemeral run belong to Podium, also for the next run.
    #[test]
    fn files_of_a_killed_ephemeral_run_are_removed_by_the_next_start() {
        let parent = tempfile::tempdir().unwrap();
        fs::write(parent.path().join("mine.txt"), "keep").unwrap();
        for next_is_ephemeral in [true, false] {
            let killed = DataDir::open(parent.path(), true).unwrap();
            killed.token(|| "k".repeat(43)).unwrap();
            // Simulate a killed run: nothing is removed, and the lock is free.
            let killed = std::mem::ManuallyDrop::new(killed);
            flock(&killed.lock, FlockOperation::Unlock).unwrap();
            let next = DataDir::open(parent.path(), next_is_ephemeral).unwrap();
            assert_eq!(next.token(|| "n".repeat(43)).unwrap(), "n".repeat(43));
        }
        assert_eq!(names(parent.path()), ["lock", "mine.txt", "podium.json", "token"]);
    }
}
