//! The user's key bindings in a recording: the names of commands with the names of their keys.

use std::collections::BTreeMap;

use crate::command::{Bindings, Command};
use crate::keys::Key;

/// The keys of commands that the user has bound, by the commands' names.
pub(crate) type RecordedBindings = BTreeMap<String, Vec<String>>;

/// Returns the user's bindings as they are recorded.
pub(crate) fn recorded_bindings(own: &BTreeMap<Command, Vec<Key>>) -> RecordedBindings {
    let texts = |keys: &Vec<Key>| keys.iter().map(ToString::to_string).collect();
    own.iter().map(|(command, keys)| (command.entry().name.to_owned(), texts(keys))).collect()
}

/// Returns the bindings of a recorded session. Commands and keys that this version does not have are left out; if the
/// rest conflicts with its default keys, all keys are the default ones.
pub(super) fn bindings_of(recorded: &RecordedBindings) -> Bindings {
    let own = recorded.iter().filter_map(|(name, keys)| {
        let keys = keys.iter().filter_map(|key| Key::parse(key)).collect();
        Some((Command::named(name)?, keys))
    });
    Bindings::with(&own.collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::TABLE;

    #[test]
    fn recorded_bindings_are_read_back_con_21() {
        let key = |text: &str| Key::parse(text).expect("a key");
        let own = BTreeMap::from([
            (Command::Delete, vec![key("ctrl-x"), key("alt-left")]),
            (Command::Help, vec![key("f12"), key("H")]),
            (Command::Refresh, vec![]),
        ]);
        let mut recorded = recorded_bindings(&own);
        recorded.insert("a-command-of-later".to_owned(), vec!["x".to_owned()]);
        let bindings = bindings_of(&recorded);
        for entry in TABLE {
            let expected = own.get(&entry.command).cloned();
            let expected = expected.unwrap_or_else(|| Bindings::default().keys(entry.command).to_vec());
            assert_eq!(bindings.keys(entry.command), expected, "{}", entry.name);
        }
        let conflict = BTreeMap::from([("delete".to_owned(), vec!["d".to_owned()])]);
        assert_eq!(bindings_of(&conflict).key(Command::Delete), Bindings::default().key(Command::Delete));
    }
}
