//! Request and response bodies in transit: streamed without buffering whole bodies, and never waited for without a
//! timeout.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, timeout};
use tokio_util::sync::CancellationToken;

/// The reason why a body ended too early.
pub(super) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// Timeout for a client to read the next chunk of a response; nginx's `send_timeout`.
const UNREAD: Duration = Duration::from_mins(1);
/// Capacity of the queue of response chunks that wait for the client.
const PIECES: usize = 4;

/// A failure of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The client has stopped sending.
    Stalled,
    /// The body exceeds the size limit.
    TooLarge,
    /// The client's connection broke.
    Broken,
}

/// The progress of a request's body, shared with the task that waits for the response.
#[derive(Clone)]
pub(super) struct Progress(Arc<Mutex<(Instant, Option<Fault>)>>);

impl Progress {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new((Instant::now(), None))))
    }

    /// Returns the time of the last chunk.
    pub(super) fn last(&self) -> Instant {
        self.0.lock().0
    }

    pub(super) fn fault(&self) -> Option<Fault> {
        self.0.lock().1
    }

    fn touch(&self) {
        self.0.lock().0 = Instant::now();
    }

    fn failed(&self, fault: Fault) -> BodyError {
        self.0.lock().1 = Some(fault);
        format!("cannot send the request's body: {fault:?}").into()
    }
}

/// Capacity of the queue of chunks for a copy of a request's body; a reader that falls further behind loses its copy.
const COPIED_PIECES: usize = 64;

/// The body of a request on its way to an endpoint.
pub(super) struct RequestBody {
    source: RequestBodySource,
    /// The receivers of copies of each chunk.
    copies: Vec<mpsc::Sender<BodyChunk>>,
    progress: Progress,
    /// Number of bytes that the client may still send; `None` means unlimited.
    remaining: Option<u64>,
    timeout: Duration,
    overdue: Option<Pin<Box<Sleep>>>,
}

/// The source of a request's body.
enum RequestBodySource {
    None,
    Client(Incoming),
    /// A copy of another request's body.
    Copied(mpsc::Receiver<BodyChunk>),
}

/// A chunk of a copied body; if the channel closes before `End`, the copy was cut off.
enum BodyChunk {
    Data(Bytes),
    End,
}

impl RequestBody {
    pub(super) fn new(body: Incoming, progress: Progress, remaining: Option<u64>, timeout: Duration) -> Self {
        let source = RequestBodySource::Client(body);
        Self { source, copies: Vec::new(), progress, remaining, timeout, overdue: None }
    }

    /// Returns the body of a request that has none.
    pub(super) fn empty(progress: Progress) -> Self {
        let (copies, patience) = (Vec::new(), Duration::ZERO);
        Self {
            source: RequestBodySource::None,
            copies,
            progress,
            remaining: None,
            timeout: patience,
            overdue: None,
        }
    }

    /// Returns a copy of the rest of the body. The copy never delays the original: if its reader does not keep up, it
    /// is cut off.
    pub(super) fn copy(&mut self) -> Self {
        let progress = Progress::new();
        if self.is_end_stream() {
            return Self::empty(progress);
        }
        let (sender, receiver) = mpsc::channel(COPIED_PIECES);
        self.copies.push(sender);
        let (source, copies) = (RequestBodySource::Copied(receiver), Vec::new());
        Self { source, copies, progress, remaining: None, timeout: self.timeout, overdue: None }
    }

