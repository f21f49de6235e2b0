//! Requests that webhooks are asked about wait for their turn before they begin, so that a webhook that hangs holds a bounded
//! number of threads, and no other request.

use super::Server;
use super::request::ResourceTarget;
use crate::admission::{Operation, webhooks_may_be_asked};
use crate::context;
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
        answer: impl FnOnce() -> T,
    ) -> T {
        let below = target.subresource.map_or("", Subresource::path);
        self.in_turn_below((target.kind(), below), operations, answer).await
    }

    /// As [`Server::in_turn`], of a kind and what is below it.
    pub(super) async fn in_turn_below<T>(
        &self,
        (kind, below): (Kind, &str),
        operations: &[Operation],
        answer: impl FnOnce() -> T,
    ) -> T {
        let _turn = if webhooks_may_be_asked(self.api(), operations, kind, below) {
            self.inner.turns.acquire().await.ok()
        } else {
            None
        };
        context::of_request(answer)
    }
}
