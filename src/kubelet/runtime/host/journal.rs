//! Writing the journal of a node's host: appended to as things happen, written anew when much of it is history.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::super::kept::{Entry, JOURNAL};

/// A journal is written anew once it has grown by this much, and to twice of what it was.
const GROWTH_BYTES: u64 = 1 << 20;

/// The journal of this host.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    size_bytes: u64,
    /// Its size when it was written anew last.
    compact_bytes: u64,
    /// An entry could not be written, or not all of it: the journal is to be written anew.
    behind: bool,
}

impl Journal {
    /// Writes a new journal in place of the one that is there; a reader sees the old or the new one.
    pub(super) fn write<'a>(directory: &Path, entries: impl Iterator<Item = Entry<'a>>) -> io::Result<Self> {
        let path = directory.join(JOURNAL);
        let fresh = path.with_extension("new");
        let mut text = Vec::new();
        for entry in entries {
            line(&mut text, &entry)?;
        }
        fs::write(&fresh, &text)?;
        let file = File::options().append(true).open(&fresh)?;
        fs::rename(&fresh, &path)?;
        let size_bytes = text.len() as u64;
        Ok(Self { path, file, size_bytes, compact_bytes: size_bytes, behind: false })
    }

    /// Adds an entry; false when the journal should be written anew, now that the entry is true.
    pub(super) fn append(&mut self, entry: &Entry<'_>) -> bool {
        // What was written of the last entry is a line of its own then.
        let mut text = if self.behind { vec![b'\n'] } else { Vec::new() };
        let written = line(&mut text, entry).and_then(|()| self.file.write_all(&text));
        if let Err(error) = written {
            eprintln!("{}: {error}", self.path.display());
            self.behind = true;
        }
        self.size_bytes += text.len() as u64;
        !self.behind && self.size_bytes < 2 * self.compact_bytes + GROWTH_BYTES
    }
}

fn line(text: &mut Vec<u8>, entry: &Entry<'_>) -> io::Result<()> {
    serde_json::to_writer(&mut *text, entry)?;
    text.push(b'\n');
    Ok(())
}
