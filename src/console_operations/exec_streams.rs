//! The streams of a command in a container, which end at the latest with the connection.
//!
//! kube leaves its streams open when a connection breaks, as it does if the server is killed: a read or a write would
//! wait for ever. The status shows the end, because then it will never arrive.

use std::io;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::AttachedProcess;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Size of a read; the output of a busy program arrives in chunks of this size.
pub(crate) const READ_BYTES: usize = 32 * 1024;

/// The status that the server sends when the command has ended; `None` if the connection ended without one.
pub(crate) type ExecStatus = Shared<BoxFuture<'static, Option<Status>>>;

/// Takes the status of a command.
pub(crate) fn status_of(process: &mut AttachedProcess) -> ExecStatus {
    let status = process.take_status();
    async move {
        match status {
            Some(status) => status.await,
            None => None,
        }
    }
    .boxed()
    .shared()
}

/// Reads one output stream until its end or the connection's.
pub(crate) struct Source<R> {
    reader: Option<R>,
    buffer: Vec<u8>,
    status: ExecStatus,
}

impl<R: AsyncRead + Unpin> Source<R> {
    pub(crate) fn new(reader: Option<R>, status: ExecStatus) -> Self {
        Self { reader, buffer: vec![0; READ_BYTES], status }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.reader.is_some()
    }

    /// Returns the next bytes; empty at the end, after which the stream is closed. Cancel safe.
    pub(crate) async fn read(&mut self) -> Bytes {
        let Some(reader) = &mut self.reader else { return Bytes::new() };
        let broken = async {
            if self.status.clone().await.is_some() {
                // The connection is in order: the end of the stream follows the rest of the output.
                std::future::pending::<()>().await;
            }
        };
        let read = tokio::select! {
            biased;
            read = reader.read(&mut self.buffer) => read,
            // The connection may have broken just after the last output arrived.
            () = broken => {
                tokio::task::unconstrained(reader.read(&mut self.buffer)).now_or_never().unwrap_or(Ok(0))
            }
        };
        match read {
            Ok(count) if count > 0 => Bytes::copy_from_slice(&self.buffer[..count]),
            _ => {
                self.reader = None;
                Bytes::new()
            }
        }
    }
}

/// Writes all bytes to the input of a command; fails if the command or its connection ends before.
pub(crate) async fn write_all(
    stdin: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
    status: &ExecStatus,
) -> io::Result<()> {
    tokio::select! {
        biased;
        written = stdin.write_all(bytes) => written,
        _ = status.clone() => Err(io::ErrorKind::BrokenPipe.into()),
    }
}
