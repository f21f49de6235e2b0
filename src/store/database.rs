//! The embedded database: what lies where in it, and how a group of writes is committed.

use std::path::Path;

use fjall::{Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{Change, ChangeKind};
use object::{Key, Kind, Object, Revision, Scope};

/// Writes the database keeps in memory before it sorts them into a file: little, since everything that is
/// read is in memory already, and not too little, since each file costs the writers a pause.
const MEMTABLE: u64 = 16 * 1024 * 1024;
/// What the database caches of its files: they are read at the start only.
const CACHE: u64 = 1024 * 1024;
/// When journals have so many bytes, what the oldest holds is sorted into files, and it goes: they are copied and read
/// at each start. The least that the database takes.
const JOURNALS: u64 = 64 * 1024 * 1024;
/// Where the revision of the last durable write is kept.
const REVISION_KEY: &str = "revision";

/// An open database.
pub(super) struct Database {
    fjall: fjall::Database,
    objects: Keyspace,
    meta: Keyspace,
}

/// What a database holds.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// Of the last write.
    pub(super) revision: Revision,
    /// Each with the size of its record in bytes.
    pub(super) objects: Vec<(Object, usize)>,
    /// What cannot be read.
    pub(super) unreadable: Vec<String>,
}

/// A record with its key, or why no more can be read.
pub(super) type Record = Result<(Vec<u8>, Vec<u8>), String>;

/// What is on the disk.
pub(super) struct Records(pub(super) Box<dyn Iterator<Item = Record> + Send>);

/// The operating system refuses to open or to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// In its own words.
    pub(super) reason: String,
    /// For want of room.
    pub(super) is_full: bool,
}

impl Refused {
    /// For another reason than want of room.
    pub(super) fn other(reason: String) -> Self {
        Self { reason, is_full: false }
    }

    fn of(error: &fjall::Error) -> Self {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        let is_full = io_error(error).is_some_and(|io| matches!(io.kind(), StorageFull | QuotaExceeded));
        Self { reason: message_of(error), is_full }
    }
}

/// A database does not open.
#[derive(Debug)]
pub(super) enum Failure {
    /// The operating system refuses.
    Refused(Refused),
    /// The files are not what they were.
    Damaged(String),
}

impl Failure {
    pub(super) fn reason(self) -> String {
        self.refused().reason
    }

    pub(super) fn refused(self) -> Refused {
        match self {
            Self::Refused(refused) => refused,
            Self::Damaged(reason) => Refused::other(reason),
        }
    }
}

impl Database {
    /// Opens the database in a directory, or makes a new one.
    pub(super) fn open(directory: &Path) -> Result<Self, Failure> {
        // Files that no version of it has written make the database panic in places.
        let opened = std::panic::catch_unwind(|| Self::try_open(directory));
        match opened {
            Ok(opened) => opened.map_err(|error| failure(&error)),
            Err(panic) => Err(Failure::Damaged(base::contained::panic_text(panic.as_ref()))),
        }
    }

    fn try_open(directory: &Path) -> fjall::Result<Self> {
        let database =
            fjall::Database::builder(directory).cache_size(CACHE).max_journaling_size(JOURNALS).open()?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE);
        let (objects, meta) = (database.keyspace("objects", options)?, database.keyspace("meta", options)?);
        Ok(Self { fjall: database, objects, meta })
    }

    /// Everything that can be read.
    pub(super) fn read(&self) -> Content {
        let mut content = Content::default();
        match self.meta.get(REVISION_KEY) {
            Ok(None) => {}
            Ok(Some(bytes)) => match bytes.as_ref().try_into() {
                Ok(bytes) => content.revision = Revision(u64::from_be_bytes(bytes)),
                Err(_) => content.unreadable.push(format!("the record {REVISION_KEY}: not 8 bytes")),
            },
            Err(error) => content.unreadable.push(explained(&error)),
        }
        for record in self.objects.iter() {
            let (key, value) = match record.into_inner() {
                Ok(record) => record,
                Err(error) => {
                    content.unreadable.push(explained(&error));
                    break;
                }
            };
            match decode(&key, &value) {
                Ok(object) => {
                    content.revision = content.revision.max(object.revision());
                    content.objects.push((object, value.len()));
                }
                Err(reason) => {
                    let key = String::from_utf8_lossy(&key).replace('\0', " ");
                    content.unreadable.push(format!("the record {key}: {reason}"));
                }
            }
        }
        content
    }

    /// Everything as it is at this moment, whatever is written while it is read.
    pub(super) fn records(&self) -> Records {
        let records = self.objects.iter().map(|record| {
            let (key, value) = record.into_inner().map_err(|error| explained(&error))?;
            Ok((key.to_vec(), value.to_vec()))
        });
        Records(Box::new(records))
    }

    /// Writes a group and syncs it; the same group again after a failure is harmless.
    pub(super) fn commit(&self, group: &[Change]) -> Result<(), Refused> {
        let mut batch = self.fjall.batch().durability(Some(PersistMode::SyncData));
        let mut text = Vec::new();
        for change in group {
            let key = record_key(change.object.kind(), &change.object.key());
            if change.kind == ChangeKind::Deleted {
                batch.remove(&self.objects, key);
            } else {
                text.clear();
                change.object.write_json(&mut text);
                batch.insert(&self.objects, key, text.as_slice());
            }
        }
        if let Some(last) = group.last() {
            batch.insert(&self.meta, REVISION_KEY, last.revision.0.to_be_bytes());
        }
        batch.commit().map_err(|error| Refused::of(&error))
    }

    /// Writes a whole state and syncs it.
    pub(super) fn fill(&self, revision: Revision, objects: &[(Object, usize)]) -> Result<(), Failure> {
        let mut batch = self.fjall.batch().durability(Some(PersistMode::SyncAll));
        for (object, _) in objects {
            let mut text = Vec::new();
            object.write_json(&mut text);
            batch.insert(&self.objects, record_key(object.kind(), &object.key()), text.as_slice());
        }
        batch.insert(&self.meta, REVISION_KEY, revision.0.to_be_bytes());
        batch.commit().map_err(|error| failure(&error))
    }
}

