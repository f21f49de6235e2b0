//! Files that the console saves for each cluster between runs: one JSON document per cluster, readable only by its
//! owner, in a directory per kind of document. Writes are atomic, so that other consoles may start or stop at any time.
//!
//! The files are untrusted input: their size is bounded, and an unreadable file counts as absent.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::resource::Uid;
use base::sort::SliceOrder;

/// The maximum number of clusters with retained files; the least recently written files are removed.
pub(crate) const MAX_CLUSTERS: usize = 32;

/// The extensions of documents, and of the files that lock them.
const DOCUMENT: &str = "json";
const LOCK: &str = "lock";

/// Documents of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClusterFiles {
    /// The directory, relative to the user's directory.
    pub(crate) directory: &'static str,
    /// The maximum size in bytes; the console never writes a longer file.
    pub(crate) max_bytes: u64,
    /// The description of the content, for log messages.
    pub(crate) description: &'static str,
}

impl ClusterFiles {
    /// Returns the path of a cluster's file; the name comes from the uid, which is unique.
    pub(crate) fn path(self, dir: &Path, cluster: &Uid) -> PathBuf {
        let name: String =
            cluster.as_str().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(64).collect();
        dir.join(self.directory).join(format!("{name}.{DOCUMENT}"))
    }

    /// Reads a cluster's file; `None` if it is absent or unreadable.
    pub(crate) fn read<T: DeserializeOwned>(self, dir: &Path, cluster: &Uid) -> Option<T> {
        let path = self.path(dir, cluster);
        // A named pipe at this path must not block the console.
        if !std::fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() <= self.max_bytes) {
            return None;
        }
        let mut text = String::new();
        std::fs::File::open(&path).ok()?.take(self.max_bytes).read_to_string(&mut text).ok()?;
        let read = base::json::from_str(&text);
        read.inspect_err(|error| {
            tracing::warn!(path = %path.display(), %error, "cannot read {} of the last run", self.description);
        })
        .ok()
    }

    pub(crate) fn write(self, dir: &Path, cluster: &Uid, document: &impl Serialize) -> std::io::Result<()> {
        let path = self.path(dir, cluster);
        let place = dir.join(self.directory);
        std::fs::create_dir_all(&place)?;
        let beside = path.with_extension(format!("{}.tmp", std::process::id()));
        let mut file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        let written = file
            .write_all(&serde_json::to_vec(document)?)
            .and_then(|()| std::fs::rename(&beside, &path))
            .inspect_err(|_| drop(std::fs::remove_file(&beside)));
        remove_oldest_files(&place, DOCUMENT);
        written
    }

    /// Locks a cluster's file for one process until the result is dropped or the process ends; the error is
    /// `WouldBlock` while another process holds it. The lock has a file of its own, because a write replaces the file.
    pub(crate) fn lock(self, dir: &Path, cluster: &Uid) -> std::io::Result<std::fs::File> {
        let path = self.path(dir, cluster).with_extension(LOCK);
        let place = dir.join(self.directory);
        std::fs::create_dir_all(&place)?;
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(&path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        // A write renews the time of the file, which decides which files are removed.
        file.write_all(format!("{}\n", std::process::id()).as_bytes())?;
        remove_oldest_files(&place, LOCK);
        Ok(file)
    }

    /// Removes a cluster's file if it exists.
    pub(crate) fn remove(self, dir: &Path, cluster: &Uid) -> std::io::Result<()> {
        match std::fs::remove_file(self.path(dir, cluster)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Removes the oldest files: a cluster that is recreated for each run must not fill the disk.
fn remove_oldest_files(place: &Path, extension: &str) {
    let Ok(all) = std::fs::read_dir(place) else { return };
    let mut all: Vec<_> = all
        .filter_map(Result::ok)
        .filter(|file| file.path().extension().is_some_and(|ending| ending == extension))
        .filter_map(|file| Some((file.metadata().ok()?.modified().ok()?, file.path())))
        .collect();
    all.order_by(|(a, _), (b, _)| b.cmp(a));
    for (_, path) in all.into_iter().skip(MAX_CLUSTERS) {
        // If removal fails, the file merely stays.
        let _ = std::fs::remove_file(path);
    }
}
