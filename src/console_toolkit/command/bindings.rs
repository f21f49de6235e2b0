//! Key bindings: the default keys, overridden by the user's.

use std::collections::{BTreeMap, HashMap};

use super::{Command, Entry, KeyContext, TABLE};
use crate::keys::Key;

/// The user's keys of a command: in one context, or in all contexts of the command.
pub type UserKeys = BTreeMap<(Command, Option<KeyContext>), Vec<Key>>;

/// The key bindings in force: the default ones with the user's on top.
#[derive(Clone, Debug)]
pub struct Bindings {
    keys: HashMap<(Command, KeyContext), Vec<Key>>,
    lookup: HashMap<(KeyContext, Key), Command>,
}

impl Default for Bindings {
    fn default() -> Self {
        Self::with(&UserKeys::new()).expect("the table has no conflicts (tested)")
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
    /// Returns the default bindings, with the user's keys in place of the default ones. Keys for one context take
    /// precedence over those for all contexts of a command.
    pub fn with(own: &UserKeys) -> Result<Self, BindError> {
        let mut keys = HashMap::new();
        let mut lookup: HashMap<(KeyContext, Key), Command> = HashMap::new();
        for entry in TABLE {
            let (command, context) = (entry.command, entry.context);
            let bound = match own.get(&(command, Some(context))).or_else(|| own.get(&(command, None))) {
                Some(bound) => bound.clone(),
                None => entry.keys.iter().filter_map(|key| Key::parse(key)).collect(),
            };
            for key in &bound {
                let before = lookup.insert((context, *key), command);
                if let Some(first) = before.filter(|first| *first != command) {
                    return Err(BindError::Conflict {
                        key: key.to_string(),
                        first: first.name(),
                        second: entry.name,
                        context: context.title(),
                    });
                }
            }
            keys.insert((command, context), bound);
        }
        Ok(Self { keys, lookup })
    }

    /// Returns the command of a key in these contexts, the most specific first.
    pub fn command(&self, contexts: &[KeyContext], key: Key) -> Option<Command> {
        contexts.iter().find_map(|context| self.lookup.get(&(*context, key)).copied())
    }

    /// Returns the first key of a command in its own context, for texts.
    pub fn key(&self, command: Command) -> Option<Key> {
        self.keys(command.entry()).first().copied()
    }

    /// Returns the first key of a command in a context, for texts.
    pub fn key_in(&self, command: Command, context: KeyContext) -> Option<Key> {
        self.keys.get(&(command, context))?.first().copied()
    }

    /// Returns all keys of an entry, for footer and help.
    pub fn keys(&self, entry: &Entry) -> &[Key] {
        self.keys.get(&(entry.command, entry.context)).map_or(&[], Vec::as_slice)
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
        let own = UserKeys::from([((Command::Delete, None), vec![ctrl_x])]);
        let moved = Bindings::with(&own).expect("free key");
        assert_eq!(moved.command(&pods, ctrl_x), Some(Command::Delete));
        assert_eq!(moved.command(&pods, Key::parse("ctrl-d").expect("a key")), None);

        let conflict = UserKeys::from([((Command::Delete, None), vec![Key::parse("d").expect("a key")])]);
        let error = Bindings::with(&conflict).expect_err("d is describe");
        assert_eq!(error.to_string(), "key d is bound to both describe and delete in Any table");
    }

    #[test]
    fn a_command_has_its_keys_in_all_its_contexts_con_3() {
        let [f5, f6, d] = ["f5", "f6", "d"].map(|key| Key::parse(key).expect("a key"));
        let everywhere = ((Command::Describe, None), vec![f5]);
        let moved = Bindings::with(&UserKeys::from([everywhere.clone()])).expect("a free key");
        for entry in Command::Describe.entries() {
            assert_eq!(moved.command(&[entry.context], f5), Some(Command::Describe), "{:?}", entry.context);
            assert_eq!(moved.command(&[entry.context], d), None, "{:?}", entry.context);
        }
        assert_eq!(moved.command(&[KeyContext::Overview], d), Some(Command::ShowDeployments));
        let in_tree = ((Command::Describe, Some(KeyContext::Tree)), vec![f6]);
        let moved = Bindings::with(&UserKeys::from([everywhere, in_tree])).expect("free keys");
        assert_eq!(moved.command(&[KeyContext::Tree], f6), Some(Command::Describe));
        assert_eq!(moved.command(&[KeyContext::Tree], f5), None);
        assert_eq!(moved.key(Command::Describe), Some(f5));
        assert_eq!(moved.key_in(Command::Describe, KeyContext::Tree), Some(f6));
        // A command's key may be taken in a context of another view.
        let taken = UserKeys::from([((Command::Describe, None), vec![Key::parse("m").expect("a key")])]);
        let error = Bindings::with(&taken).expect_err("m is managed-fields");
        assert_eq!(error.to_string(), "key m is bound to both describe and managed-fields in YAML");
    }
}
