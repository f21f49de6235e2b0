//! The documents of image archives: `docker save`'s manifest.json, and OCI's index, manifest and configuration.
//!
//! Reads an archive's documents and checks every digest on the way; unpacks nothing.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::archive::Archive;
use super::bounded_list::bounded;
use super::configuration::ImageDescription;
use super::digest::{Digest, is_hex};
use super::options::{Limits, LoadError};
use super::platform::Platform;

/// One image of an archive, ready to be unpacked.
#[derive(Debug)]
pub(super) struct ArchivedImage {
    pub(super) description: ImageDescription,
    pub(super) platform: Platform,
    /// The configuration as it is.
    pub(super) config: Vec<u8>,
    /// The manifest as it is, and its media type; `None` in archives without one.
    pub(super) manifest: Option<(Vec<u8>, String)>,
    pub(super) layers: Vec<ArchivedLayer>,
    /// Its names in the archive.
    pub(super) names: Vec<String>,
}

/// One layer of an archived image.
#[derive(Debug)]
pub(super) struct ArchivedLayer {
    /// The name of the archive member that holds the layer.
    pub(super) member: String,
    /// The digest of the member as it is.
    pub(super) digest: Option<Digest>,
    /// The digest of the layer's uncompressed content.
    pub(super) diff_id: Digest,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerImage {
    config: String,
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// A reference to content by its digest.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: String,
    /// In bytes; `None` where an archive leaves it out.
    #[serde(default)]
    pub(crate) size: Option<u64>,
    #[serde(default)]
    pub(crate) platform: Option<Platform>,
    #[serde(default)]
    annotations: Annotations,
}

/// The annotations that name an image. All others are skipped, so that they take no memory.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "io.containerd.image.name")]
    full_name: Option<String>,
    #[serde(rename = "org.opencontainers.image.ref.name")]
    reference_name: Option<String>,
}

/// An index of images for several platforms.
#[derive(Debug, Deserialize)]
pub(crate) struct OciIndex {
    #[serde(deserialize_with = "bounded")]
    pub(crate) manifests: Vec<Descriptor>,
}

/// The manifest of one image.
#[derive(Debug, Deserialize)]
pub(crate) struct OciManifest {
    pub(crate) config: Descriptor,
    #[serde(deserialize_with = "bounded")]
    pub(crate) layers: Vec<Descriptor>,
}

impl OciIndex {
    /// The image that fits a machine best: with a platform rather than without one, and of the newest variant that
    /// runs. A machine whose variant is not known gets the oldest.
    pub(crate) fn choose(&self, machine: &Platform) -> Option<&Descriptor> {
        let mut best: Option<(&Descriptor, &Platform)> = None;
        for descriptor in &self.manifests {
            let Some(platform) = descriptor.platform.as_ref().filter(|platform| platform.runs_on(machine))
            else {
                continue;
            };
            let is_better = best.is_none_or(|(_, known)| {
                if machine.variant.is_empty() {
                    platform.variant < known.variant
                } else {
                    platform.variant > known.variant
                }
            });
            if is_better {
                best = Some((descriptor, platform));
            }
        }
        let unnamed = || self.manifests.iter().find(|descriptor| descriptor.platform.is_none());
        best.map(|(descriptor, _)| descriptor).or_else(unnamed)
    }

    /// The platforms of the images, for messages.
    pub(crate) fn platforms(&self) -> String {
        platforms(self.manifests.iter())
    }
}

fn platforms<'a>(descriptors: impl Iterator<Item = &'a Descriptor>) -> String {
    let known: Vec<String> = descriptors
        .filter_map(|descriptor| descriptor.platform.as_ref())
        .take(20)
        .map(ToString::to_string)
        .collect();
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
}

/// The maximum depth of indexes in indexes.
pub(crate) const INDEX_DEPTH: u8 = 3;

/// Every image of the archive that this machine can run.
pub(super) fn images(archive: &Archive, limits: &Limits) -> Result<Vec<ArchivedImage>, LoadError> {
    let reader = Reader { archive, limits };
    if archive.has("manifest.json") {
        reader.docker()
    } else if archive.has("index.json") {
        reader.oci()
    } else {
        Err(LoadError::NotAnImage(
            "the archive has neither a manifest.json (docker save) nor an index.json (an OCI image layout)"
                .into(),
        ))
    }
}

struct Reader<'a> {
    archive: &'a Archive,
    limits: &'a Limits,
}

