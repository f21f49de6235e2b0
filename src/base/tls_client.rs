//! TLS connections to servers that close them without `close_notify`.
//!
//! Many servers close the TCP connection without that message: Python's `http.server` does after every response. As
//! in Go, such an end counts as the end of the stream if it comes between two records. Within a record it is an
//! error, and HTTP detects a body shorter than its Content-Length in either case.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The error if a server speaks HTTP without TLS, in Go's words.
pub const PLAIN_HTTP: &str = "http: server gave HTTP response to HTTPS client";

/// A TLS connection to a server.
#[derive(Debug)]
pub struct TlsClient<S>(TlsStream<Records<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsClient<S> {
    /// Performs the handshake; the server's certificate must be for `name`.
    pub async fn connect(connector: &TlsConnector, name: ServerName<'static>, stream: S) -> io::Result<Self> {
        let records = Records { stream, position: RecordPosition::default() };
        match connector.connect(name, records).into_fallible().await {
            Ok(stream) => Ok(Self(stream)),
            Err((_, records)) if records.position.first_bytes == b"HTTP/" => {
                Err(io::Error::other(PLAIN_HTTP))
            }
            Err((error, _)) => Err(error),
        }
    }
}

impl<S> TlsClient<S> {
    /// Returns the protocol negotiated by ALPN.
    pub fn alpn_protocol(&self) -> Option<&[u8]> {
        self.0.get_ref().1.alpn_protocol()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsClient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match ready!(Pin::new(&mut self.0).poll_read(cx, to)) {
            Err(error)
                if error.kind() == io::ErrorKind::UnexpectedEof
                    && self.0.get_ref().0.position.is_between_records() =>
            {
                Poll::Ready(Ok(()))
            }
            read => Poll::Ready(read),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsClient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// The TCP connection below, with the position in the stream of TLS records.
#[derive(Debug)]
struct Records<S> {
    stream: S,
    position: RecordPosition,
}

impl<S: AsyncRead + Unpin> AsyncRead for Records<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = to.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, to))?;
        self.position.advance(&to.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Records<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A position in a stream of TLS records: each has a header of five bytes, the last two of which are the length of
/// the rest.
#[derive(Debug, Default)]
struct RecordPosition {
    /// Up to five bytes from the stream's start.
    first_bytes: Vec<u8>,
    header_bytes: usize,
    length: usize,
    remaining_body_bytes: usize,
}

impl RecordPosition {
    const HEADER_BYTES: usize = 5;

    fn advance(&mut self, mut bytes: &[u8]) {
        while let [first, rest @ ..] = bytes {
            if self.remaining_body_bytes > 0 {
                let count = self.remaining_body_bytes.min(bytes.len());
                self.remaining_body_bytes -= count;
                bytes = &bytes[count..];
                continue;
            }
            if self.first_bytes.len() < Self::HEADER_BYTES {
                self.first_bytes.push(*first);
            }
            self.header_bytes += 1;
            // The mask keeps only the last two bytes of the header.
            self.length = (self.length << 8 | usize::from(*first)) & 0xffff;
            if self.header_bytes == Self::HEADER_BYTES {
                (self.header_bytes, self.remaining_body_bytes) = (0, self.length);
            }
            bytes = rest;
        }
    }

    fn is_between_records(&self) -> bool {
        self.header_bytes == 0 && self.remaining_body_bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_between_records_is_distinguished_from_one_within_a_record_api_16() {
        let records =
            [[23, 3, 3, 0, 2, 9, 9].as_slice(), &[23, 3, 3, 0, 0], &[21, 3, 3, 1, 0], &[7; 256]].concat();
        let ends = [0, 7, 12, records.len()];
        for end in 0..=records.len() {
            for chunk in [1, 3, 300] {
                let mut place = RecordPosition::default();
                records[..end].chunks(chunk).for_each(|bytes| place.advance(bytes));
                assert_eq!(place.is_between_records(), ends.contains(&end), "{end} by {chunk}");
            }
        }
    }
}
