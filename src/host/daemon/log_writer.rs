//! A container's log: CRI's line format in files that rotate.
//!
//! `2026-11-21T03:27:14.123456789Z stdout F text`. Lines above 16 KiB come in parts tagged `P`, so that no
//! line, however long, is ever held in memory. Nothing is dropped: when the disk refuses, the caller must
//! try again, and meanwhile the container waits at its full pipe.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use base::removal::unless_missing;

/// The size at which a file is rotated, in bytes.
pub(super) const ROTATE_BYTES: u64 = 10 << 20;
/// The number of retained files, including the current one.
pub(super) const MAX_LOG_FILES: usize = 5;
/// Longer lines are written in parts.
const PART_BYTES: usize = 16 << 10;
/// Every file of a log stays for at least this long after its creation, so that a reader that polls more often misses
/// none. It limits nothing below 100 MB of log a second.
const FILES_STAY: Duration = Duration::from_millis(500);

/// The stream of a piece of log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// Writes one container's log.
pub(super) struct LogWriter {
    path: PathBuf,
    file: Option<File>,
    size_bytes: u64,
    rotate_bytes: u64,
    /// The beginning of an unfinished line, by stream.
    open_lines: [Vec<u8>; 2],
    /// The formatted lines that are not written yet.
    pending: Vec<u8>,
    /// The file ends in the middle of a line, the rest of which is in `pending`.
    is_torn: bool,
    /// The creation times of the existing files, oldest first.
    created_at: VecDeque<Instant>,
}

impl LogWriter {
    /// Writes to `path` and, rotated, `path.1` (newest) to `path.4`. The file and its directory are created with the
    /// first line: most containers of a big cluster print nothing for long.
    pub(super) fn new(path: PathBuf) -> Self {
        Self::with_rotation(path, ROTATE_BYTES)
    }

    fn with_rotation(path: PathBuf, rotate_bytes: u64) -> Self {
        let open_lines = [Vec::new(), Vec::new()];
        Self {
            path,
            file: None,
            size_bytes: 0,
            rotate_bytes,
            open_lines,
            pending: Vec::new(),
            is_torn: false,
            created_at: VecDeque::new(),
        }
    }

