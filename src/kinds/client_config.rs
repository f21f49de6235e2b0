//! Rules of `clientConfig`, the address of a webhook, in admission webhook configurations and in CRDs.

use std::collections::HashSet;

use apimachinery::validate::{FieldErrors, Path, names};

/// The review versions that Kubernetes sends.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// The service that receives a webhook's calls.
pub(super) struct ServiceView<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) path: Option<&'a str>,
    pub(super) port: Option<i32>,
}

/// Validates a `clientConfig`.
pub(super) fn validate(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    url: Option<&str>,
    service: Option<ServiceView<'_>>,
) {
    match (url, service) {
        (Some(_), Some(_)) | (None, None) => {
            errors.required(path, "exactly one of url or service is required");
        }
        (Some(url), None) => {
            if let Err(fault) = check_url(url) {
                errors.invalid(
                    &path.child("url"),
                    url,
                    format!("{fault}; desired format: https://host[/path]"),
                );
            }
        }
        (None, Some(service)) => {
            let path = path.child("service");
            for (field, value) in [("name", service.name), ("namespace", service.namespace)] {
                if value.is_empty() {
                    errors.required(&path.child(field), format!("service {field} is required"));
                }
            }
            if let Some(port) = service.port {
                let at = path.child("port");
                if !names::port_number(port.into()).is_empty() {
                    errors.invalid(&at, &port, "port is not valid: must be between 1 and 65535, inclusive");
                }
            }
            if let Some(text) = service.path.filter(|text| !text.is_empty() && *text != "/") {
                service_path(errors, &path.child("path"), text);
            }
        }
    }
}

/// Validates the review versions that a webhook accepts. `missing` is the error's detail if the list is empty;
/// `must_be_supported` requires at least one of the versions that Kubernetes sends.
pub(super) fn review_versions(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    versions: &[String],
    missing: &str,
    must_be_supported: bool,
) {
    if versions.is_empty() {
        return errors.required(path, missing);
    }
    let mut seen = HashSet::new();
    for (at, version) in path.each(versions.iter()) {
        if seen.insert(version) {
            errors.invalid_each(&at, version, names::dns_1035_label(version));
        } else {
            errors.invalid(&at, version, "duplicate version");
        }
    }
    if must_be_supported && !has_supported_version(versions) {
        let detail = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.invalid(path, &versions.to_vec(), detail);
    }
}

/// Returns whether the list has a review version that Kubernetes sends.
pub(super) fn has_supported_version(versions: &[String]) -> bool {
    versions.iter().any(|version| REVIEW_VERSIONS.contains(&version.as_str()))
}

/// Validates the path of a service: each segment is a DNS subdomain.
fn service_path(errors: &mut FieldErrors, path: &Path<'_>, text: &str) {
    if text == "//" {
        return errors.invalid(path, text, "segment[0] may not be empty");
    }
    if !text.starts_with('/') {
        errors.invalid(path, text, "must start with a '/'");
    }
    // Kubernetes skips the first character even if it is not a slash.
    let rest = text.get(text.chars().next().map_or(0, char::len_utf8)..).unwrap_or_default();
    for (i, segment) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if segment.is_empty() {
            errors.invalid(path, text, format!("segment[{i}] may not be empty"));
            continue;
        }
        for wrong in names::dns_1123_subdomain(segment) {
            errors.invalid(path, text, format!("segment[{i}]: {wrong}"));
        }
    }
}

/// Checks a webhook's URL.
fn check_url(text: &str) -> Result<(), String> {
    let url: http::Uri = text.parse().map_err(|error| format!("url must be a valid URL: {error}"))?;
    if url.scheme_str() != Some("https") {
        let scheme = url.scheme_str().unwrap_or_default();
        return Err(format!("'https' is the only allowed URL scheme; got {scheme:?}"));
    }
    if url.host().is_none_or(str::is_empty) {
        return Err("host must be specified".into());
    }
    if url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("user information is not permitted in the URL".into());
    }
    if text.contains('#') {
        return Err("fragments are not permitted in the URL".into());
    }
    if url.query().is_some() {
        return Err("query parameters are not permitted in the URL".into());
    }
    Ok(())
}
