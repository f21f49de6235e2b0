//! The records of images and layers: small JSON files beside what they describe.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ImageStore;
use super::configuration::RunConfig;
use super::digest::{ChainId, Digest};
use super::provenance::Provenance;
use super::work::{UNFINISHED, entries, step};
use base::removal::unless_missing;

/// One image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredImage {
    /// The digest of its configuration: `sha256:HEX`.
    pub id: String,
    /// The digest of its manifest, if it is known.
    pub manifest_digest: Option<Digest>,
    /// `linux/amd64`.
    pub platform: String,
    /// The size of the files of all its layers.
    pub size_bytes: u64,
    /// The way it came here.
    #[serde(default)]
    pub provenance: Provenance,
    /// The process it runs.
    pub run: RunConfig,
    /// The digests of its layers' uncompressed tar streams, the lowest one first.
    #[serde(default)]
    pub diff_ids: Vec<Digest>,
    /// Its layers in the store, the lowest one first; none if an earlier version stored it as one directory.
    #[serde(default)]
    pub layers: Vec<ChainId>,
    /// The number of its lowest layers that the next one contains as a copy: they are not mounted.
    #[serde(default)]
    pub(super) covered_layers: usize,
    /// The time of its addition; not known for images of earlier versions.
    #[serde(default)]
    pub added_at: Option<Timestamp>,
    /// The time at which it was built, by its own account; not known for images of earlier versions.
    #[serde(default)]
    pub created: Option<Timestamp>,
}

/// A layer's record, `layer.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LayerRecord {
    pub(super) diff_id: Digest,
    pub(super) size_bytes: u64,
    pub(super) entries: u64,
    /// The layer's directory contains those below it, because the file system refuses whiteouts.
    #[serde(default)]
    pub(super) flattened: bool,
}

/// The name of a layer's record.
const LAYER_RECORD: &str = "layer.json";
/// The name of the directory with a layer's files.
pub(super) const LAYER_ROOT: &str = "root";

impl LayerRecord {
    pub(super) fn write(&self, layer: &Path) -> io::Result<()> {
        step("write record of", layer);
        fs::write(layer.join(LAYER_RECORD), serde_json::to_vec(self)?)
    }

    /// The time at which the layer was added.
    pub(super) fn added_at(layer: &Path) -> Option<SystemTime> {
        fs::metadata(layer.join(LAYER_RECORD)).and_then(|about| about.modified()).ok()
    }

    /// Removes the record of a layer's directory, if it has one.
    pub(super) fn remove(layer: &Path) -> io::Result<()> {
        unless_missing(fs::remove_file(layer.join(LAYER_RECORD)))
    }

    /// Reads the record of a layer's directory; `None` if the layer is not there or not whole.
    pub(super) fn read(layer: &Path) -> Option<Self> {
        let record = serde_json::from_slice(&fs::read(layer.join(LAYER_RECORD)).ok()?).ok()?;
        layer.join(LAYER_ROOT).is_dir().then_some(record)
    }
}

impl ImageStore {
    pub(super) fn layer_directory(&self, layer: &ChainId) -> PathBuf {
        self.directory.join("layers").join(self.owners.directory_name(layer))
    }

    /// The directory of an image that an earlier version stored as one directory.
    pub(super) fn flat_directory(&self, id: &str) -> PathBuf {
        self.directory.join(id.replace(':', "-"))
    }

    /// The directory of the images' records.
    pub(super) fn records(&self) -> PathBuf {
        self.directory.join("images")
    }

    /// Writes an image's record. The caller holds the store's lock.
    pub(super) fn write_record(&self, image: &StoredImage) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(self.records())?;
        replace_file(&self.record_path(image), &serde_json::to_vec_pretty(image)?)
    }

    pub(super) fn record_path(&self, image: &StoredImage) -> PathBuf {
        if image.layers.is_empty() {
            return self.flat_directory(&image.id).join("image.json");
        }
        self.records().join(format!("{}.json", image.id.trim_start_matches("sha256:")))
    }

    /// The directories that make up an image's root file system when they are mounted over each other, the topmost one
    /// first.
    pub fn layer_roots(&self, image: &StoredImage) -> Vec<PathBuf> {
        if image.layers.is_empty() {
            return vec![self.flat_directory(&image.id).join("rootfs")];
        }
        let mounted = image.layers.iter().skip(image.covered_layers).rev();
        mounted.map(|layer| self.layer_directory(layer).join(LAYER_ROOT)).collect()
    }

    /// The sizes of an image's layers on disk, the lowest one first; `None` if a layer's record cannot be read.
    pub fn layer_sizes(&self, image: &StoredImage) -> Vec<Option<u64>> {
        let size = |layer| self.layer_record(layer).map(|record| record.size_bytes);
        image.layers.iter().map(size).collect()
    }

    pub(super) fn is_complete(&self, image: &StoredImage) -> bool {
        // Earlier versions, which stored images in one directory, had no subordinate ids.
        let is_usable = !(image.layers.is_empty() && self.owners.are_subordinate());
        is_usable && self.layer_roots(image).iter().all(|root| root.is_dir())
    }

    pub(super) fn layer_record(&self, layer: &ChainId) -> Option<LayerRecord> {
        LayerRecord::read(&self.layer_directory(layer))
    }

    /// The records of all images.
    pub(super) fn read_records(&self) -> Records {
        let mut records = Records::default();
        // The later record counts if there are two.
        for directory in [&self.directory, &self.records()] {
            let paths = entries(directory).unwrap_or_else(|error| {
                tracing::warn!("cannot list {}: {error}", directory.display());
                records.unreadable += 1;
                Vec::new()
            });
            for path in paths {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let record = if *directory == self.records() {
                    name.ends_with(".json").then(|| path.clone())
                } else {
                    name.starts_with("sha256-").then(|| path.join("image.json"))
                };
                let Some(record) = record else { continue };
                match read_image(&record) {
                    Ok(image) => records.images.push(image),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => {
                        tracing::warn!("cannot read {}: {error}", record.display());
                        records.unreadable += 1;
                    }
                }
            }
        }
        records
    }
}

/// The records of the images.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) images: Vec<StoredImage>,
    /// The number of records that exist and cannot be read.
    pub(super) unreadable: usize,
}

fn read_image(path: &Path) -> io::Result<StoredImage> {
    let image: StoredImage = serde_json::from_slice(&fs::read(path)?)?;
    // The id becomes part of paths.
    Digest::parse(&image.id).map_err(io::Error::other)?;
    Ok(image)
}

/// Replaces a file of the store as a whole, durably. The caller is the only writer.
pub(super) fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(UNFINISHED);
    let temporary = path.with_file_name(name);
    step("write", &temporary);
    let mut file = File::create(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    step("replace", path);
    fs::rename(&temporary, path)?;
    step("sync", path);
    sync_directory(path.parent().unwrap_or(Path::new(".")))
}

pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
