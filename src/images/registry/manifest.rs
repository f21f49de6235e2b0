//! Resolves a reference to the manifest and configuration of the image for this machine (IMG-4).
//!
//! Every document is limited and checked against its digest before it is parsed.

use futures::FutureExt;
use http::HeaderName;
use http::header::CONTENT_TYPE;
use reqwest::{Method, Response};
use serde::Deserialize;

use crate::store::{Descriptor, INDEX_DEPTH, OciIndex, OciManifest, Platform, RootFs};

use super::authorization::Access;
use super::content::{Digester, MANIFEST_TYPES, digest_like};
use super::endpoint::Endpoint;
use super::error::{RegistryError, shown_text};
use super::transport::{Call, header};
use super::{Remote, RemoteImage};

/// The maximum size of a manifest or index. The distribution specification asks registries to accept 4 MiB and lets
/// them refuse more.
const MANIFEST_BYTES: usize = 4 << 20;
/// The maximum size of a configuration. The specifications have no limit; large ones have labels of several 100 KiB.
const CONFIGURATION_BYTES: usize = 4 << 20;

const CONTENT_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

/// The image of a reference for this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteManifest {
    /// The digest that the reference means: of the index, or of the manifest without one. `imageID` and
    /// `imagePullPolicy: Always` use it.
    pub digest: String,
    /// The digest of the manifest for this machine.
    pub manifest_digest: String,
    /// The digest of the configuration, which is the image's id.
    pub config_digest: String,
    /// The configuration as it is.
    pub config: Vec<u8>,
    /// The layers, the lowest first. The same layer may occur several times.
    pub layers: Vec<RemoteLayer>,
    /// The name of the server that has it, for messages: a mirror's URL, or the registry.
    pub origin: String,
}

/// A layer in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteLayer {
    /// The digest of the layer as it is stored.
    pub digest: String,
    /// The size of the layer as it is stored, in bytes.
    pub size: u64,
    /// The media type, which names the compression.
    pub media_type: String,
    /// The digest of the layer's uncompressed content.
    pub diff_id: String,
}

/// A manifest or index with its checked digest.
struct Document {
    digest: String,
    media_type: String,
    bytes: Vec<u8>,
}

impl RemoteImage {
    /// Returns the digest that the reference means now, without reading the manifest if the registry allows it.
    pub async fn digest(&self) -> Result<String, RegistryError> {
        let found = self.0.try_endpoints(|endpoint| self.0.digest_at(endpoint).boxed()).await;
        found.map_err(|error| error.resolving(&self.0.name))
    }

    /// Finds the image for this machine.
    pub async fn manifest(&self) -> Result<RemoteManifest, RegistryError> {
        self.manifest_for(&Platform::machine()).await
    }

    pub(super) async fn manifest_for(&self, machine: &Platform) -> Result<RemoteManifest, RegistryError> {
        let found = self.0.try_endpoints(|endpoint| self.0.manifest_at(endpoint, machine).boxed()).await;
        found.map_err(|error| error.resolving(&self.0.name))
    }
}

impl Remote {
    /// The part of a manifest's URL: the digest if the reference has one.
    fn manifest_path(&self) -> String {
        let tag = self.reference.tag.as_deref().unwrap_or("latest");
        format!("manifests/{}", self.reference.digest.as_deref().unwrap_or(tag))
    }

    async fn digest_at(&self, endpoint: &Endpoint) -> Result<String, RegistryError> {
        if let Some(digest) = &self.reference.digest {
            return Ok(digest.clone());
        }
        let head = |url| Call::new(Method::HEAD, url).accept(MANIFEST_TYPES);
        match self.get(endpoint, &self.name, head, &self.manifest_path()).await {
            Ok(response) => {
                let digest = header(response.headers(), &CONTENT_DIGEST);
                if Digester::of(digest).is_some() {
                    return Ok(digest.to_owned());
                }
            }
            // Some registries know no HEAD.
            Err(RegistryError::Status { status, .. }) if matches!(status.as_u16(), 400 | 405 | 501) => {}
            Err(error) => return Err(error),
        }
        let document = self.document(endpoint, &self.name, &self.manifest_path(), None).await?;
        Ok(document.digest)
    }

    async fn get(
        &self,
        endpoint: &Endpoint,
        subject: &str,
        make: impl Fn(reqwest::Url) -> Call,
        path: &str,
    ) -> Result<Response, RegistryError> {
        let shared = &self.shared;
        endpoint.send(&shared.transport, &shared.authorizations, subject, Access::Pull, make, path).await
    }

