//! An image's configuration: the document whose digest is the image's id.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::bounded_list::bounded;
use super::digest::Digest;
use super::platform::Platform;
use super::provenance::Provenance;

/// An image's description, without its layers.
#[derive(Clone, Debug)]
pub struct ImageDescription {
    /// The digest of its configuration.
    pub id: Digest,
    /// The digest of its manifest, if it is known.
    pub manifest_digest: Option<Digest>,
    /// `linux/amd64`.
    pub platform: String,
    /// The way it comes here.
    pub provenance: Provenance,
    /// The process it runs.
    pub run: RunConfig,
    /// The time at which it was built, by its own account.
    pub created: Option<Timestamp>,
}

impl ImageDescription {
    /// Reads an image's configuration; also returns the platform and the digests of the layers' tar streams, the lowest
    /// one first.
    pub fn read(configuration: &[u8]) -> Result<(Self, Platform, Vec<Digest>), serde_json::Error> {
        let Configuration { platform, config, rootfs, created } = serde_json::from_slice(configuration)?;
        let description = Self {
            id: Digest::of(configuration),
            manifest_digest: None,
            platform: platform.to_string(),
            provenance: Provenance::Loaded,
            run: config.unwrap_or_default(),
            // Nothing depends on it: a time that cannot be read is no reason to refuse the image.
            created: created.as_ref().and_then(|time| time.as_str()?.parse().ok()),
        };
        let diff_ids: Result<Vec<Digest>, _> =
            rootfs.diff_ids.into_iter().map(|text| Digest::parse(&text)).collect();
        Ok((description, platform, diff_ids.map_err(<serde_json::Error as serde::de::Error>::custom)?))
    }
}

/// The process that a container of the image runs, by the image's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all(serialize = "camelCase", deserialize = "PascalCase"), default)]
pub struct RunConfig {
    /// The program and its fixed arguments.
    #[serde(deserialize_with = "or_default", alias = "entrypoint")]
    pub entrypoint: Vec<String>,
    /// The default arguments.
    #[serde(deserialize_with = "or_default", alias = "cmd")]
    pub cmd: Vec<String>,
    /// `NAME=value`.
    #[serde(deserialize_with = "or_default", alias = "env")]
    pub env: Vec<String>,
    /// The working directory.
    #[serde(deserialize_with = "or_default", alias = "workingDir")]
    pub working_dir: String,
    /// `user[:group]`, names or numbers.
    #[serde(deserialize_with = "or_default", alias = "user")]
    pub user: String,
    /// The signal that stops it, by name or number.
    #[serde(deserialize_with = "or_default", alias = "stopSignal")]
    pub stop_signal: String,
    /// `80/tcp` and the like: stored with the image, but without effect.
    #[serde(deserialize_with = "or_default", alias = "exposedPorts")]
    pub exposed_ports: BTreeMap<String, serde_json::Value>,
    /// Its labels: stored with the image, but without effect.
    #[serde(deserialize_with = "or_default", alias = "labels")]
    pub labels: BTreeMap<String, String>,
}

/// `null` counts as absent.
fn or_default<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

#[derive(Deserialize)]
struct Configuration {
    #[serde(flatten)]
    platform: Platform,
    #[serde(default)]
    config: Option<RunConfig>,
    rootfs: RootFs,
    #[serde(default)]
    created: Option<serde_json::Value>,
}

/// The layers that a configuration names.
#[derive(Debug, Deserialize)]
pub(crate) struct RootFs {
    /// The digests of the layers' uncompressed content.
    #[serde(deserialize_with = "bounded")]
    pub(crate) diff_ids: Vec<String>,
}
