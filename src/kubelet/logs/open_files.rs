//! The files of a container's log, held open: rotation renames and removes them while they are read.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::entry::entry;

/// Maximum number of files held for a reader that is behind: about 320 MB of disk, once for all readers of a log.
const MAX_OPEN_FILES: usize = 32;
/// Attempts to open a log without a rotation in between. Rotations are half a second apart, so the second attempt
/// succeeds on an idle machine; a busy one may interrupt several.
const TRIES: usize = 1024;
/// Bytes read at a time.
const CHUNK: usize = 128 * 1024;

/// An open file of a log.
#[derive(Debug)]
pub(super) struct OpenFile {
    file: File,
    /// Device and inode: unique while this file is open.
    identity: (u64, u64),
}

impl OpenFile {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let identity = identity(&file.metadata()?);
        Ok(Self { file, identity })
    }

    /// Returns bytes from `offset` on, one chunk at most; empty at the end of the file.
    pub(super) fn read(&self, offset: u64) -> io::Result<Vec<u8>> {
        let mut chunk = vec![0; CHUNK];
        let length = self.file.read_at(&mut chunk, offset)?;
        chunk.truncate(length);
        Ok(chunk)
    }
}

fn identity(about: &std::fs::Metadata) -> (u64, u64) {
    (about.dev(), about.ino())
}

/// A file to be read, and its relation to its neighbours.
#[derive(Clone, Debug)]
pub(super) struct QueuedFile {
    pub(super) file: Arc<OpenFile>,
    /// Files between the previous file and this one may not have been read.
    pub(super) follows_gap: bool,
}

/// The files that have not been read to their end, oldest first. The newest is held until a newer one is known, to
/// recognize it.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    queue: VecDeque<QueuedFile>,
}

impl OpenFiles {
    /// Adopts the log's current files, oldest first.
    pub(super) fn update(&mut self, now: Vec<OpenFile>) {
        let last = self.queue.back().map(|held| held.file.identity);
        let known = last.and_then(|last| now.iter().position(|file| file.identity == last));
        // If the newest known file is missing, so many new ones were created that it was removed.
        let mut follows_gap = last.is_some() && known.is_none();
        for file in now.into_iter().skip(known.map_or(0, |known| known + 1)) {
            self.queue.push_back(QueuedFile { file: Arc::new(file), follows_gap });
            follows_gap = false;
        }
        while self.queue.len() > MAX_OPEN_FILES {
            // The first file is being read, so the second one is dropped.
            self.queue.remove(1);
            if let Some(next) = self.queue.get_mut(1) {
                next.follows_gap = true;
            }
        }
    }

    /// The file to continue with, and true if it is the newest.
    pub(super) fn first(&self) -> Option<(Arc<OpenFile>, bool)> {
        self.queue.front().map(|held| (Arc::clone(&held.file), self.queue.len() == 1))
    }

    /// Drops the first file, which has been read to its end; returns the next.
    pub(super) fn advance(&mut self) -> Option<&QueuedFile> {
        self.queue.pop_front();
        self.queue.front()
    }

    pub(super) fn all(&self) -> Vec<Arc<OpenFile>> {
        self.queue.iter().map(|held| Arc::clone(&held.file)).collect()
    }

    /// Skips this many of the oldest files.
    pub(super) fn skip(&mut self, count: usize) {
        self.queue.drain(..count);
    }
}

/// Opens the files of a log that exist, oldest first; `paths` are all possible ones, in that order.
///
/// Rotation renames a file to the next older path. Since this opens from the newest to the oldest, it may open one
/// twice, but misses none.
pub(super) fn open(paths: &[PathBuf]) -> Vec<OpenFile> {
    let mut files: Vec<OpenFile> = Vec::new();
    for _ in 0..TRIES {
        files.clear();
        for path in paths.iter().rev() {
            // The file does not exist yet, or a rotation is renaming it.
            let Ok(file) = OpenFile::open(path) else { continue };
            if files.iter().all(|known| known.identity != file.identity) {
                files.push(file);
            }
        }
        // During a rotation a path is missing or has a file that was opened by another path.
        let now = paths.iter().rev().filter_map(|path| path.metadata().ok()).map(|about| identity(&about));
        if now.eq(files.iter().map(|file| file.identity)) {
            break;
        }
    }
    files.reverse();
    files
}

