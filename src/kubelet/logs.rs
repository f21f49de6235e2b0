//! Reading containers' logs for `kubectl logs` and for termination messages.
//!
//! The runtime writes lines as CRI has them (`TIME stream TAG text`); nothing here writes or rotates.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc;

use super::runtime::{ContainerId, Runtime};
use api::node_access::{LogRequest, LogStream};

/// How often a followed log is looked at again.
const FOLLOW_PERIOD: Duration = Duration::from_millis(100);
/// Pieces sent to the client are about this large.
const PIECE: usize = 32 * 1024;
/// The part of a log that may become a termination message (POD-9).
const LAST_WORDS_BYTES: usize = 2048;
const LAST_WORDS_LINES: usize = 80;
/// One line of a log is never held beyond this; what is longer arrives in parts.
const MAX_LINE: u64 = 1024 * 1024;

/// One entry: its time, its text, and whether the line goes on in the next entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry<'a> {
    at: &'a [u8],
    /// Empty when the line does not say.
    stream: &'a [u8],
    text: &'a [u8],
    partial: bool,
}

/// Splits `2026-11-21T03:27:14.1Z stdout F text`; a line of another form is text as it is.
fn entry(line: &[u8]) -> Entry<'_> {
    let mut parts = line.splitn(4, |b| *b == b' ');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(at), Some(stream @ (b"stdout" | b"stderr")), Some(tag @ (b"F" | b"P")), text) => {
            Entry { at, stream, text: text.unwrap_or_default(), partial: tag == b"P" }
        }
        _ => Entry { at: b"", stream: b"", text: line, partial: false },
    }
}

/// Where a container's log is, and whether more may come.
pub(super) struct LogState {
    /// The log files, oldest first.
    pub(super) files: Vec<PathBuf>,
    /// The container ran when it was asked, before the files were listed.
    pub(super) running: bool,
}

/// Sends a container's log to a client until its end, its limit, or until the client has gone.
pub(super) async fn send(
    request: LogRequest,
    to: mpsc::Sender<Bytes>,
    mut look: impl FnMut() -> BoxFuture<'static, LogState> + Send,
) {
    let mut output =
        Output { to, piece: Vec::new(), left: request.limit_bytes, at_line_start: true, request };
    let mut position = match output.request.tail_lines {
        Some(lines) => tail_position(&look().await.files, lines).await,
        None => Position::default(),
    };
    loop {
        let seen = look().await;
        position.read(&seen.files, &mut output).await;
        if output.flush().await.is_err() || output.left == Some(0) {
            return;
        }
        // It had ended before the files were listed: it has written everything it will.
        if !output.request.follow || !seen.running {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(FOLLOW_PERIOD) => {}
            () = output.to.closed() => return,
        }
    }
}

struct Output {
    to: mpsc::Sender<Bytes>,
    piece: Vec<u8>,
    left: Option<u64>,
    at_line_start: bool,
    request: LogRequest,
}

/// The client has gone, or has got all it asked for.
struct Over;

impl Output {
    async fn line(&mut self, line: &[u8]) -> Result<(), Over> {
        let entry = entry(line);
        if let Some(since) = self.request.since {
            let at = std::str::from_utf8(entry.at).ok().and_then(|text| text.parse::<Timestamp>().ok());
            if at.is_some_and(|at| at < since) {
                return Ok(());
            }
        }
        let wanted = self.request.stream.map(|stream| match stream {
            LogStream::Stdout => b"stdout",
            LogStream::Stderr => b"stderr",
        });
        if wanted.is_some_and(|wanted| !entry.stream.is_empty() && entry.stream != wanted) {
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

    fn push(&mut self, bytes: &[u8]) -> Result<(), Over> {
        let fits = self.left.map_or(bytes.len(), |left| bytes.len().min(left as usize));
        self.piece.extend_from_slice(&bytes[..fits]);
        if let Some(left) = &mut self.left {
            *left -= fits as u64;
            if *left == 0 {
                return Err(Over);
            }
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), Over> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = Bytes::from(std::mem::take(&mut self.piece));
        self.to.send(piece).await.map_err(|_| Over)
    }
}

/// How far a log has been read: a file, known by its inode since rotation renames it, and a place in it.
#[derive(Debug, Default)]
struct Position {
    inode: Option<u64>,
    offset: u64,
}

fn inode(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|m| m.ino())
}

impl Position {
    /// Reads what is new.
    async fn read(&mut self, files: &[PathBuf], output: &mut Output) {
        let here = files.iter().position(|path| self.inode.is_some() && inode(path) == self.inode);
        let start = here.unwrap_or_else(|| {
            // The file was rotated away unread, or nothing was read yet: begin with the oldest there is.
            (self.inode, self.offset) = (None, 0);
            0
        });
        for (index, path) in files.iter().enumerate().skip(start) {
            if index > start || self.inode.is_none() {
                (self.inode, self.offset) = (inode(path), 0);
            }
            if self.read_file(path, output).await.is_err() {
                output.left = Some(0);
                return;
            }
        }
    }

