//! The properties of credentials and challenges, for `lab::fuzz`: any text is read without a panic, and what does not
//! match gets no credential.

use super::auth_entries::ImagePattern;
use super::challenge::challenges;
use super::{Keyring, RegistryConfig};

/// Input: a `WWW-Authenticate` header, a key of `auths`, the name of an image, and the content of a pull secret, each
/// on its own line; the secret takes the rest.
pub fn credentials(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.splitn(4, '\n');
    let mut next = || lines.next().unwrap_or_default();
    let (header, key, target, secret) = (next(), next(), next(), next());
    for challenge in challenges(header) {
        assert!(!challenge.scheme.is_empty() && !challenge.scheme.contains(|c: char| c.is_ascii_uppercase()));
    }
    let pattern = ImagePattern::new(key);
    if pattern.matches(target) && !key.contains(['*', '?', '[', '\\']) {
        let prefix = target.split('/').next().unwrap_or_default();
        assert!(key.contains(prefix) || prefix == "docker.io", "{key:?} {target:?}");
    }
    let mut keyring = Keyring::new();
    // A secret with defects is refused.
    let _ = keyring.add_docker_config_json(secret.as_bytes());
    let _ = keyring.add_docker_cfg(secret.as_bytes());
    if let Ok(config) = serde_json::from_str::<RegistryConfig>(secret) {
        config.faults();
    }
}
