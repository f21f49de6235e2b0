//! The embedded database: the layout of its records, and the commit of a group of writes.

use std::path::Path;

use fjall::{Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{Change, ChangeKind};
use object::{Key, Kind, Object, Revision, Scope};

/// The bytes of writes the database keeps in memory before it sorts them into a file: few, because all reads are
/// served from memory already, and not too few, because each file costs the writers a pause.
const MEMTABLE: u64 = 16 * 1024 * 1024;
/// The size of the database's cache of its files, which are read only at the start.
const CACHE: u64 = 1024 * 1024;
/// The size at which the oldest journal is sorted into files and removed: journals are copied and read at each start.
/// This is the database's minimum.
const JOURNALS: u64 = 64 * 1024 * 1024;
/// The key of the revision of the last durable write.
const REVISION_KEY: &str = "revision";

/// An open database.
pub(super) struct Database {
    fjall: fjall::Database,
    objects: Keyspace,
    meta: Keyspace,
}

/// The contents of a database.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// The revision of the last write.
    pub(super) revision: Revision,
    /// The objects, each with the size of its record in bytes.
    pub(super) objects: Vec<(Object, usize)>,
    /// Descriptions of unreadable records.
    pub(super) unreadable: Vec<String>,
}

/// A record with its key, or the reason why no more can be read.
pub(super) type Record = Result<(Vec<u8>, Vec<u8>), String>;

/// An iterator over the records on disk.
pub(super) struct Records(pub(super) Box<dyn Iterator<Item = Record> + Send>);

/// The operating system refused to open or to write the database's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DatabaseError {
    /// The error's message.
    pub(super) reason: String,
    /// The disk is full.
    pub(super) is_full: bool,
}

impl DatabaseError {
    /// Returns a refusal for another reason than a full disk.
    pub(super) fn other(reason: String) -> Self {
        Self { reason, is_full: false }
    }

    fn of(error: &fjall::Error) -> Self {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        let is_full = io_error(error).is_some_and(|io| matches!(io.kind(), StorageFull | QuotaExceeded));
        Self { reason: message_of(error), is_full }
    }
}

/// The reason why a database does not open.
#[derive(Debug)]
pub(super) enum OpenError {
    /// The operating system refused to open the files.
    Refused(DatabaseError),
    /// The files are damaged.
    Damaged(String),
}

impl OpenError {
    pub(super) fn reason(self) -> String {
        self.refused().reason
    }

    pub(super) fn refused(self) -> DatabaseError {
        match self {
            Self::Refused(refused) => refused,
            Self::Damaged(reason) => DatabaseError::other(reason),
        }
    }
}

impl Database {
    /// Opens the database in a directory, or creates it.
    pub(super) fn open(directory: &Path) -> Result<Self, OpenError> {
        // The database panics on some damaged files instead of returning an error.
        let opened = std::panic::catch_unwind(|| Self::try_open(directory));
        match opened {
            Ok(opened) => opened.map_err(|error| failure(&error)),
            Err(panic) => Err(OpenError::Damaged(base::panics::panic_text(panic.as_ref()))),
        }
    }

