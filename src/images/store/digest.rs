//! Digests, and the identity of a layer in the store.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use base::hex::hex;

/// A sha256 digest, `sha256:HEX`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

/// The text is no sha256 digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid sha256 digest {0:?}")]
pub struct InvalidDigest(String);

impl Digest {
    /// Reads `sha256:HEX` with 64 lowercase digits.
    pub fn parse(text: &str) -> Result<Self, InvalidDigest> {
        let is_digest = text.strip_prefix("sha256:").is_some_and(is_hex);
        if is_digest {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidDigest(text.chars().take(100).collect()))
        }
    }

    /// The digest of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(format!("sha256:{}", hex(Sha256::digest(bytes))))
    }

    /// The digest of the bytes that were hashed.
    pub(super) fn finish(hash: Sha256) -> Self {
        Self(format!("sha256:{}", hex(hash.finalize())))
    }

    /// `sha256:HEX`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part after `sha256:`.
    pub fn hex(&self) -> &str {
        &self.0["sha256:".len()..]
    }
}

/// The sha256 digest of bytes, as text.
pub(crate) fn digest_of(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string()
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        Self::parse(&text)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

/// Returns true for 64 lowercase hexadecimal digits.
pub(super) fn is_hex(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The identity of a layer in the store: the chain id of OCI's image specification, which covers the layer and all
/// layers below it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChainId(Digest);

impl ChainId {
    /// The chain id of a layer (by the digest of its uncompressed tar stream) over another.
    pub fn over(below: Option<&Self>, diff_id: &Digest) -> Self {
        match below {
            None => Self(diff_id.clone()),
            Some(below) => Self(Digest::of(format!("{} {diff_id}", below.0).as_bytes())),
        }
    }

    /// The id's digits.
    pub(super) fn hex(&self) -> &str {
        self.0.hex()
    }
}
