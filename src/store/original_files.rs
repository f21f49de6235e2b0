//! Copies the files of a database before it is opened, and holds the copy until the opening has succeeded.
//!
//! Opening changes files: it cuts journals and removes unknown files. A start that refuses a damaged database
//! restores everything, so that the next start, or a person with better tools, finds the original files.

use base::removal::unless_missing;
use base::sort::SliceOrder;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Directories of files that never change once written: a hard link is as good as a copy.
const UNCHANGING: [&str; 2] = ["tables", "blobs"];

/// The original files of one database.
pub(super) struct OriginalFiles {
    directory: PathBuf,
    /// `None` if there was no space for a copy.
    copy: Option<PathBuf>,
    /// An earlier start left this copy and did not finish.
    pub(super) is_older: bool,
}

impl OriginalFiles {
    /// Copies the files of the database in `directory` to a directory beside it.
    pub(super) fn keep(directory: &Path) -> Self {
        let name = |suffix: &str| directory.with_extension(suffix);
        let (copy, part) = (name("opening"), name("opening.part"));
        let directory = directory.to_path_buf();
        if copy.exists() {
            return Self { directory, copy: Some(copy), is_older: true };
        }
        let copied = clear(&part)
            .and_then(|()| copy_tree(&directory, &part, u64::MAX).map(drop))
            .and_then(|()| fs::rename(&part, &copy));
        if let Err(error) = &copied {
            tracing::debug!("{}: cannot copy the database before opening it: {error}", directory.display());
            let _ = clear(&part);
        }
        Self { directory, copy: copied.is_ok().then_some(copy), is_older: false }
    }

    /// Returns true if the copy exists.
    pub(super) fn has_copy(&self) -> bool {
        self.copy.is_some()
    }

    /// Removes the copy after a successful opening.
    pub(super) fn forget(self) {
        let Some(copy) = self.copy else { return };
        // Rename first, so that a partly removed copy is never taken for a whole one.
        let old = self.directory.with_extension("opening.old");
        let _ = clear(&old);
        if let Err(error) = fs::rename(&copy, &old).and_then(|()| clear(&old)) {
            tracing::warn!("{}: {error}", copy.display());
        }
    }

    /// Restores the files as they were found.
    pub(super) fn restore(self) -> io::Result<()> {
        let Some(copy) = self.copy else { return Ok(()) };
        clear(&self.directory)?;
        fs::rename(copy, &self.directory)
    }

    /// Keeps the copy permanently; returns its path.
    pub(super) fn keep_for_good(self) -> Option<PathBuf> {
        let copy = self.copy?;
        let place = |number: u32| self.directory.with_extension(format!("damaged-{number}"));
        let free = (1..u32::MAX).map(place).find(|place| !place.exists())?;
        fs::rename(&copy, &free).is_ok().then_some(free)
    }

    /// Returns the total size of the journals in bytes.
    pub(super) fn journal_bytes(&self) -> u64 {
        let Some(copy) = &self.copy else { return 0 };
        journals(copy).iter().map(|(_, _, bytes)| bytes).sum()
    }

    /// Recreates the directory with only the first `journal_bytes` of its journals, in their order.
    pub(super) fn cut(&self, journal_bytes: u64) -> io::Result<()> {
        let Some(copy) = &self.copy else { return Err(io::ErrorKind::NotFound.into()) };
        clear(&self.directory)?;
        copy_tree(copy, &self.directory, journal_bytes)
    }
}

/// Returns a database's journals, oldest first: number, file, bytes.
fn journals(directory: &Path) -> Vec<(u64, PathBuf, u64)> {
    let number = |path: &Path| {
        let is_journal = path.extension() == Some(OsStr::new("jnl"));
        path.file_stem().filter(|_| is_journal)?.to_str()?.parse().ok()
    };
    let paths = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<(u64, PathBuf, u64)> =
        paths.filter_map(|path| Some((number(&path)?, path.clone(), path.metadata().ok()?.len()))).collect();
    found.order();
    found
}

fn copy_tree(from: &Path, to: &Path, journal_bytes: u64) -> io::Result<()> {
    copy_directory(from, to)?;
    let mut left = journal_bytes;
    for (_, path, bytes) in journals(from) {
        let Some(name) = path.file_name() else { continue };
        let copy = to.join(name);
        if left == 0 && bytes > 0 {
            fs::remove_file(copy)?;
        } else if left < bytes {
            fs::File::options().write(true).open(copy)?.set_len(left)?;
        }
        left = left.saturating_sub(bytes);
    }
    Ok(())
}

fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    let unchanging = from.file_name().is_some_and(|name| UNCHANGING.iter().any(|known| name == *known));
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, copy) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy_directory(&entry.path(), &copy)?;
        } else if kind.is_file() && !(unchanging && fs::hard_link(entry.path(), &copy).is_ok()) {
            fs::copy(entry.path(), &copy)?;
        }
    }
    Ok(())
}

fn clear(directory: &Path) -> io::Result<()> {
    unless_missing(fs::remove_dir_all(directory))
}
