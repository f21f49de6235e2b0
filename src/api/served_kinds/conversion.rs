//! The conversion of custom objects between versions, read from their definition.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, WebhookConversion,
};
use tokio::sync::Semaphore;

use crate::webhook_client::{Callee, ServiceTarget, Target};

/// The maximum number of concurrent conversion calls of one definition for reads. Writes have a separate limit of the
/// same number. Further calls wait without occupying a thread. The memory of each call is bounded too (`conversion`).
const MAX_CALLS: usize = 8;

/// The conversion strategy of a definition.
pub enum Conversion {
    /// All versions have the same fields.
    None,
    /// A user's webhook server converts objects.
    Webhook(Box<ConversionWebhook>),
}

/// A conversion webhook.
pub struct ConversionWebhook {
    /// The address of the server, or the reason why it cannot be called.
    pub(crate) target: Result<Target, String>,
    /// The review versions that the server accepts, in order of its preference.
    pub(crate) review_versions: Vec<String>,
    /// Limits concurrent calls for reads, which wait for a permit without occupying a thread.
    pub(crate) permits: Semaphore,
    /// The identity under which writes wait in the webhook queue (`apiserver::webhook_queue`).
    pub callee: Callee,
}

impl Conversion {
    /// Reads the conversion of the definition with this name.
    pub(super) fn of(definition: &str, conversion: Option<&CustomResourceConversion>) -> Self {
        match conversion.filter(|conversion| conversion.strategy == "Webhook") {
            Some(conversion) => {
                Self::Webhook(Box::new(ConversionWebhook::of(definition, conversion.webhook.as_ref())))
            }
            None => Self::None,
        }
    }
}

impl ConversionWebhook {
    fn of(definition: &str, webhook: Option<&WebhookConversion>) -> Self {
        let config = webhook.and_then(|webhook| webhook.client_config.as_ref());
        let service = config.and_then(|config| config.service.as_ref()).map(|service| ServiceTarget {
            namespace: service.namespace.clone(),
            name: service.name.clone(),
            path: service.path.clone(),
            port: service.port,
        });
        let url = config.and_then(|config| config.url.as_deref());
        let bundle = config.and_then(|config| config.ca_bundle.as_ref()).map_or(&[][..], |bundle| &bundle.0);
        Self {
            target: Target::new(url, service, bundle),
            review_versions: webhook
                .map(|webhook| webhook.conversion_review_versions.clone())
                .unwrap_or_default(),
            permits: Semaphore::new(MAX_CALLS),
            callee: Callee::new(format!("definition/{definition}"), MAX_CALLS),
        }
    }
}