    /// Passes a chunk to the receivers of copies.
    fn copy_chunk(&mut self, data: Option<&Bytes>) {
        if let Some(data) = data {
            self.copies.retain(|copy| copy.try_send(BodyChunk::Data(data.clone())).is_ok());
        }
        // hyper does not poll for the end of a body with a known length.
        if self.is_end_stream() || data.is_none() {
            for copy in self.copies.drain(..) {
                let _ = copy.try_send(BodyChunk::End);
            }
        }
    }

    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.source {
            RequestBodySource::None => Poll::Ready(None),
            RequestBodySource::Client(body) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(Into::into)))
            }
            RequestBodySource::Copied(pieces) => pieces.poll_recv(cx).map(|piece| match piece {
                Some(BodyChunk::Data(data)) => Some(Ok(Frame::data(data))),
                Some(BodyChunk::End) => None,
                None => Some(Err("the mirrored request was cut off".into())),
            }),
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = this.poll_source(cx) else {
            let deadline = Instant::now() + this.timeout;
            let overdue = this.overdue.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
            return overdue.poll_unpin(cx).map(|()| Some(Err(this.progress.failed(Fault::Stalled))));
        };
        this.overdue = None;
        this.progress.touch();
        Poll::Ready(match frame {
            None => {
                this.copy_chunk(None);
                None
            }
            Some(Err(_)) => Some(Err(this.progress.failed(Fault::Broken))),
            Some(Ok(frame)) => {
                let length = frame.data_ref().map_or(0, |data| data.len() as u64);
                match this.remaining.map(|room| room.checked_sub(length)) {
                    Some(None) => Some(Err(this.progress.failed(Fault::TooLarge))),
                    left => {
                        this.remaining = left.flatten();
                        // A frame without data has trailers, which come last.
                        this.copy_chunk(frame.data_ref());
                        Some(Ok(frame))
                    }
                }
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            RequestBodySource::None => true,
            RequestBodySource::Client(body) => body.is_end_stream(),
            RequestBodySource::Copied(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            RequestBodySource::None => SizeHint::with_exact(0),
            RequestBodySource::Client(body) => body.size_hint(),
            RequestBodySource::Copied(_) => SizeHint::default(),
        }
    }
}

/// Time limits of a response's body.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyTimeouts {
    /// Between two chunks.
    pub(super) silence: Duration,
    /// The time by which the whole body must be complete.
    pub(super) until: Option<Instant>,
}

impl BodyTimeouts {
    /// Returns how long the next chunk may take.
    fn chunk_timeout(self) -> Duration {
        let whole = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        whole.map_or(self.silence, |whole| whole.min(self.silence))
    }
}

/// The body of a response.
pub(super) struct ResponseBody<H = ()> {
    source: Source,
    /// Dropped with the body.
    _guard: H,
}

enum Source {
    /// A body from the proxy itself.
    Whole(Full<Bytes>),
    /// The frames of an endpoint's body, and whether it ended properly.
    Piped(mpsc::Receiver<Result<Frame<Bytes>, BodyError>>, Arc<AtomicBool>),
}

impl ResponseBody {
    pub(super) fn text(text: impl Into<Bytes>) -> Self {
        Self { source: Source::Whole(Full::new(text.into())), _guard: () }
    }

    /// Returns an endpoint's body, and the future that transfers it. The transfer ends with the body, when the body is
    /// dropped, or when the endpoint or the client is silent for too long. A client that does not read is cut off. The
    /// future resolves to true if the body came to its end.
    pub(super) fn piped(
        body: Incoming,
        timeouts: BodyTimeouts,
        cut_off: CancellationToken,
    ) -> (Self, impl Future<Output = bool> + Send) {
        let (sender, receiver) = mpsc::channel(PIECES);
        let whole = Arc::new(AtomicBool::new(false));
        let source = Source::Piped(receiver, whole.clone());
        (Self { source, _guard: () }, carry(body, sender, whole, timeouts, cut_off))
    }

    /// Makes the body hold a value until it is dropped.
    pub(super) fn holding<H>(self, held: H) -> ResponseBody<H> {
        ResponseBody { source: self.source, _guard: held }
    }
}

async fn carry(
    mut body: Incoming,
    sender: mpsc::Sender<Result<Frame<Bytes>, BodyError>>,
    whole: Arc<AtomicBool>,
    timeouts: BodyTimeouts,
    cut_off: CancellationToken,
) -> bool {
    loop {
        let next = tokio::select! {
            next = timeout(timeouts.chunk_timeout(), body.frame()) => next,
            () = sender.closed() => return false,
        };
        let (piece, goes_on) = match next {
            Ok(None) => {
                whole.store(true, Ordering::Release);
                return true;
            }
            Ok(Some(Ok(frame))) => (Ok(frame), true),
            Ok(Some(Err(error))) => (Err(error.into()), false),
            Err(_) => (Err("the endpoint stopped sending its response".into()), false),
        };
        match timeout(UNREAD, sender.send(piece)).await {
            Ok(Ok(())) if goes_on => {}
            Ok(_) => return false,
            Err(_) => {
                cut_off.cancel();
                return false;
            }
        }
    }
}

impl<H: Unpin> Body for ResponseBody<H> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.source {
            Source::Whole(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            Source::Piped(receiver, whole) => receiver.poll_recv(cx).map(|piece| match piece {
                // The client must not take a truncated response for a complete one, regardless of why it ended.
                None if !whole.load(Ordering::Acquire) => Some(Err("the response was cut off".into())),
                piece => piece,
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Whole(body) => body.is_end_stream(),
            Source::Piped(..) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Whole(body) => body.size_hint(),
            Source::Piped(..) => SizeHint::default(),
        }
    }
}
