//! The output of a container on its way to the emulator.

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Size of a read; the output of a busy program arrives in chunks of this size, and is drawn once for each.
pub(super) const READ_BYTES: usize = 32 * 1024;

/// Reads one output stream until its end.
pub(super) struct Source<R> {
    reader: Option<R>,
    buffer: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Source<R> {
    pub(super) fn new(reader: Option<R>) -> Self {
        Self { reader, buffer: vec![0; READ_BYTES] }
    }

    pub(super) fn is_open(&self) -> bool {
        self.reader.is_some()
    }

    /// Returns the next bytes; empty at the end, after which the stream is closed.
    pub(super) async fn read(&mut self) -> Bytes {
        let Some(reader) = &mut self.reader else { return Bytes::new() };
        match reader.read(&mut self.buffer).await {
            Ok(count) if count > 0 => Bytes::copy_from_slice(&self.buffer[..count]),
            _ => {
                self.reader = None;
                Bytes::new()
            }
        }
    }
}

/// Adds carriage returns: a container without a TTY ends lines with LF only, which an emulator treats as "down".
pub(super) fn carriage_returns(bytes: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 16);
    for &byte in bytes {
        if byte == b'\n' {
            out.push(b'\r');
        }
        out.push(byte);
    }
    Bytes::from(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_container_without_a_terminal_start_at_the_left() {
        assert_eq!(carriage_returns(b"a\nb\n"), &b"a\r\nb\r\n"[..]);
    }
}
