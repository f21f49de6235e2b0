//! Adds an image to the store: its layers, from the lowest one to the topmost one, then its record and its names.
//!
//! A layer is present as a whole or not at all, and is there for others as soon as it is added. Until its image is
//! added, the writer keeps it from removal.

use std::fs;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use sha2::{Digest as _, Sha256};

use super::budget::Budget;
use super::compression;
use super::configuration::ImageDescription;
use super::digest::{ChainId, Digest};
use super::layer::LayerUnpacker;
use super::layer_tree::{LayerTree, WhiteoutForm};
use super::options::{Limits, LoadError};
use super::read_ahead::read_ahead;
use super::record::{LAYER_ROOT, LayerRecord, StoredImage, sync_directory};
use super::work::{WorkDir, remove_tree, step};
use super::{ImageStore, Names};
use crate::ImageReference;
use base::layers::Layers;

/// A layer as an archive or a registry has it.
#[derive(Clone, Copy, Debug)]
pub struct PackedLayer<'a> {
    /// Its name in messages.
    pub name: &'a str,
    /// The digest of its uncompressed tar stream.
    pub diff_id: &'a Digest,
    /// The digest of the stream as it is.
    pub digest: Option<&'a Digest>,
}

/// A layer that was added.
#[derive(Debug)]
pub struct AddedLayer {
    /// Another writer added the same layer meanwhile.
    pub was_present: bool,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// One image that is being added. Blocking: use it from a thread of its own.
#[derive(Debug)]
pub struct ImageWriter<'a> {
    store: &'a ImageStore,
    work: WorkDir,
    budget: Budget,
    diff_ids: Vec<Digest>,
    layers: Vec<ChainId>,
    covered_layers: usize,
    size_bytes: u64,
    pub(super) whiteouts: WhiteoutForm,
}

impl ImageStore {
    /// The number of an image's lowest layers that the store has: a pull need not download them. They may be removed
    /// until a writer reuses them.
    pub fn present_layers(&self, diff_ids: &[Digest]) -> usize {
        let mut below: Option<ChainId> = None;
        let is_present = |diff_id: &&Digest| {
            let layer = ChainId::over(below.as_ref(), diff_id);
            let present = LayerRecord::read(&self.layer_directory(&layer)).is_some();
            below = Some(layer);
            present
        };
        diff_ids.iter().take_while(is_present).count()
    }

    /// Begins to add an image. The limits cover all of its layers together.
    pub fn writer(&self, limits: &Limits) -> Result<ImageWriter<'_>, LoadError> {
        let work = self.work_dir().map_err(self.failed())?;
        Ok(ImageWriter {
            store: self,
            work,
            budget: Budget::new(limits),
            diff_ids: Vec::new(),
            layers: Vec::new(),
            covered_layers: 0,
            size_bytes: 0,
            whiteouts: WhiteoutForm::Device,
        })
    }

    pub(super) fn failed(&self) -> impl Fn(io::Error) -> LoadError {
        let subject = self.directory.display().to_string();
        move |source| LoadError::Io { subject: subject.clone(), source }
    }
}

