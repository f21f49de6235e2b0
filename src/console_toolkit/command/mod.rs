//! The commands: verbs, each with the contexts in which it applies.
//!
//! | file | contents |
//! |---|---|
//! | [`table`] | the one table of commands, the source of keys, help, footer and palette |
//! | [`key_context`] | the contexts |
//! | [`bindings`] | the keys in force: the table's, overridden by the user's |
//! | [`former_names`] | names of earlier versions |
//! | [`prompt_words`] | words after `:` that are no command |
//!
//! A key is looked up in the contexts of the top screen, the most specific first, so that `s` can mean a shell on a pod
//! and scale on a deployment. Within one context no key has two meanings (tested).

mod bindings;
mod former_names;
mod key_context;
#[cfg(test)]
mod key_reference_tests;
mod prompt_words;
mod table;

pub use bindings::{BindError, Bindings, UserKeys};
pub use key_context::KeyContext;
pub use prompt_words::PROMPT_WORDS;
pub use table::{Command, TABLE};

/// The effect of a command; commands that change the cluster are refused in read-only mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandImpact {
    /// Read-only.
    Nothing,
    /// It changes the cluster.
    Cluster,
}

/// A command in one of its contexts.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The command.
    pub command: Command,
    /// Its name in configuration and palette; the same in all contexts.
    pub name: &'static str,
    /// The default keys.
    pub keys: &'static [&'static str],
    /// One word for the footer; empty if it appears in the help only.
    pub short: &'static str,
    /// The context in which it applies.
    pub context: KeyContext,
    /// Its effect.
    pub impact: CommandImpact,
    /// A line for the help.
    pub about: &'static str,
}

impl Entry {
    /// Reports whether keys looked up in `contexts`, the most specific first, reach this entry, and no entry of the same
    /// command in a more specific context.
    pub fn applies_in(&self, contexts: &[KeyContext]) -> bool {
        self.command.entry_in(contexts).is_some_and(|entry| entry.context == self.context)
    }

    /// Returns the command's word in messages: the one of the footer, or else its name.
    pub fn word(&self) -> &'static str {
        if self.short.is_empty() { self.name } else { self.short }
    }

    /// Returns a short description for footer and help; the name is for configuration and the palette.
    pub fn in_short(&self) -> String {
        if !self.short.is_empty() {
            return self.short.to_owned();
        }
        // The first clause of a long description.
        let clause = self.about.split([':', ';', ',']).next().unwrap_or_default();
        let mut letters = clause.chars();
        match letters.next() {
            Some(first) => first.to_lowercase().chain(letters).collect(),
            None => self.name.to_owned(),
        }
    }

    /// Returns the rank in the footer. A narrow footer shows only the entries with the lowest ranks.
    pub fn rank(&self) -> usize {
        let place = |commands: &[Command]| commands.iter().position(|command| *command == self.command);
        let of_view = PROMINENT.len();
        match (place(PROMINENT), place(SECONDARY)) {
            (Some(rank), _) => rank,
            (None, Some(rank)) => of_view + 1 + rank,
            (None, None) if self.context.is_of_many_views() => of_view + 1 + SECONDARY.len(),
            (None, None) => of_view,
        }
    }
}

/// The commands with priority in a narrow footer; those of the view itself follow.
const PROMINENT: &[Command] = &[
    Command::Logs,
    Command::Describe,
    Command::Explain,
    Command::Rollout,
    Command::Scale,
    Command::Shell,
    Command::ClearMarks,
];
/// The commands that follow those of the view itself; those of every view come last.
const SECONDARY: &[Command] = &[
    Command::OpenTimeline,
    Command::PastBackMore,
    Command::OpenVersions,
    Command::WhyNotConnected,
    Command::Yaml,
    Command::Edit,
    Command::Delete,
];

impl Command {
    /// Returns the command's entries, its own context's first.
    pub fn entries(self) -> impl Iterator<Item = &'static Entry> {
        // The table is in the order of the commands.
        let first = TABLE.partition_point(|entry| entry.command < self);
        TABLE[first..].iter().take_while(move |entry| entry.command == self)
    }

    /// Returns the command's entry in its own context.
    pub fn entry(self) -> &'static Entry {
        self.entries().next().expect("the macro makes an entry for each command")
    }

    /// Returns the command's entry in the first of these contexts that has one.
    pub fn entry_in(self, contexts: &[KeyContext]) -> Option<&'static Entry> {
        contexts.iter().find_map(|context| self.entries().find(|entry| entry.context == *context))
    }

    /// Returns the command's name in configuration and palette.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Finds a command by its name, or by its name in an earlier version.
    pub fn named(name: &str) -> Option<Self> {
        Self::named_with_context(name).map(|(command, _)| command)
    }

    /// Finds a command by its name. Names of earlier versions for one view's command also return that view's context.
    pub fn named_with_context(name: &str) -> Option<(Self, Option<KeyContext>)> {
        let present = TABLE.iter().find(|entry| entry.name == name).map(|entry| (entry.command, None));
        present.or_else(|| former_names::find(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Key;

    #[test]
    fn the_table_is_sound_con_3() {
        let mut names = std::collections::HashSet::new();
        let mut entries = std::collections::HashSet::new();
        for command in Command::ALL {
            assert!(names.insert(command.name()), "two commands are called {}", command.name());
        }
        assert!(TABLE.is_sorted_by_key(|entry| entry.command), "entries of a command are found by bisection");
        for entry in TABLE {
            let name = entry.name;
            assert!(entries.insert((name, entry.context)), "{name} is twice in {}", entry.context.title());
            for key in entry.keys {
                assert!(Key::parse(key).is_some(), "{name}: no key {key}");
            }
        }
        Bindings::with(&UserKeys::new()).expect("no two commands of a context share a key");
    }

    #[test]
    fn an_entry_of_a_more_specific_context_hides_the_general_one_con_3() {
        let logs = [KeyContext::Logs, KeyContext::Text, KeyContext::List];
        let entry = Command::NextPart.entry_in(&logs).expect("an entry");
        assert_eq!((entry.context, entry.about), (KeyContext::Logs, "Show the next container"));
        assert!(entry.applies_in(&logs) && !Command::NextPart.entry().applies_in(&logs));
        assert!(Command::NextPart.entry().applies_in(&[KeyContext::Tree, KeyContext::List]));
        assert!(Command::Describe.entry_in(&logs).is_none());
    }
}
