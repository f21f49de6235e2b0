//! Unpacks one layer over those below it: files, links, modes, owners, and whiteouts.
//!
//! Entries are names under the root and nothing else: a layer with any other entry is refused as a whole. Devices are
//! left out, with a note.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use tar::{Entry, EntryType};

use super::archive::LimitedReader;
use super::options::{Limits, LoadError};
use base::root_dir::{ParentAndName, RootDir};

/// The prefix of whiteouts, entries that remove a file of a lower layer.
const WHITEOUT: &str = ".wh.";
/// Hides all entries of lower layers in the directory.
const OPAQUE: &str = ".wh..wh..opq";
/// Maximum size of one entry's headers, long names and attributes.
const ENTRY_HEAD_BYTES: u64 = 4 << 20;

/// A root file system that is being unpacked.
pub(super) struct LayerUnpacker<'a> {
    pub(super) root: &'a RootDir,
    pub(super) limits: &'a Limits,
    /// True if files may be given to other users.
    pub(super) as_root: bool,
    /// The remaining part of `limits.unpacked_bytes`.
    remaining_bytes: u64,
    remaining_entries: u64,
    /// Modes and times of directories, set after all layers: until then directories must be writable.
    directories: BTreeMap<PathBuf, (u32, i64)>,
    devices: u64,
}

impl<'a> LayerUnpacker<'a> {
    pub(super) fn new(root: &'a RootDir, limits: &'a Limits, as_root: bool) -> Self {
        Self {
            root,
            limits,
            as_root,
            remaining_bytes: limits.unpacked_bytes,
            remaining_entries: limits.entries,
            directories: BTreeMap::new(),
            devices: 0,
        }
    }

    /// Unpacks a layer's tar stream; `name` is for messages.
    pub(super) fn layer(&mut self, stream: &mut dyn Read, name: &str) -> Result<(), LoadError> {
        let allowance = Rc::new(Cell::new(ENTRY_HEAD_BYTES));
        let mut archive = tar::Archive::new(LimitedReader::new(stream, allowance.clone()));
        let damaged = |error: io::Error| LoadError::NotAnImage(format!("layer {name}: {error}"));
        let mut own = BTreeSet::new();
        let mut entries = archive.entries().map_err(damaged)?;
        loop {
            // Limits the entry's headers; the limit for its content is set once its size is known.
            allowance.set(ENTRY_HEAD_BYTES);
            let Some(entry) = entries.next() else { break };
            let mut entry = entry.map_err(damaged)?;
            let size = entry.size();
            self.remaining_bytes = self.remaining_bytes.checked_sub(size).ok_or_else(|| {
                LoadError::TooLarge(format!(
                    "the image unpacks to more than {} bytes",
                    self.limits.unpacked_bytes
                ))
            })?;
            self.remaining_entries = self.remaining_entries.checked_sub(1).ok_or_else(|| {
                LoadError::TooLarge(format!("the image has more than {} files", self.limits.entries))
            })?;
            allowance.set(size.saturating_add(ENTRY_HEAD_BYTES));
            let path = safe_path(&entry.path_bytes(), name)?;
            let shown = path.display().to_string();
            self.entry(&mut entry, &path, &mut own, name).map_err(|error| {
                error.unwrap_or_else(|error| LoadError::io(format!("layer {name}: {shown}"))(error))
            })?;
            io::copy(&mut entry, &mut io::sink()).map_err(damaged)?;
        }
        Ok(())
    }