    fn try_open(directory: &Path) -> fjall::Result<Self> {
        let database =
            fjall::Database::builder(directory).cache_size(CACHE).max_journaling_size(JOURNALS).open()?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE);
        let (objects, meta) = (database.keyspace("objects", options)?, database.keyspace("meta", options)?);
        Ok(Self { fjall: database, objects, meta })
    }

    /// Reads all readable objects, and describes the unreadable records.
    pub(super) fn read(&self) -> Content {
        let mut content = Content::default();
        match self.meta.get(REVISION_KEY) {
            Ok(None) => {}
            Ok(Some(bytes)) => match bytes.as_ref().try_into() {
                Ok(bytes) => content.revision = Revision(u64::from_be_bytes(bytes)),
                Err(_) => content.unreadable.push(format!("the record {REVISION_KEY} does not have 8 bytes")),
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

    /// Returns all records as of this moment, even if writes follow while they are read.
    pub(super) fn records(&self) -> Records {
        let records = self.objects.iter().map(|record| {
            let (key, value) = record.into_inner().map_err(|error| explained(&error))?;
            Ok((key.to_vec(), value.to_vec()))
        });
        Records(Box::new(records))
    }

    /// Writes a group and syncs it. Repeating the same group after a failure is harmless.
    pub(super) fn commit(&self, group: &[Change]) -> Result<(), DatabaseError> {
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
        batch.commit().map_err(|error| DatabaseError::of(&error))
    }

    /// Writes a whole state and syncs it.
    pub(super) fn fill(&self, revision: Revision, objects: &[(Object, usize)]) -> Result<(), OpenError> {
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
    .map(|object| object.with_stored_managers().packed())
    .map_err(|e| e.to_string())
}

/// The version in the keys of custom kinds that were built in once: plural, group and version. Their records stay
/// where earlier versions of Podium wrote them, also in the checkpoint, which is a sum over all keys.
const FORMERLY_BUILT_IN: &[(&str, &str, &str)] = &[
    ("clusterrestores", "podium.dev", "v1alpha1"),
    ("clustersnapshots", "podium.dev", "v1alpha1"),
    ("faults", "podium.dev", "v1alpha1"),
    ("nodefences", "podium.dev", "v1alpha1"),
    ("scenarios", "podium.dev", "v1alpha1"),
];

/// Returns a record's key, `pods.v1\0namespace\0name`: NUL sorts below every character of a name. Keys of custom
/// kinds have no version (`widgets.example.com.`), because their definition may choose another storage version later;
/// except for those that were built in once.
pub(super) fn record_key(kind: Kind, key: &Key) -> String {
    let info = kind.info();
    let former =
        FORMERLY_BUILT_IN.iter().find(|(plural, group, _)| (*plural, *group) == (info.plural, info.group));
    let version = former.map_or(info.version, |(_, _, version)| version);
    format!("{}.{version}\0{}\0{}", info.qualified_plural(), key.namespace, key.name)
}

/// Returns the custom kind of a record, and registers the kind if its definition was not read yet; `None` for a
/// built-in kind.
fn custom_kind(key: &[u8], value: &serde_json::Value) -> Result<Option<Kind>, String> {
    let key = std::str::from_utf8(key).map_err(|e| e.to_string())?;
    let mut parts = key.splitn(3, '\0');
    let (Some(kind), Some(namespace)) = (parts.next(), parts.next()) else {
        return Err("the key is invalid".into());
    };
    let former = FORMERLY_BUILT_IN
        .iter()
        .find(|(plural, group, version)| kind == format!("{plural}.{group}.{version}"));
    let custom = match former {
        Some((plural, group, _)) => Some((*plural, *group)),
        None => kind.strip_suffix('.').and_then(|kind| kind.split_once('.')),
    };
    let Some((plural, group)) = custom else { return Ok(None) };
    let name = value.get("kind").and_then(serde_json::Value::as_str).ok_or("the object has no kind")?;
    let scope = if namespace.is_empty() { Scope::Cluster } else { Scope::Namespaced };
    Kind::custom(group, plural, name, scope).map(Some).map_err(|e| e.to_string())
}

/// Returns the operating system's message if the error has one.
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

fn failure(error: &fjall::Error) -> OpenError {
    use std::io::ErrorKind::{AlreadyExists, InvalidData, InvalidInput, NotFound, Other, UnexpectedEof};
    let refused = match io_error(error) {
        Some(io) => !matches!(
            io.kind(),
            AlreadyExists | InvalidData | InvalidInput | NotFound | Other | UnexpectedEof
        ),
        None => matches!(error, fjall::Error::Locked | fjall::Error::Poisoned),
    };
    if refused { OpenError::Refused(DatabaseError::of(error)) } else { OpenError::Damaged(explained(error)) }
}

/// Explains the database's error.
fn explained(error: &fjall::Error) -> String {
    let problem = match error {
        fjall::Error::JournalRecovery(_) | fjall::Error::InvalidTag(_) | fjall::Error::InvalidTrailer => {
            "a journal file (*.jnl) is damaged"
        }
        fjall::Error::Storage(_) => "a table file (in keyspaces/) is missing or damaged",
        fjall::Error::InvalidVersion(_) => "the version file is damaged or has another version",
        _ => "a file is missing or damaged",
    };
    format!("{problem} ({error})")
}
