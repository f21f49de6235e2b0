//! A stream with chunks that are produced on demand: no queue between the producer and the reader.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use tokio::sync::{Notify, mpsc};

/// The producer's end.
pub(super) struct Outlet {
    asked: Arc<Notify>,
    /// The reader has requested a chunk that was not sent yet.
    wanted: bool,
    patience: Duration,
    pieces: mpsc::Sender<Bytes>,
}

/// The reader has left, or requests nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unwanted;

/// A stream and its producer's end. A reader that requests nothing for `patience` while a chunk is available
/// is dropped.
pub(super) fn pair(patience: Duration) -> (Outlet, impl Stream<Item = Bytes>) {
    let asked = Arc::new(Notify::new());
    let (pieces, mut given) = mpsc::channel(1);
    let outlet = Outlet { asked: asked.clone(), wanted: false, patience, pieces };
    let stream = futures::stream::poll_fn(move |cx| {
        let piece = given.poll_recv(cx);
        if piece.is_pending() {
            asked.notify_one();
        }
        piece
    });
    (outlet, stream)
}

impl Outlet {
    /// Waits until the reader requests a chunk; false if it does not in time, or has left.
    pub(super) async fn wanted(&mut self) -> bool {
        if !self.wanted {
            tokio::select! {
                asked = tokio::time::timeout(self.patience, self.asked.notified()) => self.wanted = asked.is_ok(),
                () = self.pieces.closed() => {}
            }
        }
        self.wanted
    }

    /// Sends a chunk once the reader requests it.
    pub(super) async fn send(&mut self, piece: Bytes) -> Result<(), Unwanted> {
        if !self.wanted().await {
            return Err(Unwanted);
        }
        self.wanted = false;
        self.pieces.send(piece).await.map_err(|_| Unwanted)
    }

    /// Returns true if the reader has left.
    pub(super) fn is_closed(&self) -> bool {
        self.pieces.is_closed()
    }

    /// Waits until the reader leaves.
    pub(super) async fn closed(&self) {
        self.pieces.closed().await;
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nothing_is_made_for_a_reader_that_does_not_ask() {
        let (mut outlet, mut stream) = pair(Duration::from_mins(1));
        assert!(!outlet.wanted().await, "nobody has asked");
        assert!(stream.next().now_or_never().is_none());
        assert!(outlet.wanted().await);
        assert_eq!(outlet.send(Bytes::from_static(b"a")).await, Ok(()));
        assert_eq!(outlet.send(Bytes::from_static(b"b")).await, Err(Unwanted), "the first is not taken");
        assert_eq!(stream.next().await.as_deref(), Some(&b"a"[..]));
        assert!(stream.next().now_or_never().is_none());
        assert_eq!(outlet.send(Bytes::from_static(b"c")).await, Ok(()));
        drop(outlet);
        assert_eq!(stream.next().await.as_deref(), Some(&b"c"[..]));
        assert_eq!(stream.next().await, None);

        let (mut outlet, stream) = pair(Duration::from_mins(1));
        drop(stream);
        assert!(outlet.is_closed() && !outlet.wanted().await);
    }
}
