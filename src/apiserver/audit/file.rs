//! The log file: readable by its owner only, and rotated when it is full.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::removal::unless_missing;
use base::sort::SliceOrder;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The destination of events, and its rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFile {
    /// The path; `None`: standard output, which is not rotated.
    pub path: Option<PathBuf>,
    /// The size limit in bytes; a file that would exceed it is rotated.
    pub max_bytes: u64,
    /// The number of rotated files to keep; 0: all.
    pub max_backups: usize,
    /// The age limit of rotated files; zero: unlimited.
    pub max_age: Duration,
}

/// The interval between reports of a file that cannot be written.
pub(super) const ERROR_REPORT_INTERVAL: Duration = Duration::from_mins(1);
/// The time format in the names of rotated files, which sort by it.
const TIME: &str = "%Y-%m-%dT%H-%M-%S%.3f";

/// The open file.
pub(super) struct RotatingFile {
    of: AuditFile,
    file: Option<File>,
    length: u64,
    /// The time of the last report that rotation failed.
    last_rotation_error_at: Option<Timestamp>,
}

impl RotatingFile {
    /// Opens the file for appending.
    pub(super) fn open(of: AuditFile) -> io::Result<Self> {
        let mut opened = Self { of, file: None, length: 0, last_rotation_error_at: None };
        opened.reopen()?;
        Ok(opened)
    }

    fn reopen(&mut self) -> io::Result<()> {
        let Some(path) = &self.of.path else { return Ok(()) };
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
        let length = file.metadata()?.len();
        self.length = length;
        // Ends a line that a crash has truncated, so that the next event starts a new one.
        if length > 0 && file.metadata()?.is_file() {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
                self.length += 1;
            }
        }
        self.file = Some(file);
        Ok(())
    }

    /// Appends a line.
    pub(super) fn write(&mut self, line: &[u8], now: Timestamp) -> io::Result<()> {
        if self.of.path.is_none() {
            let mut out = io::stdout().lock();
            return out.write_all(line).and_then(|()| out.flush());
        }
        let more = line.len() as u64;
        // If rotation fails, the line is still written.
        let rotated =
            if self.length > 0 && self.length + more > self.of.max_bytes { self.rotate(now) } else { Ok(()) };
        if self.file.is_none() {
            self.reopen()?;
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        match file.write_all(line) {
            Ok(()) => {
                self.length += more;
                if let Err(error) = rotated {
                    self.report_rotation_error(&error, now);
                }
                Ok(())
            }
            Err(error) => {
                // A partially written line is ended when the file is opened again.
                self.file = None;
                Err(error)
            }
        }
    }

    /// Rotates the file, and removes rotated files that are too many or too old.
    fn rotate(&mut self, now: Timestamp) -> io::Result<()> {
        let Some(path) = self.of.path.clone() else { return Ok(()) };
        let mut at = now;
        let mut rotated = backup(&path, at);
        while rotated.exists() {
            at += Duration::from_millis(1);
            rotated = backup(&path, at);
        }
        // Another process may have moved the file.
        unless_missing(std::fs::rename(&path, &rotated))?;
        self.file = None;
        self.reopen()?;
        let mut result = Ok(());
        for old in self.outlived(&path, now)? {
            result = result.and(std::fs::remove_file(old));
        }
        result
    }

    fn report_rotation_error(&mut self, error: &io::Error, now: Timestamp) {
        let is_due = |at: Timestamp| now.duration_since(at).unsigned_abs() >= ERROR_REPORT_INTERVAL;
        if self.last_rotation_error_at.is_none_or(is_due) {
            tracing::error!("cannot rotate the audit log: {error}");
            self.last_rotation_error_at = Some(now);
        }
    }

    fn outlived(&self, path: &Path, now: Timestamp) -> io::Result<Vec<PathBuf>> {
        let (stem, extension) = parts(path);
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let mut backups = Vec::new();
        for entry in std::fs::read_dir(directory.unwrap_or_else(|| Path::new(".")))? {
            let entry = entry?;
            let name = entry.file_name();
            let time = name.to_str().and_then(|name| {
                let time = name.strip_prefix(&stem)?.strip_prefix('-')?.strip_suffix(&extension)?;
                jiff::civil::DateTime::strptime(TIME, time).ok()
            });
            if let Some(time) = time.and_then(|time| time.to_zoned(TimeZone::UTC).ok()) {
                backups.push((time.timestamp(), entry.path()));
            }
        }
        backups.order();
        backups.reverse();
        let too_old = |at: &Timestamp| {
            !self.of.max_age.is_zero()
                && now.duration_since(*at).unsigned_abs() > self.of.max_age
                && *at < now
        };
        let is_outlived = |(i, (at, _)): &(usize, (Timestamp, PathBuf))| {
            self.of.max_backups > 0 && *i >= self.of.max_backups || too_old(at)
        };
        let outlived = backups.into_iter().enumerate().filter(is_outlived);
        Ok(outlived.map(|(_, (_, path))| path).collect())
    }
}

