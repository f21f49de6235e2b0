//! Entries of a layer's tar stream: their paths and attributes.

use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Gid, Timespec, Timestamps, Uid};
use tar::Entry;

use super::options::LoadError;

pub(super) fn mode<R: Read>(entry: &Entry<'_, R>) -> io::Result<u32> {
    Ok(entry.header().mode()? & 0o7777)
}

pub(super) fn mtime<R: Read>(entry: &Entry<'_, R>) -> i64 {
    entry.header().mtime().ok().and_then(|seconds| i64::try_from(seconds).ok()).unwrap_or_default()
}

/// The owner; a blank field means root.
pub(super) fn owner<R: Read>(entry: &Entry<'_, R>) -> (Uid, Gid) {
    // The largest number means no owner at all to the kernel.
    let number = |id: io::Result<u64>| u32::try_from(id.unwrap_or(0)).unwrap_or(u32::MAX).min(u32::MAX - 1);
    (Uid::from_raw(number(entry.header().uid())), Gid::from_raw(number(entry.header().gid())))
}

pub(super) fn times(seconds: i64) -> Timestamps {
    let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
    Timestamps { last_access: time, last_modification: time }
}

/// An entry's path below the root: no `..`, readable. An absolute path begins at the root, as in containerd: `ko` writes
/// such paths.
pub(super) fn safe_path(bytes: &[u8], layer: &str) -> Result<PathBuf, LoadError> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        let path = PathBuf::from(String::from_utf8_lossy(bytes).into_owned());
        return Err(LoadError::unsafe_path(layer, &path, "the name is not UTF-8"));
    };
    let path = Path::new(text);
    let mut safe = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(part) => safe.push(part),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            Component::ParentDir => {
                return Err(LoadError::unsafe_path(layer, path, "the path contains \"..\""));
            }
        }
    }
    Ok(safe)
}
