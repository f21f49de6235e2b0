//! Requests that may call webhooks, for admission or conversion, wait for a permit before they start, so that
//! a webhook that hangs holds a bounded number of threads, and delays no request that does not call it. The
//! webhooks of one configuration, and the conversion webhook of one definition, each have a share of the
//! permits, so that they do not delay requests that call others (`webhook_client::queue`).

use super::request::ResourceTarget;
use super::{Server, request_seat};
use api::ApiError;
use api::admission::{self, Operation, has_matching_configuration};
use api::deadline::{self, REQUEST_TIMEOUT};
use api::served_kinds::Conversion;
use api::webhook_client::Callee;
use object::{Key, Kind, Subresource};

/// The number of requests that may wait for webhooks at once; further requests wait without a thread. Each of
/// them blocks a thread that tokio replaces from a pool of 512 threads, which files and actors need as well.
pub(super) const MAX_CALLS: usize = 64;

impl Server {
    /// Runs a request, under a permit if it may call webhooks for admission or conversion.
    pub(super) async fn run_queued<T>(
        &self,
        target: &ResourceTarget,
        operations: &[Operation],
        work: impl FnOnce() -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        // Objects are deleted as they are stored.
        self.run_queued_with_conversion(target, operations, operations != [Operation::Delete], work).await
    }

    /// As [`Server::run_queued`]; `converts` says if objects are converted even without admission.
    pub(super) async fn run_queued_with_conversion<T>(
        &self,
        target: &ResourceTarget,
        operations: &[Operation],
        converts: bool,
        work: impl FnOnce() -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let (api, kind) = (self.api(), target.kind());
        let below = target.subresource.map_or("", Subresource::path);
        let namespace = target.namespace.as_deref().unwrap_or_default();
        let mut parties = admission::callees(api, operations, (kind, below), namespace);
        // Admission webhooks and policies choose the version in which they see objects, so admission may
        // convert too.
        let definition = (converts || has_matching_configuration(api, operations, kind, below))
            .then(|| api.kinds().definition(kind).cloned())
            .flatten();
        if let Some(Conversion::Webhook(webhook)) = definition.as_ref().map(|one| &one.conversion)
            && !parties.contains(&webhook.callee)
        {
            parties.push(webhook.callee.clone());
        }
        self.run_queued_by(parties, work).await
    }

    /// As [`Server::run_queued`], for subresources of a kind without conversion.
    pub(super) async fn run_queued_subresource<T>(
        &self,
        below: (Kind, &str),
        key: &Key,
        operations: &[Operation],
        work: impl FnOnce() -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let parties = admission::callees(self.api(), operations, below, key.namespace.as_str());
        self.run_queued_by(parties, work).await
    }

    async fn run_queued_by<T>(
        &self,
        parties: Vec<Callee>,
        work: impl FnOnce() -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        if parties.is_empty() {
            return deadline::of_request(work);
        }
        let user = request_seat::leave();
        let user = user.as_ref().map_or("", |user| user.name.as_str());
        // Boxed: most requests need no space for it.
        let permit = Box::pin(self.inner.call_queue.begin(user, parties, REQUEST_TIMEOUT)).await?;
        permit.run_with_permit(|| deadline::of_request(work))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{Credentials, ServerConfig};
    use api::{Api, ApiConfig, WriteOptions};
    use object::Object;

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_its_turn_no_longer_than_requests_last_api_16() {
        let clock = base::clock::Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
        let api = Api::new(store::Store::ephemeral(), clock, ApiConfig::default());
        let configuration = json!({"metadata": {"name": "c"}, "webhooks": [{"name": "a.b.c", "sideEffects": "None",
            "clientConfig": {"url": "https://localhost/"}, "admissionReviewVersions": ["v1"],
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]}]});
        let configuration = Object::from_value(Kind::ValidatingWebhookConfiguration, configuration).unwrap();
        api.create(configuration, &WriteOptions::default()).unwrap();
        let credentials = Credentials::new("secret");
        let server = Server::new(api, credentials, CancellationToken::new(), ServerConfig::default());
        let key = Key::new("default", "p");
        let create = async |kind| {
            server.run_queued_subresource((kind, ""), &key, &[Operation::Create], || Ok("done")).await
        };
        let mut all = Vec::new();
        for _ in 0..MAX_CALLS {
            all.push(server.inner.call_queue.begin("", Vec::new(), Duration::ZERO).await.unwrap());
        }
        assert_eq!(create(Kind::Pod).await.map_err(|error| error.code()), Err(504));
        assert_eq!(create(Kind::Secret).await, Ok("done"), "no webhook is called for it");
        drop(all);
        assert_eq!(create(Kind::Pod).await, Ok("done"));
    }
}
