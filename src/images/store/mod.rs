//! The images that were loaded on this machine (IMG-3): `DATA/images/store`, shared by all its nodes.
//!
//! ```text
//! lock                one writer at a time
//! tags.json           name:tag → id; replaced as a whole, last, so that a reader sees all of an image or none
//! sha256-HEX/         one image by the digest of its configuration
//!   image.json        the process it runs
//!   rootfs/           its layers, one over the other
//! unpack-…/           being unpacked, or left by a crash; the next writer removes it
//! ```
//!
//! Readers take no lock. Nothing here runs anything, and nothing uses a network.

mod archive;
mod compression;
mod formats;
mod layer;
mod load;
mod options;
mod platform;
mod remove;
#[cfg(test)]
mod tests;
mod unpack;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

pub(crate) use formats::{Descriptor, INDEX_DEPTH, OciIndex, OciManifest, RootFs, RunConfig, digest_of};
pub use options::{Input, Limits, LoadError, LoadOptions};
pub(crate) use platform::Platform;

use super::ImageReference;
use base::optional_file::read_optional;

/// One loaded image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredImage {
    /// The digest of its configuration: `sha256:HEX`.
    pub id: String,
    /// The digest of its manifest, if the archive had one.
    pub manifest_digest: Option<String>,
    /// `linux/amd64`.
    pub platform: String,
    /// The size of its files.
    pub size_bytes: u64,
    /// The process it runs.
    pub(crate) run: RunConfig,
}

/// The store's content at one moment.
#[derive(Debug, Default)]
struct Index {
    tags: BTreeMap<String, String>,
    images: BTreeMap<String, StoredImage>,
}

/// Identifies a version of `tags.json`.
type FileStamp = (u64, i64, i64, u64);

/// The loaded images of one data directory.
#[derive(Debug)]
pub struct ImageStore {
    directory: PathBuf,
    // The content at the last read; locked only for short reads of small files.
    cached: Mutex<(Option<FileStamp>, Arc<Index>)>,
}

impl ImageStore {
    /// The store of a data directory; neither needs to exist yet.
    pub fn of(data_dir: &Path) -> Self {
        Self { directory: data_dir.join("images").join("store"), cached: Mutex::default() }
    }

    /// The loaded image that a reference means: by its tag, or by its manifest's or configuration's digest.
    pub(crate) fn find(&self, reference: &ImageReference) -> Option<StoredImage> {
        let index = self.index();
        let found = if let Some(digest) = &reference.digest {
            index.images.values().find(|image| {
                let is_it = image.id == *digest || image.manifest_digest.as_ref() == Some(digest);
                is_it && index.names(&image.id).any(|name| reference.name() == name.name())
            })
        } else {
            let id = index.tags.get(&reference.to_string());
            // Images built with podman and buildah are called localhost/NAME.
            let local = || index.tags.get(&format!("localhost/{reference}"));
            let id = id.or_else(|| local().filter(|_| reference.registry.is_none()));
            id.and_then(|id| index.images.get(id))
        };
        found.filter(|image| self.root_of(&image.id).is_dir()).cloned()
    }

    /// Every image with its names.
    pub(crate) fn list(&self) -> Vec<(StoredImage, Vec<String>)> {
        let index = self.index();
        let with_names = |image: &StoredImage| {
            let names = index.names(&image.id).map(|name| name.to_string()).collect();
            (image.clone(), names)
        };
        let is_there = |image: &&StoredImage| self.root_of(&image.id).is_dir();
        index.images.values().filter(is_there).map(with_names).collect()
    }

    pub(super) fn tags_of(&self, name: &str) -> Vec<String> {
        let index = self.index();
        let parsed = index.tags.keys().filter_map(|tag| ImageReference::parse(tag).ok());
        parsed.filter(|known| known.name() == name).filter_map(|known| known.tag).collect()
    }

    /// The root file system of an image.
    pub fn root_of(&self, id: &str) -> PathBuf {
        self.image_directory(id).join("rootfs")
    }

    fn image_directory(&self, id: &str) -> PathBuf {
        self.directory.join(id.replace(':', "-"))
    }

    /// Returns the current content; reads it again only after a change.
    fn index(&self) -> Arc<Index> {
        let stamp = fs::metadata(self.directory.join("tags.json"))
            .ok()
            .map(|about| (about.ino(), about.mtime(), about.mtime_nsec(), about.size()));
        let mut known = self.cached.lock();
        if known.0 != stamp {
            *known = (stamp, Arc::new(self.read_index()));
        }
        known.1.clone()
    }

    fn read_index(&self) -> Index {
        let text = read_optional(self.directory.join("tags.json"));
        let tags = if text.is_empty() { Ok(BTreeMap::new()) } else { serde_json::from_str(&text) };
        let tags = tags.unwrap_or_else(|error| {
            tracing::warn!("cannot read the names of the images in {}: {error}", self.directory.display());
            BTreeMap::new()
        });
        let mut images = BTreeMap::new();
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with("sha256-")
                && let Ok(text) = fs::read(entry.path().join("image.json"))
                && let Ok(image) = serde_json::from_slice::<StoredImage>(&text)
            {
                images.insert(image.id.clone(), image);
            }
        }
        Index { tags, images }
    }

    /// Makes this process the only writer, and removes the remains of a crashed one.
    fn lock(&self) -> io::Result<fs::File> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let lock = fs::File::options().create(true).append(true).open(self.directory.join("lock"))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(UNPACKING) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(lock)
    }

    /// Replaces the tags; the caller is the only writer.
    fn write_tags(&self, tags: &BTreeMap<String, String>) -> io::Result<()> {
        let temporary = self.directory.join("tags.json.new");
        let mut file = fs::File::create(&temporary)?;
        file.write_all(&serde_json::to_vec_pretty(tags)?)?;
        file.sync_all()?;
        fs::rename(&temporary, self.directory.join("tags.json"))?;
        fs::File::open(&self.directory)?.sync_all()
    }
}

/// The prefix of directories of unfinished images.
const UNPACKING: &str = "unpack-";

impl Index {
    fn names(&self, id: &str) -> impl Iterator<Item = ImageReference> {
        let own = self.tags.iter().filter(move |(_, of)| *of == id);
        own.filter_map(|(name, _)| ImageReference::parse(name).ok())
    }
}
