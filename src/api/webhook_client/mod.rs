//! Calls to external servers: admission webhooks, conversion webhooks, and extension API servers.

mod caller;
mod client;
mod connector;
mod error_text;
mod exchange;
mod queue;
mod review;
mod tls;

use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use k8s_openapi::api::core::v1::Service;

use self::client::WebhookClient;
use crate::{Api, endpoints};
use base::quote::quote;
use object::Key;

pub use caller::Caller;
pub(crate) use caller::{Call, CallerKind};
pub(crate) use client::DEADLINE_EXCEEDED;
pub use connector::Peer;
pub(crate) use connector::connect;
pub(crate) use error_text::{first_errors_within_limit, truncate_error};
pub use exchange::{OpenExchange, exchange};
pub use queue::{CallPermit, CallQueue, Callee, CalleePermit};
pub(crate) use review::{Review, ReviewVersion};
pub(crate) use tls::{Trust, config};

/// The default port of a webhook's service.
const DEFAULT_PORT: i32 = 443;

/// A service to call, as a configuration names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceTarget {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) path: Option<String>,
    pub(crate) port: Option<i32>,
}

/// The prepared target of calls.
pub(crate) struct Target {
    service: Option<ServiceTarget>,
    client: WebhookClient,
}

impl Target {
    /// Returns the server at this URL or behind this service, with a certificate of the bundle's authorities
    /// (empty: the system's).
    pub(crate) fn new(
        url: Option<&str>,
        service: Option<ServiceTarget>,
        ca_bundle: &[u8],
    ) -> Result<Self, String> {
        let uri = match (url, &service) {
            (Some(url), _) => url.to_string(),
            (None, Some(ServiceTarget { namespace, name, path, port })) => {
                let path = path.as_deref().unwrap_or_default().trim_start_matches('/');
                format!("https://{name}.{namespace}.svc:{}/{path}", port.unwrap_or(DEFAULT_PORT))
            }
            (None, None) => return Err("no client config".into()),
        };
        let uri: Uri = uri.parse().map_err(|error| format!("{uri}: {error}"))?;
        Ok(Self { service, client: WebhookClient::new(uri, ca_bundle)? })
    }

    /// Returns the call that sends a review; a response of more than `max_bytes` bytes is an error.
    pub(crate) fn call(
        &self,
        api: &Api,
        review: Bytes,
        timeout: Duration,
        max_bytes: usize,
    ) -> Result<impl Future<Output = Result<Bytes, String>> + Send + 'static + use<>, String> {
        let client = self.client.clone();
        if let Some(service) = &self.service {
            client.connect_to(peer(api, service)?, api.dialer());
        }
        Ok(client.post(review, timeout, max_bytes))
    }
}

/// Returns the present peer of a service.
pub(crate) fn peer(api: &Api, service: &ServiceTarget) -> Result<Peer, String> {
    let key = Key::new(service.namespace.as_str(), service.name.as_str());
    let port = service.port.unwrap_or(DEFAULT_PORT);
    let found =
        api.get_as::<Service>(&key).map_err(|_| format!("service {} not found", quote(&service.name)))?;
    let external = found.spec.as_ref().filter(|spec| spec.type_.as_deref() == Some("ExternalName"));
    if let Some(name) = external.and_then(|spec| spec.external_name.as_ref()) {
        let port = u16::try_from(port).map_err(|error| error.to_string())?;
        return Ok(Peer { host: name.clone(), port });
    }
    let address = endpoints::of_service(api, &key, &service.name, &port.to_string());
    let address = address.map_err(|error| error.to_string())?;
    Ok(Peer { host: address.ip().to_string(), port: address.port() })
}
