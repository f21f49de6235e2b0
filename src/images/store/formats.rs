//! The documents of image archives: `docker save`'s manifest.json, and OCI's index, manifest and configuration.
//!
//! Reads an archive's documents and checks every digest on the way; unpacks nothing.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::archive::Archive;
use super::configuration::ImageDescription;
use super::digest::{Digest, is_hex};
use super::options::{Limits, LoadError};
use super::platform::Platform;

/// One image of an archive, ready to be unpacked.
#[derive(Debug)]
pub(super) struct ArchivedImage {
    pub(super) description: ImageDescription,
    pub(super) platform: Platform,
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

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    digest: Digest,
    #[serde(default)]
    platform: Option<Platform>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct OciIndex {
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct OciManifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

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
        let bytes = self.blob(&descriptor.digest)?;
        let member = blob_member(&descriptor.digest);
        let value: serde_json::Value = parse(&member, &bytes)?;
        if value.get("manifests").is_some() {
            if depth > 3 {
                return Err(LoadError::NotAnImage("indexes are nested too deeply".into()));
            }
            let index: OciIndex = parse(&member, &bytes)?;
            let matching = index.manifests.iter().find(|inner| inner.platform.is_some() && fits(inner));
            let matching = matching.or_else(|| index.manifests.iter().find(|inner| fits(inner)));
            let others: Vec<&Descriptor> = index.manifests.iter().collect();
            return self.image(matching.ok_or_else(|| no_platform(&others))?, depth + 1);
        }
        let manifest: OciManifest = parse(&member, &bytes)?;
        let config = self.blob(&manifest.config.digest)?;
        let layers = manifest.layers.into_iter();
        let layers = layers.map(|layer| (blob_member(&layer.digest), Some(layer.digest))).collect();
        let mut packed = self.packed(manifest.config.digest.as_str(), &config, layers)?;
        packed.description.manifest_digest = Some(descriptor.digest.clone());
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
        Ok(ArchivedImage { description, platform, layers: layers.collect(), names: Vec::new() })
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

/// The path of a blob in an OCI layout.
fn blob_member(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// Returns true if this machine can run the image; attestations and the like have the platform `unknown/unknown`.
fn fits(descriptor: &Descriptor) -> bool {
    descriptor.platform.as_ref().is_none_or(|platform| platform.runs_on(&Platform::machine()))
}

fn no_platform(others: &[&Descriptor]) -> LoadError {
    let known: Vec<String> =
        others.iter().filter_map(|other| other.platform.as_ref()).map(ToString::to_string).collect();
    LoadError::Platform(format!(
        "the archive has no image for {}; its platforms: {}",
        Platform::machine(),
        if known.is_empty() { "none".to_owned() } else { known.join(", ") }
    ))
}

/// Returns the name of an image in an index: containerd's full name, or OCI's unless that is a bare tag.
fn name_of(descriptor: &Descriptor) -> Option<String> {
    let full = descriptor.annotations.get("io.containerd.image.name");
    let short = || {
        let name = descriptor.annotations.get("org.opencontainers.image.ref.name")?;
        name.contains(['/', ':']).then_some(name)
    };
    full.or_else(short).cloned()
}