    /// Takes a stream's output, to be written by [`Self::flush`]: call it again only after that has succeeded.
    pub(super) fn take(&mut self, stream: Stream, mut bytes: &[u8], now: Timestamp) {
        let prefix = prefix(stream, now);
        let index = usize::from(stream == Stream::Stderr);
        while !bytes.is_empty() {
            let remaining = PART_BYTES - self.open_lines[index].len();
            let window = &bytes[..bytes.len().min(remaining)];
            let end = window.iter().position(|&byte| byte == b'\n');
            let taken = end.unwrap_or(window.len());
            self.open_lines[index].extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken + usize::from(end.is_some())..];
            if end.is_some() {
                self.end_line(index, &prefix, b"F ");
            } else if self.open_lines[index].len() == PART_BYTES && bytes.first() != Some(&b'\n') {
                self.end_line(index, &prefix, b"P ");
            } else if self.open_lines[index].len() == PART_BYTES {
                bytes = &bytes[1..];
                self.end_line(index, &prefix, b"F ");
            }
        }
    }

    /// Ends a stream: takes an unfinished last line as a partial line without a successor, as containerd does, so that
    /// readers add no line end either. [`Self::flush`] must follow.
    pub(super) fn end(&mut self, stream: Stream, now: Timestamp) {
        let index = usize::from(stream == Stream::Stderr);
        if !self.open_lines[index].is_empty() {
            self.end_line(index, &prefix(stream, now), b"P ");
        }
        self.open_lines[index] = Vec::new();
    }

    /// The latest output, unchanged, in pieces by stream: at most `limit_bytes` of the log's newest file, and the
    /// unfinished lines.
    pub(super) fn recent_output(&self, limit_bytes: u64) -> io::Result<Vec<(Stream, Vec<u8>)>> {
        let mut output: Vec<(Stream, Vec<u8>)> = Vec::new();
        let mut add = |stream: Stream, text: &[u8]| match output.last_mut() {
            Some((last, bytes)) if *last == stream => bytes.extend_from_slice(text),
            _ => output.push((stream, text.to_vec())),
        };
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(self.unfinished(output)),
            Err(error) => return Err(error),
        };
        let skipped = file.metadata()?.len().saturating_sub(limit_bytes);
        file.seek(io::SeekFrom::Start(skipped))?;
        let mut lines = io::BufReader::new(file).split(b'\n');
        if skipped > 0 {
            // Skips the rest of a line that started earlier.
            lines.next().transpose()?;
        }
        for line in lines {
            let line = line?;
            let mut parts = line.splitn(4, |byte| *byte == b' ').skip(1);
            let stream = if parts.next() == Some(b"stderr") { Stream::Stderr } else { Stream::Stdout };
            let (whole, text) = (parts.next() == Some(b"F"), parts.next().unwrap_or_default());
            add(stream, text);
            if whole {
                add(stream, b"\n");
            }
        }
        Ok(self.unfinished(output))
    }

    fn unfinished(&self, mut output: Vec<(Stream, Vec<u8>)>) -> Vec<(Stream, Vec<u8>)> {
        let [stdout, stderr] = &self.open_lines;
        let open = [(Stream::Stdout, stdout), (Stream::Stderr, stderr)].into_iter();
        output.extend(open.filter(|(_, text)| !text.is_empty()).map(|(stream, text)| (stream, text.clone())));
        output
    }

    /// There will be no further output: closes the file.
    pub(super) fn close(&mut self) {
        self.file = None;
    }

    fn end_line(&mut self, index: usize, prefix: &str, tag: &[u8]) {
        self.pending.extend_from_slice(prefix.as_bytes());
        self.pending.extend_from_slice(tag);
        self.pending.append(&mut self.open_lines[index]);
        self.pending.push(b'\n');
    }

    /// Returns the time from which the rotation of [`Self::flush`] removes only files that readers have had time to
    /// see; `None` means now.
    pub(super) fn may_flush_at(&self) -> Option<Instant> {
        let oldest = self.created_at.front().filter(|_| self.created_at.len() == MAX_LOG_FILES)?;
        self.rotates_next().then(|| *oldest + FILES_STAY)
    }

    /// Returns the time from which readers have had time to see the newest file; `None` if there is none.
    pub(super) fn may_remove_at(&self) -> Option<Instant> {
        self.created_at.back().map(|created_at| *created_at + FILES_STAY)
    }

    /// Returns true if the next flush rotates the file. It never does so within a line: no line is split between two
    /// files.
    fn rotates_next(&self) -> bool {
        self.size_bytes >= self.rotate_bytes && !self.is_torn && !self.pending.is_empty()
    }

    /// Writes pending output. An error means that not all output is on disk yet: call this again until it succeeds.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        if self.rotates_next() {
            self.rotate()?;
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let file = none.insert(open(&self.path)?);
                if self.created_at.len() == MAX_LOG_FILES {
                    self.created_at.pop_front();
                }
                self.created_at.push_back(Instant::now());
                file
            }
        };
        let mut written = 0;
        let result = loop {
            match file.write(&self.pending[written..]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
            if written == self.pending.len() {
                break Ok(());
            }
        };
        self.size_bytes += written as u64;
        if written > 0 {
            self.is_torn = self.pending[written - 1] != b'\n';
        }
        self.pending.drain(..written);
        if self.pending.capacity() > 4 * PART_BYTES && self.pending.is_empty() {
            self.pending = Vec::new();
        }
        result
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        for number in (1..MAX_LOG_FILES - 1).rev() {
            unless_missing(std::fs::rename(rotated(&self.path, number), rotated(&self.path, number + 1)))?;
        }
        unless_missing(std::fs::rename(&self.path, rotated(&self.path, 1)))?;
        self.size_bytes = 0;
        Ok(())
    }
}

fn prefix(stream: Stream, now: Timestamp) -> String {
    let name = match stream {
        Stream::Stdout => "stdout",
        Stream::Stderr => "stderr",
    };
    format!("{now:.9} {name} ")
}

fn open(path: &Path) -> io::Result<File> {
    let open = || File::options().create(true).append(true).open(path);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            open()
        }
        result => result,
    }
}

