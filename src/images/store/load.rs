//! Loads an archive: chooses its images, unpacks them beside the store, and moves them in whole.
//!
//! An image is present with all of its files or not at all, even after an interruption. Loading an image again only
//! renews its names.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::archive::Archive;
use super::formats::{self, ArchivedImage};
use super::options::{Input, LoadError, LoadOptions};
use super::platform::Platform;
use super::unpack::unpack;
use super::{ImageStore, StoredImage, UNPACKING};
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
        let at = |path: &Path| LoadError::io(path.display().to_string());
        let _lock = self.lock().map_err(at(&self.directory))?;
        let work = self.directory.join(format!("{UNPACKING}{:08x}", base::random::random::<u32>()));
        let scratch = Scratch::new(&work).map_err(at(&work))?;
        let archive = Archive::open(input, &scratch.0, &options.limits)?;
        let images = formats::images(&archive, &options.limits)?;
        if images.is_empty() {
            return Err(LoadError::NotAnImage("the archive contains no image".into()));
        }
        // All names are determined before anything is unpacked: an archive with a name in error must not be loaded in
        // part.
        let names = names(&images, tag.as_ref())?;
        for (image, names) in images.into_iter().zip(names) {
            on_loaded(&self.load_one(&archive, image, &names, options, &scratch.0)?);
        }
        Ok(())
    }

    fn load_one(
        &self,
        archive: &Archive,
        packed: ArchivedImage,
        names: &[ImageReference],
        options: &LoadOptions,
        scratch: &Path,
    ) -> Result<LoadedImage, LoadError> {
        let mut notes = Vec::new();
        if !packed.platform.runs_on(&Platform::machine()) {
            notes.push(format!(
                "the image is for {}, but this machine is {}: its programs need an emulator",
                packed.platform,
                Platform::machine()
            ));
        }
        let directory = self.image_directory(&packed.id);
        let known =
            self.index().images.get(&packed.id).filter(|_| directory.join("rootfs").is_dir()).cloned();
        let is_known = known.is_some();
        let image = if let Some(image) = known {
            image
        } else {
            let making = scratch.join(&packed.id[7..]);
            let image = unpack(archive, packed, &making, options, &mut notes)?;
            let at = || LoadError::io(directory.display().to_string());
            if directory.exists() {
                // An incomplete image that a user has put there would make the rename fail.
                fs::remove_dir_all(&directory).map_err(at())?;
            }
            fs::rename(&making, &directory).map_err(at())?;
            image
        };
        let mut tags = self.index().tags.clone();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        for name in &names {
            tags.insert(name.clone(), image.id.clone());
        }
        self.write_tags(&tags).map_err(LoadError::io(self.directory.display().to_string()))?;
        Ok(LoadedImage { names, image, was_present: is_known, notes })
    }
}

/// A directory that is removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(path: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().mode(0o700).create(path)?;
        Ok(Self(path.to_path_buf()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The next writer removes what cannot be removed now.
        let _ = fs::remove_dir_all(&self.0);
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
                image.id
            )));
        }
        Ok(names)
    };
    images.iter().map(of_image).collect()
}
