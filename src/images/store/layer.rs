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
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid, XattrFlags};
use rustix::io::Errno;
use tar::{Entry, EntryType};

use super::archive::{ENTRY_HEAD_BYTES, LimitedReader};
use super::layer_tree::{EntryError, LayerTree};
use super::options::LoadError;
use super::read_ahead::PART_BYTES;
use super::tar_entry::{mode, mtime, owner, safe_path, times};
use base::layers::OVERLAY_ATTRIBUTES;
use base::subordinate_ids::keeps_owners;

/// The prefix of whiteouts, entries that remove a file of a lower layer.
const WHITEOUT: &str = ".wh.";
/// Hides all entries of lower layers in the directory.
const OPAQUE_ENTRY: &str = ".wh..wh..opq";
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
    tree: LayerTree<'a>,
    /// For messages.
    name: &'a str,
    /// True if files may be given to other users.
    as_root: bool,
    devices: u64,
    /// Holds a part of a file's content.
    part: Vec<u8>,
}

impl<'a> LayerUnpacker<'a> {
    pub(super) fn new(tree: LayerTree<'a>, name: &'a str) -> Self {
        Self { tree, name, as_root: keeps_owners(), devices: 0, part: vec![0; PART_BYTES] }
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
            self.tree.take_bytes(size)?;
            self.tree.count_entry()?;
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
        io::copy(&mut stream.take(self.tree.unpacked_bytes_limit()), &mut io::sink()).map_err(damaged)?;
        Ok(())
    }

    /// Completes the layer.
    pub(super) fn finish(mut self) -> io::Result<UnpackedLayer> {
        self.tree.finish()?;
        let devices = self.devices;
        let note = || format!("{devices} device nodes were left out: containers have their own /dev");
        Ok(UnpackedLayer {
            size_bytes: self.tree.size_bytes,
            entries: self.tree.entries,
            needs_flattening: self.tree.needs_flattening(),
            notes: (devices > 0).then(note).into_iter().collect(),
        })
    }

    fn entry<R: Read>(&mut self, entry: &mut Entry<'_, R>, path: &Path) -> Result<(), EntryError> {
        let kind = entry.header().entry_type();
        let above = path.parent().unwrap_or(Path::new(""));
        let Some(name) = path.file_name().and_then(OsStr::to_str) else {
            // The root itself.
            return if kind.is_dir() { self.root(entry) } else { Ok(()) };
        };
        if name == OPAQUE_ENTRY {
            return self.tree.hide_content(above);
        }
        if let Some(removed) = name.strip_prefix(WHITEOUT) {
            if removed.starts_with(WHITEOUT) {
                // Internal entries of a union file system.
                return Ok(());
            }
            if matches!(removed, "" | "." | "..") {
                return Err(LoadError::unsafe_path(self.name, path, "the whiteout names no file").into());
            }
            return self.tree.hide(above, removed);
        }
        match kind {
            EntryType::Char | EntryType::Block => {
                self.devices += 1;
                self.tree.ensure(above)
            }
            EntryType::Directory => self.directory(entry, above, name),
            EntryType::Link => self.hard_link(entry, path, above, name),
            EntryType::Symlink => {
                let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                self.tree.make_room(above, name)?;
                let directory = self.tree.enter()?;
                rustix::fs::symlinkat(target.as_slice(), &directory.file, name)?;
                self.set_metadata(entry, name, None)
            }
            EntryType::Fifo => {
                let mode = Mode::from_raw_mode(mode(entry)?);
                self.tree.make_room(above, name)?;
                let directory = self.tree.enter()?;
                rustix::fs::mknodat(&directory.file, name, FileType::Fifo, mode, 0)?;
                self.set_metadata(entry, name, Some(mode))
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                if is_sparse_in_pax_format(entry)? {
                    let reason = "sparse files are supported in GNU's format only, and not in PAX format";
                    return Err(LoadError::unsafe_path(self.name, path, reason).into());
                }
                self.tree.make_room(above, name)?;
                self.file(entry, name)
            }
            // Not a file: containerd ignores it, too.
            EntryType::XGlobalHeader => Ok(()),
            _ => Err(LoadError::unsafe_path(self.name, path, "its type is unknown").into()),
        }
    }

