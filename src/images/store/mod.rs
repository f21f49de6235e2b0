//! The images on this machine (IMG-3): `DATA/images/store`, shared by all its nodes.
//!
//! ```text
//! lock                held for short changes: new names, a new layer's rename, removals
//! tags.json           name:tag and name@digest → id; replaced as a whole, last, so that a reader sees all of an image
//!                     or none
//! images/HEX.json     one image by the digest of its configuration: the process it runs and its layers; the file's
//!                     time is the image's last use
//! layers/HEX/         one layer by its chain id, shared by all images that have it; HEX.ids-DIGEST if its files belong to
//!                     subordinate ids
//!   layer.json        its size
//!   root/             its files, with whiteouts in overlayfs' form: character devices 0:0, and directories with the
//!                     attribute user.overlay.opaque, which needs no rights, so that all overlays are mounted with
//!                     `userxattr`
//! new/NAME/           unfinished files of a writer, or the remains of one that crashed; the next writer removes them
//! sha256-HEX/         one image as earlier versions stored it: image.json, and all its layers flattened in rootfs/
//! ```
//!
//! A layer is known by its chain id, which covers it and all layers below it, and not by its digest alone: its entries
//! mean places in the merged tree. If a lower layer has the link `lib -> usr/lib`, the entry `lib/x` of an upper one
//! belongs at `usr/lib/x`; as a tree of its own, it would replace the link by a directory that hides /usr/lib. A hard
//! link to a lower layer's file is a copy of it. So the same tar stream over other layers may become another tree, and
//! the layers of one image are unpacked one after the other; those of several images at the same time. containerd uses
//! chain ids too. (Where it unpacks into overlayfs' upper directory, it sees no links of lower layers, and refuses hard
//! links to their files; where it unpacks into a mount, it treats both as this store does.)
//!
//! Readers take no lock. Nothing here runs anything, and nothing uses a network.
//!
//! An image is in the store exactly if it has a record. A writer adds the record after the layers, and the names after the
//! record; a removal takes the record first. A crash in between leaves layers or names without an image, which no reader
//! counts, and which the next writer and the garbage collection remove.

mod archive;
mod blobs;
mod bounded_list;
mod budget;
mod compression;
mod configuration;
mod digest;
mod formats;
mod layer;
mod layer_tree;
mod load;
mod options;
mod owners;
mod platform;
mod provenance;
mod read_ahead;
mod record;
mod remove;
mod tar_entry;
#[cfg(test)]
mod tests;
mod work;
mod writer;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};

pub use blobs::{ImageBlobs, LayerBlob, OpenBlob};
pub(crate) use configuration::RootFs;
pub use configuration::{ImageDescription, RunConfig};
pub(crate) use digest::digest_of;
pub use digest::{ChainId, Digest, InvalidDigest};
pub(crate) use formats::{Descriptor, INDEX_DEPTH, OciIndex, OciManifest};
pub use load::LoadedImage;
pub use options::{Input, Limits, LoadError, LoadOptions};
pub use platform::Platform;
pub use provenance::Provenance;
pub use record::StoredImage;
pub use remove::{ImageUse, RemoveError};
pub use writer::{AddedLayer, ImageWriter, PackedLayer};

use super::ImageReference;
use base::optional_file::read_optional;
use base::sort::CollectMap;
use owners::LayerOwners;

/// Names, and the ids of their images: `name:tag` and `name@sha256:HEX`, the digest of a manifest.
type Names = BTreeMap<String, String>;

/// The store's content at one moment.
#[derive(Debug, Default)]
struct Index {
    /// The names of images that are in the store.
    names: Names,
    images: BTreeMap<String, StoredImage>,
    /// `tags.json` has more names: those of images whose removal was interrupted after their records were gone.
    has_other_names: bool,
}

/// Identifies a version of a file, or of a directory's list.
type FileStamp = (u64, i64, i64, u64);
/// Identifies a version of the store: of `tags.json`, and of the list of records, which a removal changes first.
type StoreStamp = [Option<FileStamp>; 2];