    /// Reads a manifest or index. An expected digest comes from a reference or an index.
    async fn document(
        &self,
        endpoint: &Endpoint,
        subject: &str,
        path: &str,
        expected: Option<&str>,
    ) -> Result<Document, RegistryError> {
        let response = self.get(endpoint, subject, |url| Call::get(url).accept(MANIFEST_TYPES), path).await?;
        let media_type = header(response.headers(), &CONTENT_TYPE);
        let media_type = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if media_type == "text/html" {
            return Err(RegistryError::invalid(
                subject,
                "the answer is an HTML page and not a manifest; the address may be that of a proxy or a website",
            ));
        }
        let stated = header(response.headers(), &CONTENT_DIGEST).to_owned();
        let bytes = self.shared.transport.body(subject, MANIFEST_BYTES, response).await?;
        let expected = expected.or_else(|| Digester::of(&stated).is_some().then_some(stated.as_str()));
        let digest = check_digest(subject, expected, &bytes)?;
        Ok(Document { digest, media_type, bytes })
    }

    async fn manifest_at(
        &self,
        endpoint: &Endpoint,
        machine: &Platform,
    ) -> Result<RemoteManifest, RegistryError> {
        let top = self
            .document(endpoint, &self.name, &self.manifest_path(), self.reference.digest.as_deref())
            .await?;
        let digest = top.digest.clone();
        let mut document = top;
        let mut depth = 0;
        let manifest = loop {
            match document.parse(&self.name)? {
                ParsedDocument::Manifest(manifest) => break manifest,
                ParsedDocument::Index(index) => {
                    if depth > INDEX_DEPTH {
                        return Err(RegistryError::invalid(&self.name, "indexes are nested too deeply"));
                    }
                    depth += 1;
                    let chosen = index.choose(machine).ok_or_else(|| {
                        RegistryError::Platform(format!(
                            "no match for platform in manifest: the image is not for {machine}; its platforms: {}",
                            shown_text(&index.platforms(), 300)
                        ))
                    })?;
                    let subject = format!("the manifest {} of {}", shown_digest(chosen)?, self.name);
                    let path = format!("manifests/{}", chosen.digest);
                    document = self.document(endpoint, &subject, &path, Some(&chosen.digest)).await?;
                    check_size(&subject, chosen.size, document.bytes.len() as u64)?;
                }
            }
        };
        let manifest_digest = document.digest;
        let config = self.configuration(endpoint, &manifest.config).await?;
        let layers = self.layers(&manifest, &config)?;
        Ok(RemoteManifest {
            digest,
            manifest_digest,
            config_digest: manifest.config.digest,
            config,
            layers,
            origin: endpoint.name.clone(),
        })
    }

    async fn configuration(
        &self,
        endpoint: &Endpoint,
        descriptor: &Descriptor,
    ) -> Result<Vec<u8>, RegistryError> {
        let subject = format!("the configuration {} of {}", shown_digest(descriptor)?, self.name);
        if descriptor.size.is_some_and(|size| size > CONFIGURATION_BYTES as u64) {
            return Err(RegistryError::TooLarge {
                subject,
                reason: format!("it has more than {CONFIGURATION_BYTES} bytes"),
            });
        }
        let path = format!("blobs/{}", descriptor.digest);
        let response = self.get(endpoint, &subject, Call::get, &path).await?;
        let bytes = self.shared.transport.body(&subject, CONFIGURATION_BYTES, response).await?;
        check_digest(&subject, Some(&descriptor.digest), &bytes)?;
        check_size(&subject, descriptor.size, bytes.len() as u64)?;
        Ok(bytes)
    }

    /// Joins the layers of the manifest with those of the configuration.
    fn layers(&self, manifest: &OciManifest, config: &[u8]) -> Result<Vec<RemoteLayer>, RegistryError> {
        #[derive(Deserialize)]
        struct Configuration {
            rootfs: RootFs,
        }
        let invalid = |reason: String| RegistryError::invalid(&self.name, reason);
        let configuration: Configuration = serde_json::from_slice(config).map_err(|error| {
            let kind = shown_text(&manifest.config.media_type, 100);
            invalid(format!(
                "its configuration ({kind}) is not that of a container image: {}",
                json_fault(&error)
            ))
        })?;
        let limits = &self.shared.limits;
        let diff_ids = configuration.rootfs.diff_ids;
        if manifest.layers.len() > limits.layers {
            return Err(RegistryError::TooLarge {
                subject: self.name.clone(),
                reason: format!(
                    "it has {} layers, and at most {} are allowed",
                    manifest.layers.len(),
                    limits.layers
                ),
            });
        }
        if diff_ids.len() != manifest.layers.len() {
            return Err(invalid(format!(
                "its configuration lists {} layers, but its manifest lists {}",
                diff_ids.len(),
                manifest.layers.len()
            )));
        }
        let mut total = 0_u64;
        let mut layers = Vec::new();
        for (layer, diff_id) in manifest.layers.iter().zip(diff_ids) {
            let digest = shown_digest(layer)?;
            if Digester::of(&diff_id).is_none() {
                return Err(invalid(format!("layer {digest} has an invalid diff id")));
            }
            let media_type = shown_text(&layer.media_type, 200);
            if media_type.ends_with("+encrypted") {
                return Err(invalid(format!("layer {digest} is encrypted, which is not supported")));
            }
            let size = layer.size.ok_or_else(|| invalid(format!("layer {digest} has no size")))?;
            total = total.saturating_add(size);
            layers.push(RemoteLayer { digest: digest.to_owned(), size, media_type, diff_id });
        }
        if total > limits.unpacked_bytes {
            return Err(RegistryError::TooLarge {
                subject: self.name.clone(),
                reason: format!(
                    "its layers have {total} bytes, and at most {} are allowed",
                    limits.unpacked_bytes
                ),
            });
        }
        Ok(layers)
    }
}

