//! Where a copy comes to lie on this machine: under its final name only once it is whole. Blocking: for a thread of its own.

use std::fs::{self, DirBuilder};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::archive::{self, Progress};
use crate::text::generated;

/// Where something of this name comes to lie: in a directory that is there, or as what was typed.
pub(super) fn target(here: &Path, name: &str) -> Result<PathBuf, String> {
    let target = if here.is_dir() { here.join(name) } else { here.to_path_buf() };
    let parent = parent(&target);
    if parent.is_dir() { Ok(target) } else { Err(format!("{} is no directory", parent.display())) }
}

fn parent(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => Path::new("/"),
    }
}

/// A directory beside the target, which goes with all that is in it.
struct Beside(PathBuf);

impl Beside {
    fn make(target: &Path) -> io::Result<Self> {
        let path = parent(target).join(format!(".podium-copy-{}", generated(8)));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // What cannot be removed is of no name that anybody asked for.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Unpacks what comes beside the target, and gives it its name once `is_whole` says that all has come; until then nothing
/// is under that name, and whatever was there stays.
pub(super) fn receive(
    mut from: impl Read,
    name: &str,
    target: &Path,
    progress: &Progress,
    is_whole: impl FnOnce() -> bool,
) -> io::Result<()> {
    let beside = Beside::make(target)?;
    let new = beside.0.join("new");
    archive::unpack(&mut from, name, &new, progress)?;
    if !is_whole() {
        return Err(io::Error::other("it was stopped"));
    }
    // A file takes the place of another in one step; a directory of no other.
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
        // In the place of a directory, which goes whole.
        fs::remove_file(&place).unwrap();
        fs::create_dir(&place).unwrap();
        fs::write(place.join("x"), "").unwrap();
        receive(&bytes[..], "log", &place, &Progress::default(), || true).unwrap();
        assert_eq!((fs::read_to_string(&place).unwrap().as_str(), names().len()), ("new", 1));
        // A link is replaced, and what it leads to is not written.
        let other = dir.path().join("other");
        fs::write(&other, "other").unwrap();
        fs::remove_file(&place).unwrap();
        std::os::unix::fs::symlink(&other, &place).unwrap();
        receive(&bytes[..], "log", &place, &Progress::default(), || true).unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "other");
        assert!(target(&dir.path().join("none/x"), "log").unwrap_err().ends_with("none is no directory"));
    }
}
