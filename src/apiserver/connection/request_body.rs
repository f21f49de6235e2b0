//! The body of a request: it has to make progress, and the part that its handler leaves is drained.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

/// The limit on a body; Kubernetes' own.
pub(crate) const MAX_BODY: usize = 3 * 1024 * 1024;
/// The limit on draining an unread body: a client that still sends when the response arrives sees a broken
/// connection instead of the response.
pub(super) const MAX_DRAINED: usize = 8 * MAX_BODY;

/// The time limit of draining.
const DRAIN_FOR: Duration = Duration::from_secs(10);

/// A request's body.
pub(super) struct RequestBody<B: Body<Data = Bytes> + Send + Unpin + 'static> {
    /// `None` once it was handed over to be drained.
    inner: Option<B>,
    timeout: Duration,
    overdue: Option<Pin<Box<Sleep>>>,
}

impl<B: Body<Data = Bytes> + Send + Unpin + 'static> RequestBody<B> {
    /// Returns a body that must receive bytes at least this often.
    pub(super) fn new(inner: B, timeout: Duration) -> Self {
        Self { inner: Some(inner), timeout, overdue: None }
    }
}

impl<B> Body for RequestBody<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let this = &mut *self;
        let Some(inner) = &mut this.inner else { return Poll::Ready(None) };
        if let Poll::Ready(frame) = Pin::new(inner).poll_frame(cx) {
            this.overdue = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let deadline = Instant::now() + this.timeout;
        let overdue = this.overdue.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        overdue.poll_unpin(cx).map(|()| Some(Err("the client stopped sending".into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl<B: Body<Data = Bytes> + Send + Unpin + 'static> Drop for RequestBody<B> {
    fn drop(&mut self) {
        if let Some(rest) = self.inner.take()
            && !rest.is_end_stream()
            && tokio::runtime::Handle::try_current().is_ok()
        {
            base::task::start(async move {
                // The connection closes with an unread body.
                let _ = tokio::time::timeout(DRAIN_FOR, drain(rest)).await;
            });
        }
    }
}

async fn drain<B: Body<Data = Bytes> + Unpin>(mut body: B) {
    let mut length = 0;
    while let Some(Ok(frame)) = body.frame().await {
        length += frame.data_ref().map_or(0, Bytes::len);
        if length > MAX_DRAINED {
            return;
        }
    }
}