    fn root<R: Read>(&mut self, entry: &mut Entry<'_, R>) -> Result<(), EntryError> {
        self.tree.go(Path::new(""))?;
        let (mode, times) = (self.directory_mode(entry)?, times(mtime(entry)));
        let root = self.tree.enter()?;
        if self.as_root {
            give(&root.file, owner(entry))?;
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
        self.tree.add_directory(above, name)?;
        let mode = self.directory_mode(entry)?;
        self.set_metadata(entry, name, Some(mode))
    }

    fn file<R: Read>(&mut self, entry: &mut Entry<'_, R>, name: &str) -> Result<(), EntryError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = self.tree.enter()?;
        let file = rustix::fs::openat(&directory.file, name, flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = File::from(file);
        loop {
            let count = entry.read(&mut self.part)?;
            if count == 0 {
                break;
            }
            file.write_all(&self.part[..count])?;
            self.tree.size_bytes += count as u64;
        }
        if self.as_root {
            give(&file, owner(entry))?;
        }
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

    fn hard_link<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
        path: &Path,
        above: &Path,
        name: &str,
    ) -> Result<(), EntryError> {
        let target = safe_path(&entry.link_name_bytes().unwrap_or_default(), self.name)?;
        if self.tree.link(&target, above, name)? {
            return Ok(());
        }
        let reason = "the hard link's target is not a file of the image";
        Err(LoadError::unsafe_path(self.name, path, reason).into())
    }

    /// Sets the owner, the mode and the time of a new entry that is no file. A link has no mode.
    fn set_metadata<R: Read>(
        &mut self,
        entry: &Entry<'_, R>,
        name: &str,
        mode: Option<Mode>,
    ) -> Result<(), EntryError> {
        let directory = &self.tree.enter()?.file;
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        if self.as_root {
            let (uid, gid) = owner(entry);
            rustix::fs::chownat(directory, name, Some(uid), Some(gid), flags)
                .map_err(|error| owner_error(error, (uid, gid)))?;
        }
        // Set after the owner, because a change of the owner clears the set-user-id bit. The umask must not restrict the
        // mode.
        if let Some(mode) = mode {
            rustix::fs::chmodat(directory, name, mode, AtFlags::empty())?;
        }
        Ok(rustix::fs::utimensat(directory, name, &times(mtime(entry)), flags)?)
    }

    /// An ordinary user must be able to use its own directories.
    fn directory_mode<R: Read>(&self, entry: &Entry<'_, R>) -> io::Result<Mode> {
        let usable = if self.as_root { 0 } else { 0o700 };
        Ok(Mode::from_raw_mode(mode(entry)? | usable))
    }
}

/// Returns true for a file whose content in the archive is a list of holes, followed by the data between them.
fn is_sparse_in_pax_format<R: Read>(entry: &mut Entry<'_, R>) -> io::Result<bool> {
    let mut extensions = entry.pax_extensions()?.into_iter().flatten().flatten();
    Ok(extensions.any(|extension| extension.key_bytes().starts_with(b"GNU.sparse.")))
}

fn give(file: impl AsFd, (uid, gid): (Uid, Gid)) -> io::Result<()> {
    rustix::fs::fchown(file, Some(uid), Some(gid)).map_err(|error| owner_error(error, (uid, gid)))
}

/// The error of giving a file away: the kernel has no words for an owner that a user namespace lacks.
fn owner_error(error: Errno, (uid, gid): (Uid, Gid)) -> io::Error {
    if error != Errno::INVAL {
        return error.into();
    }
    let (uid, gid) = (uid.as_raw(), gid.as_raw());
    io::Error::other(format!(
        "the file belongs to user {uid} and group {gid}, which are more than the ids that /etc/subuid and /etc/subgid \
         give the user who runs podium"
    ))
}
