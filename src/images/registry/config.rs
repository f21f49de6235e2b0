//! The settings of registries, as written in the configuration file under `registry` (IMG-4).
//!
//! This file holds their shape and validation; the client reads the files that they name.

use std::collections::BTreeMap;
use std::path::PathBuf;

use reqwest::Url;
use serde::{Deserialize, Serialize};

use crate::ImageReference;

/// The settings of images that are neither loaded nor declared.
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
    /// The invalid fields of hosts, each with the reason. The catalogue checks `builtin`, since it knows the images.
    pub fn faults(&self) -> Vec<(String, String)> {
        let mut faults = Vec::new();
        let mut fault = |field: String, reason: String| faults.push((field, reason));
        for (host, settings) in &self.hosts {
            let field = format!("hosts[{host:?}]");
            if !is_host(host) {
                fault(
                    field.clone(),
                    "must be a registry's HOST or HOST:PORT, without a scheme and a path".into(),
                );
            }
            for (number, mirror) in settings.mirrors.iter().enumerate() {
                if let Err(reason) = mirror_url(mirror) {
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

/// Reads a mirror's URL; the result ends with a slash after the prefix of the protocol's paths.
pub(super) fn mirror_url(text: &str) -> Result<Url, String> {
    let mut url = Url::parse(text).map_err(|error| format!("invalid URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err("must be a URL with http:// or https:// and a host".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(
            "must not contain credentials; they come from docker's config.json and pull secrets".into()
        );
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must not have a query or a fragment".into());
    }
    let path = url.path().trim_end_matches('/').to_owned();
    let is_complete = path.split('/').any(|component| component == "v2");
    url.set_path(&if is_complete { format!("{path}/") } else { format!("{path}/v2/") });
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IMG-4, SEC-2: invalid settings are reported with their field.
    #[test]
    fn invalid_settings_are_reported_with_their_field() {
        let table = [
            (r"{}", ""),
            (r#"{"pull":"never","builtin":["docker.io/bitnami/nginx"]}"#, ""),
            (
                r#"{"hosts":{"127.0.0.1:5000":{"insecure":true},"docker.io":{"mirrors":["http://m:1/x"],"ca":"/a"}}}"#,
                "",
            ),
            (r#"{"hosts":{"https://a.io":{}}}"#, r#"hosts["https://a.io"]"#),
            (r#"{"hosts":{"a.io/x":{}}}"#, r#"hosts["a.io/x"]"#),
            (r#"{"hosts":{"nodot":{}}}"#, r#"hosts["nodot"]"#),
            (r#"{"hosts":{"a.io:99999":{}}}"#, r#"hosts["a.io:99999"]"#),
            (r#"{"hosts":{"a.io":{"mirrors":["ftp://b"]}}}"#, r#"hosts["a.io"].mirrors[0]"#),
            (r#"{"hosts":{"a.io":{"mirrors":["http://b","b.io"]}}}"#, r#"hosts["a.io"].mirrors[1]"#),
            (r#"{"hosts":{"a.io":{"mirrors":["http://u:p@b"]}}}"#, r#"hosts["a.io"].mirrors[0]"#),
            (r#"{"hosts":{"a.io":{"mirrors":["http://b?q"]}}}"#, r#"hosts["a.io"].mirrors[0]"#),
            (r#"{"hosts":{"a.io":{"ca":"ca.pem"}}}"#, r#"hosts["a.io"].ca"#),
        ];
        for (text, expect) in table {
            let config: RegistryConfig = serde_json::from_str(text).unwrap();
            let fields: Vec<String> = config.faults().into_iter().map(|(field, _)| field).collect();
            let expect: Vec<&str> = Some(expect).filter(|field| !field.is_empty()).into_iter().collect();
            assert_eq!(fields, expect, "{text}");
        }
        for unknown in [r#"{"pull":"always"}"#, r#"{"hosts":{"a.io":{"username":"x"}}}"#, r#"{"host":{}}"#] {
            assert!(serde_json::from_str::<RegistryConfig>(unknown).is_err(), "{unknown}");
        }
    }

    #[test]
    fn a_mirrors_url_ends_with_the_protocols_prefix_img_4() {
        for (text, expect) in [
            ("http://127.0.0.1:5000", "http://127.0.0.1:5000/v2/"),
            ("https://harbor.io/v2/hub/", "https://harbor.io/v2/hub/"),
            ("https://nexus.io/repository/docker", "https://nexus.io/repository/docker/v2/"),
        ] {
            assert_eq!(mirror_url(text).unwrap().as_str(), expect);
        }
    }
}