    fn entry<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
        path: &Path,
        own: &mut BTreeSet<PathBuf>,
        layer: &str,
    ) -> Result<(), EntryError> {
        let kind = entry.header().entry_type();
        let Some(name) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else {
            // The root itself.
            if kind.is_dir() {
                self.directories.insert(PathBuf::new(), (mode(entry)?, mtime(entry)));
            }
            return Ok(());
        };
        if name == OPAQUE {
            return Ok(self.clear(path.parent().unwrap_or(Path::new("")), own)?);
        }
        if let Some(gone) = name.strip_prefix(WHITEOUT) {
            if gone.starts_with(WHITEOUT) {
                // Internal entries of a union file system.
                return Ok(());
            }
            if matches!(gone, "" | "." | "..") {
                return Err(LoadError::unsafe_path(layer, path, "the whiteout names no file").into());
            }
            return Ok(self.take_away(&path.with_file_name(gone), own)?);
        }
        let place = self.root.ensure_parent(path)?;
        let replaces = place.stat()?.is_some();
        if !(kind.is_dir() && place.is_directory()?) {
            if replaces {
                place.remove()?;
            }
            self.directories.retain(|known, _| !known.starts_with(path));
        }
        match kind {
            EntryType::Directory => self.directory(entry, &place, path)?,
            EntryType::Symlink => {
                let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                rustix::fs::symlinkat(target.as_slice(), &place.directory, &place.name)?;
                self.own(entry, &place)?;
            }
            EntryType::Link => self.hard_link(entry, &place, path, layer)?,
            EntryType::Fifo => {
                let kind = FileType::Fifo;
                rustix::fs::mknodat(
                    &place.directory,
                    &place.name,
                    kind,
                    Mode::from_raw_mode(mode(entry)?),
                    0,
                )?;
                self.own(entry, &place)?;
            }
            EntryType::Char | EntryType::Block => {
                self.devices += 1;
                return Ok(());
            }
            kind if kind.is_file() || kind == EntryType::Continuous => self.file(entry, &place)?,
            // A global header, or another archiver's extension: not part of an image.
            _ => return Ok(()),
        }
        own.extend(path.ancestors().map(Path::to_path_buf));
        Ok(())
    }

    fn directory<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
        location: &ParentAndName,
        path: &Path,
    ) -> Result<(), EntryError> {
        match rustix::fs::mkdirat(&location.directory, &location.name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
        self.own(entry, location)?;
        self.directories.insert(path.to_path_buf(), (mode(entry)?, mtime(entry)));
        Ok(())
    }

    fn file<R: Read>(&mut self, entry: &mut Entry<'_, R>, place: &ParentAndName) -> Result<(), EntryError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&place.directory, &place.name, flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = File::from(file);
        io::copy(entry, &mut file)?;
        self.own(entry, place)?;
        // Set after the owner, because a change of the owner clears the set-user-id bit.
        let readable = if self.as_root { 0 } else { 0o600 };
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode(entry)? | readable))?;
        self.attributes(entry, &file);
        let times = times(mtime(entry));
        Ok(rustix::fs::futimens(&file, &times)?)
    }

    /// Sets the capabilities of programs; those that the file system does not accept are lost, as in any copy.
    fn attributes<R: Read>(&self, entry: &mut Entry<'_, R>, file: &File) {
        let Ok(Some(extensions)) = entry.pax_extensions() else { return };
        for extension in extensions.flatten() {
            if let Ok(key) = extension.key()
                && let Some(name) = key.strip_prefix("SCHILY.xattr.")
                && (name.starts_with("user.") || (self.as_root && name == "security.capability"))
            {
                let _ =
                    rustix::fs::fsetxattr(file.as_fd(), name, extension.value_bytes(), XattrFlags::empty());
            }
        }
    }

    fn hard_link<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
        location: &ParentAndName,
        path: &Path,
        layer: &str,
    ) -> Result<(), EntryError> {
        let target = entry.link_name_bytes().unwrap_or_default().into_owned();
        let target = safe_path(&target, layer)?;
        let lost =
            || LoadError::unsafe_path(layer, path, "the hard link's target is not a file of the image");
        let source = self.root.existing_parent(&target).map_err(|_| EntryError::Load(lost()))?;
        let no_flags = AtFlags::empty();
        match rustix::fs::linkat(
            &source.directory,
            &source.name,
            &location.directory,
            &location.name,
            no_flags,
        ) {
            Err(Errno::NOENT | Errno::PERM) => Err(lost().into()),
            linked => Ok(linked?),
        }
    }

    fn own<R: Read>(&self, entry: &Entry<'_, R>, place: &ParentAndName) -> Result<(), EntryError> {
        if self.as_root {
            // A blank field means root.
            let number = |id: io::Result<u64>| u32::try_from(id.unwrap_or(0)).unwrap_or(u32::MAX - 1);
            let (uid, gid) = (number(entry.header().uid()), number(entry.header().gid()));
            let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
            rustix::fs::chownat(&place.directory, &place.name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    }

    /// Removes the entries of lower layers in a directory, but not those of this layer.
    fn clear(&mut self, directory: &Path, own: &BTreeSet<PathBuf>) -> io::Result<()> {
        let Ok(opened) = self.root.open(directory, OFlags::RDONLY | OFlags::DIRECTORY) else { return Ok(()) };
        let names: Vec<_> = rustix::fs::Dir::read_from(&opened)?
            .filter_map(|entry| Some(PathBuf::from(entry.ok()?.file_name().to_str().ok()?)))
            .filter(|name| !matches!(name.to_str(), Some("." | "..") | None))
            .collect();
        names.into_iter().try_for_each(|name| self.take_away(&directory.join(name), own))
    }

    fn take_away(&mut self, path: &Path, own: &BTreeSet<PathBuf>) -> io::Result<()> {
        // A whiteout of a missing path has no effect.
        let Ok(place) = self.root.existing_parent(path) else { return Ok(()) };
        if own.contains(path) {
            return if place.is_directory()? { self.clear(path, own) } else { Ok(()) };
        }
        place.remove()?;
        self.directories.retain(|known, _| !known.starts_with(path));
        Ok(())
    }

    /// Sets the modes and times of directories, innermost first; returns notes about omitted entries.
    pub(super) fn finish(self) -> io::Result<Vec<String>> {
        for (path, (mode, mtime)) in self.directories.iter().rev() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
            let Ok(directory) = self.root.open(path, flags) else { continue };
            let usable = if self.as_root { 0 } else { 0o700 };
            rustix::fs::fchmod(&directory, Mode::from_raw_mode(mode | usable))?;
            rustix::fs::futimens(&directory, &times(*mtime))?;
        }
        let devices = self.devices;
        let note = || format!("{devices} device nodes were left out: containers have their own /dev");
        Ok((devices > 0).then(note).into_iter().collect())
    }
}

