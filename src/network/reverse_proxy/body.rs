//! Bodies on their way through: never held, and never waited for without end.

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

/// Why a body came to its end too early.
pub(super) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// How long a client may take for the next piece of an answer; nginx's `send_timeout`.
const UNREAD: Duration = Duration::from_mins(1);
/// Pieces of an answer that wait for their client.
const PIECES: usize = 4;

/// What is wrong with a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The client sends nothing more.
    Stalled,
    /// It is larger than it may be.
    TooLarge,
    /// The client's connection broke.
    Broken,
}

/// How far a request's body has come, for whoever waits for the answer.
#[derive(Clone)]
pub(super) struct Progress(Arc<Mutex<(Instant, Option<Fault>)>>);

impl Progress {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new((Instant::now(), None))))
    }

    /// When something last came.
    pub(super) fn last(&self) -> Instant {
        self.0.lock().0
    }

    pub(super) fn fault(&self) -> Option<Fault> {
        self.0.lock().1
    }

    fn came(&self) {
        self.0.lock().0 = Instant::now();
    }

    fn failed(&self, fault: Fault) -> BodyError {
        self.0.lock().1 = Some(fault);
        format!("the request's body: {fault:?}").into()
    }
}

/// Pieces of a request's body that wait for somebody who gets a copy of it; who is further behind gets no more.
const COPIED_PIECES: usize = 64;

/// The body of a request as it is passed on.
pub(super) struct Inward {
    source: InwardSource,
    /// Who gets a copy of each piece.
    copies: Vec<mpsc::Sender<Piece>>,
    progress: Progress,
    /// Bytes that may still come.
    room: Option<u64>,
    patience: Duration,
    overdue: Option<Pin<Box<Sleep>>>,
}

/// Where a request's body comes from.
enum InwardSource {
    None,
    Client(Incoming),
    /// A copy of another one.
    Copied(mpsc::Receiver<Piece>),
}

/// A piece of a copied body; without its end it was cut off.
enum Piece {
    Data(Bytes),
    End,
}

impl Inward {
    pub(super) fn new(body: Incoming, progress: Progress, room: Option<u64>, patience: Duration) -> Self {
        let source = InwardSource::Client(body);
        Self { source, copies: Vec::new(), progress, room, patience, overdue: None }
    }

    /// That of a request without one.
    pub(super) fn empty(progress: Progress) -> Self {
        let (copies, patience) = (Vec::new(), Duration::ZERO);
        Self { source: InwardSource::None, copies, progress, room: None, patience, overdue: None }
    }

    /// A copy of what is still to come. It never holds up this one: a reader that does not keep up finds its copy cut
    /// off.
    pub(super) fn copy(&mut self) -> Self {
        let progress = Progress::new();
        if self.is_end_stream() {
            return Self::empty(progress);
        }
        let (sender, receiver) = mpsc::channel(COPIED_PIECES);
        self.copies.push(sender);
        let (source, copies) = (InwardSource::Copied(receiver), Vec::new());
        Self { source, copies, progress, room: None, patience: self.patience, overdue: None }
    }

    /// Hands a piece on to whoever gets a copy.
    fn hand_on(&mut self, data: Option<&Bytes>) {
        if let Some(data) = data {
            self.copies.retain(|copy| copy.try_send(Piece::Data(data.clone())).is_ok());
        }
        // A body whose length is known is not asked for its end.
        if self.is_end_stream() || data.is_none() {
            for copy in self.copies.drain(..) {
                let _ = copy.try_send(Piece::End);
            }
        }
    }

    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.source {
            InwardSource::None => Poll::Ready(None),
            InwardSource::Client(body) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(Into::into)))
            }
            InwardSource::Copied(pieces) => pieces.poll_recv(cx).map(|piece| match piece {
                Some(Piece::Data(data)) => Some(Ok(Frame::data(data))),
                Some(Piece::End) => None,
                None => Some(Err("the copy was cut off".into())),
            }),
        }
    }
}

