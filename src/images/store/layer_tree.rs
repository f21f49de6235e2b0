//! Writes into a layer's directory, as if the layer were unpacked over those below it.
//!
//! A path is looked up in the merged tree: a directory that a lower layer has as a link leads to the link's target. The
//! tree has a current directory, which [`LayerTree::go`] and [`LayerTree::ensure`] change.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;

use super::budget::Budget;
use super::options::LoadError;
use super::work::remove_tree;
use base::layers::{Layers, MergedDirectory, MergedEntry, OPAQUE, Position, copy_attributes};
use base::root_dir::RootDir;

/// The number of the layer that is being written.
const OWN: usize = 0;

/// The form of a whiteout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhiteoutForm {
    /// A character device 0:0, which any user may create since Linux 5.8.
    Device,
    /// A socket, where that is refused: the layer must be flattened then.
    Socket,
}

/// The layer that is being written, and those below it.
pub(super) struct LayerTree<'a> {
    /// The layer's own directory comes first.
    layers: &'a Layers,
    own: RootDir,
    budget: &'a mut Budget,
    whiteouts: WhiteoutForm,
    /// The current directory.
    position: Position,
    /// The directory that is being written.
    open: Option<OpenDirectory>,
    /// The size of the layer's files.
    pub(super) size_bytes: u64,
    /// The number of the layer's entries, with directories that it has no entry for.
    pub(super) entries: u64,
    has_whiteouts: bool,
}

/// A directory of the layer's own.
pub(super) struct OpenDirectory {
    path: PathBuf,
    pub(super) file: OwnedFd,
    /// Its time of modification, which is set again when it is left: writing into a directory changes it.
    pub(super) times: Timestamps,
}

impl OpenDirectory {
    fn leave(self) -> io::Result<()> {
        Ok(rustix::fs::futimens(&self.file, &self.times)?)
    }
}

impl<'a> LayerTree<'a> {
    /// The first of `layers` is the new one, an empty directory.
    pub(super) fn new(
        layers: &'a Layers,
        budget: &'a mut Budget,
        whiteouts: WhiteoutForm,
    ) -> io::Result<Self> {
        let own = RootDir::new(layers.directory(OWN))?;
        let position = layers.root();
        if let Some(&below) = position.last().layers.get(1) {
            let below = layers.directory(below);
            copy_attributes(below, &fs::symlink_metadata(below)?, layers.directory(OWN))?;
        }
        Ok(Self {
            layers,
            own,
            budget,
            whiteouts,
            position,
            open: None,
            size_bytes: 0,
            entries: 0,
            has_whiteouts: false,
        })
    }

    /// Completes the directory that is being written.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.open.take().map_or(Ok(()), OpenDirectory::leave)
    }

    /// Returns true if the layer has whiteouts in a form that the kernel does not know.
    pub(super) fn needs_flattening(&self) -> bool {
        self.whiteouts == WhiteoutForm::Socket && self.has_whiteouts
    }

    /// The limit of the size of the image's files.
    pub(super) fn unpacked_bytes_limit(&self) -> u64 {
        self.budget.limits.unpacked_bytes
    }

    pub(super) fn take_bytes(&mut self, count: u64) -> Result<(), LoadError> {
        self.budget.take_bytes(count)
    }

    pub(super) fn count_entry(&mut self) -> Result<(), LoadError> {
        self.budget.take_entries(1)?;
        self.entries += 1;
        Ok(())
    }

    /// Adds a directory, unless this layer has it already.
    pub(super) fn add_directory(&mut self, above: &Path, name: &str) -> Result<(), EntryError> {
        self.ensure(above)?;
        let known = self.own_entry(name)?;
        if known.as_ref().is_some_and(Metadata::is_dir) {
            return Ok(());
        }
        if let Some(known) = &known {
            self.remove_own(name, known)?;
        }
        let directory = self.enter()?;
        rustix::fs::mkdirat(&directory.file, name, Mode::RWXU)?;
        if known.is_some() {
            // The entry that this layer had here before hid the directories of lower layers.
            let path = self.position.last().path.join(name);
            self.hide_content(&path)?;
            self.go(above)?;
        }
        Ok(())
    }

    /// Links to a file of this layer or of a lower one; returns false if there is no such file. A lower layer's file is
    /// copied into this layer first, as overlayfs does for a link.
    pub(super) fn link(&mut self, target: &Path, above: &Path, name: &str) -> Result<bool, EntryError> {
        let (Some(target_name), Some(target_above)) =
            (target.file_name().and_then(OsStr::to_str), target.parent())
        else {
            return Ok(false);
        };
        if !self.go(target_above)? {
            return Ok(false);
        }
        match self.layers.find(self.position.last(), OsStr::new(target_name))? {
            Some(MergedEntry::Other { place, about }) => {
                if self.own_entry(target_name)?.is_none() {
                    self.take_bytes(about.len())?;
                    self.count_entry()?;
                    self.copy_up(&place, &about, target_name)?;
                }
            }
            Some(MergedEntry::Directory(_)) | None => return Ok(false),
        }
        let source = self.enter()?.file.try_clone()?;
        self.make_room(above, name)?;
        let directory = self.enter()?;
        match rustix::fs::linkat(&source, target_name, &directory.file, name, AtFlags::empty()) {
            Err(Errno::NOENT | Errno::PERM) => Ok(false),
            linked => Ok(linked.map(|()| true)?),
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

    /// Hides the lower layers' file or directory of this name. What this layer has there stays.
    pub(super) fn hide(&mut self, above: &Path, name: &str) -> Result<(), EntryError> {
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
    pub(super) fn hide_content(&mut self, path: &Path) -> Result<(), EntryError> {
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
    pub(super) fn go(&mut self, path: &Path) -> io::Result<bool> {
        match self.layers.go(&mut self.position, path, |_, _| Ok(None)) {
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOTDIR | Errno::LOOP)) => {
                Ok(false)
            }
            found => found,
        }
    }

    /// Goes to a directory, creating it in this layer if it is missing or if only lower layers have it.
    pub(super) fn ensure(&mut self, path: &Path) -> Result<(), EntryError> {
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
        let (directory, mode) = (self.enter()?, Mode::from_raw_mode(0o755));
        rustix::fs::mkdirat(&directory.file, name, mode)?;
        // The umask must not restrict the mode.
        rustix::fs::chmodat(&directory.file, name, mode, AtFlags::empty())?;
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
    pub(super) fn enter(&mut self) -> io::Result<&mut OpenDirectory> {
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
    pub(super) fn make_room(&mut self, above: &Path, name: &str) -> Result<(), EntryError> {
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
pub(super) enum EntryError {
    Load(LoadError),
    Io(io::Error),
}

impl EntryError {
    pub(super) fn unwrap_or_else(self, wrap: impl FnOnce(io::Error) -> LoadError) -> LoadError {
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
