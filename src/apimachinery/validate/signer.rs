//! Names with a domain and a path: of controllers, of certificate signers, and of trust bundles.

use base::quote::quote;

use super::field::{FieldErrors, Path};
use super::names;

/// Validates the name of a controller: `acme.io/foo`.
pub fn domain_prefixed_path(errors: &mut FieldErrors, path: &Path<'_>, text: &str) {
    if text.is_empty() {
        return errors.required(path, "");
    }
    let Some((domain, rest)) = text.split_once('/').filter(|(d, r)| !d.is_empty() && !r.is_empty()) else {
        return errors.invalid(path, text, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    };
    errors.invalid_each(path, domain, names::dns_1123_subdomain(domain));
    if !rest.bytes().all(|c| c.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&c)) {
        errors.invalid(
            path,
            rest,
            "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
        );
    }
}

/// Validates the name of a signer: `example.com/path`.
pub fn signer_name(errors: &mut FieldErrors, path: &Path<'_>, name: &str) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    let Some((domain, rest)) = name.split_once('/').filter(|(_, rest)| !rest.contains('/')) else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return errors.invalid(path, name, detail);
    };
    for label in domain.split('.') {
        for wrong in names::dns_1123_label(label) {
            errors.invalid(path, domain, format!("validating label {}: {wrong}", quote(label)));
        }
    }
    if !domain.contains('.') {
        errors.invalid(path, domain, "should be a domain with at least two segments separated by dots");
    }
    for label in rest.split('.') {
        for wrong in names::dns_1123_subdomain(label) {
            errors.invalid(path, rest, format!("validating label {}: {wrong}", quote(label)));
        }
    }
}

/// Returns the errors of the name of a ClusterTrustBundle: a subdomain, optionally after its signer's name and a colon.
pub(super) fn trust_bundle_name(name: &str) -> Vec<String> {
    names::dns_1123_subdomain(name.rsplit_once(':').map_or(name, |(_, rest)| rest))
}
