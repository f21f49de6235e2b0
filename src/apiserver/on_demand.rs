//! A stream with chunks that are produced on demand: no queue between the producer and the reader.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use tokio::sync::{Notify, mpsc};

/// The producer's end.
pub(super) struct ChunkSender {
    demand: Arc<Notify>,
    /// The reader has requested a chunk that was not sent yet.
    is_requested: bool,
    timeout: Duration,
    pieces: mpsc::Sender<Bytes>,
}

/// The reader has left, or requests nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReaderGone;

/// Returns a stream and its producer's end. A reader that requests nothing for `timeout` while a chunk is
/// available is dropped.
pub(super) fn pair(timeout: Duration) -> (ChunkSender, impl Stream<Item = Bytes>) {
    let demand = Arc::new(Notify::new());
    let (pieces, mut given) = mpsc::channel(1);
    let outlet = ChunkSender { demand: demand.clone(), is_requested: false, timeout, pieces };
    let stream = futures::stream::poll_fn(move |cx| {
        let piece = given.poll_recv(cx);
        if piece.is_pending() {
            demand.notify_one();
        }
        piece
    });
    (outlet, stream)
}

impl ChunkSender {
    /// Waits until the reader requests a chunk; false if it does not in time, or has left.
    pub(super) async fn wait_for_reader(&mut self) -> bool {
        if !self.is_requested {
            tokio::select! {
                demanded = tokio::time::timeout(self.timeout, self.demand.notified()) => self.is_requested = demanded.is_ok(),
                () = self.pieces.closed() => {}
            }
        }
        self.is_requested
    }

    /// Sends a chunk once the reader requests it.
    pub(super) async fn send(&mut self, piece: Bytes) -> Result<(), ReaderGone> {
        if !self.wait_for_reader().await {
            return Err(ReaderGone);
        }
        self.is_requested = false;
        self.pieces.send(piece).await.map_err(|_| ReaderGone)
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
        assert!(!outlet.wait_for_reader().await, "the reader has not asked yet");
        assert!(stream.next().now_or_never().is_none());
        assert!(outlet.wait_for_reader().await);
        assert_eq!(outlet.send(Bytes::from_static(b"a")).await, Ok(()));
        assert_eq!(outlet.send(Bytes::from_static(b"b")).await, Err(ReaderGone), "the first is not taken");
        assert_eq!(stream.next().await.as_deref(), Some(&b"a"[..]));
        assert!(stream.next().now_or_never().is_none());
        assert_eq!(outlet.send(Bytes::from_static(b"c")).await, Ok(()));
        drop(outlet);
        assert_eq!(stream.next().await.as_deref(), Some(&b"c"[..]));
        assert_eq!(stream.next().await, None);

        let (mut outlet, stream) = pair(Duration::from_mins(1));
        drop(stream);
        assert!(outlet.is_closed() && !outlet.wait_for_reader().await);
    }
}
