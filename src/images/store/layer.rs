//! Unpacks one layer into a directory of its own: files, links, modes, owners, and whiteouts in overlayfs' form.
//!
//! An entry's path is looked up in the merged tree of the layer and those below it, as if the layers were unpacked over
//! each other: a directory that a lower layer has as a link leads to the link's target.
//!
//! Entries are names under the root and nothing else: a layer with any other entry is refused as a whole. Devices are
//! left out, with a note; not even a device 0:0, which would be a whiteout for overlayfs, has an effect.
//!
//! Invariant: the memory that this takes does not grow with the number of entries.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use tar::{Entry, EntryType};

use super::archive::LimitedReader;
use super::budget::Budget;
use super::options::LoadError;
use super::work::remove_tree;
use base::layers::{
    Layers, MergedDirectory, MergedEntry, OPAQUE, OVERLAY_ATTRIBUTES, Position, copy_attributes,
};
use base::root_dir::RootDir;
use base::subordinate_ids::keeps_owners;

/// The prefix of whiteouts, entries that remove a file of a lower layer.
const WHITEOUT: &str = ".wh.";
/// Hides all entries of lower layers in the directory.
const OPAQUE_ENTRY: &str = ".wh..wh..opq";
/// Maximum size of one entry's headers, long names and attributes.
const ENTRY_HEAD_BYTES: u64 = 4 << 20;
/// The number of the layer that is being unpacked.
const OWN: usize = 0;

/// The form of a whiteout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhiteoutForm {
    /// A character device 0:0, which any user may create since Linux 5.8.
    Device,
    /// A socket, where that is refused: the layer must be flattened then.
    Socket,
}

/// The result of unpacking a layer.
#[derive(Debug)]
pub(super) struct UnpackedLayer {
    pub(super) size_bytes: u64,
    pub(super) entries: u64,
    /// The whiteouts are not in a form that the kernel knows.
    pub(super) needs_flattening: bool,
    pub(super) notes: Vec<String>,
}

/// A layer that is being unpacked.
pub(super) struct LayerUnpacker<'a> {
    /// The layer's own directory, and those of the layers below it.
    layers: &'a Layers,
    own: RootDir,
    budget: &'a mut Budget,
    /// For messages.
    name: &'a str,
    /// True if files may be given to other users.
    as_root: bool,
    whiteouts: WhiteoutForm,
    /// The directory of the last lookup.
    position: Position,
    /// The directory that is being written.
    open: Option<OpenDirectory>,
    devices: u64,
    size_bytes: u64,
    entries: u64,
    has_whiteouts: bool,
}

/// A directory of the layer's own.
struct OpenDirectory {
    path: PathBuf,
    file: OwnedFd,
    /// Its time of modification, which is set again when it is left: writing into a directory changes it.
    times: Timestamps,
}

impl OpenDirectory {
    fn leave(self) -> io::Result<()> {
        Ok(rustix::fs::futimens(&self.file, &self.times)?)
    }
}

impl<'a> LayerUnpacker<'a> {
    /// The first of `layers` is the new one, an empty directory.
    pub(super) fn new(
        layers: &'a Layers,
        budget: &'a mut Budget,
        whiteouts: WhiteoutForm,
        name: &'a str,
    ) -> io::Result<Self> {
        let own = RootDir::new(layers.directory(OWN))?;
        let position = layers.root();
        let as_root = keeps_owners();
        let unpacker = Self {
            layers,
            own,
            budget,
            name,
            as_root,
            whiteouts,
            position,
            open: None,
            devices: 0,
            size_bytes: 0,
            entries: 0,
            has_whiteouts: false,
        };
        if let Some(&below) = unpacker.position.last().layers.get(1) {
            let below = layers.directory(below);
            copy_attributes(below, &fs::symlink_metadata(below)?, layers.directory(OWN))?;
        }
        Ok(unpacker)
    }

