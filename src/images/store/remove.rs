//! Removes images: by name, or those that nothing uses. First the record goes, then the layers that no image has, then
//! the names: a crash leaves no image without its layers. Names without a record count for nothing, and the next writer
//! removes them.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::digest::ChainId;
use super::owners::chain_in;
use super::provenance::Provenance;
use super::record::{LayerRecord, sync_directory};
use super::work::{WorkDir, entries, remove_tree, step};
use super::{ImageStore, Index, Names, StoredImage};
use crate::ImageReference;
use base::removal::unless_missing;
use base::sort::SliceOrder;

/// The reason why an image was not removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// No image of this name was loaded.
    #[error("no loaded image has the name {0}; `podium image list` lists the loaded images")]
    Unknown(String),
    /// Containers use the image as their root.
    #[error("image {image} is in use by {by}; delete the pod first")]
    InUse {
        /// The reference as the caller gave it.
        image: String,
        /// The containers that use it.
        by: String,
    },
    /// The file system returned an error.
    #[error("{subject}: {source}")]
    Io {
        /// The path or step that failed.
        subject: String,
        /// The error.
        source: io::Error,
    },
}

/// The use of an image, for garbage collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageUse {
    /// The image.
    pub image: StoredImage,
    /// Its names.
    pub names: Vec<String>,
    /// The time of its last use, or of its addition.
    pub last_used: Timestamp,
    /// The size of the layers that no other image has.
    pub own_bytes: u64,
}

impl ImageStore {
    /// Removes a name, or an image with all its names by its id. The last tag of a repository takes the digests that
    /// are known there with it. Returns the removed names, and the id if the image itself was removed.
    pub fn remove(
        &self,
        requested: &str,
        in_use: impl Fn(&StoredImage) -> Option<String>,
    ) -> Result<Vec<String>, RemoveError> {
        self.remove_remains().map_err(self.removal_failed())?;
        let lock = self.lock().map_err(self.removal_failed())?;
        let index = self.index();
        let (image, removed) = find(&index, requested)?;
        let names = without(&index.names, &image.id, &removed);
        let last = !names.values().any(|id| *id == image.id);
        if last && let Some(by) = in_use(image) {
            return Err(RemoveError::InUse { image: requested.to_owned(), by });
        }
        let mut reported = removed;
        let trash = if last {
            reported.push(image.id.clone());
            self.remove_images(&lock, &[image], &names)
        } else {
            self.write_names(&names).map(|()| None)
        };
        let trash = trash.map_err(self.removal_failed())?;
        // The files are removed without the lock: it may take long.
        drop(lock);
        drop(trash);
        Ok(reported)
    }

    /// Removes names under one lock, each with its image if it was the last one, unless `is_used` returns true for the
    /// image. Returns the names that are gone; unknown ones count as gone.
    pub fn remove_names(
        &self,
        requested: &[String],
        is_used: impl Fn(&StoredImage) -> bool,
    ) -> Result<Vec<String>, RemoveError> {
        self.remove_remains().map_err(self.removal_failed())?;
        let lock = self.lock().map_err(self.removal_failed())?;
        let index = self.index();
        let (mut names, mut images, mut gone) = (index.names.clone(), Vec::new(), Vec::new());
        for name in requested {
            if let Ok((image, removed)) = find(&index, name) {
                let left = without(&names, &image.id, &removed);
                if !left.values().any(|id| *id == image.id) {
                    if is_used(image) {
                        continue;
                    }
                    images.push(image);
                }
                names = left;
            }
            gone.push(name.clone());
        }
        let trash = self.remove_images(&lock, &images, &names).map_err(self.removal_failed())?;
        // The files are removed without the lock: it may take long.
        drop(lock);
        drop(trash);
        Ok(gone)
    }

    /// Removes every image for which `unused` returns true, with its names, and every layer that no image and no writer
    /// has. Returns the removed images.
    pub fn prune(&self, unused: impl Fn(&StoredImage) -> bool) -> Result<Vec<StoredImage>, RemoveError> {
        self.remove_remains().map_err(self.removal_failed())?;
        let lock = self.lock().map_err(self.removal_failed())?;
        let index = self.index();
        let removed: Vec<&StoredImage> = index.images.values().filter(|image| unused(image)).collect();
        let mut names = index.names.clone();
        names.retain(|_, id| !removed.iter().any(|image| image.id == *id));
        let trash = self.remove_images(&lock, &removed, &names).map_err(self.removal_failed())?;
        drop(lock);
        drop(trash);
        Ok(removed.into_iter().cloned().collect())
    }

