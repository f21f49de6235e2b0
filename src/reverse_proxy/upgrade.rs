//! An upgraded connection: bytes in both directions, until one side closes it or both are silent.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional_with_sizes};
use tokio::time::{Instant, sleep_until, timeout};

/// Timeout for silence on both sides: longer than nginx's minute, because no response is pending.
const SILENCE: Duration = Duration::from_hours(1);
/// Timeout for both sides to switch protocols.
const SWITCH: Duration = Duration::from_secs(10);
/// Buffer size for each direction in bytes.
const BUFFER: usize = 16 * 1024;

/// Connects the two sides of an upgrade that both have agreed to.
pub(super) async fn join(client: OnUpgrade, endpoint: OnUpgrade) {
    let both = async { tokio::try_join!(client, endpoint) };
    let Ok(Ok((client, endpoint))) = timeout(SWITCH, both).await else { return };
    let last = Arc::new(Mutex::new(Instant::now()));
    let mut client = ActivityStream { io: TokioIo::new(client), last: last.clone() };
    let mut endpoint = TokioIo::new(endpoint);
    let silent = async {
        loop {
            let until = *last.lock() + SILENCE;
            sleep_until(until).await;
            if *last.lock() + SILENCE <= until {
                return;
            }
        }
    };
    tokio::select! {
        // An error or end of one side ends both.
        _ = copy_bidirectional_with_sizes(&mut client, &mut endpoint, BUFFER, BUFFER) => {}
        () = silent => {}
    }
}

/// Records the time of each transfer.
struct ActivityStream<S> {
    io: S,
    last: Arc<Mutex<Instant>>,
}

impl<S> ActivityStream<S> {
    fn record_activity<T>(&self, polled: Poll<T>) -> Poll<T> {
        if polled.is_ready() {
            *self.last.lock() = Instant::now();
        }
        polled
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ActivityStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        self.record_activity(polled)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ActivityStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(cx, buf);
        self.record_activity(polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