    /// Unpacks the layer's tar stream.
    pub(super) fn unpack(&mut self, stream: &mut dyn Read) -> Result<(), LoadError> {
        let layer = self.name;
        let allowance = Rc::new(Cell::new(ENTRY_HEAD_BYTES));
        let mut archive = tar::Archive::new(LimitedReader::new(stream, allowance.clone()));
        let damaged = |error: io::Error| LoadError::NotAnImage(format!("layer {layer}: {error}"));
        let mut entries = archive.entries().map_err(damaged)?;
        loop {
            // Limits the entry's headers; the limit for its content is set once its size is known.
            allowance.set(ENTRY_HEAD_BYTES);
            let Some(entry) = entries.next() else { return Ok(()) };
            let mut entry = entry.map_err(damaged)?;
            let size = entry.size();
            self.budget.take_bytes(size)?;
            self.count_entry()?;
            allowance.set(size.saturating_add(ENTRY_HEAD_BYTES));
            let path = safe_path(&entry.path_bytes(), layer)?;
            self.entry(&mut entry, &path).map_err(|error| {
                let at = || LoadError::io(format!("layer {layer}: {}", path.display()));
                error.unwrap_or_else(|error| at()(error))
            })?;
            io::copy(&mut entry, &mut io::sink()).map_err(damaged)?;
        }
    }

    /// Reads what follows the archive's end: its digest covers that too.
    pub(super) fn skip_rest(&mut self, stream: &mut dyn Read) -> Result<(), LoadError> {
        let damaged = |error: io::Error| LoadError::NotAnImage(format!("layer {}: {error}", self.name));
        io::copy(&mut stream.take(self.budget.limits.unpacked_bytes), &mut io::sink()).map_err(damaged)?;
        Ok(())
    }

    /// Completes the layer.
    pub(super) fn finish(mut self) -> io::Result<UnpackedLayer> {
        self.open.take().map_or(Ok(()), OpenDirectory::leave)?;
        let devices = self.devices;
        let note = || format!("{devices} device nodes were left out: containers have their own /dev");
        Ok(UnpackedLayer {
            size_bytes: self.size_bytes,
            entries: self.entries,
            needs_flattening: self.whiteouts == WhiteoutForm::Socket && self.has_whiteouts,
            notes: (devices > 0).then(note).into_iter().collect(),
        })
    }

    fn count_entry(&mut self) -> Result<(), LoadError> {
        self.budget.take_entries(1)?;
        self.entries += 1;
        Ok(())
    }

    fn entry<R: Read>(&mut self, entry: &mut Entry<'_, R>, path: &Path) -> Result<(), EntryError> {
        let kind = entry.header().entry_type();
        let above = path.parent().unwrap_or(Path::new(""));
        let Some(name) = path.file_name().and_then(OsStr::to_str) else {
            // The root itself.
            return if kind.is_dir() { self.root(entry) } else { Ok(()) };
        };
        if name == OPAQUE_ENTRY {
            return self.hide_content(above);
        }
        if let Some(removed) = name.strip_prefix(WHITEOUT) {
            if removed.starts_with(WHITEOUT) {
                // Internal entries of a union file system.
                return Ok(());
            }
            if matches!(removed, "" | "." | "..") {
                return Err(LoadError::unsafe_path(self.name, path, "the whiteout names no file").into());
            }
            return self.hide(above, removed);
        }
        match kind {
            EntryType::Char | EntryType::Block => {
                self.devices += 1;
                self.ensure(above)
            }
            EntryType::Directory => self.directory(entry, above, name),
            EntryType::Link => self.hard_link(entry, path, above, name),
            EntryType::Symlink => {
                let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                self.make_room(above, name)?;
                let directory = self.enter()?;
                rustix::fs::symlinkat(target.as_slice(), &directory.file, name)?;
                self.set_owner(entry, name)
            }
            EntryType::Fifo => {
                let mode = Mode::from_raw_mode(mode(entry)?);
                self.make_room(above, name)?;
                let directory = self.enter()?;
                rustix::fs::mknodat(&directory.file, name, FileType::Fifo, mode, 0)?;
                self.set_owner(entry, name)
            }
            kind if kind.is_file() || kind == EntryType::Continuous => {
                self.make_room(above, name)?;
                self.file(entry, name)
            }
            // A global header, or another archiver's extension: not part of an image.
            _ => Ok(()),
        }
    }