impl Body for Inward {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = this.poll_source(cx) else {
            let deadline = Instant::now() + this.patience;
            let overdue = this.overdue.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
            return overdue.poll_unpin(cx).map(|()| Some(Err(this.progress.failed(Fault::Stalled))));
        };
        this.overdue = None;
        this.progress.came();
        Poll::Ready(match frame {
            None => {
                this.hand_on(None);
                None
            }
            Some(Err(_)) => Some(Err(this.progress.failed(Fault::Broken))),
            Some(Ok(frame)) => {
                let length = frame.data_ref().map_or(0, |data| data.len() as u64);
                match this.room.map(|room| room.checked_sub(length)) {
                    Some(None) => Some(Err(this.progress.failed(Fault::TooLarge))),
                    left => {
                        this.room = left.flatten();
                        // What is no data are trailers, which come last.
                        this.hand_on(frame.data_ref());
                        Some(Ok(frame))
                    }
                }
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            InwardSource::None => true,
            InwardSource::Client(body) => body.is_end_stream(),
            InwardSource::Copied(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            InwardSource::None => SizeHint::with_exact(0),
            InwardSource::Client(body) => body.size_hint(),
            InwardSource::Copied(_) => SizeHint::default(),
        }
    }
}

/// How long an answer's body may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Between two pieces.
    pub(super) silence: Duration,
    /// Until its end.
    pub(super) until: Option<Instant>,
}

impl Patience {
    /// How long the next piece may take.
    fn left(self) -> Duration {
        let whole = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        whole.map_or(self.silence, |whole| whole.min(self.silence))
    }
}

/// The body of an answer.
pub(super) struct Outward<H = ()> {
    source: Source,
    /// Goes with the body.
    _held: H,
}

enum Source {
    /// One of our own.
    Whole(Full<Bytes>),
    /// What an endpoint sends, and whether that was all.
    Piped(mpsc::Receiver<Result<Frame<Bytes>, BodyError>>, Arc<AtomicBool>),
}

impl Outward {
    pub(super) fn text(text: impl Into<Bytes>) -> Self {
        Self { source: Source::Whole(Full::new(text.into())), _held: () }
    }

    /// An endpoint's body, and what carries it: that ends with the body, when nobody wants it, or when one side says
    /// or takes nothing for too long. A client that does not read is cut off. True = the body came to its end.
    pub(super) fn piped(
        body: Incoming,
        patience: Patience,
        cut_off: CancellationToken,
    ) -> (Self, impl Future<Output = bool> + Send) {
        let (sender, receiver) = mpsc::channel(PIECES);
        let whole = Arc::new(AtomicBool::new(false));
        let source = Source::Piped(receiver, whole.clone());
        (Self { source, _held: () }, carry(body, sender, whole, patience, cut_off))
    }

    /// The same body, which holds something until it is gone.
    pub(super) fn holding<H>(self, held: H) -> Outward<H> {
        Outward { source: self.source, _held: held }
    }
}

async fn carry(
    mut body: Incoming,
    sender: mpsc::Sender<Result<Frame<Bytes>, BodyError>>,
    whole: Arc<AtomicBool>,
    patience: Patience,
    cut_off: CancellationToken,
) -> bool {
    loop {
        let next = tokio::select! {
            next = timeout(patience.left(), body.frame()) => next,
            () = sender.closed() => return false,
        };
        let (piece, goes_on) = match next {
            Ok(None) => {
                whole.store(true, Ordering::Release);
                return true;
            }
            Ok(Some(Ok(frame))) => (Ok(frame), true),
            Ok(Some(Err(error))) => (Err(error.into()), false),
            Err(_) => (Err("the endpoint sends nothing more".into()), false),
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

impl<H: Unpin> Body for Outward<H> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.source {
            Source::Whole(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            Source::Piped(receiver, whole) => receiver.poll_recv(cx).map(|piece| match piece {
                // Half an answer must not be taken for a whole one, however its end came about.
                None if !whole.load(Ordering::Acquire) => Some(Err("the answer was cut off".into())),
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
