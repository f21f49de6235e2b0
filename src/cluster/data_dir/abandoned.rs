//! Removes the temporary directories of ephemeral instances that were killed before they could remove them: they
//! contain private keys (CLI-2).
//!
//! Architecture Invariant: the directory for temporary files is writable by everyone. A path in it is opened once,
//! without following a link; everything below goes through that descriptor, and the path itself only loses an empty
//! directory.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::ownership::{self, DirectoryState, LOCK, MARK};
use super::{DataDirError, lock, not_empty_is_fine};
use base::removal::remove;
use host::running_hosts::running_hosts;

/// The beginning of the names of temporary data directories.
const PREFIX: &str = "podium-";

/// Returns a new name for this process's temporary data directory.
pub(super) fn temporary_name() -> String {
    format!("{PREFIX}{}-{:08x}", std::process::id(), rand::random::<u32>())
}

/// Returns true for names that [`temporary_name`] returns.
fn is_temporary_name(name: &str) -> bool {
    let parts = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
    let is_random = |random: &str| {
        random.len() == 8 && random.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'))
    };
    parts.is_some_and(|(pid, random)| pid.parse::<u32>().is_ok() && is_random(random))
}

/// Removes the temporary data directories of this user's killed ephemeral instances, and logs each. A directory that
/// cannot be removed stays for the next start.
pub fn remove_abandoned_data_dirs() {
    remove_abandoned_in(&std::env::temp_dir());
}

fn remove_abandoned_in(parent: &Path) {
    let Ok(parent) = parent.canonicalize() else { return };
    let entries = fs::read_dir(&parent).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_temporary_name));
    for path in named.map(|entry| entry.path()) {
        match remove_if_abandoned(&path) {
            Ok(true) => tracing::info!("removed {}, which a killed podium left behind", path.display()),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(
                    "cannot remove {}, which a killed podium left behind: {error}",
                    path.display()
                );
            }
        }
    }
}

/// Removes a directory if it belongs to an ephemeral instance of this user that no longer runs. Returns false if it
/// stays.
fn remove_if_abandoned(path: &Path) -> io::Result<bool> {
    let Some((directory, contents)) = open_directory(path) else { return Ok(false) };
    let is_ours = || matches!(ownership::judge(&contents), Ok(DirectoryState::Ephemeral));
    // Only directories that were locked from their first moment have names like this, so a free lock means that the
    // instance has ended.
    if !is_ours() || !contents.join(LOCK).exists() {
        return Ok(false);
    }
    let lock = match lock(&contents) {
        Ok(lock) => lock,
        Err(DataDirError::Locked { .. }) => return Ok(false),
        Err(error) => return Err(io::Error::other(error)),
    };
    // Another instance may have used the directory, as its --data-dir, before this process locked it. A node's host
    // that has not ended yet writes to the directory.
    if !is_ours() || running_hosts().iter().any(|host| host.data_dir() == path) {
        return Ok(false);
    }
    // The keys come first; the mark and the lock come last, so that an error leaves the rest to the next start.
    ownership::remove_contents(&contents)?;
    for entry in fs::read_dir(&contents)? {
        let entry = entry?;
        if entry.file_name() != MARK && entry.file_name() != LOCK {
            remove(&entry.path())?;
        }
    }
    remove(&contents.join(MARK))?;
    remove(&contents.join(LOCK))?;
    not_empty_is_fine(fs::remove_dir(path))?;
    drop((lock, directory));
    Ok(true)
}

/// Opens a directory of this user, and returns it with a path that leads to it even if others rename it.
fn open_directory(path: &Path) -> Option<(File, PathBuf)> {
    let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits().cast_signed();
    let directory = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let is_own = directory.metadata().ok()?.uid() == rustix::process::geteuid().as_raw();
    let contents = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    is_own.then_some((directory, contents))
}

#[cfg(test)]
mod tests {
    use std::mem::ManuallyDrop;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::{FlockOperation, flock};

    use super::*;
    use crate::data_dir::DataDir;

    /// Creates the directory of an instance that was killed: nothing is removed, and the lock is free.
    fn killed(parent: &Path) -> PathBuf {
        let data = ManuallyDrop::new(DataDir::temporary_in(parent).unwrap());
        data.token(|| "k".repeat(43)).unwrap();
        fs::create_dir_all(data.path().join("images/store/layers")).unwrap();
        fs::write(data.path().join("ca.new-00000001"), "a part of a key").unwrap();
        flock(&data.lock, FlockOperation::Unlock).unwrap();
        data.path().to_path_buf()
    }

    #[test]
    fn the_directory_of_a_killed_ephemeral_run_is_removed_cli_2() {
        let parent = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("mine.txt"), "keep").unwrap();
        let abandoned = killed(parent.path());
        symlink(outside.path(), abandoned.join("nodes")).unwrap();
        let running = DataDir::temporary_in(parent.path()).unwrap();
        running.token(|| "r".repeat(43)).unwrap();
        remove_abandoned_in(parent.path());
        let left: Vec<PathBuf> = fs::read_dir(parent.path()).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(left, [running.path()]);
        assert!(running.path().join("token").exists(), "a running instance keeps its files");
        assert!(outside.path().join("mine.txt").exists(), "a link is removed, not followed");
        let path = running.path().to_path_buf();
        drop(running);
        assert!(!path.exists(), "the instance removes its directory at its end");
    }

    /// Only the directory of a killed ephemeral run is removed (CLI-2).
    #[test]
    fn other_directories_in_the_place_for_temporary_files_stay() {
        let parent = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        let target = outside.path().join("target");
        fs::rename(killed(parent.path()), &target).unwrap();
        symlink(&target, at("podium-1-00000001")).unwrap();
        fs::rename(killed(parent.path()), at("podium-backup")).unwrap();
        fs::create_dir(at("podium-1-00000002")).unwrap();
        fs::write(at("podium-1-00000002").join("token"), "not of podium").unwrap();
        drop(DataDir::open(&at("podium-1-00000003"), false).unwrap());
        fs::rename(killed(parent.path()), at("podium-1-00000004")).unwrap();
        fs::remove_file(at("podium-1-00000004").join(LOCK)).unwrap();
        fs::rename(killed(parent.path()), at("podium-1-00000005")).unwrap();
        fs::set_permissions(at("podium-1-00000005"), fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(at("podium-1-00000006"), "a file").unwrap();
        if rustix::process::geteuid().is_root() {
            let of_another = at("podium-1-00000007");
            fs::rename(killed(parent.path()), &of_another).unwrap();
            std::os::unix::fs::chown(&of_another, Some(4711), None).unwrap();
        }
        let names = || {
            let mut names: Vec<_> =
                fs::read_dir(parent.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let before = names();
        remove_abandoned_in(parent.path());
        assert_eq!(names(), before);
        for directory in [&target, &at("podium-backup"), &at("podium-1-00000005")] {
            assert!(directory.join("token").exists(), "{}", directory.display());
        }
    }
}
