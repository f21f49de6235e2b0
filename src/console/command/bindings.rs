//! Key bindings: the default keys, overridden by the user's.

use std::collections::{BTreeMap, HashMap};

use super::{Command, KeyContext, TABLE};
use crate::keys::Key;

/// The key bindings in force: the default ones with the user's on top.
#[derive(Clone, Debug)]
pub struct Bindings {
    keys: BTreeMap<Command, Vec<Key>>,
    lookup: HashMap<(KeyContext, Key), Command>,
}

impl Default for Bindings {
    fn default() -> Self {
        Self::with(&BTreeMap::new()).expect("the table has no conflicts (tested)")
    }
}

/// An error in the user's key bindings.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BindError {
    /// Two commands of one context would have the same key.
    #[error("key {key} is bound to both {first} and {second} in {context}")]
    Conflict {
        /// The key.
        key: String,
        /// The command that has the key.
        first: &'static str,
        /// The command to which the key would be bound as well.
        second: &'static str,
        /// The context.
        context: &'static str,
    },
}

impl Bindings {
    /// Returns the default bindings, with the keys of each command in `own` in place of its default keys.
    pub(crate) fn with(own: &BTreeMap<Command, Vec<Key>>) -> Result<Self, BindError> {
        let mut keys = BTreeMap::new();
        let mut lookup: HashMap<(KeyContext, Key), Command> = HashMap::new();
        for entry in TABLE {
            let bound = match own.get(&entry.command) {
                Some(bound) => bound.clone(),
                None => entry.keys.iter().filter_map(|key| Key::parse(key)).collect(),
            };
            for key in &bound {
                if let Some(first) = lookup.insert((entry.context, *key), entry.command) {
                    return Err(BindError::Conflict {
                        key: key.to_string(),
                        first: first.entry().name,
                        second: entry.name,
                        context: entry.context.title(),
                    });
                }
            }
            keys.insert(entry.command, bound);
        }
        Ok(Self { keys, lookup })
    }

    /// Returns the command of a key in these contexts, the most specific first.
    pub(crate) fn command(&self, contexts: &[KeyContext], key: Key) -> Option<Command> {
        contexts.iter().find_map(|context| self.lookup.get(&(*context, key)).copied())
    }

    /// Returns the first key of a command, for footers.
    pub(crate) fn key(&self, command: Command) -> Option<Key> {
        self.keys.get(&command)?.first().copied()
    }

    /// Returns all keys of a command, for the help.
    pub(crate) fn keys(&self, command: Command) -> &[Key] {
        self.keys.get(&command).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_the_place_says_and_can_be_moved_con_3() {
        let bindings = Bindings::default();
        let s = Key::parse("s").expect("a key");
        let pods = [KeyContext::Pods, KeyContext::Objects, KeyContext::List, KeyContext::Everywhere];
        let workloads =
            [KeyContext::Workloads, KeyContext::Objects, KeyContext::List, KeyContext::Everywhere];
        assert_eq!(bindings.command(&pods, s), Some(Command::Shell));
        assert_eq!(bindings.command(&workloads, s), Some(Command::Scale));

        let ctrl_x = Key::parse("ctrl-x").expect("a key");
        let own = BTreeMap::from([(Command::Delete, vec![ctrl_x])]);
        let moved = Bindings::with(&own).expect("free key");
        assert_eq!(moved.command(&pods, ctrl_x), Some(Command::Delete));
        assert_eq!(moved.command(&pods, Key::parse("ctrl-d").expect("a key")), None);

        let conflict = BTreeMap::from([(Command::Delete, vec![Key::parse("d").expect("a key")])]);
        let error = Bindings::with(&conflict).expect_err("d is describe");
        assert_eq!(error.to_string(), "key d is bound to both describe and delete in Any table");
    }
}
