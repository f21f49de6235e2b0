//! Reserved disk space. When the disk fills, the writes under way get the first reserve, so that they succeed and
//! only later ones are refused. The second reserve is for deletions, by which users free space.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;

/// The sizes to try, largest first: enough for the writes of one group.
const SIZES: &[u64] = &[8 << 20, 1 << 20, 256 << 10];
/// The sizes to try for deletions, each of which takes a few kilobytes.
const DELETION_SIZES: &[u64] =
    &[1 << 20, 896 << 10, 768 << 10, 640 << 10, 512 << 10, 384 << 10, 256 << 10, 128 << 10, 64 << 10];
/// The unit of `st_blocks`, on every file system.
const BLOCK: u64 = 512;

/// A file that only occupies space.
#[derive(Debug)]
pub(super) struct ReservedSpace {
    path: PathBuf,
    /// The sizes to try, from the largest to the smallest useful one, in bytes.
    sizes: &'static [u64],
    reserved: bool,
}

impl ReservedSpace {
    /// Returns the reserve for the writes under way, a file beside `directory`, and fills it if the disk has space.
    pub(super) fn beside(directory: &Path) -> Self {
        Self::at(directory.with_extension("reserve"), SIZES)
    }

    /// Returns the reserve for deletions.
    pub(super) fn for_deletions(directory: &Path) -> Self {
        Self::at(directory.with_extension("deletions"), DELETION_SIZES)
    }

    fn at(path: PathBuf, sizes: &'static [u64]) -> Self {
        let mut reserve = Self { path, sizes, reserved: false };
        if !reserve.take() {
            tracing::warn!("{}: cannot reserve disk space", reserve.path.display());
        }
        reserve
    }

    /// Reserves as much space as possible, up to the full size; returns false if none was available.
    pub(super) fn take(&mut self) -> bool {
        if !self.is_whole() {
            self.reserved = self.sizes.iter().any(|size| hold(&self.path, *size).is_ok());
        }
        if !self.reserved {
            // Free the space a failed attempt has taken: other files need it.
            let _ = std::fs::remove_file(&self.path);
        }
        self.reserved
    }

    /// Returns true if any space is reserved.
    pub(super) fn is_reserved(&self) -> bool {
        self.reserved
    }

    /// Returns true if the full size is reserved.
    pub(super) fn is_whole(&self) -> bool {
        let expected = self.sizes.first().copied().unwrap_or_default();
        self.reserved && std::fs::metadata(&self.path).is_ok_and(|file| file.len() >= expected)
    }

    /// Releases the space; returns false if none was held.
    pub(super) fn release(&mut self) -> bool {
        std::mem::take(&mut self.reserved) && std::fs::remove_file(&self.path).is_ok()
    }
}

fn hold(path: &Path, size: u64) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    // At a start on a full disk the file may still hold the reserve of the previous run, which must not be released.
    let found = file.metadata()?;
    if found.len() >= size && found.blocks().saturating_mul(BLOCK) >= size {
        return Ok(());
    }
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::NOSPC) => {
            file.set_len(found.len())?;
            Err(rustix::io::Errno::NOSPC.into())
        }
        // Not every file system can guarantee space without writing; a file that is written has it.
        Err(_) => write_zeros(&mut file, size),
    }
}

fn write_zeros(file: &mut File, size: u64) -> io::Result<()> {
    let block = vec![0; 1 << 16];
    for _ in 0..size / block.len() as u64 {
        file.write_all(&block)?;
    }
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_held_and_given_up_once() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("state.reserve");
        let mut reserve = ReservedSpace::beside(&parent.path().join("state"));
        assert_eq!(std::fs::metadata(&file).unwrap().len(), SIZES[0]);
        assert!(reserve.release() && !file.exists());
        assert!(!reserve.release(), "there is nothing left to give");
        assert!(reserve.take() && file.exists());
        let inode = |file: &Path| std::fs::metadata(file).unwrap().ino();
        let held = inode(&file);
        assert!(
            ReservedSpace::beside(&parent.path().join("state")).reserved && inode(&file) == held,
            "as it was found"
        );
        assert_eq!(std::fs::metadata(&file).unwrap().len(), SIZES[0]);
        let mut deletions = ReservedSpace::for_deletions(&parent.path().join("state"));
        assert!(deletions.is_whole() && deletions.release() && !deletions.is_whole() && file.exists());
        let mut missing = ReservedSpace::beside(&parent.path().join("none/state"));
        assert!(!missing.release());
    }
}
