//! The journal: the changes made from this console, in this run and earlier ones, and a preview of undoing one now.
//!
//! Architecture invariant: an entry is found by its id and is never removed; an inverse carries the id of the entry
//! that it undoes, so that two entries with the same title are never confused.

pub mod file;

use jiff::Timestamp;
use kube::Client;
use serde_json::Value;

use crate::action::{Action, EntryId, Mutation, Outcome, dry_run, error_text};
use crate::changes::editable;
use crate::changes::merge::{Change, changes};
use crate::resource::ObjectRef;

/// The undo state of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoState {
    /// The change is in effect.
    InEffect,
    /// The undo is in progress.
    Undoing,
    /// The change was undone.
    Undone,
}

/// An entry of the journal.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The id in this run.
    pub id: EntryId,
    /// The key on disk, unique across runs.
    pub(crate) key: String,
    /// The time at which the action ended.
    pub at: Timestamp,
    /// The action and its result.
    pub outcome: Outcome,
    /// The change is in effect, or undone.
    pub undo_state: UndoState,
    /// The entry is from an earlier run.
    pub earlier: bool,
}

impl Entry {
    /// Returns the object that the action changed, or tried to change.
    pub fn target(&self) -> &ObjectRef {
        &self.outcome.action.target
    }

    /// Returns the action that undoes the change; undoing that action repeats the change. The error is the reason why
    /// the change cannot be undone.
    pub fn inverse(&self) -> Result<Action, &'static str> {
        let done = &self.outcome.action;
        match (self.undo_state, &self.outcome.error, &done.inverse) {
            (_, Some(_), _) => Err("the change failed: nothing to undo"),
            (UndoState::Undoing, ..) => Err("the change is already being undone"),
            (UndoState::Undone, ..) => Err("the change was already undone"),
            (UndoState::InEffect, None, None) => Err("the change cannot be undone"),
            (UndoState::InEffect, None, Some(inverse)) => {
                let mut back = (**inverse).clone();
                back.undoes = Some(self.id);
                // An inverse may define its own undo: a replacement of the whole object cannot be sent twice.
                back.inverse = back.inverse.or_else(|| {
                    Some(Box::new(Action { inverse: Some(inverse.clone()), undoes: None, ..done.clone() }))
                });
                Ok(back)
            }
        }
    }
}

/// All changes by the user, oldest first, including earlier runs.
#[derive(Debug, Default)]
pub struct Journal {
    entries: Vec<Entry>,
    next: u64,
}

impl Journal {
    /// Adds an action; returns its line for the file.
    pub fn record(&mut self, at: Timestamp, outcome: Outcome) -> String {
        let mut undoes = None;
        if let Some(id) = outcome.action.undoes
            && let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == id)
        {
            // A failed undo can be tried again.
            entry.undo_state = if outcome.error.is_none() { UndoState::Undone } else { UndoState::InEffect };
            undoes = Some(entry.key.clone());
        }
        let key = format!("{}-{:08x}", at.as_millisecond(), rand::random::<u32>());
        let id = self.new_id();
        let entry = Entry { id, key, at, outcome, undo_state: UndoState::InEffect, earlier: false };
        let line = file::line(&entry, undoes.as_deref());
        self.entries.push(entry);
        line
    }

    /// Adds the entries of earlier runs, oldest first.
    pub fn recall(&mut self, earlier: Vec<Entry>) {
        let mut all: Vec<Entry> =
            earlier.into_iter().map(|entry| Entry { id: self.new_id(), ..entry }).collect();
        all.append(&mut self.entries);
        self.entries = all;
    }

    fn new_id(&mut self) -> EntryId {
        self.next += 1;
        EntryId(self.next)
    }

    /// Returns the entries, oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Finds an entry by its id.
    pub fn entry(&self, id: EntryId) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    /// Returns the inverse of an entry, and marks it as in progress.
    pub fn undo(&mut self, id: EntryId) -> Option<Action> {
        let entry = self.entries.iter_mut().find(|entry| entry.id == id)?;
        let inverse = entry.inverse().ok()?;
        entry.undo_state = UndoState::Undoing;
        Some(inverse)
    }
}