    async fn read_file(&mut self, path: &Path, output: &mut Output) -> Result<(), Over> {
        use tokio::io::{AsyncReadExt, AsyncSeekExt};
        let Ok(mut file) = tokio::fs::File::open(path).await else { return Ok(()) };
        if file.seek(std::io::SeekFrom::Start(self.offset)).await.is_err() {
            return Ok(());
        }
        let mut reader = BufReader::with_capacity(64 * 1024, file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let Ok(n) = (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line).await else {
                return Ok(());
            };
            let whole = line.last() == Some(&b'\n');
            // A line without its end is still being written, unless it is longer than any line may be.
            if n == 0 || (!whole && (n as u64) < MAX_LINE) {
                return Ok(());
            }
            self.offset += n as u64;
            output.line(if whole { &line[..line.len() - 1] } else { &line }).await?;
        }
    }
}

/// Where the last `lines` lines begin.
async fn tail_position(files: &[PathBuf], lines: u64) -> Position {
    let files = files.to_vec();
    let found = tokio::task::spawn_blocking(move || {
        let mut starts: VecDeque<(u64, u64)> = VecDeque::new();
        let mut end = (None, 0);
        let mut in_line = false;
        for path in &files {
            let (Some(inode), Ok(bytes)) = (inode(path), std::fs::read(path)) else { continue };
            let mut offset = 0u64;
            let whole = bytes.split_inclusive(|b| *b == b'\n').filter(|line| line.ends_with(b"\n"));
            for line in whole {
                if !in_line {
                    starts.push_back((inode, offset));
                    if starts.len() as u64 > lines {
                        starts.pop_front();
                    }
                }
                in_line = entry(line.strip_suffix(b"\n").unwrap_or(line)).partial;
                offset += line.len() as u64;
            }
            end = (Some(inode), offset);
        }
        match starts.front() {
            Some((inode, offset)) => Position { inode: Some(*inode), offset: *offset },
            None => Position { inode: end.0, offset: end.1 },
        }
    });
    found.await.unwrap_or_default()
}

/// The last lines of a container's log, as they become its termination message.
pub(super) async fn last_words(runtime: &dyn Runtime, id: &ContainerId) -> String {
    let files = runtime.log_files(id).await.unwrap_or_default();
    tokio::task::spawn_blocking(move || words_of(&files)).await.unwrap_or_default()
}

fn words_of(files: &[PathBuf]) -> String {
    let mut text: Vec<u8> = Vec::new();
    for path in files.iter().rev() {
        let Ok(bytes) = std::fs::read(path) else { continue };
        let mut part = Vec::new();
        let lines: Vec<&[u8]> = bytes.split(|b| *b == b'\n').filter(|l| !l.is_empty()).collect();
        for line in lines.iter().skip(lines.len().saturating_sub(LAST_WORDS_LINES)) {
            let entry = entry(line);
            part.extend_from_slice(entry.text);
            if !entry.partial {
                part.push(b'\n');
            }
        }
        part.extend_from_slice(&text);
        text = part;
        if text.len() >= LAST_WORDS_BYTES {
            break;
        }
    }
    last_lines(&text)
}

/// The last 80 lines, 2 KiB at most.
fn last_lines(text: &[u8]) -> String {
    let from = text.len().saturating_sub(LAST_WORDS_BYTES);
    let text = String::from_utf8_lossy(&text[from..]);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    lines[lines.len().saturating_sub(LAST_WORDS_LINES)..].concat()
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

    /// CONFORMANCE-FOUND "report termination message from log output", POD-9: `echo -n DONE` says `DONE`.
    #[tokio::test]
    async fn a_log_without_a_last_line_end_is_read_without_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let lines = "2026-01-01T00:00:01Z stdout F one\n2026-01-01T00:00:02Z stdout P DONE\n";
        std::fs::write(&path, lines).unwrap();
        let files = vec![path];
        assert_eq!(words_of(&files), "one\nDONE");
        let (to, mut from) = mpsc::channel(8);
        let request = LogRequest { tail_lines: Some(1), ..LogRequest::default() };
        send(request, to, move || {
            let files = files.clone();
            async move { LogState { files, running: false } }.boxed()
        })
        .await;
        assert_eq!(from.recv().await.unwrap(), "DONE");
    }

    #[test]
    fn last_words_are_short_pod_9() {
        let long = (0..200).map(|n| n.to_string()).collect::<Vec<_>>().join("\n") + "\n";
        let words = last_lines(long.as_bytes());
        assert!(words.starts_with("120\n") && words.ends_with("199\n"), "{words}");
        assert_eq!(last_lines(&[b'x'; 5000]).len(), 2048);
    }
}
