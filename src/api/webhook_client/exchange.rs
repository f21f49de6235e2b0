//! One request and its response on a connection of its own, which ends with the reader of the response.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper_util::rt::TokioIo;
use tokio_util::sync::{CancellationToken, DropGuard};

use base::clock::if_some;
use base::duplex::Duplex;

/// The longest response head that is read, and the size of the body's buffer.
const MAX_BUFFER: usize = 64 << 10;

/// A connection with a response in progress; dropping this closes it.
pub struct OpenExchange {
    _guard: DropGuard,
    /// The connection was closed before the end of the response.
    is_cut: Arc<AtomicBool>,
}

impl OpenExchange {
    /// Returns the response's body, which holds the connection open; a body that is cut off ends in an error,
    /// so that no incomplete body is taken for complete.
    pub fn holding(self, body: Incoming) -> Body {
        Body::new(GuardedBody { body, open: self })
    }
}

struct GuardedBody {
    body: Incoming,
    open: OpenExchange,
}

impl HttpBody for GuardedBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(None) if self.open.is_cut.load(Ordering::Acquire) => {
                Poll::Ready(Some(Err("the response took too long".into())))
            }
            polled => polled.map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() && !self.open.is_cut.load(Ordering::Acquire)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Sends a request and returns the response, whose body still streams. The connection closes when the
/// returned guard is dropped, when `stopping` is cancelled, and after `limit`.
pub async fn exchange(
    socket: Box<dyn Duplex>,
    request: Request<Body>,
    stopping: &CancellationToken,
    limit: Option<Duration>,
) -> Result<(Response<Incoming>, OpenExchange), String> {
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .max_buf_size(MAX_BUFFER)
        .handshake::<_, Body>(TokioIo::new(socket))
        .await
        .map_err(|error| error.to_string())?;
    let open = stopping.child_token();
    let (is_cut, ended) = (Arc::new(AtomicBool::new(false)), open.clone());
    let guard = OpenExchange { _guard: open.drop_guard(), is_cut: is_cut.clone() };
    base::task::start(async move {
        let mut connection = std::pin::pin!(connection.with_upgrades());
        tokio::select! {
            // The reader of the response sees the error.
            _ = connection.as_mut() => return,
            () = ended.cancelled() => {}
            () = if_some(limit.map(tokio::time::sleep)) => {}
        }
        // Set before the connection closes and thereby ends the response.
        is_cut.store(true, Ordering::Release);
    });
    let response = sender.send_request(request).await.map_err(|error| error_message(&error))?;
    Ok((response, guard))
}

/// Returns the reason why there is no response: the innermost error.
fn error_message(error: &hyper::Error) -> String {
    if error.is_incomplete_message() {
        return "EOF".into();
    }
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}