pub(super) fn decode(key: &[u8], value: &[u8]) -> Result<Object, String> {
    let value = serde_json::from_slice(value).map_err(|e| e.to_string())?;
    match custom_kind(key, &value)? {
        Some(kind) => Object::from_value(kind, value),
        None => Object::from_any_value(value),
    }
    .map(|object| object.settled().packed())
    .map_err(|e| e.to_string())
}

/// `pods.v1\0namespace\0name`: NUL sorts below everything that names may hold. Custom kinds have no version there
/// (`widgets.example.com.`): their definition may store them in another one tomorrow.
pub(super) fn record_key(kind: Kind, key: &Key) -> String {
    let info = kind.info();
    format!("{}.{}\0{}\0{}", info.qualified_plural(), info.version, key.namespace, key.name)
}

/// The custom kind whose record this is, which joins again if its definition was not read yet; none for a built-in.
fn custom_kind(key: &[u8], value: &serde_json::Value) -> Result<Option<Kind>, String> {
    let key = std::str::from_utf8(key).map_err(|e| e.to_string())?;
    let mut parts = key.splitn(3, '\0');
    let (Some(kind), Some(namespace)) = (parts.next(), parts.next()) else {
        return Err("its key is not one of ours".into());
    };
    let Some((plural, group)) = kind.strip_suffix('.').and_then(|kind| kind.split_once('.')) else {
        return Ok(None);
    };
    let name = value.get("kind").and_then(serde_json::Value::as_str).ok_or("it names no kind")?;
    let scope = if namespace.is_empty() { Scope::Cluster } else { Scope::Namespaced };
    Kind::custom(group, plural, name, scope).map(Some).map_err(|e| e.to_string())
}

/// The operating system's own words where it is the one that refuses.
fn message_of(error: &fjall::Error) -> String {
    match io_error(error) {
        Some(error) => error.to_string(),
        None => error.to_string(),
    }
}

fn io_error(error: &fjall::Error) -> Option<&std::io::Error> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref() {
            return Some(error);
        }
        next = error.source();
    }
    None
}

fn failure(error: &fjall::Error) -> Failure {
    use std::io::ErrorKind::{AlreadyExists, InvalidData, InvalidInput, NotFound, Other, UnexpectedEof};
    let refused = match io_error(error) {
        Some(io) => !matches!(
            io.kind(),
            AlreadyExists | InvalidData | InvalidInput | NotFound | Other | UnexpectedEof
        ),
        None => matches!(error, fjall::Error::Locked | fjall::Error::Poisoned),
    };
    if refused { Failure::Refused(Refused::of(error)) } else { Failure::Damaged(explained(error)) }
}

/// What the database's own words mean.
fn explained(error: &fjall::Error) -> String {
    let what = match error {
        fjall::Error::JournalRecovery(_) | fjall::Error::InvalidTag(_) | fjall::Error::InvalidTrailer => {
            "its journal (*.jnl) holds writes that are not as they were written"
        }
        fjall::Error::Storage(_) => "one of its tables (keyspaces/) is missing or not as it was written",
        fjall::Error::InvalidVersion(_) => "its version file is damaged, or it is of another version",
        _ => "one of its files is missing or damaged",
    };
    format!("{what} ({error})")
}