    /// Removes the layers that no image and no writer has, and that were added at least this long ago: those of pulls
    /// that failed and were given up. Returns their number.
    pub fn remove_unused_layers(&self, now: Timestamp, minimum_age: Duration) -> Result<usize, RemoveError> {
        self.remove_remains().map_err(self.removal_failed())?;
        let lock = self.lock().map_err(self.removal_failed())?;
        let mut layers = self.unused_layers(&lock).map_err(self.removal_failed())?;
        layers.retain(|layer| {
            let added = LayerRecord::added_at(layer).and_then(|time| Timestamp::try_from(time).ok());
            added.is_none_or(|added| {
                now.duration_since(added)
                    >= SignedDuration::try_from(minimum_age).unwrap_or(SignedDuration::MAX)
            })
        });
        let mut trash = None;
        if !layers.is_empty() {
            trash = self.work_dir_under(&lock).ok();
        }
        for layer in &layers {
            discard(layer, trash.as_ref()).map_err(self.removal_failed())?;
        }
        // The files are removed without the lock: it may take long.
        drop(lock);
        drop(trash);
        Ok(layers.len())
    }

    /// Every image with its last use, the one that was not used for the longest time first.
    pub fn usage(&self) -> Vec<ImageUse> {
        let index = self.index();
        let count =
            |layer: &ChainId| index.images.values().filter(|other| other.layers.contains(layer)).count();
        let of = |image: &StoredImage| {
            let own = image.layers.iter().filter(|layer| count(layer) == 1);
            let own_bytes = own.filter_map(|layer| self.layer_record(layer)).map(|record| record.size_bytes);
            ImageUse {
                image: image.clone(),
                names: index.names_of(&image.id),
                last_used: self.last_used(image).unwrap_or(Timestamp::UNIX_EPOCH),
                own_bytes: if image.layers.is_empty() { image.size_bytes } else { own_bytes.sum() },
            }
        };
        let mut uses: Vec<ImageUse> = index.images.values().map(of).collect();
        uses.order_by(|one, other| (one.last_used, &one.image.id).cmp(&(other.last_used, &other.image.id)));
        uses
    }

    /// The time of an image's last use, or of its addition; `None` if its record is gone.
    pub fn last_used(&self, image: &StoredImage) -> Option<Timestamp> {
        let modified = fs::metadata(self.record_path(image)).and_then(|about| about.modified()).ok();
        modified.and_then(|time| Timestamp::try_from(time).ok())
    }