impl ImageWriter<'_> {
    /// A directory for downloaded layers that cannot be unpacked yet; removed with the writer, also after a crash.
    pub fn directory(&self) -> &Path {
        self.work.path()
    }

    /// Uses the next layer, the lowest one first, if the store has it; returns false if it must be added.
    pub fn reuse_layer(&mut self, diff_id: &Digest) -> Result<bool, LoadError> {
        self.check_count()?;
        let layer = ChainId::over(self.layers.last(), diff_id);
        let lock = self.store.lock().map_err(self.store.failed())?;
        let Some(record) = LayerRecord::read(&self.store.layer_directory(&layer)) else { return Ok(false) };
        self.work.keep(&self.store.owners.directory_name(&layer)).map_err(self.store.failed())?;
        drop(lock);
        self.budget.take_bytes(record.size_bytes)?;
        self.budget.take_entries(record.entries)?;
        self.push(layer, &record);
        Ok(true)
    }

    /// Adds the next layer, the lowest one first, from its stream as the registry or archive has it. On an error
    /// nothing of the layer remains, and it may be added again.
    pub fn add_layer(
        &mut self,
        packed: PackedLayer<'_>,
        stream: impl Read + Send,
    ) -> Result<AddedLayer, LoadError> {
        let layer = ChainId::over(self.layers.last(), packed.diff_id);
        self.check_count()?;
        let making = self.work.path().join("layer");
        let at = || LoadError::io(making.display().to_string());
        remove_tree(&making).map_err(at())?;
        let budget = self.budget.clone();
        let unpacked = self.unpack(packed, stream, &making);
        let (record, notes) = match unpacked {
            Ok(unpacked) => unpacked,
            Err(error) => {
                self.budget = budget;
                // Remains that cannot be removed now are removed with the writer.
                let _ = remove_tree(&making);
                return Err(error);
            }
        };
        let place = self.store.layer_directory(&layer);
        let added = || -> io::Result<bool> {
            let layers = place.parent().unwrap_or(Path::new("/"));
            let _lock = self.store.lock()?;
            fs::DirBuilder::new().recursive(true).mode(0o700).create(layers)?;
            self.work.keep(&self.store.owners.directory_name(&layer))?;
            if LayerRecord::read(&place).is_some() {
                return Ok(false);
            }
            if place.exists() {
                // An incomplete layer, as a user leaves it who deletes files of the store.
                fs::rename(&place, self.work.path().join("damaged"))?;
            }
            step("add layer", &place);
            fs::rename(&making, &place)?;
            step("sync layer", &place);
            sync_directory(layers)?;
            Ok(true)
        };
        let added = added().map_err(LoadError::io(place.display().to_string()))?;
        for remains in [making, self.work.path().join("damaged")] {
            let _ = remove_tree(&remains);
        }
        self.push(layer, &record);
        Ok(AddedLayer { was_present: !added, notes })
    }

    fn check_count(&self) -> Result<(), LoadError> {
        let limit = self.budget.limits.layers;
        let too_many = || LoadError::TooLarge(format!("more than {limit} layers"));
        (self.layers.len() < limit).then_some(()).ok_or_else(too_many)
    }

    fn push(&mut self, layer: ChainId, record: &LayerRecord) {
        if record.flattened {
            self.covered_layers = self.layers.len();
        }
        self.layers.push(layer);
        self.diff_ids.push(record.diff_id.clone());
        self.size_bytes += record.size_bytes;
    }

    /// Unpacks a layer into a directory of its own, durably.
    fn unpack(
        &mut self,
        packed: PackedLayer<'_>,
        stream: impl Read + Send,
        making: &Path,
    ) -> Result<(LayerRecord, Vec<String>), LoadError> {
        let at = || LoadError::io(making.display().to_string());
        let root = making.join(LAYER_ROOT);
        fs::DirBuilder::new().mode(0o700).create(making).map_err(at())?;
        make_root(&root).map_err(at())?;
        step("unpack layer", making);
        let below = self.layers.iter().skip(self.covered_layers).rev();
        let below = below.map(|layer| self.store.layer_directory(layer).join(LAYER_ROOT));
        let layers = Layers::new(std::iter::once(root.clone()).chain(below).collect());
        let tree = LayerTree::new(&layers, &mut self.budget, self.whiteouts).map_err(at())?;
        let mut unpacker = LayerUnpacker::new(tree, packed.name);
        unpack_stream(packed, stream, &mut unpacker)?;
        let unpacked = unpacker.finish().map_err(at())?;
        let mut notes = unpacked.notes;
        if unpacked.needs_flattening {
            let flat = making.join("flat");
            make_root(&flat).and_then(|()| layers.copy(&flat)).map_err(at())?;
            remove_tree(&root).and_then(|()| fs::rename(&flat, &root)).map_err(at())?;
            notes.push(format!(
                "layer {} is stored together with the layers below it, because the file system of {} refuses the \
                 marks of removed files",
                packed.name,
                self.store.directory.display()
            ));
        }
        let record = LayerRecord {
            diff_id: packed.diff_id.clone(),
            size_bytes: unpacked.size_bytes,
            entries: unpacked.entries,
            flattened: unpacked.needs_flattening,
        };
        record.write(making).map_err(at())?;
        // The content is synced to the disk before the layer gets its name: a power failure leaves no layer of empty
        // files.
        let held = rustix::fs::open(making, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
        let held = held.map_err(|error| at()(error.into()))?;
        rustix::fs::syncfs(&held).map_err(|error| at()(error.into()))?;
        Ok((record, notes))
    }

    /// Adds the image itself, whose layers were all added or reused, and gives it names: tags, and digests of manifests
    /// in repositories (`repository@sha256:HEX`).
    pub fn add_image(
        mut self,
        description: ImageDescription,
        names: &[ImageReference],
    ) -> Result<StoredImage, LoadError> {
        if self.layers.is_empty() {
            // An image without layers has an empty root file system.
            let diff_id = Digest::of(b"");
            if !self.reuse_layer(&diff_id)? {
                let packed = PackedLayer { name: "of no files", diff_id: &diff_id, digest: None };
                self.add_layer(packed, io::empty())?;
            }
        }
        let image = StoredImage {
            id: description.id.to_string(),
            manifest_digest: description.manifest_digest,
            platform: description.platform,
            size_bytes: self.size_bytes,
            provenance: description.provenance,
            run: description.run,
            diff_ids: self.diff_ids,
            layers: self.layers,
            covered_layers: self.covered_layers,
            added_at: Some(base::clock::Clock::machine().now()),
            created: description.created,
        };
        let added = || -> io::Result<()> {
            let _lock = self.store.lock()?;
            self.store.forget_removed_names()?;
            self.store.write_record(&image)?;
            self.store.add_names(&image, names)
        };
        added().map_err(self.store.failed())?;
        Ok(image)
    }
}

