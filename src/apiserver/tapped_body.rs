//! A body with an observer of every chunk that is read.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

/// A body and its observer; both end together.
struct TappedBody<F> {
    inner: Body,
    tap: F,
}

/// Returns a body that shows its chunks to `tap`.
pub(super) fn tapped(inner: Body, tap: impl FnMut(&Bytes) + Send + Unpin + 'static) -> Body {
    Body::new(TappedBody { inner, tap })
}

impl<F: FnMut(&Bytes) + Unpin> hyper::body::Body for TappedBody<F> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            (self.tap)(data);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
