//! The field numbers of every message, read from `fields.txt`.
//!
//! A line is a message and its fields: `name=1`; `name?=1` when the field is a pointer to a plain value, so
//! that its zero means zero and not absence; `*Message=1` when the fields of a nested message are inlined in
//! the JSON of its holder. The numbers come from the `generated.proto` files of the Kubernetes API.

use std::collections::HashMap;
use std::sync::OnceLock;

const TEXT: &str = include_str!("fields.txt");

/// One numbered field.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A field with its own JSON name.
    Field {
        name: &'static str,
        /// True if the zero value counts as present.
        pointer: bool,
    },
    /// A message whose fields are inlined in the JSON of its holder.
    Inline(&'static str),
}

/// The fields of one message by number.
pub(super) type Fields = HashMap<u32, Entry>;

/// Returns the fields of a message of this name, e.g. `api.core.v1.Pod`; `None` when it has no protobuf form.
pub(super) fn fields(message: &str) -> Option<&'static Fields> {
    static TABLE: OnceLock<HashMap<&'static str, Fields>> = OnceLock::new();
    let table = TABLE.get_or_init(|| TEXT.lines().filter_map(line).collect());
    table.get(message)
}

fn line(line: &'static str) -> Option<(&'static str, Fields)> {
    let (message, rest) = line.split_once(' ')?;
    Some((message, rest.split(' ').filter_map(entry).collect()))
}

fn entry(text: &'static str) -> Option<(u32, Entry)> {
    let (name, number) = text.split_once('=')?;
    let entry = match (name.strip_prefix('*'), name.strip_suffix('?')) {
        (Some(message), _) => Entry::Inline(message),
        (None, Some(name)) => Entry::Field { name, pointer: true },
        (None, None) => Entry::Field { name, pointer: false },
    };
    Some((number.parse().ok()?, entry))
}
