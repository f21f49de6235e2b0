//! Room on the disk that is held back: when the disk fills, the writes that are under way get it, so that they end
//! well and only later ones are refused. Nobody is told no for something that is done afterwards.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;

/// How much is held, or where that is not to be had, less: enough for the writes of one group.
const SIZES: [usize; 3] = [8 << 20, 1 << 20, 256 << 10];

/// A file without content.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    held: bool,
}

impl Reserve {
    /// The reserve of the database in `directory`, beside it. It is taken if there is room for it.
    pub(super) fn beside(directory: &Path) -> Self {
        let mut reserve = Self { path: directory.with_extension("reserve"), held: false };
        if !reserve.take() {
            tracing::warn!("{}: no room to hold back on the disk", reserve.path.display());
        }
        reserve
    }

    /// Whether room is held.
    pub(super) fn take(&mut self) -> bool {
        self.held = self.held || SIZES.into_iter().any(|size| hold(&self.path, size).is_ok());
        if !self.held {
            // What could be had of it is missed elsewhere.
            let _ = std::fs::remove_file(&self.path);
        }
        self.held
    }

    /// Gives the room free; false when none was held.
    pub(super) fn give_up(&mut self) -> bool {
        std::mem::take(&mut self.held) && std::fs::remove_file(&self.path).is_ok()
    }
}

fn hold(path: &Path, size: usize) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size as u64) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::NOSPC) => Err(rustix::io::Errno::NOSPC.into()),
        // Not every file system can promise room; one that is written to has given it.
        Err(_) => write_zeros(&mut file, size),
    }
}

fn write_zeros(file: &mut File, size: usize) -> io::Result<()> {
    let block = vec![0; 1 << 16];
    for _ in 0..size / block.len() {
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
        let mut reserve = Reserve::beside(&parent.path().join("state"));
        assert_eq!(std::fs::metadata(&file).unwrap().len(), SIZES[0] as u64);
        assert!(reserve.give_up() && !file.exists());
        assert!(!reserve.give_up(), "there is nothing left to give");
        assert!(reserve.take() && file.exists());
        let mut nowhere = Reserve::beside(&parent.path().join("none/state"));
        assert!(!nowhere.give_up());
    }
}
