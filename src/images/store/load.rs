//! Loads an archive: chooses its images, and adds their layers and then each image itself.
//!
//! An image is present with all of its files or not at all, even after an interruption. Loading an image again only
//! renews its names.

use super::archive::Archive;
use super::configuration::ImageDescription;
use super::formats::{self, ArchivedImage};
use super::options::{Input, LoadError, LoadOptions};
use super::platform::Platform;
use super::writer::PackedLayer;
use super::{ImageStore, StoredImage};
use crate::ImageReference;

/// One loaded image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedImage {
    /// Its names now.
    pub names: Vec<String>,
    /// The image.
    pub image: StoredImage,
    /// The image was already present.
    pub was_present: bool,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl ImageStore {
    /// Loads every image of an archive that this machine can run, and calls `on_loaded` with each as soon as it is
    /// stored.
    pub fn load(
        &self,
        input: Input,
        options: &LoadOptions,
        mut on_loaded: impl FnMut(&LoadedImage),
    ) -> Result<(), LoadError> {
        let tag = options.tag.as_deref().map(name_of).transpose()?;
        let work = self.work_dir().map_err(self.failed())?;
        let archive = Archive::open(input, work.path(), &options.limits)?;
        let images = formats::images(&archive, &options.limits)?;
        if images.is_empty() {
            return Err(LoadError::NotAnImage("the archive contains no image".into()));
        }
        // All names are determined before anything is unpacked: an archive with a name in error must not be loaded in
        // part.
        let names = names(&images, tag.as_ref())?;
        for (image, names) in images.into_iter().zip(names) {
            let loaded = self.load_one(&archive, image, &names, options);
            on_loaded(&loaded.inspect_err(|_| self.drop_unused_layers())?);
        }
        Ok(())
    }

    /// Removes the layers of an image that was not loaded.
    fn drop_unused_layers(&self) {
        if let Err(error) = self.prune(|_| false) {
            tracing::warn!("cannot remove layers without an image: {error}");
        }
    }

    fn load_one(
        &self,
        archive: &Archive,
        packed: ArchivedImage,
        names: &[ImageReference],
        options: &LoadOptions,
    ) -> Result<LoadedImage, LoadError> {
        let mut notes = Vec::new();
        if !packed.platform.runs_on(&Platform::machine()) {
            notes.push(format!(
                "the image is for {}, but this machine is {}: its programs need an emulator",
                packed.platform,
                Platform::machine()
            ));
        }
        let known = self
            .add_names_to(packed.description.id.as_str(), names, options.provenance)
            .map_err(self.failed())?;
        let was_present = known.is_some();
        let image = match known {
            Some(image) => image,
            None => self.add(archive, packed, names, options, &mut notes)?,
        };
        let names = names.iter().map(ToString::to_string).collect();
        Ok(LoadedImage { names, image, was_present, notes })
    }

    fn add(
        &self,
        archive: &Archive,
        packed: ArchivedImage,
        names: &[ImageReference],
        options: &LoadOptions,
        notes: &mut Vec<String>,
    ) -> Result<StoredImage, LoadError> {
        let mut writer = self.writer(&options.limits)?;
        for layer in &packed.layers {
            if !writer.reuse_layer(&layer.diff_id)? {
                let stream = archive.reader(&layer.member)?;
                let packed = PackedLayer {
                    name: &layer.member,
                    diff_id: &layer.diff_id,
                    digest: layer.digest.as_ref(),
                };
                notes.extend(writer.add_layer(packed, stream)?.notes);
            }
        }
        let description = ImageDescription { provenance: options.provenance, ..packed.description };
        writer.add_image(description, names)
    }
}

fn name_of(text: &str) -> Result<ImageReference, LoadError> {
    let parsed = ImageReference::parse(text).map_err(|error| LoadError::Name { name: text.into(), error })?;
    match parsed.digest {
        None => Ok(parsed),
        Some(_) => Err(LoadError::Names(format!("{text} has a digest; use a tag instead"))),
    }
}

/// The names that each image gets.
fn names(
    images: &[ArchivedImage],
    tag: Option<&ImageReference>,
) -> Result<Vec<Vec<ImageReference>>, LoadError> {
    if let Some(tag) = tag {
        return match images {
            [_] => Ok(vec![vec![tag.clone()]]),
            _ => Err(LoadError::Names(format!(
                "the archive contains {} images, but --tag can name only one",
                images.len()
            ))),
        };
    }
    let of_image = |image: &ArchivedImage| {
        let names: Vec<_> = image.names.iter().map(|name| name_of(name)).collect::<Result<_, _>>()?;
        if names.is_empty() {
            return Err(LoadError::Names(format!(
                "image {} has no name in the archive; name it with --tag NAME:TAG",
                image.description.id
            )));
        }
        Ok(names)
    };
    images.iter().map(of_image).collect()
}