    fn root<R: Read>(&mut self, entry: &mut Entry<'_, R>) -> Result<(), EntryError> {
        self.go(Path::new(""))?;
        let (mode, times) = (self.directory_mode(entry)?, times(mtime(entry)));
        let (as_root, owner) = (self.as_root, owner(entry));
        let root = self.enter()?;
        if as_root {
            rustix::fs::fchown(&root.file, Some(owner.0), Some(owner.1))
                .map_err(|error| given(error, owner))?;
        }
        rustix::fs::fchmod(&root.file, mode)?;
        root.times = times;
        Ok(())
    }

    fn directory<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
        above: &Path,
        name: &str,
    ) -> Result<(), EntryError> {
        self.ensure(above)?;
        let known = self.own_entry(name)?;
        if !known.as_ref().is_some_and(Metadata::is_dir) {
            let replaces = known.is_some();
            if let Some(known) = &known {
                self.remove_own(name, known)?;
            }
            let directory = self.enter()?;
            rustix::fs::mkdirat(&directory.file, name, Mode::RWXU)?;
            if replaces {
                // The entry that this layer had here before hid the directories of lower layers.
                let path = self.position.last().path.join(name);
                self.hide_content(&path)?;
                self.go(above)?;
            }
        }
        self.set_owner(entry, name)?;
        let mode = self.directory_mode(entry)?;
        let directory = self.enter()?;
        rustix::fs::chmodat(&directory.file, name, mode, AtFlags::empty())?;
        let times = times(mtime(entry));
        Ok(rustix::fs::utimensat(&directory.file, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn file<R: Read>(&mut self, entry: &mut Entry<'_, R>, name: &str) -> Result<(), EntryError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = self.enter()?;
        let file = rustix::fs::openat(&directory.file, name, flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = File::from(file);
        self.size_bytes += io::copy(entry, &mut file)?;
        self.set_owner(entry, name)?;
        // Set after the owner, because a change of the owner clears the set-user-id bit.
        let readable = if self.as_root { 0 } else { 0o600 };
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode(entry)? | readable))?;
        self.set_attributes(entry, &file);
        Ok(rustix::fs::futimens(&file, &times(mtime(entry)))?)
    }

    /// Sets the capabilities of programs; those that the file system does not accept are lost, as in any copy. An
    /// overlay's own attributes would change the meaning of files, and are left out.
    fn set_attributes<R: Read>(&self, entry: &mut Entry<'_, R>, file: &File) {
        let Ok(Some(extensions)) = entry.pax_extensions() else { return };
        for extension in extensions.flatten() {
            if let Ok(key) = extension.key()
                && let Some(name) = key.strip_prefix("SCHILY.xattr.")
                && ((name.starts_with("user.") && !name.starts_with(OVERLAY_ATTRIBUTES))
                    || (self.as_root && name == "security.capability"))
            {
                let _ =
                    rustix::fs::fsetxattr(file.as_fd(), name, extension.value_bytes(), XattrFlags::empty());
            }
        }
    }

    /// Links to a file of this layer or of a lower one. The latter is copied into this layer first, as overlayfs does
    /// for a link.
    fn hard_link<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
        path: &Path,
        above: &Path,
        name: &str,
    ) -> Result<(), EntryError> {
        let target = entry.link_name_bytes().unwrap_or_default().into_owned();
        let target = safe_path(&target, self.name)?;
        let layer = self.name;
        let lost =
            || LoadError::unsafe_path(layer, path, "the hard link's target is not a file of the image");
        let (Some(target_name), Some(target_above)) =
            (target.file_name().and_then(OsStr::to_str), target.parent())
        else {
            return Err(lost().into());
        };
        if !self.go(target_above)? {
            return Err(lost().into());
        }
        match self.layers.find(self.position.last(), OsStr::new(target_name))? {
            Some(MergedEntry::Other { place, about }) => {
                if self.own_entry(target_name)?.is_none() {
                    self.budget.take_bytes(about.len())?;
                    self.count_entry()?;
                    self.copy_up(&place, &about, target_name)?;
                }
            }
            Some(MergedEntry::Directory(_)) | None => return Err(lost().into()),
        }
        let source = self.enter()?.file.try_clone()?;
        self.make_room(above, name)?;
        let directory = self.enter()?;
        match rustix::fs::linkat(&source, target_name, &directory.file, name, AtFlags::empty()) {
            Err(Errno::NOENT | Errno::PERM) => Err(lost().into()),
            linked => Ok(linked?),
        }
    }

    /// Copies a lower layer's file, which is in the current directory, into this layer.
    fn copy_up(&mut self, source: &Path, about: &Metadata, name: &str) -> Result<(), EntryError> {
        self.ensure_own()?;
        self.enter()?;
        let place = self.own_path(name);
        if about.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(source)?, &place)?;
        } else if about.is_file() {
            self.size_bytes += fs::copy(source, &place)?;
        } else {
            rustix::fs::mknodat(CWD, &place, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        }
        Ok(copy_attributes(source, about, &place)?)
    }

    fn set_owner<R: Read>(&mut self, entry: &Entry<'_, R>, name: &str) -> Result<(), EntryError> {
        if self.as_root {
            let owner = owner(entry);
            let directory = self.enter()?;
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::chownat(&directory.file, name, Some(owner.0), Some(owner.1), flags)
                .map_err(|error| given(error, owner))?;
        }
        Ok(())
    }

    /// An ordinary user must be able to use its own directories.
    fn directory_mode<R: Read>(&self, entry: &Entry<'_, R>) -> io::Result<Mode> {
        let usable = if self.as_root { 0 } else { 0o700 };
        Ok(Mode::from_raw_mode(mode(entry)? | usable))
    }

    /// Hides the lower layers' file or directory of this name. What this layer has there stays.
    fn hide(&mut self, above: &Path, name: &str) -> Result<(), EntryError> {
        if !self.go(above)? {
            return Ok(());
        }
        match self.own_entry(name)? {
            Some(own) if own.is_dir() => {
                let path = self.position.last().path.join(name);
                self.hide_content(&path)
            }
            Some(_) => Ok(()),
            // A whiteout of a missing path has no effect.
            None if self.layers.find(self.position.last(), OsStr::new(name))?.is_none() => Ok(()),
            None => {
                self.ensure_own()?;
                self.whiteout(name)
            }
        }
    }

    /// Creates a whiteout in the current directory.
    fn whiteout(&mut self, name: &str) -> Result<(), EntryError> {
        self.has_whiteouts = true;
        let directory = self.enter()?.file.try_clone()?;
        if self.whiteouts == WhiteoutForm::Device {
            match rustix::fs::mknodat(&directory, name, FileType::CharacterDevice, Mode::empty(), 0) {
                Err(
                    Errno::PERM
                    | Errno::ACCESS
                    | Errno::INVAL
                    | Errno::NOSYS
                    | Errno::OPNOTSUPP
                    | Errno::NODEV,
                ) => self.whiteouts = WhiteoutForm::Socket,
                made => return Ok(made?),
            }
        }
        Ok(rustix::fs::mknodat(&directory, name, FileType::Socket, Mode::RUSR | Mode::WUSR, 0)?)
    }

    /// Hides everything that lower layers have in a directory. What this layer has there stays.
    fn hide_content(&mut self, path: &Path) -> Result<(), EntryError> {
        if !self.go(path)? || self.position.last().layers == [OWN] {
            return Ok(());
        }
        self.ensure_own()?;
        // The attribute has no effect at the root, where overlayfs always merges all layers.
        if self.position.ancestors.len() > 1 {
            let directory = self.enter()?;
            match rustix::fs::fsetxattr(&directory.file, OPAQUE, b"y", XattrFlags::empty()) {
                Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => {}
                set => {
                    set?;
                    self.position.last_mut().layers = vec![OWN];
                    return Ok(());
                }
            }
        }
        let directory = self.position.last().clone();
        for &layer in directory.layers.iter().filter(|layer| **layer != OWN) {
            for entry in fs::read_dir(self.layers.directory(layer).join(&directory.path))? {
                let name = entry?.file_name();
                let Some(name) = name.to_str() else { continue };
                self.count_entry()?;
                self.hide(&directory.path, name)?;
            }
        }
        self.go(&directory.path)?;
        Ok(())
    }

    /// Goes to a directory of the merged tree; returns false if it is missing.
    fn go(&mut self, path: &Path) -> io::Result<bool> {
        match self.layers.go(&mut self.position, path, |_, _| Ok(None)) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOTDIR) => Ok(false),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => Ok(false),
            found => found,
        }
    }

    /// Goes to a directory, creating it in this layer if it is missing or if only lower layers have it.
    fn ensure(&mut self, path: &Path) -> Result<(), EntryError> {
        let mut failed = None;
        let layers = self.layers;
        let mut position = std::mem::replace(&mut self.position, Position { ancestors: Vec::new() });
        let found = layers.go(&mut position, path, |position, name| {
            std::mem::swap(&mut self.position, position);
            let made = self.make_directory(name);
            std::mem::swap(&mut self.position, position);
            made.map(Some).map_err(|error| {
                failed = Some(error);
                io::ErrorKind::Other.into()
            })
        });
        self.position = position;
        match (failed, found) {
            (Some(error), _) => Err(error),
            (None, found) => {
                found?;
                self.ensure_own()
            }
        }
    }

    /// Creates a directory in the current one, for which the archive has no entry yet.
    fn make_directory(&mut self, name: &OsStr) -> Result<MergedDirectory, EntryError> {
        let name = name.to_str().ok_or(io::ErrorKind::InvalidInput)?;
        self.count_entry()?;
        self.ensure_own()?;
        let above = self.position.last().path.clone();
        let path = above.join(name);
        let known = self.own_entry(name)?;
        if let Some(whiteout) = &known {
            self.remove_own(name, whiteout)?;
        }
        let directory = self.enter()?;
        rustix::fs::mkdirat(&directory.file, name, Mode::from_raw_mode(0o755))?;
        if known.is_some() {
            self.hide_content(&path)?;
            self.go(&above)?;
        }
        match self.layers.find(self.position.last(), OsStr::new(name))? {
            Some(MergedEntry::Directory(made)) => Ok(made),
            _ => Err(io::Error::from(io::ErrorKind::NotFound).into()),
        }
    }

    /// Creates the current directory in this layer, with the attributes that it has in lower layers.
    fn ensure_own(&mut self) -> Result<(), EntryError> {
        for depth in 1..self.position.ancestors.len() {
            let [above, directory] = &self.position.ancestors[depth - 1..=depth] else { continue };
            let lower = directory.layers[0];
            if lower == OWN {
                continue;
            }
            let (above, path) = (above.path.clone(), directory.path.clone());
            self.count_entry()?;
            let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
            let file = &self.enter_at(&above)?.file;
            rustix::fs::mkdirat(file, name, Mode::RWXU)?;
            let source = self.layers.directory(lower).join(&path);
            let about = fs::symlink_metadata(&source)?;
            copy_attributes(&source, &about, &self.layers.directory(OWN).join(&path))?;
            self.position.ancestors[depth].layers.insert(0, OWN);
        }
        Ok(())
    }

    /// Opens the current directory, which this layer has, for writing into it.
    fn enter(&mut self) -> io::Result<&mut OpenDirectory> {
        let path = std::mem::take(&mut self.position.last_mut().path);
        let entered = self.enter_at(&path).map(drop);
        self.position.last_mut().path = path;
        entered?;
        self.open.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn enter_at(&mut self, path: &Path) -> io::Result<&mut OpenDirectory> {
        if self.open.as_ref().is_none_or(|open| open.path != path) {
            self.open.take().map_or(Ok(()), OpenDirectory::leave)?;
            let file = self.own.open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW)?;
            let about = rustix::fs::fstat(&file)?;
            let time = Timespec { tv_sec: about.st_mtime, tv_nsec: about.st_mtime_nsec.cast_signed() };
            let times = Timestamps { last_access: time, last_modification: time };
            self.open = Some(OpenDirectory { path: path.to_path_buf(), file, times });
        }
        self.open.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Prepares the place of an entry that is not a directory: what this layer had there is removed.
    fn make_room(&mut self, above: &Path, name: &str) -> Result<(), EntryError> {
        self.ensure(above)?;
        match self.own_entry(name)? {
            Some(known) => Ok(self.remove_own(name, &known)?),
            None => Ok(()),
        }
    }

    fn own_path(&self, name: &str) -> PathBuf {
        self.layers.directory(OWN).join(&self.position.last().path).join(name)
    }

    /// This layer's entry in the current directory; a whiteout, too.
    fn own_entry(&self, name: &str) -> io::Result<Option<Metadata>> {
        if self.position.last().layers.first() != Some(&OWN) {
            return Ok(None);
        }
        match fs::symlink_metadata(self.own_path(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            about => about.map(Some),
        }
    }

    /// Removes what this layer has in the current directory.
    fn remove_own(&mut self, name: &str, about: &Metadata) -> io::Result<()> {
        // Before the removal, which changes the directory's time.
        self.enter()?;
        let path = self.own_path(name);
        if about.is_dir() {
            self.size_bytes = self.size_bytes.saturating_sub(size_of(&path)?);
            return remove_tree(&path);
        }
        if about.is_file() && about.nlink() == 1 {
            self.size_bytes = self.size_bytes.saturating_sub(about.len());
        }
        fs::remove_file(path)
    }
}

/// The size of a directory's files that have no other name.
fn size_of(directory: &Path) -> io::Result<u64> {
    let mut total = 0;
    let mut next = vec![directory.to_path_buf()];
    while let Some(directory) = next.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let about = entry.metadata()?;
            if about.is_dir() {
                next.push(entry.path());
            } else if about.is_file() && about.nlink() == 1 {
                total += about.len();
            }
        }
    }
    Ok(total)
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

impl From<io::ErrorKind> for EntryError {
    fn from(error: io::ErrorKind) -> Self {
        Self::Io(error.into())
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

/// The owner; a blank field means root.
fn owner<R: Read>(entry: &Entry<'_, R>) -> (Uid, Gid) {
    // The largest number means no owner at all to the kernel.
    let number = |id: io::Result<u64>| u32::try_from(id.unwrap_or(0)).unwrap_or(u32::MAX).min(u32::MAX - 1);
    (Uid::from_raw(number(entry.header().uid())), Gid::from_raw(number(entry.header().gid())))
}

/// The error of giving a file away: the kernel has no words for an owner that a user namespace lacks.
fn given(error: Errno, (uid, gid): (Uid, Gid)) -> io::Error {
    if error != Errno::INVAL {
        return error.into();
    }
    let (uid, gid) = (uid.as_raw(), gid.as_raw());
    io::Error::other(format!(
        "the file belongs to user {uid} and group {gid}, which are more than the ids that /etc/subuid and /etc/subgid \
         give the user who runs podium"
    ))
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