/// A preview of undoing an entry now, according to the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UndoPreview {
    /// The changes that the undo would make now. Empty if there are none; `None` if the server cannot predict them.
    pub changes: Option<Vec<Change>>,
    /// Later changes of the fields that the undo would change; the undo would revert these changes, too.
    pub since: Vec<Change>,
}

impl UndoPreview {
    /// Compares the object as it is (`now`), as the undo would leave it (`then`), and as the original change left it
    /// (`after`).
    pub fn of(now: &Value, then: Option<&Value>, after: Option<&Value>) -> Self {
        let now = editable::strip(now);
        let changes = then.map(|then| changes(&now, &editable::strip(then)));
        let since = after.map(|after| self::changes(after, &now)).unwrap_or_default();
        let touched = |change: &Change| {
            changes
                .as_ref()
                .is_none_or(|changes| changes.iter().any(|other| overlap(&change.path, &other.path)))
        };
        let since = since.into_iter().filter(touched).collect();
        Self { changes, since }
    }
}

/// Reports whether one path equals or contains the other.
fn overlap(a: &str, b: &str) -> bool {
    let within = |whole: &str, part: &str| {
        part.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    within(a, b) || within(b, a)
}

/// Previews an undo by a dry run; an error says why it cannot be undone.
pub async fn preview_undo(
    client: &Client,
    inverse: &Action,
    after: Option<&Value>,
) -> Result<UndoPreview, String> {
    let error_message = |error: kube::Error| match &error {
        kube::Error::Api(status) if status.code == 404 => format!("{} is gone", inverse.target.describe()),
        _ => error_text(&error),
    };
    let api = inverse.target.api(client.clone());
    let name = inverse.target.path_name();
    let name = name.as_ref();
    if let Mutation::Create { .. } = &inverse.mutation {
        return match api.get_opt(name).await {
            Ok(None) => {
                dry_run(client, &inverse.mutation).await.map_err(error_message)?;
                Ok(UndoPreview::default())
            }
            Ok(Some(_)) => Err(format!("{} exists again", inverse.target.describe())),
            Err(error) => Err(error_text(&error)),
        };
    }
    let now = match &inverse.mutation {
        Mutation::Patch { subresource: Some(subresource), .. } => {
            api.get_subresource(subresource, name).await
        }
        _ => api.get(name).await,
    };
    let now = object::json_of(now.map_err(error_message)?);
    let uid = now.pointer("/metadata/uid").and_then(Value::as_str);
    if inverse.target.uid.as_ref().is_some_and(|known| uid.is_some_and(|uid| uid != known.as_str())) {
        return Err(format!("{} is now a different object", inverse.target.describe()));
    }
    let then = dry_run(client, &inverse.mutation).await.map_err(error_message)?;
    Ok(UndoPreview::of(&now, then.as_ref(), after))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Only changes of the fields that an undo restores count as later changes.
    #[test]
    fn an_undo_shows_later_changes_of_the_fields_it_restores() {
        let after = json!({"spec": {"replicas": 9, "paused": true}});
        let now = json!({"metadata": {"resourceVersion": "7"}, "spec": {"replicas": 5}});
        let then = json!({"metadata": {"resourceVersion": "8"}, "spec": {"replicas": 3}});
        let preview = UndoPreview::of(&now, Some(&then), Some(&after));
        let described =
            |changes: &[Change]| changes.iter().map(|change| change.path.clone()).collect::<Vec<_>>();
        assert_eq!(described(preview.changes.as_deref().unwrap()), ["spec.replicas"]);
        assert_eq!(described(&preview.since), ["spec.replicas"], "paused is another matter");
        let same = UndoPreview::of(&then, Some(&then), Some(&after));
        assert_eq!(same.changes, Some(Vec::new()));
        for (a, b, expected) in [
            ("spec", "spec.replicas", true),
            ("spec.template.spec.containers[a].image", "spec.template", true),
            ("spec.replicas", "spec.replicasMore", false),
            ("containers[a]", "containers[b]", false),
        ] {
            assert_eq!(overlap(a, b), expected, "{a} {b}");
        }
    }
}
