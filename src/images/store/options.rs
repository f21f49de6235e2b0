//! The input of a load, its limits, and its errors.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::Provenance;
use crate::InvalidReference;

/// The input of a load.
pub enum Input {
    /// A file, a pipe, or another opened descriptor.
    File(File),
    /// Standard input.
    Stream(Box<dyn Read + Send>),
}

/// Limits on an image: they stop hostile archives.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The maximum size of all files of an image, and of a decompressed archive.
    pub unpacked_bytes: u64,
    /// The maximum number of files and directories in all layers.
    pub entries: u64,
    /// The maximum number of layers of an image.
    pub layers: usize,
    /// The maximum number of members of an archive; no image archive needs as many.
    pub members: usize,
    /// The maximum size of a manifest, index or configuration.
    pub document_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            unpacked_bytes: 64 << 30,
            entries: 5_000_000,
            layers: 1000,
            members: 100_000,
            document_bytes: 8 << 20,
        }
    }
}

/// Options of a load.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// The name to use instead of the archive's own.
    pub tag: Option<String>,
    /// The way its images count as added.
    pub provenance: Provenance,
    /// Limits on the image.
    pub limits: Limits,
}

/// The reason why nothing was loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The input is not an image archive, or is a damaged one.
    #[error("not a valid image archive: {0}")]
    NotAnImage(String),
    /// A part does not match its digest.
    #[error("{part} is damaged: its digest is {actual}, not {expected}")]
    Digest {
        /// The part.
        part: String,
        /// The digest in its name.
        expected: String,
        /// The digest of its content.
        actual: String,
    },
    /// A layer contains a path where no image may write.
    #[error("layer {layer} has an unsafe entry {path:?}: {reason}")]
    Unsafe {
        /// The layer.
        layer: String,
        /// The entry.
        path: String,
        /// The defect.
        reason: &'static str,
    },
    /// The archive or an image exceeds a limit.
    #[error("the image is too large: {0}")]
    TooLarge(String),
    /// The archive contains only images for other platforms.
    #[error("{0}")]
    Platform(String),
    /// The requested name is not a valid reference.
    #[error("invalid image name {name:?}: {error}")]
    Name {
        /// The name as the user gave it.
        name: String,
        /// The reason why it is not valid.
        error: InvalidReference,
    },
    /// One name cannot be given to several images.
    #[error("{0}")]
    Names(String),
    /// The file system returned an error.
    #[error("{subject}: {source}")]
    Io {
        /// The path or step that failed.
        subject: String,
        /// The error.
        source: io::Error,
    },
}

impl LoadError {
    pub(crate) fn io(subject: String) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { subject, source }
    }

    pub(super) fn digest(part: &str, expected: &str, found: &str) -> Self {
        Self::Digest { part: part.into(), expected: expected.into(), actual: found.into() }
    }

    pub(super) fn unsafe_path(layer: &str, path: &Path, reason: &'static str) -> Self {
        Self::Unsafe { layer: layer.into(), path: path.display().to_string(), reason }
    }
}
