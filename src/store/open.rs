//! Opens a state and detects the loss of acknowledged writes.
//!
//! The contents are compared with the record of what was durable ([`Checkpoint`]). A state with losses is not opened
//! unless the user accepts them, and a refused start leaves every file unchanged.

use std::path::Path;

use super::StoreError;
use super::checkpoint::{Checkpoint, CheckpointFile, StoredCheckpoint};
use super::database::{Content, Database, DatabaseError, OpenError};
use super::original_files::OriginalFiles;
use super::reserved_space::ReservedSpace;
use super::state::State;
use object::Revision;

/// The treatment of a state with losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossPolicy {
    /// Do not open such a state.
    Refused,
    /// Open the readable part of the state.
    Accepted,
}

/// The number of revisions skipped after a loss: a client that follows a lost revision must get an error, and no lost
/// revision may be assigned again. No client can have seen this many revisions beyond the last checkpoint.
const REVISIONS_SKIPPED: u64 = 1_000_000;

pub(super) struct OpenedState {
    pub(super) database: Database,
    pub(super) state: State,
    pub(super) record: CheckpointFile,
    pub(super) checkpoint: Checkpoint,
}

/// Opens the database in `directory`, or creates it, and reads its state.
pub(super) fn open(directory: &Path, loss: LossPolicy) -> Result<OpenedState, StoreError> {
    let record = CheckpointFile::beside(directory);
    let recorded = record.read();
    let original = OriginalFiles::keep(directory);
    match read(directory, recorded) {
        Ok((database, content)) => {
            original.forget();
            Ok(opened(database, record, content))
        }
        Err(DatabaseProblem::Refused(reason)) => {
            original.forget();
            Err(StoreError::Disk(reason))
        }
        // An earlier, unfinished start has changed the present files, so the copy that it left is restored.
        Err(DatabaseProblem::Damaged { .. }) if original.is_older => {
            original.restore().map_err(|error| StoreError::Disk(error.to_string()))?;
            open(directory, loss)
        }
        Err(DatabaseProblem::Damaged { problem: what, readable }) => match loss {
            LossPolicy::Refused => {
                let loss_message = loss_message(directory, &record, recorded, &what, readable);
                original.restore().map_err(|error| StoreError::Disk(error.to_string()))?;
                Err(StoreError::Damaged(loss_message))
            }
            LossPolicy::Accepted => {
                tracing::warn!("{}: {what}; continuing with the readable part", directory.display());
                rescue(directory, record, recorded, original)
            }
        },
    }
}

fn opened(database: Database, mut record: CheckpointFile, content: Content) -> OpenedState {
    let checkpoint = checkpoint_of(&content);
    record.write(&checkpoint);
    OpenedState { database, state: State::restore(content.revision, content.objects), record, checkpoint }
}

fn checkpoint_of(content: &Content) -> Checkpoint {
    Checkpoint::of(content.revision, content.objects.iter().map(|(object, _)| object))
}

/// The reason why a database is not opened as it is.
enum DatabaseProblem {
    Refused(String),
    Damaged {
        problem: String,
        /// The checkpoint of the readable part.
        readable: Option<Checkpoint>,
    },
}

fn read(directory: &Path, recorded: StoredCheckpoint) -> Result<(Database, Content), DatabaseProblem> {
    let mut opened = Database::open(directory);
    // On a full disk, opening may need the space that the reserves occupy.
    for reserve in [ReservedSpace::beside, ReservedSpace::for_deletions] {
        if matches!(opened, Err(OpenError::Refused(_))) && reserve(directory).release() {
            opened = Database::open(directory);
        }
    }
    let database = opened.map_err(|failure| match failure {
        OpenError::Refused(refused) => DatabaseProblem::Refused(refused.reason),
        OpenError::Damaged(what) => DatabaseProblem::Damaged { problem: what, readable: None },
    })?;
    let content = database.read();
    let readable = checkpoint_of(&content);
    let problem = match (content.unreadable.first().cloned(), recorded) {
        (Some(what), _) => what,
        (None, StoredCheckpoint::Known(known)) if known.may_become(&readable) => {
            return Ok((database, content));
        }
        (None, StoredCheckpoint::Known(known)) if readable.revision < known.revision => {
            "the last writes are missing".into()
        }
        (None, StoredCheckpoint::Known(_)) => "objects are missing or outdated".into(),
        // A damaged checkpoint alone is no loss of writes: one accident damages either the checkpoint or the state. If
        // the state is empty as well, both are lost.
        (None, StoredCheckpoint::Unreadable) if readable.revision == Revision(0) => {
            "the database is empty".into()
        }
        (None, StoredCheckpoint::Unreadable | StoredCheckpoint::Nothing) => return Ok((database, content)),
    };
    Err(DatabaseProblem::Damaged { problem, readable: Some(readable) })
}