/// Returns the path of a rotated file: `audit.log` → `audit-2026-11-23T06-01-41.123.log`.
fn backup(path: &Path, at: Timestamp) -> PathBuf {
    let (stem, extension) = parts(path);
    path.with_file_name(format!("{stem}-{}{extension}", at.to_zoned(TimeZone::UTC).strftime(TIME)))
}

/// Returns the file stem, and the extension with its dot.
fn parts(path: &Path) -> (String, String) {
    let text = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
    let extension = text(path.extension()).map(|extension| format!(".{extension}"));
    (text(path.file_stem()).unwrap_or_default(), extension.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_full_file_is_put_aside_and_the_oldest_go_api_19() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let of = AuditFile {
            path: Some(path.clone()),
            max_bytes: 10,
            max_backups: 2,
            max_age: Duration::from_secs(100),
        };
        let mut file = RotatingFile::open(of.clone()).unwrap();
        for (i, second) in [0, 0, 0, 0, 1].into_iter().enumerate() {
            file.write(format!("line {i}\n").as_bytes(), at(second)).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "line 4\n");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let backups = ["audit-2023-11-14T22-13-20.002.log", "audit-2023-11-14T22-13-21.000.log"];
        assert_eq!(names(directory.path()), [backups[0], backups[1], "audit.log"]);
        let newest = std::fs::read_to_string(directory.path().join(backups[1])).unwrap();
        assert_eq!(newest, "line 3\n");
        std::fs::write(directory.path().join("audit-notes.log"), "another program's").unwrap();
        file.write(b"line 5\n", at(150)).unwrap();
        let retained = ["audit-2023-11-14T22-15-50.000.log", "audit-notes.log", "audit.log"];
        assert_eq!(names(directory.path()), retained, "the others are too old");
    }

    #[test]
    fn a_backup_that_cannot_be_removed_does_not_stop_the_log_api_19() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        std::fs::create_dir(directory.path().join("audit-2020-01-01T00-00-00.000.log")).unwrap();
        let of =
            AuditFile { path: Some(path.clone()), max_bytes: 10, max_backups: 1, max_age: Duration::ZERO };
        let mut file = RotatingFile::open(of).unwrap();
        for second in 0..3 {
            file.write(format!("line {second}\n").as_bytes(), at(second)).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "line 2\n");
        let retained =
            ["audit-2020-01-01T00-00-00.000.log", "audit-2023-11-14T22-13-22.000.log", "audit.log"];
        assert_eq!(names(directory.path()), retained);
        // The same after another process has moved the file.
        std::fs::rename(&path, directory.path().join("taken")).unwrap();
        file.write(b"line 3\n", at(3)).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "line 3\n");
    }

    #[test]
    fn a_line_that_a_crash_has_cut_short_stays_alone_api_19() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit");
        std::fs::write(&path, "whole\nha").unwrap();
        let of =
            AuditFile { path: Some(path.clone()), max_bytes: 100, max_backups: 0, max_age: Duration::ZERO };
        let mut file = RotatingFile::open(of).unwrap();
        file.write(b"next\n", at(0)).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole\nha\nnext\n");
    }
}
