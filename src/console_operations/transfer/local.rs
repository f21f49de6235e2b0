//! The local end of a copy: the file gets its final name only once it is complete. Blocking: runs in a thread of its
//! own.

use std::fs::{self, DirBuilder};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::archive::{self, Progress};
use console_toolkit::text::generated;

/// Returns the destination for `name`: within an existing directory, or exactly as typed.
pub fn target(here: &Path, name: &str) -> Result<PathBuf, String> {
    let target = if here.is_dir() { here.join(name) } else { here.to_path_buf() };
    let parent = parent(&target);
    if parent.is_dir() { Ok(target) } else { Err(format!("{} is not a directory", parent.display())) }
}

fn parent(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => Path::new("/"),
    }
}

/// A temporary directory beside the target, removed with its content when it is dropped.
struct StagingDirectory(PathBuf);

impl StagingDirectory {
    fn make(target: &Path) -> io::Result<Self> {
        let path = parent(target).join(format!(".podium-copy-{}", generated(8)));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for StagingDirectory {
    fn drop(&mut self) {
        // If removal fails, the remaining directory has a temporary name.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Unpacks into a temporary directory beside the target, and renames the result once `is_whole` returns true; until
/// then the final name does not exist, or its old content stays.
pub(super) fn receive(
    mut from: impl Read,
    name: &str,
    target: &Path,
    progress: &Progress,
    is_whole: impl FnOnce() -> bool,
) -> io::Result<()> {
    let beside = StagingDirectory::make(target)?;
    let new = beside.0.join("new");
    archive::unpack(&mut from, name, &new, progress)?;
    if !is_whole() {
        return Err(io::Error::other("the copy was stopped"));
    }
    // A rename replaces a file by a file atomically; if one of them is a directory, the old one is moved away first.
    let replaces = fs::symlink_metadata(target).is_ok_and(|old| old.is_dir() || new.is_dir());
    if replaces {
        fs::rename(target, beside.0.join("old"))?;
    }
    fs::rename(&new, target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_under_the_name_before_it_is_whole_con_3() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("source"), "new").unwrap();
        let mut bytes = Vec::new();
        archive::pack(&dir.path().join("source"), "log", &mut bytes, &Progress::default()).unwrap();
        let to = dir.path().join("to");
        fs::create_dir(&to).unwrap();
        let place = target(&to, "log").unwrap();
        assert_eq!(place, to.join("log"));
        fs::write(&place, "old").unwrap();
        let names = || fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
        for (bytes, whole) in [(&bytes[..], false), (&bytes[..514], true)] {
            receive(bytes, "log", &place, &Progress::default(), || whole).unwrap_err();
            assert_eq!((fs::read_to_string(&place).unwrap().as_str(), names().len()), ("old", 1));
        }
        receive(&bytes[..], "log", &place, &Progress::default(), || true).unwrap();
        assert_eq!((fs::read_to_string(&place).unwrap().as_str(), names().len()), ("new", 1));
        // A directory is replaced as a whole.
        fs::remove_file(&place).unwrap();
        fs::create_dir(&place).unwrap();
        fs::write(place.join("x"), "").unwrap();
        receive(&bytes[..], "log", &place, &Progress::default(), || true).unwrap();
        assert_eq!((fs::read_to_string(&place).unwrap().as_str(), names().len()), ("new", 1));
        // A link is replaced, and its destination is not written.
        let other = dir.path().join("other");
        fs::write(&other, "other").unwrap();
        fs::remove_file(&place).unwrap();
        std::os::unix::fs::symlink(&other, &place).unwrap();
        receive(&bytes[..], "log", &place, &Progress::default(), || true).unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "other");
        assert!(target(&dir.path().join("none/x"), "log").unwrap_err().ends_with("none is not a directory"));
    }
}
