//! What was durable last, written down beside the database and apart from it.
//!
//! The database cuts the torn end of its journal off without a word, as it must after a crash. By this record a
//! torn end, of which nothing was acknowledged, is distinguished from a journal that has lost what was.
//!
//! It is one line, written in place after each group has become durable. Nobody waits for it to reach the disk: one
//! that is behind only says less.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::database::record_key;
use super::{Change, ChangeKind};
use object::{Object, Revision};

/// What a state is known by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Checkpoint {
    /// Of the last durable write.
    pub(super) revision: Revision,
    /// How many objects there are.
    pub(super) objects: u64,
    /// The sum of all objects' keys and revisions: other objects, or other versions of them, have another.
    digest: u64,
}

fn first_bytes(text: &[u8]) -> u64 {
    let digest = Sha256::digest(text);
    u64::from_be_bytes(digest[..8].try_into().expect("a digest has 32 bytes"))
}

/// An object's part in the digest.
fn fingerprint(object: &Object, revision: Revision) -> u64 {
    first_bytes(format!("{}\0{revision}", record_key(object.kind(), &object.key())).as_bytes())
}

impl Checkpoint {
    /// Of a state that was read.
    pub(super) fn of<'a>(revision: Revision, objects: impl IntoIterator<Item = &'a Object>) -> Self {
        let mut checkpoint = Self { revision, ..Self::default() };
        for object in objects {
            checkpoint.objects += 1;
            checkpoint.digest = checkpoint.digest.wrapping_add(fingerprint(object, object.revision()));
        }
        checkpoint
    }

    /// Takes a durable write in.
    pub(super) fn take(&mut self, change: &Change) {
        self.revision = change.revision;
        if let Some(previous) = &change.previous {
            self.objects = self.objects.saturating_sub(1);
            self.digest = self.digest.wrapping_sub(fingerprint(previous, previous.revision()));
        }
        if change.kind != ChangeKind::Deleted {
            self.objects += 1;
            self.digest = self.digest.wrapping_add(fingerprint(&change.object, change.revision));
        }
    }

    /// Whether a state with this checkpoint may be what has become of ours: the same, or writes that became durable
    /// just before a crash are in it too.
    pub(super) fn may_become(&self, later: &Self) -> bool {
        let ahead = later.revision.0.saturating_sub(self.revision.0);
        match ahead {
            0 => self == later,
            ahead => self.objects <= later.objects.saturating_add(ahead),
        }
    }

    fn line(&self) -> String {
        let Self { revision, objects, digest } = self;
        let text =
            format!("podium-state 1 revision {:020} objects {objects:020} digest {digest:016x}", revision.0);
        format!("{text} check {:016x}\n", first_bytes(text.as_bytes()))
    }

    fn parse(line: &str) -> Option<Self> {
        let (text, check) = line.strip_suffix('\n')?.rsplit_once(" check ")?;
        if format!("{:016x}", first_bytes(text.as_bytes())) != check {
            return None;
        }
        let words: Vec<&str> = text.split(' ').collect();
        let ["podium-state", "1", "revision", revision, "objects", objects, "digest", digest] =
            words.as_slice()
        else {
            return None;
        };
        Some(Self {
            revision: Revision(revision.parse().ok()?),
            objects: objects.parse().ok()?,
            digest: u64::from_str_radix(digest, 16).ok()?,
        })
    }
}

/// What the record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recorded {
    /// There is none: a new state, or one of a version that kept none.
    Nothing,
    /// It is damaged.
    Unreadable,
    /// This.
    Known(Checkpoint),
}

/// The record of a database.
pub(super) struct Record {
    path: PathBuf,
    file: Option<File>,
    /// A failure is logged once.
    failing: bool,
}

impl Record {
    /// The record of the database in `directory`, beside it.
    pub(super) fn beside(directory: &Path) -> Self {
        Self { path: directory.with_extension("checkpoint"), file: None, failing: false }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn read(&self) -> Recorded {
        match std::fs::read(&self.path) {
            Ok(bytes) => {
                let known = std::str::from_utf8(&bytes).ok().and_then(Checkpoint::parse);
                known.map_or(Recorded::Unreadable, Recorded::Known)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Recorded::Nothing,
            Err(_) => Recorded::Unreadable,
        }
    }

    /// Writes down what is durable now.
    pub(super) fn write(&mut self, checkpoint: &Checkpoint) {
        let written = self.try_write(checkpoint.line().as_bytes());
        if let Err(error) = &written {
            self.file = None;
            if !self.failing {
                tracing::warn!("{}: what is durable is not written down: {error}", self.path.display());
            }
        }
        self.failing = written.is_err();
    }

    fn try_write(&mut self, line: &[u8]) -> io::Result<()> {
        let file = if let Some(file) = self.file.take() {
            file
        } else {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o600).open(&self.path)?
        };
        let file = self.file.insert(file);
        file.write_all_at(line, 0)?;
        // Of a damaged one that was longer.
        if file.metadata()?.len() > line.len() as u64 {
            file.set_len(line.len() as u64)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_damage_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let mut record = Record::beside(&directory.path().join("state"));
        assert_eq!(record.read(), Recorded::Nothing);
        let checkpoint = Checkpoint { revision: Revision(330), objects: 300, digest: 0xfeed };
        record.write(&Checkpoint::default());
        record.write(&checkpoint);
        assert_eq!(record.read(), Recorded::Known(checkpoint));
        let good = std::fs::read(record.path()).unwrap();
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 1;
            std::fs::write(record.path(), bad).unwrap();
            assert_eq!(record.read(), Recorded::Unreadable, "{place}");
        }
        std::fs::write(record.path(), [good.clone(), good].concat()).unwrap();
        assert_eq!(record.read(), Recorded::Unreadable);
        Record::beside(&directory.path().join("state")).write(&checkpoint);
        assert_eq!(record.read(), Recorded::Known(checkpoint), "a longer one is cut");
    }

    #[test]
    fn a_crash_may_leave_more_than_was_written_down_and_never_less() {
        let at = |revision, objects, digest| Checkpoint { revision: Revision(revision), objects, digest };
        for (recorded, read, may) in [
            (at(10, 5, 1), at(10, 5, 1), true),
            (at(10, 5, 1), at(10, 5, 2), false),
            (at(10, 5, 1), at(9, 5, 1), false),
            (at(10, 5, 1), at(12, 7, 3), true),
            (at(10, 5, 1), at(12, 3, 3), true),
            (at(10, 5, 1), at(12, 2, 3), false),
        ] {
            assert_eq!(recorded.may_become(&read), may, "{recorded:?} {read:?}");
        }
    }
}