    /// Records that the image of this identity is used now, if it is in the store.
    pub fn touch(&self, id: &str) -> io::Result<()> {
        let index = self.index();
        let Some(image) = index.images.get(id) else { return Ok(()) };
        let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        let times = rustix::fs::Timestamps { last_access: now, last_modification: now };
        let path = self.record_path(image);
        Ok(rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::empty())?)
    }

    /// Removes images, and the layers that nothing has then. Returns the directory with their files, which are removed
    /// when it is dropped.
    ///
    /// Also frees space on a full disk, where nothing can be created or renamed: then the files are removed at once.
    fn remove_images(
        &self,
        lock: &File,
        images: &[&StoredImage],
        names: &Names,
    ) -> io::Result<Option<WorkDir>> {
        // Without its record an image is not found, even if it has names.
        for image in images {
            step("remove record", &self.record_path(image));
            unless_missing(fs::remove_file(self.record_path(image)))?;
        }
        if !images.is_empty() && self.records().is_dir() {
            sync_directory(&self.records())?;
        }
        let mut trash = self.work_dir_under(lock).ok();
        for image in images.iter().filter(|image| image.layers.is_empty()) {
            discard(&self.flat_directory(&image.id), trash.as_ref())?;
        }
        for layer in self.unused_layers(lock)? {
            discard(&layer, trash.as_ref())?;
        }
        // Written for every removed image, even one without names: readers look for changes there.
        let changed = !images.is_empty() || *names != self.index().names;
        if changed && self.write_names(names).is_err() {
            drop(trash.take());
            self.write_names(names)?;
        }
        Ok(trash)
    }

    /// The directories of the layers that no image and no writer has.
    fn unused_layers(&self, lock: &File) -> io::Result<Vec<PathBuf>> {
        let records = self.read_records();
        if records.unreadable > 0 {
            // An unreadable record may be of any layer.
            let (count, store) = (records.unreadable, self.directory.display());
            tracing::warn!("{count} records of images in {store} are unreadable: no layer is removed");
            return Ok(Vec::new());
        }
        let mut needed: HashSet<String> = self.retained_layers(lock)?.into_iter().collect();
        // An image that a user loaded with other ids stays until it is loaded with these; others can be pulled again.
        let mut of_other_owners: HashSet<String> = HashSet::new();
        for image in records.images {
            needed.extend(image.layers.iter().map(|layer| self.owners.directory_name(layer)));
            if image.provenance == Provenance::Loaded && !self.is_complete(&image) {
                of_other_owners.extend(image.layers.iter().map(|layer| layer.hex().to_owned()));
            }
        }
        let mut layers = entries(&self.directory.join("layers"))?;
        layers.retain(|layer| {
            let name = layer.file_name().unwrap_or_default().to_string_lossy();
            let is_needed = needed.contains(&*name) || of_other_owners.contains(chain_in(&name));
            !is_needed && self.owners.may_remove(&name)
        });
        Ok(layers)
    }

    fn removal_failed(&self) -> impl Fn(io::Error) -> RemoveError {
        let subject = self.directory.display().to_string();
        move |source| RemoveError::Io { subject: subject.clone(), source }
    }
}

/// Moves a directory of the store to those that are to be removed, or removes it now.
fn discard(path: &Path, trash: Option<&WorkDir>) -> io::Result<()> {
    step("discard", path);
    let name = path.file_name().unwrap_or_default();
    if trash.is_some_and(|trash| fs::rename(path, trash.path().join(name)).is_ok()) {
        return Ok(());
    }
    // A layer without its record does not count as present.
    LayerRecord::remove(path)?;
    remove_tree(path)
}

/// The image that a request means, and the names that it removes.
fn find<'a>(index: &'a Index, requested: &str) -> Result<(&'a StoredImage, Vec<String>), RemoveError> {
    let unknown = || RemoveError::Unknown(requested.to_owned());
    let name = ImageReference::parse(requested).map(|parsed| parsed.to_string()).ok();
    if let Some((name, id)) = name.and_then(|name| index.names.get_key_value(&name)) {
        return Ok((index.images.get(id).ok_or_else(unknown)?, vec![name.clone()]));
    }
    let id_begin =
        if requested.starts_with("sha256:") { requested.to_owned() } else { format!("sha256:{requested}") };
    let by_id = |image: &&StoredImage| requested.len() >= 6 && image.id.starts_with(&id_begin);
    let mut with_id = index.images.values().filter(by_id);
    match (with_id.next(), with_id.next()) {
        (Some(image), None) => Ok((image, index.names_of(&image.id))),
        _ => Err(unknown()),
    }
}

/// The names that stay when an image loses some of its own.
fn without(names: &Names, id: &str, removed: &[String]) -> Names {
    let mut left = names.clone();
    left.retain(|known, _| !removed.contains(known));
    drop_orphaned_digests(&mut left, id, removed);
    left
}

/// Removes an image's digests in the repositories that lost their last tag of it.
fn drop_orphaned_digests(names: &mut Names, id: &str, removed: &[String]) {
    let parse = |name: &String| ImageReference::parse(name).ok();
    for repository in
        removed.iter().filter_map(parse).filter(|name| name.tag.is_some()).map(|name| name.name())
    {
        let in_repository = |name: &String| parse(name).filter(|parsed| parsed.name() == repository);
        let mut tags = names.iter().filter(|(_, of)| *of == id);
        if !tags.any(|(name, _)| in_repository(name).is_some_and(|parsed| parsed.tag.is_some())) {
            names.retain(|name, of| of != id || in_repository(name).is_none());
        }
    }
}
