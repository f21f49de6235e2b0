//! A client for tests, on the same codec: opens streams, sends, and collects what comes back.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};

use super::Headers;
use super::connection::{Connection, Event, Side};
use super::frame::ResetStatus;

/// The state of a stream as the client sees it.
#[derive(Debug, Default)]
pub(crate) struct StreamContent {
    pub(crate) accepted: bool,
    pub(crate) data: Vec<u8>,
    pub(crate) finished: bool,
    pub(crate) closed: bool,
}

pub(crate) struct Client {
    connection: Connection,
    reader: ReadHalf<DuplexStream>,
    writer: WriteHalf<DuplexStream>,
    streams: HashMap<u32, StreamContent>,
}

impl Client {
    pub(crate) fn new(socket: DuplexStream) -> Self {
        let (reader, writer) = tokio::io::split(socket);
        Self { connection: Connection::new(Side::Client), reader, writer, streams: HashMap::new() }
    }

    pub(crate) fn open<const N: usize>(&mut self, headers: [(&str, &str); N]) -> u32 {
        let id = self.connection.open(&Headers::from(headers)).unwrap();
        self.streams.insert(id, StreamContent::default());
        id
    }

    pub(crate) fn content(&self, id: u32) -> &StreamContent {
        &self.streams[&id]
    }

    /// Sends bytes; returns once they are sent.
    pub(crate) async fn send(&mut self, id: u32, bytes: Bytes) {
        assert!(self.connection.send(id, bytes), "stream {id} is gone");
        let mut sent = false;
        while !sent {
            self.step().await;
            sent = self.connection.take_drained().contains(&id);
        }
    }

    pub(crate) fn finish(&mut self, id: u32) {
        self.connection.finish(id);
    }

    pub(crate) fn reset(&mut self, id: u32) {
        self.connection.reset(id, ResetStatus::CANCEL);
    }

    /// Runs the connection until the condition holds.
    pub(crate) async fn until(&mut self, condition: &str, so: impl Fn(&Self) -> bool) {
        let going = async {
            while !so(self) {
                self.step().await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), going)
            .await
            .unwrap_or_else(|_| panic!("in vain: {condition}"));
    }

    /// Writes or reads once.
    async fn step(&mut self) {
        let mut buffer = [0; 4096];
        let writes = !self.connection.output().is_empty();
        tokio::select! {
            wrote = self.writer.write_buf(self.connection.output()), if writes => drop(wrote.unwrap()),
            read = self.reader.read(&mut buffer) => {
                let count = read.unwrap();
                assert!(count > 0, "the server hung up");
                self.connection.receive(&buffer[..count]).unwrap();
            }
        }
        while let Some(event) = self.connection.next_event() {
            let (Event::Opened { id, .. }
            | Event::Accepted { id }
            | Event::Data { id, .. }
            | Event::Finished { id }
            | Event::Closed { id }) = event;
            let seen = self.streams.entry(id).or_default();
            match event {
                Event::Opened { .. } => panic!("the server opened stream {id}"),
                Event::Accepted { .. } => seen.accepted = true,
                Event::Data { bytes, .. } => {
                    seen.data.extend_from_slice(&bytes);
                    self.connection.consumed(id, bytes.len());
                }
                Event::Finished { .. } => seen.finished = true,
                Event::Closed { .. } => seen.closed = true,
            }
        }
    }
}
