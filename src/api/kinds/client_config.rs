//! Who answers a webhook's calls, as configurations of admission and definitions of custom resources say it.

use crate::validate::{FieldErrors, Path, names};

/// A service that answers.
pub(super) struct ServiceView<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) path: Option<&'a str>,
    pub(super) port: Option<i32>,
}

/// Finds the faults of a `clientConfig`.
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
                let at = path.child("path");
                if !text.starts_with('/') {
                    errors.invalid(&at, text, "must start with a '/'");
                }
                if text.contains("//") {
                    errors.invalid(&at, text, "segment[1] may not be empty");
                }
            }
        }
    }
}

/// The fault of a webhook's URL.
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
