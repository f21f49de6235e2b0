//! Digests of downloaded content, and the media types of the documents.

use sha2::{Digest, Sha256, Sha512};

use base::hex::hex;

/// The media types of manifests and indexes that this client reads, in the order of preference.
pub(super) const MANIFEST_TYPES: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.docker.distribution.manifest.v2+json, */*;q=0.1";

pub(super) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";

/// Computes a digest with the algorithm of an expected one.
pub(super) enum Digester {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Digester {
    /// Begins with the algorithm of `ALGORITHM:HEX`; `None` if the digest is malformed or its algorithm unknown.
    pub(super) fn of(digest: &str) -> Option<Self> {
        let (algorithm, hex) = digest.split_once(':')?;
        let is_hex = hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        match (algorithm, hex.len()) {
            ("sha256", 64) if is_hex => Some(Self::Sha256(Sha256::new())),
            ("sha512", 128) if is_hex => Some(Self::Sha512(Sha512::new())),
            _ => None,
        }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hash) => hash.update(bytes),
            Self::Sha512(hash) => hash.update(bytes),
        }
    }

    /// Ends with `ALGORITHM:HEX`.
    pub(super) fn finish(self) -> String {
        match self {
            Self::Sha256(hash) => format!("sha256:{}", hex(hash.finalize())),
            Self::Sha512(hash) => format!("sha512:{}", hex(hash.finalize())),
        }
    }
}

/// The digest of a document with the algorithm of an expected one.
pub(super) fn digest_like(expected: &str, bytes: &[u8]) -> Option<String> {
    let mut digester = Digester::of(expected)?;
    digester.update(bytes);
    Some(digester.finish())
}
