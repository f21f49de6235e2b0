//! Reads a stream on a thread of its own, ahead of the reader: one processor decompresses a layer while another one
//! checks it and writes its files.
//!
//! The memory is bounded: the thread is at most [`PARTS`] parts ahead, and the parts are used again.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// The size of a part.
pub(super) const PART_BYTES: usize = 128 << 10;
/// The number of parts that are read ahead.
const PARTS: usize = 4;

/// A part of the stream: a buffer of [`PART_BYTES`] and the number of bytes in it.
type Part = (Vec<u8>, usize);

/// Calls `read` with a reader of the stream, which a thread reads ahead. Returns the result when the thread has ended; it
/// ends early if the reader does.
pub(super) fn read_ahead<T>(
    stream: impl Read + Send,
    read: impl FnOnce(&mut dyn Read) -> T,
) -> io::Result<T> {
    let (parts, received) = sync_channel::<io::Result<Part>>(PARTS);
    let (used, free) = sync_channel::<Vec<u8>>(PARTS + 2);
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("read-ahead".into());
        thread.spawn_scoped(scope, move || send_parts(stream, &parts, &free))?;
        let mut reader = PartReader { received, used, part: Vec::new(), length: 0, offset: 0 };
        Ok(read(&mut reader))
    })
}

/// Sends the stream in parts until it ends or the reader is gone.
fn send_parts(mut stream: impl Read, parts: &SyncSender<io::Result<Part>>, free: &Receiver<Vec<u8>>) {
    loop {
        let mut part = free.try_recv().unwrap_or_else(|_| vec![0; PART_BYTES]);
        let (length, end) = fill(&mut stream, &mut part);
        // The bytes that were read before an error come first.
        if length > 0 && parts.send(Ok((part, length))).is_err() {
            return;
        }
        match end {
            None => {}
            Some(Ok(())) => return,
            Some(Err(error)) => {
                // The reader may be gone.
                let _ = parts.send(Err(error));
                return;
            }
        }
    }
}

/// Fills a buffer; returns the number of bytes read, and the end of the stream if it was reached.
fn fill(stream: &mut impl Read, buffer: &mut [u8]) -> (usize, Option<io::Result<()>>) {
    let mut length = 0;
    while length < buffer.len() {
        match stream.read(&mut buffer[length..]) {
            Ok(0) => return (length, Some(Ok(()))),
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (length, Some(Err(error))),
        }
    }
    (length, None)
}

/// Reads the parts.
struct PartReader {
    received: Receiver<io::Result<Part>>,
    used: SyncSender<Vec<u8>>,
    part: Vec<u8>,
    /// The number of bytes in the part, and of those that were read.
    length: usize,
    offset: usize,
}

impl Read for PartReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.offset == self.length {
            // A stream that ends has no more parts.
            let Ok(next) = self.received.recv() else { return Ok(0) };
            let (part, length) = next?;
            let used = std::mem::replace(&mut self.part, part);
            if !used.is_empty() {
                // A thread that has ended needs no more parts.
                let _ = self.used.try_send(used);
            }
            (self.length, self.offset) = (length, 0);
        }
        let rest = &self.part[self.offset..self.length];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.offset += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives some bytes, then an error.
    struct FailingStream<'a>(&'a [u8]);

    impl Read for FailingStream<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(io::ErrorKind::ConnectionReset.into()),
                count => Ok(count),
            }
        }
    }

    #[test]
    fn the_reader_gets_the_whole_stream_and_then_its_end() {
        for size in [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 20 * PART_BYTES + 7] {
            let content: Vec<u8> = (0..size).map(|number| (number / 3) as u8).collect();
            let read = read_ahead(content.as_slice(), |reader| {
                let mut all = Vec::new();
                reader.read_to_end(&mut all).map(|_| all)
            });
            assert_eq!(read.unwrap().unwrap(), content, "{size} bytes");
        }
    }

    #[test]
    fn an_error_comes_after_the_bytes_before_it() {
        let content = vec![7; PART_BYTES + 9];
        let (error, all) = read_ahead(FailingStream(&content), |reader| {
            let mut all = Vec::new();
            (reader.read_to_end(&mut all).unwrap_err(), all)
        })
        .unwrap();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(all, content);
    }

    /// SEC-2: a stream without end is read only a little further than its reader reads.
    #[test]
    fn a_reader_that_stops_ends_the_thread() {
        let mut first = [0; 10];
        let mut stream = io::repeat(b'x').take(u64::MAX);
        read_ahead(&mut stream, |reader| reader.read_exact(&mut first)).unwrap().unwrap();
        assert!(u64::MAX - stream.limit() <= ((PARTS + 3) * PART_BYTES) as u64);
        assert_eq!(first, [b'x'; 10]);
    }
}