/// Finds the start of the last `lines` lines of a log: the number of the file, and the offset in it.
pub(super) fn tail(files: &[Arc<OpenFile>], lines: u64) -> io::Result<(usize, u64)> {
    let mut starts: VecDeque<(usize, u64)> = VecDeque::new();
    let mut end = (0, 0);
    let mut in_line = false;
    for (number, file) in files.iter().enumerate() {
        let (mut offset, mut rest) = (0, Vec::new());
        end = (number, 0);
        loop {
            let chunk = file.read(offset)?;
            if chunk.is_empty() {
                break;
            }
            offset += chunk.len() as u64;
            rest.extend_from_slice(&chunk);
            let mut taken = 0;
            for line in rest.split_inclusive(|byte| *byte == b'\n') {
                let Some(whole) = line.strip_suffix(b"\n") else { break };
                if !in_line {
                    starts.push_back(end);
                    if starts.len() as u64 > lines {
                        starts.pop_front();
                    }
                }
                in_line = entry(whole).partial;
                taken += line.len();
                end.1 += line.len() as u64;
            }
            rest.drain(..taken);
        }
    }
    Ok(starts.front().copied().unwrap_or(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of five files, as the node's host writes it.
    struct Log {
        directory: tempfile::TempDir,
        written: usize,
    }

    impl Log {
        fn new() -> Self {
            Self { directory: tempfile::tempdir().unwrap(), written: 0 }
        }

        fn paths(&self) -> Vec<PathBuf> {
            let path = |name: &str| self.directory.path().join(name);
            ["log.4", "log.3", "log.2", "log.1", "log"].map(path).to_vec()
        }

        /// Rotates, and writes a file whose content is its number.
        fn write(&mut self) {
            let paths = self.paths();
            for (older, newer) in paths.iter().zip(&paths[1..]) {
                let _ = std::fs::rename(newer, older);
            }
            std::fs::write(paths.last().unwrap(), self.written.to_string()).unwrap();
            self.written += 1;
        }
    }

    /// Reads all open files; returns their numbers, and `gap` for missing ones.
    fn read(files: &mut OpenFiles) -> String {
        let mut text = Vec::new();
        while let Some((file, is_last)) = files.first() {
            text.push(String::from_utf8(file.read(0).unwrap()).unwrap());
            if is_last {
                break;
            }
            if files.advance().unwrap().follows_gap {
                text.push("gap".to_owned());
            }
        }
        text.join(" ")
    }

    #[test]
    fn open_log_files_are_read_in_order_after_renames_and_removals_api_3() {
        let (mut log, mut files) = (Log::new(), OpenFiles::default());
        files.update(open(&log.paths()));
        assert!(files.first().is_none());
        for expected in ["0", "0 1", "1 2"] {
            log.write();
            files.update(open(&log.paths()));
            assert_eq!(read(&mut files), expected);
        }
        // The reader stands still for eleven rotations, while the files are updated after each fourth.
        for number in 0..12 {
            log.write();
            if number % 4 == 3 {
                files.update(open(&log.paths()));
            }
        }
        assert_eq!(read(&mut files), "2 3 4 5 6 7 8 9 10 11 12 13 14");
        // After the removal of the container and its log, the open files can still be read.
        log.write();
        files.update(open(&log.paths()));
        std::fs::remove_dir_all(log.directory.path()).unwrap();
        files.update(open(&log.paths()));
        assert_eq!(read(&mut files), "14 15");
    }

    #[test]
    fn the_tail_of_a_log_is_found_in_files_that_rotate_meanwhile_api_3() {
        let (mut log, mut files) = (Log::new(), OpenFiles::default());
        let [.., older, newest] = &log.paths()[..] else { unreachable!("it has five paths") };
        std::fs::write(older, "T stdout F one\nT stdout P tw\n").unwrap();
        std::fs::write(newest, "T stdout F o\nT stdout F three\nT std").unwrap();
        files.update(open(&log.paths()));
        (0..9).for_each(|_| log.write());
        for (lines, expected) in [(0, (1, 30)), (1, (1, 13)), (2, (0, 15)), (3, (0, 0)), (99, (0, 0))] {
            assert_eq!(tail(&files.all(), lines).unwrap(), expected, "{lines}");
        }
    }

    #[test]
    fn log_files_rotated_away_unread_are_reported_as_a_gap_api_3() {
        let (mut log, mut files) = (Log::new(), OpenFiles::default());
        log.write();
        files.update(open(&log.paths()));
        (0..7).for_each(|_| log.write());
        files.update(open(&log.paths()));
        assert_eq!(read(&mut files), "0 gap 3 4 5 6 7");
    }

    #[test]
    fn a_reader_that_never_reads_holds_a_bounded_number_of_files_api_3() {
        let (mut log, mut files) = (Log::new(), OpenFiles::default());
        for _ in 0..MAX_OPEN_FILES + 10 {
            log.write();
            files.update(open(&log.paths()));
        }
        assert_eq!(files.all().len(), MAX_OPEN_FILES);
        let text = read(&mut files);
        assert!(text.starts_with("0 gap 11 12 ") && text.ends_with(" 41"), "{text}");
    }

    /// Rotates thousands of times a second while files are opened.
    #[test]
    fn no_file_is_missed_by_a_rotation_in_between_api_3() {
        let mut log = Log::new();
        let paths = log.paths();
        let writer = std::thread::spawn(move || {
            // Fewer than the attempts, each of which may meet one.
            for _ in 0..TRIES / 2 {
                log.write();
            }
            log
        });
        let mut last_seen = None;
        while !writer.is_finished() {
            let found = open(&paths);
            let numbers: Vec<usize> = found
                .iter()
                .filter_map(|file| String::from_utf8(file.read(0).unwrap()).unwrap().parse().ok())
                .collect();
            assert!(numbers.is_sorted(), "{numbers:?}");
            assert!(numbers.last().copied() >= last_seen, "{numbers:?} after {last_seen:?}");
            last_seen = numbers.last().copied().or(last_seen);
        }
        drop(writer.join().unwrap());
    }
}
