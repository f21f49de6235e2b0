//! The directories of a volume. They all belong to one file system; no link is followed, even if the volume's files
//! change meanwhile.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, stat, statat};

/// A volume with more directories than this gets no gate.
const MAX_DIRECTORIES: usize = 4096;
/// Directories at a greater depth than this are skipped.
const DEEPEST: usize = 64;
/// The maximum number of files of a volume for which open descriptors are searched.
const MAX_FILES: usize = 1 << 16;

/// The directories and files of a tree.
#[derive(Debug, Default)]
pub(super) struct TreeContents {
    directories: usize,
    /// Its files, by their inodes.
    files: BTreeSet<u64>,
}

/// Passes every directory of a tree to `each`, the root first.
pub(super) fn walk(
    root: BorrowedFd<'_>,
    mut each: impl FnMut(BorrowedFd<'_>) -> io::Result<()>,
) -> io::Result<TreeContents> {
    let device = fstat(root)?.st_dev;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut found = TreeContents::default();
    let mut open: Vec<(OwnedFd, usize)> = vec![(openat(root, ".", flags, Mode::empty())?, 0)];
    while let Some((directory, depth)) = open.pop() {
        found.directories += 1;
        if found.directories > MAX_DIRECTORIES || depth > DEEPEST {
            return Err(io::Error::other(format!(
                "it has more than {MAX_DIRECTORIES} directories, or more than {DEEPEST} levels of them"
            )));
        }
        each(directory.as_fd())?;
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            // A file deleted meanwhile is skipped.
            let Ok(about) = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            match FileType::from_raw_mode(about.st_mode) {
                FileType::RegularFile if found.files.len() < MAX_FILES => {
                    found.files.insert(about.st_ino);
                }
                // A mount there belongs to another file system.
                FileType::Directory if about.st_dev == device => {
                    if let Ok(below) = openat(&directory, name, flags, Mode::empty()) {
                        open.push((below, depth + 1));
                    }
                }
                _ => {}
            }
        }
    }
    Ok(found)
}

/// A descriptor of any process that is open for writing to a file of a tree.
#[derive(Debug)]
pub(super) struct Writer {
    path: String,
    file: (u64, u64),
}

impl Writer {
    /// Returns true if the descriptor is still open.
    pub(super) fn is_open(&self) -> bool {
        stat(&self.path).is_ok_and(|about| id(&about) == self.file)
    }
}

fn id(about: &Stat) -> (u64, u64) {
    (about.st_dev, about.st_ino)
}

impl TreeContents {
    /// The descriptors of all processes that are open for writing to these files, on this device.
    pub(super) fn writers(&self, device: u64) -> Vec<Writer> {
        let mut writers = Vec::new();
        if self.files.is_empty() {
            return writers;
        }
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let is_process = process.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit);
            let descriptors = is_process.then(|| fs::read_dir(process.path().join("fd")).ok()).flatten();
            for descriptor in descriptors.into_iter().flatten().flatten() {
                let path = descriptor.path();
                let Ok(about) = stat(&path) else { continue };
                if about.st_dev == device && self.files.contains(&about.st_ino) && is_written(&path) {
                    writers.push(Writer { path: path.to_string_lossy().into_owned(), file: id(&about) });
                }
            }
        }
        writers
    }
}

/// Returns true if a descriptor is open for writing: the mode of its link shows it.
fn is_written(link: &std::path::Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::symlink_metadata(link).is_ok_and(|about| about.permissions().mode() & 0o200 != 0)
}
