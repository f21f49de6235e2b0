//! The checkpoint: a record beside the database that describes the last durable state.
//!
//! After a crash the database silently cuts off the torn end of its journal, as it must. The checkpoint tells a torn
//! end, which held only unacknowledged writes, from a journal that has lost acknowledged ones.
//!
//! The record is one line, written in place after each group has become durable. No write waits for it to reach the
//! disk: an outdated checkpoint only detects less.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::database::record_key;
use super::{Change, ChangeKind};
use object::{Object, Revision};

/// The fingerprint of a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Checkpoint {
    /// The revision of the last durable write.
    pub(super) revision: Revision,
    /// The number of objects.
    pub(super) objects: u64,
    /// The sum of the fingerprints of all objects' keys and revisions; states with other objects or other versions have
    /// another sum.
    digest: u64,
}

fn first_bytes(text: &[u8]) -> u64 {
    let digest = Sha256::digest(text);
    u64::from_be_bytes(digest[..8].try_into().expect("a digest has 32 bytes"))
}

/// Returns an object's part of the digest.
fn fingerprint(object: &Object, revision: Revision) -> u64 {
    first_bytes(format!("{}\0{revision}", record_key(object.kind(), &object.key())).as_bytes())
}

impl Checkpoint {
    /// Computes the checkpoint of a state that was read.
    pub(super) fn of<'a>(revision: Revision, objects: impl IntoIterator<Item = &'a Object>) -> Self {
        let mut checkpoint = Self { revision, ..Self::default() };
        for object in objects {
            checkpoint.objects += 1;
            checkpoint.digest = checkpoint.digest.wrapping_add(fingerprint(object, object.revision()));
        }
        checkpoint
    }

    /// Adds a durable write.
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

    /// Returns true if a state with the checkpoint `later` may follow from this one: both are equal, or `later` also
    /// has writes that became durable just before a crash, before their checkpoint was written.
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

/// The contents of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoredCheckpoint {
    /// The file does not exist: the state is new, or from a version without checkpoints.
    Nothing,
    /// The file is damaged.
    Unreadable,
    /// The checkpoint.
    Known(Checkpoint),
}

/// The checkpoint file of a database.
pub(super) struct CheckpointFile {
    path: PathBuf,
    file: Option<File>,
    /// The last write failed; only the first failure of a series is logged.
    failing: bool,
}

impl CheckpointFile {
    /// Returns the checkpoint file of the database in `directory`; it lies beside that directory.
    pub(super) fn beside(directory: &Path) -> Self {
        Self { path: directory.with_extension("checkpoint"), file: None, failing: false }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn read(&self) -> StoredCheckpoint {
        match std::fs::read(&self.path) {
            Ok(bytes) => {
                let known = std::str::from_utf8(&bytes).ok().and_then(Checkpoint::parse);
                known.map_or(StoredCheckpoint::Unreadable, StoredCheckpoint::Known)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => StoredCheckpoint::Nothing,
            Err(_) => StoredCheckpoint::Unreadable,
        }
    }

    /// Writes the checkpoint of the durable state.
    pub(super) fn write(&mut self, checkpoint: &Checkpoint) {
        let written = self.try_write(checkpoint.line().as_bytes());
        if let Err(error) = &written {
            self.file = None;
            if !self.failing {
                tracing::warn!("{}: cannot write the checkpoint: {error}", self.path.display());
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
        // Cuts off the rest of a damaged, longer record.
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
        let mut record = CheckpointFile::beside(&directory.path().join("state"));
        assert_eq!(record.read(), StoredCheckpoint::Nothing);
        let checkpoint = Checkpoint { revision: Revision(330), objects: 300, digest: 0xfeed };
        record.write(&Checkpoint::default());
        record.write(&checkpoint);
        assert_eq!(record.read(), StoredCheckpoint::Known(checkpoint));
        let good = std::fs::read(record.path()).unwrap();
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 1;
            std::fs::write(record.path(), bad).unwrap();
            assert_eq!(record.read(), StoredCheckpoint::Unreadable, "{place}");
        }
        std::fs::write(record.path(), [good.clone(), good].concat()).unwrap();
        assert_eq!(record.read(), StoredCheckpoint::Unreadable);
        CheckpointFile::beside(&directory.path().join("state")).write(&checkpoint);
        assert_eq!(record.read(), StoredCheckpoint::Known(checkpoint), "a longer one is cut");
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