impl Reader<'_> {
    fn docker(&self) -> Result<Vec<ArchivedImage>, LoadError> {
        let listed: Vec<DockerImage> = self.document("manifest.json")?;
        // Newer archives are OCI layouts too, which know the manifests' digests.
        #[expect(clippy::disallowed_methods, reason = "an archive is complete without a layout")]
        let layout = if self.archive.has("index.json") { self.oci().unwrap_or_default() } else { Vec::new() };
        let mut images = Vec::new();
        for image in listed {
            let bytes = self.archive.bytes(&image.config, self.limits)?;
            let id = Digest::of(&bytes);
            // The configuration's file is named after its digest, except in some older archives.
            let named = image.config.rsplit('/').next().unwrap_or_default().trim_end_matches(".json");
            if is_hex(named) && id.hex() != named {
                return Err(LoadError::digest(&image.config, &format!("sha256:{named}"), id.as_str()));
            }
            let layers = image.layers.into_iter().map(|member| (member, None)).collect();
            let known = layout.iter().find(|known| known.description.id == id);
            let mut packed = self.packed(&image.config, &bytes, layers)?;
            packed.description.manifest_digest =
                known.and_then(|known| known.description.manifest_digest.clone());
            packed.names = image.repo_tags.unwrap_or_default();
            images.push(packed);
        }
        Ok(images)
    }

    fn oci(&self) -> Result<Vec<ArchivedImage>, LoadError> {
        let index: OciIndex = self.document("index.json")?;
        let mut images: Vec<ArchivedImage> = Vec::new();
        let (mine, others): (Vec<_>, Vec<_>) =
            index.manifests.iter().partition(|descriptor| fits(descriptor));
        if mine.is_empty() {
            return Err(no_platform(&others));
        }
        for descriptor in mine {
            let mut packed = self.image(descriptor, 0)?;
            packed.names.extend(name_of(descriptor));
            match images.iter_mut().find(|known| known.description.id == packed.description.id) {
                Some(known) => known.names.extend(packed.names),
                None => images.push(packed),
            }
        }
        Ok(images)
    }

    /// The image behind a manifest, or behind an index of manifests for several platforms.
    fn image(&self, descriptor: &Descriptor, depth: u8) -> Result<ArchivedImage, LoadError> {
        let digest = sha256(&descriptor.digest)?;
        let bytes = self.blob(&digest)?;
        let member = blob_member(&digest);
        let value: serde_json::Value = parse(&member, &bytes)?;
        if value.get("manifests").is_some() {
            if depth > INDEX_DEPTH {
                return Err(LoadError::NotAnImage("indexes are nested too deeply".into()));
            }
            let index: OciIndex = parse(&member, &bytes)?;
            let others: Vec<&Descriptor> = index.manifests.iter().collect();
            let matching = index.choose(&Platform::machine()).ok_or_else(|| no_platform(&others))?;
            return self.image(matching, depth + 1);
        }
        let manifest: OciManifest = parse(&member, &bytes)?;
        let config = self.blob(&sha256(&manifest.config.digest)?)?;
        let member =
            |layer: &Descriptor| sha256(&layer.digest).map(|digest| (blob_member(&digest), Some(digest)));
        let layers = manifest.layers.iter().map(member).collect::<Result<_, _>>()?;
        let mut packed = self.packed(&manifest.config.digest, &config, layers)?;
        packed.description.manifest_digest = Some(digest);
        packed.manifest = Some((bytes, descriptor.media_type.clone()));
        Ok(packed)
    }

    fn packed(
        &self,
        name: &str,
        bytes: &[u8],
        layers: Vec<(String, Option<Digest>)>,
    ) -> Result<ArchivedImage, LoadError> {
        let (description, platform, diff_ids) = ImageDescription::read(bytes).map_err(unreadable(name))?;
        if diff_ids.len() != layers.len() {
            return Err(LoadError::NotAnImage(format!(
                "{name} lists {} layers, but the manifest lists {}",
                diff_ids.len(),
                layers.len()
            )));
        }
        if layers.len() > self.limits.layers {
            return Err(LoadError::TooLarge(format!("more than {} layers", self.limits.layers)));
        }
        let layers = layers.into_iter().zip(diff_ids);
        let layers = layers.map(|((member, digest), diff_id)| ArchivedLayer { member, digest, diff_id });
        Ok(ArchivedImage {
            description,
            platform,
            config: bytes.to_vec(),
            manifest: None,
            layers: layers.collect(),
            names: Vec::new(),
        })
    }

    fn document<T: DeserializeOwned>(&self, member: &str) -> Result<T, LoadError> {
        parse(member, &self.archive.bytes(member, self.limits)?)
    }

    /// A small blob, checked against its digest.
    fn blob(&self, digest: &Digest) -> Result<Vec<u8>, LoadError> {
        let member = blob_member(digest);
        let bytes = self.archive.bytes(&member, self.limits)?;
        let found = Digest::of(&bytes);
        if found == *digest {
            Ok(bytes)
        } else {
            Err(LoadError::digest(&member, digest.as_str(), found.as_str()))
        }
    }
}

fn parse<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T, LoadError> {
    serde_json::from_slice(bytes).map_err(unreadable(name))
}

fn unreadable(name: &str) -> impl FnOnce(serde_json::Error) -> LoadError {
    move |error| LoadError::NotAnImage(format!("{name}: {error}"))
}

fn sha256(digest: &str) -> Result<Digest, LoadError> {
    Digest::parse(digest).map_err(|error| LoadError::NotAnImage(error.to_string()))
}

/// The path of a blob in an OCI layout.
fn blob_member(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// Returns true if this machine can run the image; attestations and the like have the platform `unknown/unknown`.
fn fits(descriptor: &Descriptor) -> bool {
    descriptor.platform.as_ref().is_none_or(|platform| platform.runs_on(&Platform::machine()))
}

fn no_platform(others: &[&Descriptor]) -> LoadError {
    LoadError::Platform(format!(
        "the archive has no image for {}; its platforms: {}",
        Platform::machine(),
        platforms(others.iter().copied())
    ))
}

/// Returns the name of an image in an index: containerd's full name, or OCI's unless that is a bare tag.
fn name_of(descriptor: &Descriptor) -> Option<String> {
    let full = descriptor.annotations.full_name.as_ref();
    let short = || {
        let name = descriptor.annotations.reference_name.as_ref()?;
        name.contains(['/', ':']).then_some(name)
    };
    full.or_else(short).cloned()
}
