//! Reads containers' logs for `kubectl logs` and for termination messages.
//!
//! The runtime writes lines in CRI's format (`TIME stream TAG text`); nothing here writes or rotates. A follower loses
//! no line to rotation: its files are held open ([`OpenFiles`]), and new ones are opened even while a slow client
//! blocks.

mod entry;
mod open_files;
mod termination_message;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use api::node_access::{LogRequest, LogStream};
use entry::entry;
use open_files::{OpenFile, OpenFiles};
pub(super) use termination_message::termination_message;

/// The period between reads of a followed log. The node's host leaves each file in place for longer, so that no file is
/// missed.
const FOLLOW_PERIOD: Duration = Duration::from_millis(100);
/// Pieces sent to the client are about this large.
const PIECE: usize = 32 * 1024;
/// The maximum size of a buffered line; longer ones are sent in parts.
const MAX_LINE: usize = 1024 * 1024;
/// Marks lines in a log that are not available.
const GAP: &str = "[podium: lines are missing here: the log was rotated before they were read]";

/// The files of a container's log, and a flag that more lines may come.
pub(super) struct LogState {
    /// The possible paths of its files, oldest first.
    pub(super) files: Vec<PathBuf>,
    /// The container ran when this was checked, before the files were listed.
    pub(super) running: bool,
}

