//! Names of signers of certificates, and of the bundles of what they sign.

use base::quote::quote;

use super::field::{FieldErrors, Path};
use super::names;

/// The name of a signer: `example.com/path`.
pub(crate) fn signer_name(errors: &mut FieldErrors, path: &Path<'_>, name: &str) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    let Some((domain, rest)) = name.split_once('/').filter(|(_, rest)| !rest.contains('/')) else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return errors.invalid(path, name, why);
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

/// Returns the errors of the name of a ClusterTrustBundle: a subdomain, perhaps after its signer's name and a colon.
pub(super) fn trust_bundle_name(name: &str) -> Vec<String> {
    names::dns_1123_subdomain(name.rsplit_once(':').map_or(name, |(_, rest)| rest))
}