/// The images of one data directory.
#[derive(Debug)]
pub struct ImageStore {
    directory: PathBuf,
    owners: LayerOwners,
    // The content at the last read; locked only for short reads of small files.
    cached: Mutex<(Option<StoreStamp>, Arc<Index>)>,
}

impl ImageStore {
    /// The store of a data directory; neither needs to exist yet.
    pub fn of(data_dir: &Path) -> Self {
        Self::with_owners(data_dir, LayerOwners::of_process())
    }

    fn with_owners(data_dir: &Path, owners: LayerOwners) -> Self {
        Self { directory: data_dir.join("images").join("store"), owners, cached: Mutex::default() }
    }

    /// The image that a reference means: by its tag, or by its manifest's or configuration's digest.
    pub fn find(&self, reference: &ImageReference) -> Option<StoredImage> {
        self.index().named(reference).filter(|image| self.is_complete(image)).cloned()
    }

    /// The image that a reference means, if the store has it only with files of other owners than this process can use:
    /// it was unpacked with a single id and now there are subordinate ones, or the other way round.
    pub fn find_of_other_owners(&self, reference: &ImageReference) -> Option<StoredImage> {
        let index = self.index();
        let image = index.named(reference)?;
        (!self.is_complete(image) && self.has_other_owners(image)).then(|| image.clone())
    }

    /// The names of the images that the store has only with files of other owners.
    pub fn names_of_other_owners(&self) -> Vec<String> {
        let index = self.index();
        let others = index.images.values();
        let others = others.filter(|image| !self.is_complete(image) && self.has_other_owners(image));
        others.flat_map(|image| index.names_of(&image.id)).collect()
    }