/// Sends a container's log to a client until its end, its limit, or until the client disconnects.
pub(super) async fn send(
    request: LogRequest,
    to: mpsc::Sender<Bytes>,
    mut look: impl FnMut() -> BoxFuture<'static, LogState> + Send,
) {
    let (follow, tail_lines) = (request.follow, request.tail_lines);
    let mut output =
        Output { to, piece: Vec::new(), remaining: request.limit_bytes, at_line_start: true, request };
    let (files, mut reader) = (Mutex::new(OpenFiles::default()), Reader::default());
    let first = look().await;
    open(&files, first.files).await;
    if let Some(lines) = tail_lines {
        reader.offset = skip_to_tail(&files, lines).await;
    }
    let (looked, mut looks) = watch::channel(follow && first.running);
    let read = async {
        loop {
            // Read before the files: if the container has ended, all files with its output are open by now.
            let more_may_come = *looks.borrow_and_update();
            if reader.read(&files, &mut output).await.is_err() {
                // Lines before the limit still go to the client.
                let _ = output.flush().await;
                return;
            }
            if output.flush().await.is_err() || !more_may_come {
                return;
            }
            tokio::select! {
                looked = looks.changed() => if looked.is_err() { return },
                () = output.to.closed() => return,
            }
        }
    };
    // Opens new files even while a slow client blocks the reader.
    let look_on = async {
        while *looked.borrow() {
            tokio::time::sleep(FOLLOW_PERIOD).await;
            let seen = look().await;
            open(&files, seen.files).await;
            looked.send_replace(seen.running);
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = read => {}
        () = look_on => {}
    }
}

async fn open(files: &Mutex<OpenFiles>, paths: Vec<PathBuf>) {
    if let Ok(now) = base::task::blocking(move || open_files::open(&paths)).await {
        files.lock().update(now);
    }
}

/// Skips all but the last lines; returns the size of the part of the first file that remains.
async fn skip_to_tail(files: &Mutex<OpenFiles>, lines: u64) -> u64 {
    let all = files.lock().all();
    let found = base::task::blocking(move || open_files::tail(&all, lines)).await;
    let Ok(Ok((skipped, offset))) = found else { return 0 };
    files.lock().skip(skipped);
    offset
}

struct Output {
    to: mpsc::Sender<Bytes>,
    piece: Vec<u8>,
    remaining: Option<u64>,
    at_line_start: bool,
    request: LogRequest,
}

/// The client has disconnected, or has received all it requested.
struct LogFinished;

impl Output {
    async fn line(&mut self, line: &[u8]) -> Result<(), LogFinished> {
        let entry = entry(line);
        if let Some(since) = self.request.since {
            let at = std::str::from_utf8(entry.at).ok().and_then(|text| text.parse::<Timestamp>().ok());
            if at.is_some_and(|at| at < since) {
                return Ok(());
            }
        }
        let requested = self.request.stream.map(|stream| match stream {
            LogStream::Stdout => b"stdout",
            LogStream::Stderr => b"stderr",
        });
        if requested.is_some_and(|requested| !entry.stream.is_empty() && entry.stream != requested) {
            return Ok(());
        }
        if self.request.timestamps && self.at_line_start && !entry.at.is_empty() {
            self.push(entry.at)?;
            self.push(b" ")?;
        }
        self.push(entry.text)?;
        self.at_line_start = !entry.partial;
        if !entry.partial {
            self.push(b"\n")?;
        }
        if self.piece.len() >= PIECE { self.flush().await } else { Ok(()) }
    }

    /// Reports missing lines.
    fn gap(&mut self) -> Result<(), LogFinished> {
        tracing::warn!(container = %self.request.container, "a log was rotated before it was read");
        if !std::mem::replace(&mut self.at_line_start, true) {
            self.push(b"\n")?;
        }
        self.push(GAP.as_bytes())?;
        self.push(b"\n")
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), LogFinished> {
        let fits = self.remaining.map_or(bytes.len(), |left| bytes.len().min(left as usize));
        self.piece.extend_from_slice(&bytes[..fits]);
        if let Some(left) = &mut self.remaining {
            *left -= fits as u64;
            if *left == 0 {
                return Err(LogFinished);
            }
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), LogFinished> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = Bytes::from(std::mem::take(&mut self.piece));
        self.to.send(piece).await.map_err(|_| LogFinished)
    }
}

/// Reads a log's files one after the other.
#[derive(Default)]
struct Reader {
    /// The position up to which the first open file has been read.
    offset: u64,
    /// The beginning of an incomplete line.
    rest: Vec<u8>,
}

impl Reader {
    /// Reads all available lines, up to the end of the newest file.
    async fn read(&mut self, files: &Mutex<OpenFiles>, output: &mut Output) -> Result<(), LogFinished> {
        loop {
            // Checked before reading: once there is a newer file this one no longer grows.
            let Some((file, is_newest)) = files.lock().first() else { return Ok(()) };
            self.read_file(&file, output).await?;
            if is_newest {
                return Ok(());
            }
            if !self.rest.is_empty() {
                // The file's writer died in the middle of a line.
                output.line(&std::mem::take(&mut self.rest)).await?;
            }
            self.offset = 0;
            let follows_gap = files.lock().advance().is_some_and(|next| next.follows_gap);
            if follows_gap {
                output.gap()?;
            }
        }
    }

    async fn read_file(&mut self, file: &Arc<OpenFile>, output: &mut Output) -> Result<(), LogFinished> {
        loop {
            let (file, offset) = (Arc::clone(file), self.offset);
            // A disk that does not respond must not block anything else.
            let chunk = base::task::blocking(move || file.read(offset)).await;
            let Ok(Ok(chunk)) = chunk else { return Ok(()) };
            if chunk.is_empty() {
                return Ok(());
            }
            self.offset += chunk.len() as u64;
            for part in chunk.split_inclusive(|byte| *byte == b'\n') {
                self.rest.extend_from_slice(part);
                let is_whole = self.rest.last() == Some(&b'\n');
                if is_whole || self.rest.len() >= MAX_LINE {
                    let line = std::mem::take(&mut self.rest);
                    output.line(if is_whole { &line[..line.len() - 1] } else { &line }).await?;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    async fn read(request: LogRequest) -> String {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("0.log.1"), dir.path().join("0.log"));
        std::fs::write(&old, "2026-01-01T00:00:01Z stdout F one\n2026-01-01T00:00:02Z stderr P tw\n")
            .unwrap();
        std::fs::write(&new, "2026-01-01T00:00:02Z stderr F o\n2026-01-01T00:00:03Z stdout F three\n2026-")
            .unwrap();
        let (to, mut from) = mpsc::channel(8);
        let look = move || {
            let files = vec![old.clone(), new.clone()];
            async move { LogState { files, running: false } }.boxed()
        };
        send(request, to, look).await;
        let mut all = Vec::new();
        while let Ok(piece) = from.try_recv() {
            all.extend_from_slice(&piece);
        }
        String::from_utf8(all).unwrap()
    }

    #[tokio::test]
    async fn logs_are_read_across_rotated_files() {
        let all = LogRequest::default();
        for (request, expected) in [
            (all.clone(), "one\ntwo\nthree\n"),
            (LogRequest { tail_lines: Some(1), ..all.clone() }, "three\n"),
            (LogRequest { tail_lines: Some(2), ..all.clone() }, "two\nthree\n"),
            (LogRequest { tail_lines: Some(0), ..all.clone() }, ""),
            (LogRequest { tail_lines: Some(99), follow: true, ..all.clone() }, "one\ntwo\nthree\n"),
            (LogRequest { limit_bytes: Some(5), ..all.clone() }, "one\nt"),
            (LogRequest { stream: Some(LogStream::Stdout), ..all.clone() }, "one\nthree\n"),
            (LogRequest { stream: Some(LogStream::Stderr), ..all.clone() }, "two\n"),
            (LogRequest { since: Some("2026-01-01T00:00:03Z".parse().unwrap()), ..all.clone() }, "three\n"),
            (
                LogRequest { timestamps: true, tail_lines: Some(2), ..all },
                "2026-01-01T00:00:02Z two\n2026-01-01T00:00:03Z three\n",
            ),
        ] {
            assert_eq!(read(request.clone()).await, expected, "{request:?}");
        }
    }

    /// Follows a log that rotates as the node's host rotates it: each file is listed before it is removed. Returns the
    /// line numbers that the client got.
    async fn follow_rotations(rotations: usize, request: LogRequest) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let paths = ["log.4", "log.3", "log.2", "log.1", "log"].map(|name| dir.path().join(name));
        let (to, mut from) = mpsc::channel(2);
        let (running, is_running) = watch::channel(true);
        let (looked, mut looks) = watch::channel(0_u32);
        let listed = paths.to_vec();
        let look = move || {
            looked.send_modify(|looks| *looks += 1);
            let (files, running) = (listed.clone(), *is_running.borrow());
            async move { LogState { files, running } }.boxed()
        };
        let write = |number: usize| {
            for (older, newer) in paths.iter().zip(&paths[1..]) {
                let _ = std::fs::rename(newer, older);
            }
            // A file has more data than the channel to the client holds.
            let line = |line| {
                format!("2026-01-01T00:00:{number:02}Z stdout F {number}-{line} {}\n", "x".repeat(9000))
            };
            std::fs::write(&paths[4], (0..20).map(line).collect::<String>()).unwrap();
        };
        write(0);
        let follower = tokio::spawn(send(request, to, look));
        for number in 1..=rotations {
            // When a listing has started and the next one as well, the files of the first are open.
            let initial = *looks.borrow_and_update();
            looks.wait_for(|looks| *looks >= initial + 2).await.unwrap();
            write(number);
        }
        running.send_replace(false);
        let mut all = Vec::new();
        while let Some(piece) = from.recv().await {
            all.extend_from_slice(&piece);
        }
        follower.await.unwrap();
        let text = String::from_utf8(all).unwrap();
        text.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_during_many_rotations_gets_every_line_api_3() {
        let lines = |first: usize| -> Vec<String> {
            (first..=25).flat_map(|number| (0..20).map(move |line| format!("{number}-{line}"))).collect()
        };
        let request = LogRequest { follow: true, ..LogRequest::default() };
        assert_eq!(follow_rotations(25, request.clone()).await, lines(0));
        let since = Some("2026-01-01T00:00:07Z".parse().unwrap());
        assert_eq!(follow_rotations(25, LogRequest { since, ..request.clone() }).await, lines(7));
        let tail = LogRequest { tail_lines: Some(3), ..request };
        assert_eq!(follow_rotations(25, tail).await, [&lines(0)[17..20], &lines(1)].concat());
    }

    /// The message of `echo -n DONE` is `DONE` (POD-9).
    #[tokio::test]
    async fn a_log_without_a_last_line_end_is_read_without_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let lines = "2026-01-01T00:00:01Z stdout F one\n2026-01-01T00:00:02Z stdout P DONE\n";
        std::fs::write(&path, lines).unwrap();
        let files = vec![path];
        assert_eq!(termination_message::read_tail(&files), "one\nDONE");
        let (to, mut from) = mpsc::channel(8);
        let request = LogRequest { tail_lines: Some(1), ..LogRequest::default() };
        send(request, to, move || {
            let files = files.clone();
            async move { LogState { files, running: false } }.boxed()
        })
        .await;
        assert_eq!(from.recv().await.unwrap(), "DONE");
    }
}