enum ParsedDocument {
    Index(OciIndex),
    Manifest(OciManifest),
}

impl Document {
    /// Reads the document as its media type says. A document that is an index and a manifest at once is refused: its
    /// digest would not say what it means.
    fn parse(&self, name: &str) -> Result<ParsedDocument, RegistryError> {
        /// The fields that tell the kinds apart; their content is skipped.
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Outline {
            #[serde(default)]
            schema_version: Option<u64>,
            #[serde(default)]
            media_type: Option<String>,
            #[serde(default)]
            manifests: Option<serde::de::IgnoredAny>,
            #[serde(default)]
            layers: Option<serde::de::IgnoredAny>,
            #[serde(default)]
            fs_layers: Option<serde::de::IgnoredAny>,
        }
        let invalid = |reason: String| RegistryError::invalid(name, reason);
        let outline: Outline = serde_json::from_slice(&self.bytes).map_err(|error| {
            let kind = match self.media_type.as_str() {
                "" => String::new(),
                kind => format!(" ({})", shown_text(kind, 100)),
            };
            invalid(format!("the answer{kind} is not a manifest: {}", json_fault(&error)))
        })?;
        let is_version_1 = self.media_type.starts_with("application/vnd.docker.distribution.manifest.v1+");
        if is_version_1 || outline.schema_version == Some(1) || outline.fs_layers.is_some() {
            return Err(RegistryError::SchemaVersion1(name.to_owned()));
        }
        let stated = outline.media_type.unwrap_or_default();
        let is_known = self.media_type.starts_with("application/vnd.");
        if is_known && !stated.is_empty() && stated != self.media_type {
            return Err(invalid(format!(
                "the manifest says that it is {}, but the registry says {}",
                shown_text(&stated, 100),
                shown_text(&self.media_type, 100)
            )));
        }
        let unreadable =
            |error: serde_json::Error| invalid(format!("the manifest is invalid: {}", json_fault(&error)));
        match (outline.manifests.is_some(), outline.layers.is_some()) {
            (true, true) => Err(invalid("the document is a manifest and an index at once".into())),
            (true, false) => {
                serde_json::from_slice(&self.bytes).map(ParsedDocument::Index).map_err(unreadable)
            }
            (false, true) => {
                serde_json::from_slice(&self.bytes).map(ParsedDocument::Manifest).map_err(unreadable)
            }
            (false, false) => Err(invalid(format!(
                "the document ({}) is neither a manifest nor an index of images",
                shown_text(&self.media_type, 100)
            ))),
        }
    }
}

/// The place and kind of a defect, printable: serde quotes values of the document.
fn json_fault(error: &serde_json::Error) -> String {
    shown_text(&error.to_string(), 200)
}

/// A descriptor's digest if it has one that can be a part of a URL.
fn shown_digest(descriptor: &Descriptor) -> Result<&str, RegistryError> {
    match Digester::of(&descriptor.digest) {
        Some(_) => Ok(&descriptor.digest),
        None => Err(RegistryError::invalid(
            "the manifest",
            format!("invalid digest {}", base::quote::quote(&shown_text(&descriptor.digest, 100))),
        )),
    }
}

/// Returns the digest of a document after a check; sha256 if none is expected.
fn check_digest(subject: &str, expected: Option<&str>, bytes: &[u8]) -> Result<String, RegistryError> {
    let Some(expected) = expected else { return Ok(crate::store::digest_of(bytes)) };
    let actual = digest_like(expected, bytes).ok_or_else(|| {
        RegistryError::invalid(subject, format!("invalid digest {}", shown_text(expected, 150)))
    })?;
    if actual == expected {
        Ok(actual)
    } else {
        Err(RegistryError::Digest { subject: subject.to_owned(), expected: expected.to_owned(), actual })
    }
}

fn check_size(subject: &str, stated: Option<u64>, actual: u64) -> Result<(), RegistryError> {
    match stated {
        Some(stated) if stated != actual => Err(RegistryError::invalid(
            subject,
            format!("it has {actual} bytes, but its descriptor says {stated}"),
        )),
        _ => Ok(()),
    }
}
