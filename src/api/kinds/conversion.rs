//! How objects get from one version of their definition to another, as the definition says it.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, WebhookConversion,
};
use tokio::sync::Semaphore;

use crate::webhook_client::{Party, ServiceTarget, Target};

/// Calls for reads that one definition may have under way, and as many writes; the next ones wait without a thread. What
/// each holds is bounded (`conversion`).
const MAX_TURNS: usize = 8;

/// How objects get from one version to another.
pub(crate) enum Conversion {
    /// All versions have the same fields.
    None,
    /// A server of somebody else's converts them.
    Webhook(Box<ConversionWebhook>),
}

/// The server that converts.
pub(crate) struct ConversionWebhook {
    /// Or why it cannot be called.
    pub(crate) target: Result<Target, String>,
    /// The forms of a review that it reads, the one it likes best first.
    pub(crate) review_versions: Vec<String>,
    /// Of reads, which wait for it without a thread.
    pub(crate) turns: Semaphore,
    /// As whom writes wait for it, in their turn (`http::turns`).
    pub(crate) party: Party,
}

impl Conversion {
    /// Of the definition of this name.
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
            turns: Semaphore::new(MAX_TURNS),
            party: Party::new(format!("definition/{definition}"), MAX_TURNS),
        }
    }
}
