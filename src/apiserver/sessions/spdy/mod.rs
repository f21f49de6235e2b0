//! Sessions over SPDY: a stream for each of stdin, stdout, stderr, resize and the final status ("error").

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

use super::status::{Sizes, StatusForm};
use super::{ExitReport, SessionReader, SessionWriter, ends, relay};
use crate::spdy::{self, Reader, Streams, Writer};
use base::clock::if_some;
use base::session::{Session, SessionInput, SessionOutput, SessionStreams};

/// The supported protocols. The first two versions have no resizing, and only the last one reports the status
/// as JSON.
pub(super) const PROTOCOLS: &[&str] =
    &["v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];

/// The time limit for a client to open its streams.
const STREAM_CREATION: Duration = Duration::from_secs(30);

/// Carries a session over a socket until either side ends.
pub(super) async fn serve_session<S>(
    socket: S,
    protocol: &str,
    requested: SessionStreams,
    session: Session,
    exit_report: ExitReport,
) where
    S: AsyncRead + AsyncWrite + Send,
{
    let (streams, connection) = spdy::serve(socket);
    let resizes = matches!(protocol, "v4.channel.k8s.io" | "v3.channel.k8s.io");
    let talk = async move {
        let expected = ExpectedStreams {
            stdin: requested.stdin,
            stdout: requested.stdout,
            stderr: requested.stderr && !requested.tty,
            resize: requested.tty && resizes,
        };
        let opened = tokio::time::timeout(STREAM_CREATION, OpenedStreams::collect(streams, expected));
        match opened.await {
            Ok(Some(opened)) => {
                let (inward, outward) = opened.split(StatusForm::of_protocol(protocol));
                relay(inward, outward, session, exit_report).await;
            }
            Ok(None) => {}
            Err(_) => tracing::debug!("timed out waiting for client to create streams"),
        }
    };
    tokio::join!(connection, talk);
}

/// The streams that the client opens besides the status stream.
#[derive(Clone, Copy)]
struct ExpectedStreams {
    stdin: bool,
    stdout: bool,
    stderr: bool,
    resize: bool,
}

/// The streams that the client has opened.
struct OpenedStreams {
    streams: Streams,
    status: Option<Writer>,
    stdin: Option<(Reader, Writer)>,
    stdout: Option<Writer>,
    stderr: Option<Writer>,
    resize: Option<(Reader, Writer)>,
}

impl OpenedStreams {
    /// Waits until the client has opened all expected streams; `None` if it leaves before.
    async fn collect(streams: Streams, expected: ExpectedStreams) -> Option<Self> {
        let mut opened =
            Self { streams, status: None, stdin: None, stdout: None, stderr: None, resize: None };
        while !opened.complete(expected) {
            let offer = opened.streams.next().await?;
            // Dropping an unexpected stream refuses it.
            match offer.headers.get("streamtype") {
                "error" if opened.status.is_none() => {
                    opened.status = offer.accept().map(|(_, writer)| writer);
                }
                "stdin" if expected.stdin && opened.stdin.is_none() => opened.stdin = offer.accept(),
                "stdout" if expected.stdout && opened.stdout.is_none() => {
                    opened.stdout = offer.accept().map(|(_, writer)| writer);
                }
                "stderr" if expected.stderr && opened.stderr.is_none() => {
                    opened.stderr = offer.accept().map(|(_, writer)| writer);
                }
                "resize" if expected.resize && opened.resize.is_none() => opened.resize = offer.accept(),
                other => tracing::debug!("unexpected stream type: {other:?}"),
            }
        }
        Some(opened)
    }

    fn complete(&self, expected: ExpectedStreams) -> bool {
        self.status.is_some()
            && self.stdin.is_some() == expected.stdin
            && self.stdout.is_some() == expected.stdout
            && self.stderr.is_some() == expected.stderr
            && self.resize.is_some() == expected.resize
    }

    fn split(self, form: StatusForm) -> (SpdyReader, SpdyWriter) {
        let (stdin, stdin_back) = self.stdin.unzip();
        let (resize, resize_back) = self.resize.unzip();
        let inward = SpdyReader { streams: self.streams, stdin, resize, sizes: Sizes::default() };
        let held = stdin_back.into_iter().chain(resize_back).collect();
        let outward = SpdyWriter {
            stdout: self.stdout,
            stderr: self.stderr,
            status: self.status,
            form,
            open_writers: held,
        };
        (inward, outward)
    }
}

struct SpdyReader {
    streams: Streams,
    stdin: Option<Reader>,
    resize: Option<Reader>,
    sizes: Sizes,
}

impl SessionReader for SpdyReader {
    async fn next(&mut self) -> Option<SessionInput> {
        loop {
            tokio::select! {
                biased;
                // The client left; a stream that it opens during the session is refused.
                offer = self.streams.next() => drop(offer?),
                read = if_some(self.stdin.as_mut().map(Reader::read)) => {
                    let Ok(Some(bytes)) = read else {
                        self.stdin = None;
                        return Some(SessionInput::StdinClosed);
                    };
                    return Some(SessionInput::Stdin(bytes));
                }
                read = if_some(self.resize.as_mut().map(Reader::read)) => {
                    let Ok(Some(bytes)) = read else {
                        self.resize = None;
                        continue;
                    };
                    if let Some(size) = self.sizes.feed(&bytes) {
                        return Some(SessionInput::Resize(size));
                    }
                }
            }
        }
    }

    async fn wait_closed(&mut self) {
        while let Some(late) = self.streams.next().await {
            drop(late);
        }
    }
}

struct SpdyWriter {
    stdout: Option<Writer>,
    stderr: Option<Writer>,
    status: Option<Writer>,
    form: StatusForm,
    /// Our halves of the client's own streams. Clients take the end of a half for the end of the process and
    /// then send no more input, so the halves stay open until the process ends.
    open_writers: Vec<Writer>,
}

impl SessionWriter for SpdyWriter {
    async fn send_output(&mut self, output: SessionOutput) -> bool {
        let (writer, bytes) = match &output {
            SessionOutput::Stdout(bytes) => (&mut self.stdout, bytes.clone()),
            SessionOutput::Stderr(bytes) => (&mut self.stderr, bytes.clone()),
            end => (&mut self.status, self.form.of(end).unwrap_or_default().into()),
        };
        if let Some(open) = writer
            && open.write(bytes).await.is_err()
        {
            // The client reads this stream no more; the reading half detects if the client has left.
            *writer = None;
        }
        if ends(&output) {
            (self.stdout, self.stderr, self.status) = (None, None, None);
            self.open_writers.clear();
        }
        true
    }
}

#[cfg(test)]
mod tests;
