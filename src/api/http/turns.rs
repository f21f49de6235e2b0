//! Requests that webhooks are asked about, or convert objects for, wait for their turn before they begin, so that a webhook
//! that hangs holds a bounded number of threads, and no request that asks none. Those that one definition's converter is
//! asked about have a share of the turns, so that it holds up no other kind's.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::Server;
use super::request::ResourceTarget;
use crate::ApiError;
use crate::admission::{Operation, may_be_asked, webhooks_may_be_asked};
use crate::context::{self, PATIENCE};
use crate::kinds::Conversion;
use object::{Kind, Subresource};

/// Requests that may wait for webhooks at once; the next ones wait for them without a thread. Each takes a thread of the
/// pool that stands in for the workers, of which tokio has 512, and that files and actors need as well.
pub(super) const MAX_TURNS: usize = 64;

impl Server {
    /// Does what a request asks, in its turn where webhooks may be asked about it, or convert what it writes.
    pub(super) async fn in_turn<T>(
        &self,
        target: &ResourceTarget,
        operations: &[Operation],
        answer: impl FnOnce() -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        // What is deleted goes as it is stored.
        self.in_turn_converting(target, operations, operations != [Operation::Delete], answer).await
    }

    /// As [`Server::in_turn`], where the caller says whether objects are converted whoever else is asked.
    pub(super) async fn in_turn_converting<T>(
        &self,
        target: &ResourceTarget,
        operations: &[Operation],
        converts: bool,
        answer: impl FnOnce() -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let (api, kind) = (self.api(), target.kind());
        let below = target.subresource.map_or("", Subresource::path);
        // What is configured is shown objects in versions of its own choice.
        let definition = (converts || may_be_asked(api, operations, kind, below))
            .then(|| api.kinds().definition(kind).cloned())
            .flatten();
        let begun = Instant::now();
        let conversion = definition.as_ref().map(|definition| &definition.conversion);
        let Some(Conversion::Webhook(webhook)) = conversion else {
            return self.in_turn_below((kind, below), operations, answer).await;
        };
        let _share = turn(&webhook.write_turns, PATIENCE).await?;
        let _turn = turn(&self.inner.turns, PATIENCE.saturating_sub(begun.elapsed())).await?;
        context::of_request(answer)
    }

    /// As [`Server::in_turn`], of a kind that nobody converts and what is below it.
    pub(super) async fn in_turn_below<T>(
        &self,
        (kind, below): (Kind, &str),
        operations: &[Operation],
        answer: impl FnOnce() -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let _turn = if webhooks_may_be_asked(self.api(), operations, kind, below) {
            turn(&self.inner.turns, PATIENCE).await?
        } else {
            None
        };
        context::of_request(answer)
    }
}

async fn turn(turns: &Semaphore, patience: Duration) -> Result<Option<SemaphorePermit<'_>>, ApiError> {
    let late = |_| ApiError::Timeout("request did not complete within requested timeout".into());
    // They are never closed.
    Ok(tokio::time::timeout(patience, turns.acquire()).await.map_err(late)?.ok())
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
