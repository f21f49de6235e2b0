//! The body of a response: cut into chunks, each counted until the client has taken it.
//!
//! The server produces no more than the client takes, because the buffers of a connection are memory that
//! others need.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body as AnyBody;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::futures::OwnedNotified;

use super::responses::TrackedResponse;
use crate::chunks::PIECE_BYTES;

/// The bytes of one response that may wait in a connection before more are produced: enough to keep a fast
/// client busy.
pub(super) const WINDOW_BYTES: usize = 64 << 10;

/// A body that is counted.
pub(super) struct ResponseBody {
    inner: AnyBody,
    response: Arc<TrackedResponse>,
    /// The rest of the inner body's last chunk.
    rest: Bytes,
    /// Waits for capacity among the unread bytes of all connections.
    capacity_wait: Option<Pin<Box<OwnedNotified>>>,
}

impl ResponseBody {
    pub(super) fn new(inner: AnyBody, answer: Arc<TrackedResponse>) -> Self {
        Self { inner, response: answer, rest: Bytes::new(), capacity_wait: None }
    }

    /// Becomes ready when all clients together have read enough.
    fn poll_capacity(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.response.load().has_capacity() {
            let notify = self.response.load().capacity_freed().clone();
            let wait = self.capacity_wait.get_or_insert_with(|| Box::pin(notify.notified_owned()));
            if wait.as_mut().poll(cx).is_pending() {
                // Checked again, because capacity may have become free before the wait began.
                if self.response.load().has_capacity() {
                    break;
                }
                self.response.waits_for_server();
                return Poll::Pending;
            }
            self.capacity_wait = None;
        }
        self.capacity_wait = None;
        Poll::Ready(())
    }

    /// Becomes ready when the client has read enough of this response.
    fn poll_window(&self, cx: &Context<'_>) -> Poll<()> {
        if self.response.unread() < WINDOW_BYTES {
            return Poll::Ready(());
        }
        self.response.waker.register(cx.waker());
        if self.response.unread() < WINDOW_BYTES { Poll::Ready(()) } else { Poll::Pending }
    }

    fn piece(&mut self) -> Frame<Bytes> {
        let piece = self.rest.split_to(self.rest.len().min(PIECE_BYTES));
        self.response.add_buffered(piece.len());
        Frame::data(Bytes::from_owner(CountedChunk { piece, response: self.response.clone() }))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        ready!(this.poll_window(cx));
        ready!(this.poll_capacity(cx));
        while this.rest.is_empty() {
            let frame = match Pin::new(&mut this.inner).poll_frame(cx) {
                Poll::Ready(frame) => frame,
                Poll::Pending => {
                    this.response.waits_for_server();
                    return Poll::Pending;
                }
            };
            match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                end => {
                    this.response.waits_for_server();
                    return Poll::Ready(end);
                }
            }
        }
        Poll::Ready(Some(Ok(this.piece())))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.inner.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

/// A chunk; counts as taken when it is dropped.
struct CountedChunk {
    piece: Bytes,
    response: Arc<TrackedResponse>,
}

impl AsRef<[u8]> for CountedChunk {
    fn as_ref(&self) -> &[u8] {
        &self.piece
    }
}

impl Drop for CountedChunk {
    fn drop(&mut self) {
        self.response.add_sent(self.piece.len());
    }
}
