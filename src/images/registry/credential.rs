//! Credentials for registries, which no message and no `Debug` shows.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// A text that `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl SecretText {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// One way to prove to a registry who the client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A user's name and password.
    Password {
        /// The user.
        username: String,
        /// The password.
        password: SecretText,
    },
    /// An OAuth2 refresh token, which the token server exchanges for access tokens.
    IdentityToken(SecretText),
    /// An access token for the registry itself.
    RegistryToken(SecretText),
}

impl Credential {
    /// Identifies the credential without holding it.
    pub(super) fn fingerprint(credential: Option<&Self>) -> [u8; 32] {
        let parts = match credential {
            None => ["none", "", ""],
            Some(Self::Password { username, password }) => ["password", username, password.reveal()],
            Some(Self::IdentityToken(token)) => ["identity", token.reveal(), ""],
            Some(Self::RegistryToken(token)) => ["registry", token.reveal(), ""],
        };
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }

    /// The value of an `Authorization` header for Basic authentication.
    pub(super) fn basic(username: &str, password: &SecretText) -> String {
        format!("Basic {}", STANDARD.encode(format!("{username}:{}", password.reveal())))
    }
}

/// The reason why a credential cannot be used. None contains a part of the credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// The content is not docker's format.
    #[error("{subject} is not a valid docker configuration: {reason}")]
    Format {
        /// The secret's key or the file.
        subject: String,
        /// The place of the defect.
        reason: String,
    },
    /// The file exists, but cannot be read.
    #[error("cannot read {path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// The reason.
        reason: String,
    },
    /// A credential helper failed.
    #[error("credential helper {helper}: {reason}")]
    Helper {
        /// The program's name.
        helper: String,
        /// The reason.
        reason: String,
    },
}
