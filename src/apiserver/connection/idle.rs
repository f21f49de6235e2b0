//! The socket of a connection, in any protocol: reading fails once the connection was idle for too long, and
//! the connection counts against the limit until its last user drops it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};

/// A connection with an idle limit. After an upgrade it belongs to the session, which has no other timeout.
pub(super) struct Idle<I> {
    io: I,
    limit: Duration,
    last: Instant,
    timer: Pin<Box<Sleep>>,
    _counted: Option<OwnedSemaphorePermit>,
}

impl<I> Idle<I> {
    pub(super) fn new(io: I, limit: Duration, counted: Option<OwnedSemaphorePermit>) -> Self {
        Self {
            io,
            limit,
            last: Instant::now(),
            timer: Box::pin(tokio::time::sleep(limit)),
            _counted: counted,
        }
    }

    /// Passes on the result of a read or write, or an error if no byte has passed for too long.
    fn check_idle<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.last = Instant::now();
            return polled;
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            let end = self.last + self.limit;
            if end <= Instant::now() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.timer.as_mut().reset(end);
        }
        Poll::Pending
    }
}

impl<I: Read + Unpin> Read for Idle<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_read(cx, buffer);
        self.check_idle(cx, polled)
    }
}

impl<I: Write + Unpin> Write for Idle<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(cx, data);
        self.check_idle(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write_vectored(cx, data);
        self.check_idle(cx, polled)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::Semaphore;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(100);

    /// Regression: sessions that clients had abandoned stayed open forever and were not counted.
    #[tokio::test(start_paused = true)]
    async fn a_connection_on_which_nothing_passes_is_an_error_and_counts_until_it_is_dropped_api_1() {
        let free = Arc::new(Semaphore::new(1));
        let permit = free.clone().acquire_owned().await.unwrap();
        let (near, far) = tokio::io::duplex(64);
        let mut near = TokioIo::new(Idle::new(TokioIo::new(near), LIMIT, Some(permit)));
        let (mut theirs, mut outward) = tokio::io::split(far);
        let start = Instant::now();
        tokio::spawn(async move {
            for _ in 0..3 {
                tokio::time::sleep(LIMIT * 9 / 10).await;
                outward.write_all(b"a").await.unwrap();
            }
            std::future::pending::<()>().await;
        });
        let mut text = Vec::new();
        let error = near.read_to_end(&mut text).await.unwrap_err();
        assert_eq!((text.as_slice(), error.kind()), (&b"aaa"[..], io::ErrorKind::TimedOut));
        assert_eq!(start.elapsed().as_secs(), 370);
        // Written bytes count as well, and bytes that the peer does not take lead to an error.
        near.write_all(b"still here").await.unwrap();
        let start = Instant::now();
        assert_eq!(near.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed().as_secs(), 100);
        assert_eq!(near.write_all(&[0; 100]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        theirs.read_u8().await.unwrap();
        assert_eq!(free.available_permits(), 0);
        drop(near);
        assert_eq!(free.available_permits(), 1);
    }
}