/// The file that was rotated `number` times.
pub(super) fn rotated(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// The paths of a log's files, oldest first. Not all need exist, and a rotation may be under way.
pub(super) fn files(path: &Path) -> Vec<PathBuf> {
    let older = (1..MAX_LOG_FILES).rev().map(|number| rotated(path, number));
    older.chain([path.to_path_buf()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    impl LogWriter {
        fn write(&mut self, stream: Stream, bytes: &[u8], now: Timestamp) -> io::Result<()> {
            self.take(stream, bytes, now);
            self.flush()
        }

        fn finish(&mut self, stream: Stream, now: Timestamp) -> io::Result<()> {
            self.end(stream, now);
            self.flush()
        }
    }

    fn lines(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
    }

    /// CRI's format for logs: lines above 16 KiB are split, as for termination messages (POD-12), and a last line
    /// without an end is a partial one, so that `echo -n DONE` is read as `DONE`.
    #[test]
    fn lines_are_cris_and_long_ones_come_in_parts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("made/when/needed/log");
        let now: Timestamp = "2026-11-21T03:27:14.123456789Z".parse().unwrap();
        let mut log = LogWriter::new(path.clone());
        assert!(files(&path).iter().all(|file| !file.exists()), "nothing was said");
        log.write(Stream::Stdout, b"one\ntw", now).unwrap();
        log.write(Stream::Stderr, b"oops\n\n", now).unwrap();
        log.write(Stream::Stdout, b"o\nrest", now).unwrap();
        log.finish(Stream::Stdout, now).unwrap();
        log.finish(Stream::Stderr, now).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("2026-11-21T03:27:14.123456789Z stdout F one\n"), "{text}");
        assert_eq!(lines(&path)[1..], ["stderr F oops", "stderr F ", "stdout F two", "stdout P rest"]);

        for (length, parts) in [(PART_BYTES, 1), (PART_BYTES + 1, 2), (3 * PART_BYTES, 3)] {
            let path = directory.path().join(format!("log-{length}"));
            let mut log = LogWriter::new(path.clone());
            let mut line = vec![b'x'; length];
            line.push(b'\n');
            for piece in line.chunks(1000) {
                log.write(Stream::Stdout, piece, now).unwrap();
            }
            let lines = lines(&path);
            assert_eq!(lines.len(), parts, "{length}");
            assert!(lines[parts - 1].starts_with("stdout F x"));
            assert!(lines[..parts - 1].iter().all(|line| line.starts_with("stdout P x")));
        }
    }

    /// A client that attaches a moment late gets the earlier output.
    #[test]
    fn earlier_output_is_replayed_in_its_original_order() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = LogWriter::new(directory.path().join("log"));
        let now = Timestamp::UNIX_EPOCH;
        let replay = |log: &LogWriter, limit: u64| -> String {
            let piece = |(stream, text): (Stream, Vec<u8>)| {
                format!(
                    "{}:{}",
                    if stream == Stream::Stdout { "o" } else { "e" },
                    String::from_utf8_lossy(&text)
                )
            };
            log.recent_output(limit).unwrap().into_iter().map(piece).collect::<Vec<_>>().join("|")
        };
        assert_eq!(replay(&log, 1000), "");
        log.write(Stream::Stdout, b"pro", now).unwrap();
        assert_eq!(replay(&log, 1000), "o:pro", "a prompt has no end");
        log.write(Stream::Stdout, b"mpt\r\n\ntwo words\n", now).unwrap();
        log.write(Stream::Stderr, b"oops\n$ ", now).unwrap();
        assert_eq!(replay(&log, 1000), "o:prompt\r\n\ntwo words\n|e:oops\n|e:$ ");
        assert_eq!(replay(&log, 60), "e:oops\n|e:$ ", "whole lines of the end");
        log.finish(Stream::Stderr, now).unwrap();
        log.close();
        assert_eq!(replay(&log, 1000), "o:prompt\r\n\ntwo words\n|e:oops\n$ ");
    }

    #[test]
    fn files_rotate_and_the_oldest_go() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut log = LogWriter::with_rotation(path.clone(), 100);
        for number in 0..100 {
            log.write(Stream::Stdout, format!("line {number}\n").as_bytes(), Timestamp::UNIX_EPOCH).unwrap();
        }
        let files = files(&path);
        assert_eq!(files.len(), MAX_LOG_FILES);
        let all: Vec<String> = files.iter().flat_map(|file| lines(file)).collect();
        let expect: Vec<String> =
            (100 - all.len()..100).map(|number| format!("stdout F line {number}")).collect();
        assert_eq!(all, expect, "the lines are in order and without gaps, and the newest remain");
        assert!(files.iter().all(|file| file.metadata().unwrap().len() < 150));
    }

    #[tokio::test(start_paused = true)]
    async fn files_stay_long_enough_to_be_seen_api_3() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut log = LogWriter::with_rotation(path.clone(), 100);
        // Each line fills a file.
        let line = [b'x'; 120];
        let write_line = |log: &mut LogWriter| {
            log.take(Stream::Stdout, &line, Timestamp::UNIX_EPOCH);
            log.take(Stream::Stdout, b"\n", Timestamp::UNIX_EPOCH);
            let at = log.may_flush_at();
            log.flush().unwrap();
            at.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()))
        };
        assert_eq!(log.may_remove_at(), None, "there is no file");
        for number in 0..MAX_LOG_FILES {
            assert_eq!(write_line(&mut log), Duration::ZERO, "file {number}");
        }
        assert_eq!(log.may_remove_at(), Some(Instant::now() + FILES_STAY));
        assert_eq!(write_line(&mut log), FILES_STAY, "the first file would go as soon as it was begun");
        tokio::time::advance(FILES_STAY).await;
        assert_eq!(write_line(&mut log), Duration::ZERO);
    }

    #[test]
    fn a_line_that_was_written_in_part_ends_in_the_same_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut log = LogWriter::with_rotation(path.clone(), 10);
        log.write(Stream::Stdout, b"one\n", Timestamp::UNIX_EPOCH).unwrap();
        // The last line is incomplete, as after a full disk.
        log.take(Stream::Stdout, b"two\n", Timestamp::UNIX_EPOCH);
        let written: Vec<u8> = log.pending.drain(..10).collect();
        log.file.as_mut().unwrap().write_all(&written).unwrap();
        log.is_torn = true;
        log.flush().unwrap();
        log.write(Stream::Stdout, b"three\n", Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(lines(&rotated(&path, 1)), ["stdout F one", "stdout F two"]);
        assert_eq!(lines(&path), ["stdout F three"]);
    }
}
