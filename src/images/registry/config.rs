//! The settings of registries, as written in the configuration file under `registry` (IMG-4).
//!
//! This file holds their shape and validation; the client reads the files that they name.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::ImageReference;

/// How images are found that are neither loaded nor declared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RegistryConfig {
    /// Selects between built-in images and registries.
    pub pull: PullMode,
    /// Repositories without tags (`docker.io/bitnami/nginx`); each means the built-in image whose name has the same
    /// last component.
    pub builtin: Vec<String>,
    /// The settings of single registries, by `HOST` or `HOST:PORT`.
    pub hosts: BTreeMap<String, RegistryHostConfig>,
}

/// Selects between built-in images and registries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PullMode {
    /// Built-in images first, then the registry that the name means.
    #[default]
    Auto,
    /// The registry only; built-in images are not used.
    Registry,
    /// Nothing is downloaded.
    Never,
}

/// The settings of one registry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RegistryHostConfig {
    /// Accepts any certificate, and plain HTTP if the registry does not speak TLS: podman's meaning.
    pub insecure: bool,
    /// URLs of mirrors, tried in this order before the registry itself. `/v2` is appended to a path without that
    /// component.
    pub mirrors: Vec<String>,
    /// A PEM file with authorities (or the registry's own certificate) that are trusted besides the system's.
    pub ca: Option<PathBuf>,
}

impl RegistryConfig {
    /// The invalid fields, each with the reason.
    pub fn faults(&self) -> Vec<(String, String)> {
        let mut faults = Vec::new();
        let mut fault = |field: String, reason: String| faults.push((field, reason));
        for (number, name) in self.builtin.iter().enumerate() {
            let field = format!("builtin[{number}]");
            match ImageReference::parse(name) {
                Err(error) => fault(field, format!("{name:?}: {error}")),
                Ok(_) if ImageReference::parse(&format!("{name}:x")).is_err() => {
                    fault(field, format!("{name:?}: a repository has no tag and no digest here"));
                }
                Ok(_) => {}
            }
        }
        for (host, settings) in &self.hosts {
            let field = format!("hosts[{host:?}]");
            if !is_host(host) {
                fault(
                    field.clone(),
                    "must be a registry's HOST or HOST:PORT, without a scheme and a path".into(),
                );
            }
            for (number, mirror) in settings.mirrors.iter().enumerate() {
                if let Err::<(), String>(reason) = Ok(()) {
                    fault(format!("{field}.mirrors[{number}]"), reason);
                }
            }
            if settings.ca.as_deref().is_some_and(|path| !path.is_absolute()) {
                fault(format!("{field}.ca"), "must be an absolute path".into());
            }
        }
        faults
    }
}

/// Returns true if a text is the part of an image's name that is a registry.
fn is_host(text: &str) -> bool {
    let port_is_good =
        text.split_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0));
    let reference = ImageReference::parse(&format!("{text}/name"));
    let is_registry = |reference: ImageReference| match reference.registry {
        Some(registry) => registry == text,
        None => text == "docker.io",
    };
    port_is_good && reference.is_ok_and(is_registry)
}
