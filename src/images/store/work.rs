//! Unfinished files of writers: `new/NAME/`, one directory for each living writer.
//!
//! A writer holds a lock on a file in its directory for as long as it lives; the kernel drops the lock with the
//! process, however it ends. A directory without a holder was left by a crash, and the next writer removes it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::ImageStore;
use base::removal;
use base::step_observer::record_step;

/// The file in a writer's directory that it holds a lock on.
const HOLDER: &str = "holder";
/// The directory with an empty file for each layer that the writer needs: they are not removed, although no image has
/// them yet.
const RETAINED: &str = "retained";
/// The extension of a file that is not completely written.
pub(super) const UNFINISHED: &str = "new";
/// The prefix of unfinished images of versions that stored each image as one directory.
const OLD_UNPACKING: &str = "unpack-";

/// The directory of a living writer; removed on drop.
#[derive(Debug)]
pub(super) struct WorkDir {
    path: PathBuf,
    _holder: File,
}

impl WorkDir {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps a layer from removal while this writer lives. The caller holds the store's lock.
    pub(super) fn keep(&self, layer: &str) -> io::Result<()> {
        fs::write(self.path.join(RETAINED).join(layer), "")
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        // The next writer removes what cannot be removed now. The lock's file goes last: without it, others would take
        // the directory for a dead writer's.
        for path in entries(&self.path).unwrap_or_else(|_| Vec::new()) {
            if !path.ends_with(HOLDER) {
                let _ = remove_tree(&path);
            }
        }
        let _ = remove_tree(&self.path);
    }
}

impl ImageStore {
    /// Creates a directory for a writer, and removes the remains of crashed ones.
    pub(super) fn work_dir(&self) -> io::Result<WorkDir> {
        self.remove_remains()?;
        let lock = self.lock()?;
        let made = self.work_dir_under(&lock)?;
        drop(lock);
        Ok(made)
    }

    /// As [`Self::work_dir`], for a caller that holds the store's lock.
    pub(super) fn work_dir_under(&self, _lock: &File) -> io::Result<WorkDir> {
        let path = self.new_directory().join(format!("{:016x}", base::random::random::<u64>()));
        step("create", &path);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path.join(RETAINED))?;
        let holder = File::create(path.join(HOLDER))?;
        flock(&holder, FlockOperation::NonBlockingLockExclusive)?;
        Ok(WorkDir { path, _holder: holder })
    }

    fn new_directory(&self) -> PathBuf {
        self.directory.join("new")
    }

    /// The layers that living writers keep. The caller holds the store's lock.
    pub(super) fn retained_layers(&self, _lock: &File) -> io::Result<Vec<String>> {
        let mut retained = Vec::new();
        for writer in entries(&self.new_directory())? {
            for layer in entries(&writer.join(RETAINED))? {
                retained.extend(layer.file_name().and_then(|name| name.to_str()).map(str::to_owned));
            }
        }
        Ok(retained)
    }

    /// Removes what crashed writers left.
    pub(super) fn remove_remains(&self) -> io::Result<()> {
        let lock = self.lock()?;
        // A full disk refuses the names, and must not prevent removals.
        if let Err(error) = self.forget_removed_names() {
            tracing::warn!(
                "cannot remove the names of removed images in {}: {error}",
                self.directory.display()
            );
        }
        // Records that were not written completely.
        for path in entries(&self.records())? {
            if path.extension().is_some_and(|extension| extension == UNFINISHED) {
                remove_or_warn(&path);
            }
        }
        let mut abandoned = Vec::new();
        for path in entries(&self.new_directory())? {
            // Each writer takes its lock while it holds the store's: without a holder, there is no writer.
            match File::options().write(true).open(path.join(HOLDER)) {
                Ok(holder) if flock(&holder, FlockOperation::NonBlockingLockExclusive).is_ok() => {
                    abandoned.push(WorkDir { path, _holder: holder });
                }
                Ok(_) => {}
                Err(_) => remove_or_warn(&path),
            }
        }
        for path in entries(&self.directory)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(OLD_UNPACKING) {
                remove_or_warn(&path);
            }
        }
        drop(lock);
        // Removed without the store's lock: it may take long.
        drop(abandoned);
        Ok(())
    }
}

/// Removes remains, which another process may be removing too.
fn remove_or_warn(path: &Path) {
    if let Err(error) = remove_tree(path) {
        tracing::warn!("cannot remove {}: {error}", path.display());
    }
}

/// Reports a change that is about to be made, for tests that kill the process there.
pub(super) fn step(change: &str, path: &Path) {
    record_step(format_args!("{change} {}", path.display()));
}

/// The paths in a directory, which need not exist.
pub(super) fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed?.map(|entry| Ok(entry?.path())).collect(),
    }
}

/// Removes a file or a tree.
pub(super) fn remove_tree(path: &Path) -> io::Result<()> {
    step("remove", path);
    removal::remove(path)
}
