//! Decides which existing directories Podium accepts for its data, by a mark of its own.
//!
//! A data directory contains a mark, the file `podium.json`. In a directory without the mark, files with our names
//! count as foreign: Podium neither reads, writes nor removes them.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{CWD, OFlags, RenameFlags};
use serde::{Deserialize, Serialize};

use base::removal::remove;

use super::{DataDirError, OF_IDS, at, write_private, write_unsynced};

/// The file that marks a data directory.
pub(super) const MARK: &str = "podium.json";
/// The file whose lock shows that an instance runs.
pub(super) const LOCK: &str = "lock";
/// The directory of log files. It may exist in an unmarked directory: a console without an instance writes logs there
/// too.
const LOGS: &str = "logs";
/// The maximum size of the files that we read; a larger file is not ours.
const LARGEST_FILE_BYTES: u64 = 1 << 20;

/// The files that we create in a data directory, besides the mark and the lock.
const OUR_FILES: [&str; 24] = [
    "token", "ca.crt", "ca.key", "sa.key", "front-proxy-ca.crt", "front-proxy-ca.key", "kubeconfig",
    "network", "network-ipv6", "fabric", "slot", OF_IDS, "state", "state.reserve", "state.deletions",
    "state.checkpoint", "state.opening", "state.opening.part", "state.opening.old", "nodes", "volumes",
    "snapshots", "restore-at-start", LOGS,
];

/// The content of the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OwnershipMark {
    /// True if the directory's content is removed with the run that created it.
    pub(super) ephemeral: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectoryState {
    /// Nothing in the directory is ours.
    Unused,
    /// It holds a cluster that stays.
    Persistent,
    /// It belongs to an ephemeral run that is active, or that was killed before it removed the directory.
    Ephemeral,
}

/// Decides if the directory may be used, and for which kind of run.
///
/// Other users may have read access, since each of our files is private by itself. They must not have write access,
/// since they could replace our files.
pub(super) fn judge(path: &Path) -> Result<DirectoryState, DataDirError> {
    let about = fs::metadata(path).map_err(at(path))?;
    if !about.is_dir() {
        return Err(at(path)(io::ErrorKind::NotADirectory.into()));
    }
    let directory = || path.to_path_buf();
    let us = rustix::process::geteuid().as_raw();
    if about.uid() != us {
        return Err(DataDirError::OfAnother { directory: directory(), owner: about.uid(), us });
    }
    if about.mode() & 0o022 != 0 {
        return Err(DataDirError::Open { directory: directory(), mode: about.mode() & 0o7777 });
    }
    if let Some(found) = marked(path)? {
        return Ok(found);
    }
    let Some(name) = find_own_file(path) else { return Ok(DirectoryState::Unused) };
    if made_before_there_were_marks(path) {
        return Ok(DirectoryState::Persistent);
    }
    // Another instance may have marked the directory between the two checks.
    marked(path)?.ok_or_else(|| DataDirError::NotOurs { directory: directory(), name: name.into() })
}

fn marked(path: &Path) -> Result<Option<DirectoryState>, DataDirError> {
    let Some(text) = read_private(&path.join(MARK))? else { return Ok(None) };
    // Only this user can have written the mark. An invalid one counts as that of a permanent cluster, so that nothing
    // is removed.
    let mark = base::json::from_str(&text).unwrap_or(OwnershipMark { ephemeral: false });
    Ok(Some(if mark.ephemeral { DirectoryState::Ephemeral } else { DirectoryState::Persistent }))
}

/// Returns the first existing file with one of our names, except the directory of logs, which a console also creates.
fn find_own_file(path: &Path) -> Option<&'static str> {
    let there = |name: &&str| path.join(name).symlink_metadata().is_ok();
    [LOCK].into_iter().chain(OUR_FILES).filter(|name| *name != LOGS).find(there)
}

/// Returns true if the directory contains logs, which an ephemeral run would remove although it did not create them.
pub(super) fn has_logs(path: &Path) -> bool {
    path.join(LOGS).symlink_metadata().is_ok()
}

/// Returns true if images were loaded or pulled into the directory.
pub(super) fn has_stored_images(path: &Path) -> bool {
    path.join(STORED_IMAGES).is_dir()
}

/// Returns true for a data directory of an early version, which created private keys but no mark.
fn made_before_there_were_marks(path: &Path) -> bool {
    ["ca.key", "sa.key"].iter().all(|name| matches!(read_private(&path.join(name)), Ok(Some(_))))
}

/// Marks a directory as ours, unless another process has marked it first.
pub(super) fn mark_first(path: &Path, mark: OwnershipMark) -> Result<(), DataDirError> {
    let fresh = path.join(format!("{MARK}.{:08x}", rand::random::<u32>()));
    write_mark(&fresh, mark)?;
    let mark_file = path.join(MARK);
    let moved = rustix::fs::renameat_with(CWD, &fresh, CWD, &mark_file, RenameFlags::NOREPLACE);
    match moved {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::EXIST) => fs::remove_file(&fresh).map_err(at(&fresh)),
        // The file system cannot rename without replacing. Of two instances that mark the directory at once, the lock
        // admits one.
        Err(_) => fs::rename(&fresh, &mark_file).map_err(at(&mark_file)),
    }
}

/// Marks a directory that this process has locked.
pub(super) fn mark(path: &Path, mark: OwnershipMark) -> Result<(), DataDirError> {
    write_mark(&path.join(MARK), mark)
}

fn write_mark(path: &Path, mark: OwnershipMark) -> Result<(), DataDirError> {
    let write = if mark.ephemeral { write_unsynced } else { write_private };
    write(path, &text_of(mark))
}

fn text_of(mark: OwnershipMark) -> String {
    let mut value = serde_json::json!({"note": "This file marks a data directory of Podium."});
    value["ephemeral"] = mark.ephemeral.into();
    format!("{value}\n")
}

/// The directory of the images that were loaded or pulled: no run removes them at its end.
const STORED_IMAGES: &str = "images/store";

/// Removes a data directory's content.
pub(super) fn remove_contents(path: &Path) -> io::Result<()> {
    OUR_FILES.iter().try_for_each(|name| remove(&path.join(name)))
}

/// Removes a data directory's content and its mark; the lock comes last.
pub(super) fn remove_data_dir(path: &Path) -> io::Result<()> {
    remove_contents(path)?;
    remove(&path.join(MARK))?;
    remove(&path.join(LOCK))
}

/// Removes a data directory's content, its stored images and its mark. What a user has written there stays.
pub(super) fn remove_everything(path: &Path) -> io::Result<()> {
    // The records come first: an error in the middle leaves no image with a part of its files.
    for name in ["tags.json", "images", ""] {
        remove(&path.join(STORED_IMAGES).join(name))?;
    }
    remove_data_dir(path)
}

/// Returns a file's text; `None` if the file does not exist, and an error if it is not owned by this user and private.
pub(super) fn read_private(path: &Path) -> Result<Option<String>, DataDirError> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match fs::OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(at(path)(error)),
    };
    let about = file.metadata().map_err(at(path))?;
    let private = about.is_file()
        && about.uid() == rustix::process::geteuid().as_raw()
        && about.mode().trailing_zeros() >= 6 // nothing for group and others
        && about.len() <= LARGEST_FILE_BYTES;
    if !private {
        return Err(DataDirError::NotPrivate { path: path.to_path_buf(), mode: about.mode() & 0o7777 });
    }
    let mut text = String::new();
    file.take(LARGEST_FILE_BYTES).read_to_string(&mut text).map_err(at(path))?;
    Ok(Some(text))
}
