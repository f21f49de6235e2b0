//! The user's key bindings in a recording: the names of commands with the names of their keys. Keys of one view have
//! its title behind the name: `describe@Owner tree`.

use std::collections::BTreeMap;

use base::sort::CollectMap;
use console_toolkit::command::{Bindings, Command, KeyContext, UserKeys};
use console_toolkit::keys::Key;

/// The keys of commands that the user has bound, by the commands' names.
pub(crate) type RecordedBindings = BTreeMap<String, Vec<String>>;

/// Returns the user's bindings as they are recorded.
pub(crate) fn recorded_bindings(own: &UserKeys) -> RecordedBindings {
    let record = |((command, context), keys): (&(Command, Option<_>), &Vec<Key>)| {
        let view = context.map_or_else(String::new, |context: KeyContext| format!("@{}", context.title()));
        (format!("{}{view}", command.name()), keys.iter().map(ToString::to_string).collect())
    };
    own.iter().map(record).collect_map()
}

/// Returns the bindings of a recorded session. Commands, views and keys that this version does not have are left out; if
/// the rest conflicts with its default keys, all keys are the default ones.
pub(super) fn bindings_of(recorded: &RecordedBindings) -> Bindings {
    let own = recorded.iter().filter_map(|(name, keys)| {
        let keys = keys.iter().filter_map(|key| Key::parse(key)).collect();
        let bound = match name.split_once('@') {
            None => Command::named_with_context(name)?,
            Some((name, view)) => {
                let command = Command::named(name)?;
                let entry = command.entries().find(|entry| entry.context.title() == view)?;
                (command, Some(entry.context))
            }
        };
        Some((bound, keys))
    });
    #[expect(clippy::disallowed_methods, reason = "a recording without its user's keys is better than none")]
    Bindings::with(&own.collect_map()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use console_toolkit::command::TABLE;

    #[test]
    fn recorded_bindings_are_read_back_con_21() {
        let key = |text: &str| Key::parse(text).expect("a key");
        let own = UserKeys::from([
            ((Command::Delete, None), vec![key("ctrl-x"), key("alt-left")]),
            ((Command::Help, None), vec![key("f12"), key("H")]),
            ((Command::Refresh, None), vec![]),
            ((Command::Describe, Some(KeyContext::Tree)), vec![key("f11")]),
        ]);
        let mut recorded = recorded_bindings(&own);
        recorded.insert("a-command-of-later".to_owned(), vec!["x".to_owned()]);
        let bindings = bindings_of(&recorded);
        for entry in TABLE {
            let of_view = own.get(&(entry.command, Some(entry.context)));
            let expected = of_view.or_else(|| own.get(&(entry.command, None))).cloned();
            let expected = expected.unwrap_or_else(|| Bindings::default().keys(entry).to_vec());
            assert_eq!(bindings.keys(entry), expected, "{}", entry.name);
        }
        let conflict = BTreeMap::from([("delete".to_owned(), vec!["d".to_owned()])]);
        assert_eq!(bindings_of(&conflict).key(Command::Delete), Bindings::default().key(Command::Delete));
    }
}