/// The reason why an entry was not unpacked.
enum EntryError {
    Load(LoadError),
    Io(io::Error),
}

impl EntryError {
    fn unwrap_or_else(self, wrap: impl FnOnce(io::Error) -> LoadError) -> LoadError {
        match self {
            Self::Load(error) => error,
            Self::Io(error) => wrap(error),
        }
    }
}

impl From<LoadError> for EntryError {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl From<io::Error> for EntryError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Errno> for EntryError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

fn mode<R: Read>(entry: &Entry<'_, R>) -> io::Result<u32> {
    Ok(entry.header().mode()? & 0o7777)
}

fn mtime<R: Read>(entry: &Entry<'_, R>) -> i64 {
    entry.header().mtime().ok().and_then(|seconds| i64::try_from(seconds).ok()).unwrap_or_default()
}

fn times(seconds: i64) -> Timestamps {
    let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
    Timestamps { last_access: time, last_modification: time }
}

/// An entry's path below the root: no `..`, not absolute, readable.
fn safe_path(bytes: &[u8], layer: &str) -> Result<PathBuf, LoadError> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        let path = PathBuf::from(String::from_utf8_lossy(bytes).into_owned());
        return Err(LoadError::unsafe_path(layer, &path, "the name is not UTF-8"));
    };
    let path = Path::new(text);
    let mut safe = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(part) => safe.push(part),
            Component::CurDir => {}
            Component::ParentDir => {
                return Err(LoadError::unsafe_path(layer, path, "the path contains \"..\""));
            }
            Component::RootDir | Component::Prefix(_) => {
                return Err(LoadError::unsafe_path(layer, path, "the path is absolute"));
            }
        }
    }
    Ok(safe)
}
