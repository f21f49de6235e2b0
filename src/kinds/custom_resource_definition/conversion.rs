//! Validation of the `conversion` of a CRD. The field paths are those of Kubernetes' internal version.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, WebhookClientConfig, WebhookConversion,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::client_config::{self, ServiceView};
use apimachinery::validate::{FieldErrors, Path};

/// Validates the conversion of a definition; `old` is its previous conversion.
pub(super) fn validate(
    conversion: &CustomResourceConversion,
    old: Option<&CustomResourceConversion>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    errors.required_one_of(&path.child("strategy"), Some(&conversion.strategy), &["None", "Webhook"]);
    let webhook = conversion.webhook.as_ref();
    let config = webhook.and_then(|webhook| webhook.client_config.as_ref());
    let (at, at_versions) = (path.child("webhookClientConfig"), path.child("conversionReviewVersions"));
    let versions = webhook.map_or(&[][..], |webhook| &webhook.conversion_review_versions);
    if conversion.strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if config.is_some() {
            errors.forbidden(&at, detail);
        }
        if !versions.is_empty() {
            errors.forbidden(&at_versions, detail);
        }
        return;
    }
    let old = old.and_then(|old| old.webhook.as_ref());
    match config {
        None => errors.required(&at, "required when strategy is set to Webhook"),
        Some(config) => client(config, old, &at, errors),
    }
    let must_be_known =
        old.is_none_or(|old| client_config::has_supported_version(&old.conversion_review_versions));
    client_config::review_versions(errors, &at_versions, versions, "", must_be_known);
}

fn client(
    config: &WebhookClientConfig,
    old: Option<&WebhookConversion>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let service = config.service.as_ref().map(|service| ServiceView {
        namespace: &service.namespace,
        name: &service.name,
        path: service.path.as_deref(),
        port: service.port,
    });
    client_config::validate(errors, path, config.url.as_deref(), service);
    // A readable CA bundle cannot be replaced by an unreadable one. A new definition may have an unreadable
    // placeholder, which a controller such as cert-manager replaces later.
    let had = old.and_then(|old| old.client_config.as_ref());
    if had.is_some_and(can_be_read) && !can_be_read(config) {
        let detail =
            "unable to load root certificates: data does not contain any valid RSA or ECDSA certificates";
        errors.invalid_itself(&path.child("caBundle"), detail);
    }
}

fn can_be_read(config: &WebhookClientConfig) -> bool {
    let bundle = config.ca_bundle.as_ref().map_or(&[][..], |bundle| &bundle.0);
    bundle.is_empty() || CertificateDer::pem_slice_iter(bundle).any(|certificate| certificate.is_ok())
}
