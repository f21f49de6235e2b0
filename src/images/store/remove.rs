//! Removes a loaded image: first its name, then, if no name is left, its files. The last name of an image that is in
//! use cannot be removed.

use std::fs;

use super::{ImageStore, StoredImage, UNPACKING};
use crate::ImageReference;

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
        source: std::io::Error,
    },
}

impl ImageStore {
    /// Removes a name, or an image with all its names by its id. Returns the removed names, and the id if the image
    /// itself was removed.
    pub fn remove(
        &self,
        requested: &str,
        in_use: impl Fn(&StoredImage) -> Option<String>,
    ) -> Result<Vec<String>, RemoveError> {
        let at = || {
            let subject = self.directory.display().to_string();
            move |source| RemoveError::Io { subject, source }
        };
        let _lock = self.lock().map_err(at())?;
        let index = self.index();
        #[expect(
            clippy::disallowed_methods,
            reason = "an id need not be a reference; no image has an empty name"
        )]
        let name = ImageReference::parse(requested).map(|parsed| parsed.to_string()).unwrap_or_default();
        let id_begin = if requested.starts_with("sha256:") {
            requested.to_owned()
        } else {
            format!("sha256:{requested}")
        };
        let by_id = |image: &&StoredImage| requested.len() >= 6 && image.id.starts_with(&id_begin);
        let mut with_id = index.images.values().filter(by_id);
        let (image, names) = if let Some(id) = index.tags.get(&name) {
            (index.images.get(id), vec![name])
        } else {
            let image = with_id.next().filter(|_| with_id.next().is_none());
            let names = image.map(|image| index.names(&image.id).map(|name| name.to_string()).collect());
            (image, names.unwrap_or_default())
        };
        let Some(image) = image else { return Err(RemoveError::Unknown(requested.to_owned())) };
        let mut tags = index.tags.clone();
        tags.retain(|known, _| !names.contains(known));
        let last = !tags.values().any(|id| *id == image.id);
        if last && let Some(by) = in_use(image) {
            return Err(RemoveError::InUse { image: requested.to_owned(), by });
        }
        self.write_tags(&tags).map_err(at())?;
        let mut removed = names;
        if last {
            let doomed = self.directory.join(format!("{UNPACKING}{:08x}", base::random::random::<u32>()));
            fs::rename(self.image_directory(&image.id), &doomed).map_err(at())?;
            fs::remove_dir_all(&doomed).map_err(at())?;
            removed.push(image.id.clone());
        }
        Ok(removed)
    }
}
