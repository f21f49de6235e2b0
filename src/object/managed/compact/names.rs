//! Assigns numbers to the names of fields. The numbers are valid only in this process.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::{RwLock, RwLockReadGuard};

/// The most numbered field names: enough for all schemas and the usual labels. Further names are written out, so that
/// clients cannot fill the memory with names.
const MAX_NAMES: usize = 1 << 14;
/// Longer names are written out.
const MAX_NAME_BYTES: usize = 64;

/// The number of a field's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldName(u16);

/// All names that are numbered.
#[derive(Default)]
pub(super) struct Names {
    numbers: HashMap<Arc<str>, FieldName>,
    names: Vec<Name>,
}

struct Name {
    text: Arc<str>,
    /// The name as a key of `fieldsV1`: `"f:name":`.
    key: Box<[u8]>,
}

static NAMES: LazyLock<RwLock<Names>> = LazyLock::new(RwLock::default);

impl FieldName {
    /// Returns the number of a name, assigning one if there is capacity.
    pub fn of(name: &str) -> Option<Self> {
        if name.len() > MAX_NAME_BYTES {
            return None;
        }
        if let Some(number) = NAMES.read().numbers.get(name) {
            return Some(*number);
        }
        let mut names = NAMES.write();
        if let Some(number) = names.numbers.get(name) {
            return Some(*number);
        }
        if names.names.len() >= MAX_NAMES {
            return None;
        }
        let number = Self(u16::try_from(names.names.len()).ok()?);
        let text: Arc<str> = name.into();
        let key = format!("{}:", serde_json::Value::from(format!("f:{name}")));
        names.names.push(Name { text: text.clone(), key: key.into_bytes().into() });
        names.numbers.insert(text, number);
        Some(number)
    }

    pub(super) fn number(self) -> u16 {
        self.0
    }
}

impl Names {
    /// Locks the names for reading, which blocks new ones: hold it for a moment only.
    pub(super) fn read() -> RwLockReadGuard<'static, Self> {
        NAMES.read()
    }

    /// Returns the name with this number; empty if the number is not assigned.
    pub(super) fn text(&self, number: u64) -> &str {
        self.at(number).map_or("", |name| &name.text)
    }

    /// Returns the name with this number as a key of `fieldsV1`.
    pub(super) fn key(&self, number: u64) -> &[u8] {
        self.at(number).map_or(b"\"f:\":", |name| &name.key)
    }

    fn at(&self, number: u64) -> Option<&Name> {
        self.names.get(usize::try_from(number).ok()?)
    }
}