impl ImageStore {
    /// Gives an image further names. The caller holds the store's lock.
    pub(super) fn add_names(&self, image: &StoredImage, names: &[ImageReference]) -> io::Result<()> {
        let mut known: Names = self.index().names.clone();
        for name in names {
            known.insert(name.to_string(), image.id.clone());
            // Its manifest is known in every repository that has the image.
            if let Some(digest) = &image.manifest_digest {
                known.insert(format!("{}@{digest}", name.name()), image.id.clone());
            }
        }
        self.write_names(&known)
    }
}

fn make_root(root: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o755).create(root)?;
    fs::set_permissions(root, fs::Permissions::from_mode(0o755))
}

fn unpack_stream(
    packed: PackedLayer<'_>,
    stream: impl Read + Send,
    unpacker: &mut LayerUnpacker<'_>,
) -> Result<(), LoadError> {
    let at = || LoadError::io(packed.name.to_owned());
    let mut packed_sum = packed.digest.map(|_| Sha256::new());
    let mut plain_sum = Some(Sha256::new());
    let stream = HashingReader { inner: stream, sum: &mut packed_sum };
    let stream = BufReader::with_capacity(1 << 17, stream);
    let plain = compression::plain(stream).map_err(at())?;
    let unpacked = read_ahead(plain, |plain| {
        let mut plain = HashingReader { inner: plain, sum: &mut plain_sum };
        unpacker.unpack(&mut plain)?;
        // The digest covers the rest of the stream too: padding, and any data after the archive's end.
        unpacker.skip_rest(&mut plain)
    });
    unpacked.map_err(at())??;
    check_digest(packed, packed_sum, packed.digest)?;
    check_digest(packed, plain_sum, Some(packed.diff_id))
}

fn check_digest(
    packed: PackedLayer<'_>,
    sum: Option<Sha256>,
    expected: Option<&Digest>,
) -> Result<(), LoadError> {
    let (Some(sum), Some(expected)) = (sum, expected) else { return Ok(()) };
    let found = Digest::finish(sum);
    if found == *expected {
        return Ok(());
    }
    Err(LoadError::digest(packed.name, expected.as_str(), found.as_str()))
}

/// A reader that computes the digest of the bytes read, if one is expected.
struct HashingReader<'a, R> {
    inner: R,
    sum: &'a mut Option<Sha256>,
}

impl<R: Read> Read for HashingReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        if let Some(sum) = self.sum {
            sum.update(&buffer[..count]);
        }
        Ok(count)
    }
}