    fn has_other_owners(&self, image: &StoredImage) -> bool {
        let Some(top) = image.layers.last() else {
            return self.owners.are_subordinate() && self.flat_directory(&image.id).is_dir();
        };
        let own = self.owners.directory_name(top);
        let is_top = |path: &PathBuf| {
            path.file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| name != own && owners::chain_in(name) == top.hex())
        };
        // A directory that cannot be read has nothing for this process.
        work::entries(&self.directory.join("layers")).is_ok_and(|layers| layers.iter().any(is_top))
    }

    /// Every image with its names: its tags, and its digests in repositories where it has no tag.
    pub fn list(&self) -> Vec<(StoredImage, Vec<String>)> {
        let index = self.index();
        let is_there = |image: &&StoredImage| self.is_complete(image);
        let images = index.images.values().filter(is_there);
        images.map(|image| (image.clone(), index.names_of(&image.id))).collect()
    }

    /// The digests of an image's manifests in their repositories (`repository@sha256:HEX`), as a pod's status and a
    /// node's list of images show them.
    pub fn repository_digests(&self, id: &str) -> Vec<String> {
        let index = self.index();
        let digests = index.parsed_names(id).filter(|name| name.digest.is_some());
        digests.map(|name| name.to_string()).collect()
    }

    pub(super) fn tags_of(&self, name: &str) -> Vec<String> {
        let index = self.index();
        let parsed = index.names.keys().filter_map(|tag| ImageReference::parse(tag).ok());
        parsed.filter(|known| known.name() == name).filter_map(|known| known.tag).collect()
    }

    /// Returns the current content; reads it again only after a change.
    fn index(&self) -> Arc<Index> {
        let stamp_of = |path: PathBuf| {
            let about = fs::metadata(path).ok()?;
            Some((about.ino(), about.mtime(), about.mtime_nsec(), about.size()))
        };
        let stamp = Some([stamp_of(self.names_path()), stamp_of(self.records())]);
        let mut known = self.cached.lock();
        if known.0 != stamp {
            *known = (stamp, Arc::new(self.read_index()));
        }
        known.1.clone()
    }

    fn read_index(&self) -> Index {
        let text = read_optional(self.names_path());
        let names = if text.is_empty() { Ok(BTreeMap::new()) } else { serde_json::from_str(&text) };
        let names = names.unwrap_or_else(|error| {
            tracing::warn!("cannot read the names of the images in {}: {error}", self.directory.display());
            BTreeMap::new()
        });
        let records = self.read_records();
        let images = records.images.into_iter().map(|image| (image.id.clone(), image));
        let mut index = Index { names, images: images.collect_map(), has_other_names: false };
        // Names may belong to an unreadable record.
        if records.unreadable == 0 {
            let count = index.names.len();
            let Index { names, images, .. } = &mut index;
            names.retain(|_, id| images.contains_key(id));
            index.has_other_names = index.names.len() < count;
        }
        index
    }

    fn names_path(&self) -> PathBuf {
        self.directory.join("tags.json")
    }

    /// Makes this process the only writer, for a moment.
    fn lock(&self) -> io::Result<fs::File> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let lock = fs::File::options().create(true).append(true).open(self.directory.join("lock"))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(lock)
    }

    /// Removes names from `tags.json` whose images are gone. They would come back with a record of the same image. The
    /// caller holds the store's lock.
    fn forget_removed_names(&self) -> io::Result<()> {
        let index = self.index();
        if index.has_other_names { self.write_names(&index.names) } else { Ok(()) }
    }

    /// Replaces the names. The caller holds the store's lock.
    fn write_names(&self, names: &Names) -> io::Result<()> {
        record::replace_file(&self.names_path(), &serde_json::to_vec_pretty(names)?)
    }

    /// Gives further names to an image that is already there; returns `None` if it is not. An image that is loaded
    /// after it was pulled or built counts as loaded.
    pub fn add_names_to(
        &self,
        id: &str,
        names: &[ImageReference],
        provenance: Provenance,
    ) -> io::Result<Option<StoredImage>> {
        let _lock = self.lock()?;
        let known = self.index().images.get(id).filter(|image| self.is_complete(image)).cloned();
        let Some(mut image) = known else { return Ok(None) };
        if image.provenance != Provenance::Loaded && provenance == Provenance::Loaded {
            image.provenance = provenance;
            self.write_record(&image)?;
        }
        self.add_names(&image, names)?;
        Ok(Some(image))
    }
}

impl Index {
    /// The image that a reference means, even if its layers are not there.
    fn named(&self, reference: &ImageReference) -> Option<&StoredImage> {
        let named = |name: &String| self.names.get(name).and_then(|id| self.images.get(id));
        if let Some(digest) = &reference.digest {
            // A tag beside a digest has no meaning.
            return named(&format!("{}@{digest}", reference.name())).or_else(|| {
                self.images.values().find(|image| {
                    let manifest = image.manifest_digest.as_ref().map(Digest::as_str);
                    let is_it = image.id == *digest || manifest == Some(digest);
                    is_it && self.parsed_names(&image.id).any(|name| reference.name() == name.name())
                })
            });
        }
        // Images built with podman and buildah are called localhost/NAME.
        let local = || named(&format!("localhost/{reference}"));
        named(&reference.to_string()).or_else(|| local().filter(|_| reference.registry.is_none()))
    }

    fn parsed_names(&self, id: &str) -> impl Iterator<Item = ImageReference> {
        let own = self.names.iter().filter(move |(_, of)| *of == id);
        own.filter_map(|(name, _)| ImageReference::parse(name).ok())
    }

    /// An image's tags, and its digests in repositories where it has no tag.
    fn names_of(&self, id: &str) -> Vec<String> {
        let tagged: Vec<String> =
            self.parsed_names(id).filter(|name| name.tag.is_some()).map(|name| name.name()).collect();
        let shown = self.parsed_names(id).filter(|name| name.tag.is_some() || !tagged.contains(&name.name()));
        shown.map(|name| name.to_string()).collect()
    }
}
