//! Requests that webhooks are asked about, or convert objects for, wait for their turn before they begin, so that a webhook
//! that hangs holds a bounded number of threads, and no other request.

use super::Server;
use super::request::ResourceTarget;
use crate::ApiError;
use crate::admission::{Operation, webhooks_may_be_asked};
use crate::context::{self, PATIENCE};
use object::{Kind, Subresource};

/// Requests that may wait for webhooks at once; the next ones wait for them without a thread. Each takes a thread of the
/// pool that stands in for the workers, of which tokio has 512, and that files and actors need as well.
pub(super) const MAX_TURNS: usize = 64;

impl Server {
    /// Does what a request asks, in its turn where webhooks may be asked about it.
    pub(super) async fn in_turn<T>(
        &self,
        target: &ResourceTarget,
        operations: &[Operation],
        answer: impl FnOnce() -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let below = target.subresource.map_or("", Subresource::path);
        self.in_turn_below((target.kind(), below), operations, answer).await
    }

    /// As [`Server::in_turn`], of a kind and what is below it.
    pub(super) async fn in_turn_below<T>(
        &self,
        (kind, below): (Kind, &str),
        operations: &[Operation],
        answer: impl FnOnce() -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let waits = webhooks_may_be_asked(self.api(), operations, kind, below)
            || self.api().kinds().is_converted(kind);
        let _turn = if waits {
            let turn = tokio::time::timeout(PATIENCE, self.inner.turns.acquire()).await;
            let late = |_| ApiError::Timeout("request did not complete within requested timeout".into());
            turn.map_err(late)?.ok()
        } else {
            None
        };
        context::of_request(answer)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::http::{Credentials, ServerConfig};
    use crate::{Api, ApiConfig, WriteOptions};
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
        let create = async |kind| server.in_turn_below((kind, ""), &[Operation::Create], || Ok("done")).await;
        let all = server.inner.turns.acquire_many(u32::try_from(MAX_TURNS).unwrap()).await.unwrap();
        assert_eq!(create(Kind::Pod).await.map_err(|error| error.code()), Err(504));
        assert_eq!(create(Kind::Secret).await, Ok("done"), "nobody is asked about it");
        drop(all);
        assert_eq!(create(Kind::Pod).await, Ok("done"));
    }
}