/// Describes the loss and the ways to go on.
fn loss_message(
    directory: &Path,
    record: &CheckpointFile,
    recorded: StoredCheckpoint,
    problem: &str,
    readable: Option<Checkpoint>,
) -> String {
    let shown = directory.display();
    let was = match recorded {
        StoredCheckpoint::Known(known) => format!(
            "according to {}, it had {} objects at revision {}",
            record.path().display(),
            known.objects,
            known.revision
        ),
        StoredCheckpoint::Unreadable => format!("{} is unreadable too", record.path().display()),
        StoredCheckpoint::Nothing => "its earlier contents are not recorded".into(),
    };
    let is = match (readable, recorded) {
        (Some(readable), StoredCheckpoint::Known(known)) if readable.revision < known.revision => format!(
            "{} objects at revision {} are readable; all later changes are lost",
            readable.objects, readable.revision
        ),
        (Some(readable), _) => {
            format!("{} objects at revision {} are readable", readable.objects, readable.revision)
        }
        (None, _) => "only an attempt shows how much is readable".into(),
    };
    format!(
        "the state in {shown} is damaged: {problem}; {was}, and {is}. No file was changed. Restore {shown} from a \
         backup, or start once with --accept-data-loss to continue with the readable part; the present files are then \
         kept as {shown}.damaged-N"
    )
}

/// Continues with the readable part.
fn rescue(
    directory: &Path,
    record: CheckpointFile,
    recorded: StoredCheckpoint,
    original: OriginalFiles,
) -> Result<OpenedState, StoreError> {
    let refused = |failure: OpenError| StoreError::Disk(failure.reason());
    if !original.has_copy() {
        let reason = "not enough space to keep a copy of the damaged files";
        return Err(StoreError::Disk(reason.into()));
    }
    let mut content = match open_as_far_as_possible(directory, &original).map_err(refused)? {
        Some(database) => read_twice(directory, database),
        None => Content::default(),
    };
    for what in &content.unreadable {
        tracing::warn!("{}: lost: {what}", directory.display());
    }
    // Start from an empty directory: an old journal in it could later bring back writes that were reported as lost.
    std::fs::remove_dir_all(directory)
        .and_then(|()| std::fs::create_dir(directory))
        .map_err(|error| StoreError::Disk(error.to_string()))?;
    let database = Database::open(directory).map_err(refused)?;
    let known = match recorded {
        StoredCheckpoint::Known(known) => known.revision,
        StoredCheckpoint::Unreadable | StoredCheckpoint::Nothing => Revision(0),
    };
    content.revision = Revision(content.revision.max(known).0 + REVISIONS_SKIPPED);
    database.fill(content.revision, &content.objects).map_err(refused)?;
    let saved = original.keep_for_good();
    tracing::warn!(
        "{}: recovered {} objects; copy of the damaged files: {}",
        directory.display(),
        content.objects.len(),
        saved.map_or("none, not enough space".into(), |place| place.display().to_string())
    );
    Ok(opened(database, record, content))
}

/// Returns the readable contents of a database: those of the first opening, or of the second if it reads more objects.
/// The first opening recreates a keyspace with missing files, and only the next one fills it from the journals.
fn read_twice(directory: &Path, database: Database) -> Content {
    let first = database.read();
    drop(database);
    match Database::open(directory) {
        Ok(again) => {
            Some(again.read()).filter(|again| again.objects.len() > first.objects.len()).unwrap_or(first)
        }
        Err(_) => first,
    }
}

