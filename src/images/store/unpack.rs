//! Unpacks an image into a directory of its own: every layer, with its digests checked on the way.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::rc::Rc;

use rustix::fs::{Mode, OFlags};
use sha2::{Digest, Sha256};

use super::StoredImage;
use super::archive::Archive;
use super::compression;
use super::formats::{ArchivedImage, PackedLayer};
use super::layer::LayerUnpacker;
use super::options::{LoadError, LoadOptions};
use base::hex::hex;
use base::root_dir::RootDir;

/// Unpacks an image into a directory of its own.
pub(super) fn unpack(
    archive: &Archive,
    packed: ArchivedImage,
    directory: &Path,
    options: &LoadOptions,
    notes: &mut Vec<String>,
) -> Result<StoredImage, LoadError> {
    let at = || LoadError::io(directory.display().to_string());
    let rootfs = directory.join("rootfs");
    fs::DirBuilder::new().mode(0o700).create(directory).map_err(at())?;
    fs::DirBuilder::new().mode(0o755).create(&rootfs).map_err(at())?;
    fs::set_permissions(&rootfs, fs::Permissions::from_mode(0o755)).map_err(at())?;
    let root = RootDir::new(&rootfs).map_err(at())?;
    let as_root = rustix::process::geteuid().is_root();
    let mut unpacking = LayerUnpacker::new(&root, &options.limits, as_root);
    for layer in &packed.layers {
        unpack_layer(archive, layer, &mut unpacking)?;
    }
    notes.extend(unpacking.finish().map_err(at())?);
    let image = StoredImage {
        id: packed.id,
        manifest_digest: packed.manifest_digest,
        platform: packed.platform.to_string(),
        size_bytes: size_of(&rootfs).map_err(at())?,
        is_pulled: false,
        run: packed.run,
    };
    let text = serde_json::to_vec_pretty(&image).map_err(io::Error::from).map_err(at())?;
    let mut file = File::create(directory.join("image.json")).map_err(at())?;
    file.write_all(&text).map_err(at())?;
    // The image's content is synced to the disk before its name is: a power failure leaves no image of empty files.
    let held = rustix::fs::open(directory, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
    let held = held.map_err(|error| at()(error.into()))?;
    rustix::fs::syncfs(&held).map_err(|error| at()(error.into()))?;
    Ok(image)
}

fn unpack_layer(
    archive: &Archive,
    layer: &PackedLayer,
    unpacking: &mut LayerUnpacker<'_>,
) -> Result<(), LoadError> {
    let name = layer.diff_id.as_str();
    let (packed, packed_sum) = HashingReader::new(archive.reader(&layer.member)?);
    let packed = BufReader::with_capacity(1 << 17, packed);
    let plain = compression::plain(packed).map_err(LoadError::io(layer.member.clone()))?;
    let (mut plain, plain_sum) = HashingReader::new(plain);
    unpacking.layer(&mut plain, name)?;
    // The digest covers the rest of the stream too: padding, and any data after the archive's end.
    let mut rest = plain.by_ref().take(unpacking.limits.unpacked_bytes);
    io::copy(&mut rest, &mut io::sink())
        .map_err(|error| LoadError::NotAnImage(format!("layer {name}: {error}")))?;
    drop(plain);
    let check = |sum: Rc<RefCell<Sha256>>, expected: &str| {
        let found = format!("sha256:{}", hex(sum.borrow().clone().finalize()));
        if found == expected { Ok(()) } else { Err(LoadError::digest(&layer.member, expected, &found)) }
    };
    if let Some(digest) = &layer.digest {
        check(packed_sum, digest)?;
    }
    check(plain_sum, &layer.diff_id)
}

/// A reader that computes the digest of the bytes read.
struct HashingReader<R> {
    inner: R,
    sum: Rc<RefCell<Sha256>>,
}

impl<R> HashingReader<R> {
    fn new(inner: R) -> (Self, Rc<RefCell<Sha256>>) {
        let sum = Rc::new(RefCell::new(Sha256::new()));
        (Self { inner, sum: sum.clone() }, sum)
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.sum.borrow_mut().update(&buffer[..count]);
        Ok(count)
    }
}

/// The size of a tree's files; a file with several names counts once.
fn size_of(root: &Path) -> io::Result<u64> {
    let mut total = 0;
    let mut linked = std::collections::HashSet::new();
    let mut next = vec![root.to_path_buf()];
    while let Some(directory) = next.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let about = entry.metadata()?;
            if about.is_dir() {
                next.push(entry.path());
            } else if about.nlink() < 2 || linked.insert(about.ino()) {
                total += about.len();
            }
        }
    }
    Ok(total)
}