/// Opens the database with the longest readable beginning of its journals; `None` if nothing is readable.
fn open_as_far_as_possible(
    directory: &Path,
    original: &OriginalFiles,
) -> Result<Option<Database>, OpenError> {
    let opens = |journal_bytes| {
        original
            .cut(journal_bytes)
            .map_err(|error| OpenError::Refused(DatabaseError::other(error.to_string())))?;
        match Database::open(directory) {
            Ok(database) => Ok(Some(database)),
            Err(OpenError::Damaged(_)) => Ok(None),
            Err(refused) => Err(refused),
        }
    };
    let all = original.journal_bytes();
    if let Some(database) = opens(all)? {
        return Ok(Some(database));
    }
    if opens(0)?.is_none() {
        return Ok(None);
    }
    // Bisects: any shorter beginning of a readable one is readable too.
    let (mut good, mut bad) = (0, all);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if opens(middle)?.is_some() {
            good = middle;
        } else {
            bad = middle;
        }
    }
    opens(good)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::Store;
    use crate::test_objects::config_map;
    use object::Kind;

    /// Creates a state of 300 objects at revision 330, as a clean stop leaves it.
    fn filled(directory: &Path) {
        fs::create_dir(directory).unwrap();
        let store = Store::open(directory).unwrap();
        for n in 0..315 {
            let stored = store.create(config_map(&n.to_string())).unwrap();
            // Several groups of writes.
            if n % 10 == 0 {
                futures::executor::block_on(store.durable(stored.revision())).unwrap();
            }
        }
        for object in store.list(Kind::ConfigMap, None).objects.iter().take(15) {
            store.remove(Kind::ConfigMap, &object.key(), object.revision()).unwrap();
        }
        store.close();
    }

    fn tree(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut directories = vec![directory.to_path_buf()];
        while let Some(next) = directories.pop() {
            for entry in fs::read_dir(next).unwrap().flatten() {
                if entry.file_type().unwrap().is_dir() {
                    directories.push(entry.path());
                } else {
                    files.insert(entry.path(), fs::read(entry.path()).unwrap());
                }
            }
        }
        files
    }

    fn journal(state: &Path) -> PathBuf {
        fs::read_dir(state)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.extension().is_some_and(|e| e == "jnl"))
            .unwrap()
    }

    fn flip(path: &Path, place: impl FnOnce(usize) -> usize) {
        let mut bytes = fs::read(path).unwrap();
        let place = place(bytes.len());
        bytes[place] ^= 0x55;
        fs::write(path, bytes).unwrap();
    }

    fn cut(path: &Path, bytes: u64) {
        fs::File::options().write(true).open(path).unwrap().set_len(bytes).unwrap();
    }

    /// Returns the end of the writes in a journal; the file may be longer.
    fn end_of_writes(state: &Path) -> usize {
        let bytes = fs::read(journal(state)).unwrap();
        bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1
    }

    /// An error reports the lost data, nothing is changed, and only an explicit flag continues (SAFE-2).
    #[test]
    fn a_damaged_state_is_refused_with_what_is_lost_until_the_loss_is_accepted() {
        type Damage = (&'static str, fn(&Path));
        let damages: [Damage; 13] = [
            ("journal truncated to nothing", |state| cut(&journal(state), 0)),
            ("journal truncated to 100 bytes", |state| cut(&journal(state), 100)),
            ("journal without its last writes", |state| {
                cut(&journal(state), end_of_writes(state) as u64 - 200);
            }),
            ("journal flipped at the start", |state| flip(&journal(state), |_| 10)),
            ("journal flipped in the middle", |state| {
                let end = end_of_writes(state);
                flip(&journal(state), |_| end / 2);
            }),
            ("journal flipped near the end", |state| {
                let end = end_of_writes(state);
                flip(&journal(state), |_| end - 300);
            }),
            ("journal removed", |state| fs::remove_file(journal(state)).unwrap()),
            ("keyspaces removed", |state| fs::remove_dir_all(state.join("keyspaces")).unwrap()),
            ("first keyspace removed", |state| fs::remove_dir_all(state.join("keyspaces/0")).unwrap()),
            ("second keyspace removed", |state| fs::remove_dir_all(state.join("keyspaces/1")).unwrap()),
            ("version removed", |state| fs::remove_file(state.join("version")).unwrap()),
            ("everything removed", |state| {
                fs::remove_dir_all(state).unwrap();
                fs::create_dir(state).unwrap();
            }),
            ("everything removed and the record damaged", |state| {
                fs::remove_dir_all(state).unwrap();
                fs::create_dir(state).unwrap();
                flip(&state.with_extension("checkpoint"), |length| length / 2);
            }),
        ];
        for (what, damage) in damages {
            let parent = tempfile::tempdir().unwrap();
            let state = parent.path().join("state");
            filled(&state);
            damage(&state);
            let damaged = tree(&state);
            for _ in 0..2 {
                let error = Store::open(&state).err().unwrap_or_else(|| panic!("{what}: it is opened"));
                let error = error.to_string();
                assert!(error.contains("--accept-data-loss"), "{what}: {error}");
                if !what.ends_with("record damaged") {
                    assert!(error.contains("300 objects at revision 330"), "{what}: {error}");
                }
                assert!(tree(&state) == damaged, "{what}: a refused start changes nothing");
            }
            let store = Store::open_with(&state, LossPolicy::Accepted).unwrap();
            let left = store.count(Kind::ConfigMap);
            assert!(left <= 315, "{what}");
            if what.contains("middle") || what.contains("end") || what.contains("last") {
                assert!(left > 100, "{what}: {left} are left");
            }
            assert!(store.revision().0 >= 1_000_000, "{what}: no revision is given out again");
            assert!(tree(&state.with_extension("damaged-1")).len() == damaged.len(), "{what}");
            store.create(config_map("new")).unwrap();
            store.close();
            let again = Store::open(&state).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(again.count(Kind::ConfigMap), left + 1, "{what}");
        }
    }

    /// SAFE-2: a crash may leave the beginning of an unacknowledged write.
    #[test]
    fn the_torn_end_of_a_journal_is_no_damage() {
        for tear in [1, 7, 40, 200] {
            let parent = tempfile::tempdir().unwrap();
            let state = parent.path().join("state");
            filled(&state);
            let journal = journal(&state);
            let mut bytes = fs::read(&journal).unwrap();
            let end = end_of_writes(&state);
            bytes.truncate(end);
            // The beginning of a write like the first one.
            let torn = bytes[..tear.min(bytes.len() / 2)].to_vec();
            bytes.extend(torn);
            fs::write(&journal, bytes).unwrap();
            let store = Store::open(&state).unwrap();
            assert_eq!((store.count(Kind::ConfigMap), store.revision()), (300, Revision(330)), "{tear}");
        }
    }

    /// Opens a state from a version without checkpoints, one with a damaged checkpoint, and one with a checkpoint
    /// that a crash left behind.
    #[test]
    fn an_intact_state_is_opened_despite_a_stale_or_damaged_checkpoint() {
        let parent = tempfile::tempdir().unwrap();
        let state = parent.path().join("state");
        filled(&state);
        let record = state.with_extension("checkpoint");
        let behind = {
            let other = parent.path().join("other");
            fs::create_dir(&other).unwrap();
            let store = Store::open(&other).unwrap();
            store.create(config_map("0")).unwrap();
            store.close();
            fs::read(other.with_extension("checkpoint")).unwrap()
        };
        for text in [None, Some(b"nonsense".to_vec()), Some(behind)] {
            match text {
                None => fs::remove_file(&record).unwrap(),
                Some(text) => fs::write(&record, text).unwrap(),
            }
            let store = Store::open(&state).unwrap();
            assert_eq!(store.count(Kind::ConfigMap), 300);
            store.close();
        }
        assert!(!state.with_extension("opening").exists() && !state.with_extension("opening.old").exists());
    }

    /// A start that was killed while it opened a damaged state left the original files beside it.
    #[test]
    fn a_state_set_aside_by_an_unfinished_start_is_restored() {
        let parent = tempfile::tempdir().unwrap();
        let state = parent.path().join("state");
        filled(&state);
        fs::rename(&state, state.with_extension("opening")).unwrap();
        fs::create_dir(&state).unwrap();
        assert_eq!(Store::open(&state).unwrap().count(Kind::ConfigMap), 300);
    }
}
