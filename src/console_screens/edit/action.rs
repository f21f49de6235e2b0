//! An edit as an action of the journal: its mutation, the equivalent kubectl command, and its inverse.

use serde_json::Value;

use console_data::action::{Action, Mutation, PatchKind};
use console_data::changes::{editable, merge};
use console_data::resource::ObjectRef;
use console_toolkit::text::{clean, fit_middle};

/// Replaces the object by `typed`, based on the version `base`. The inverse resets only the changed fields, so that
/// later changes of other clients stay.
pub fn save(target: &ObjectRef, typed: &Value, base: &Value) -> Action {
    let before = editable::strip(base);
    let action = |title: String, mutation: Mutation, patch: &Value| {
        Action::new(target, title, kubectl(target, patch), mutation)
    };
    let back = merge::patch(typed, &before);
    let undo = Mutation::patch(target, PatchKind::Merge, back.clone());
    let replace = Mutation::Replace { target: target.clone(), body: editable::whole(typed, base) };
    let changes = changed(target, &before, typed);
    let back_to = changed(target, typed, &before);
    let title = format!("edit {}{changes}", target.describe());
    let undo = action(format!("undo the edit of {}{back_to}", target.describe()), undo, &back);
    // Redo patches only the changed fields, too: the version that the replacement was based on is outdated by then.
    let forth = merge::patch(&before, typed);
    let redo = Mutation::patch(target, PatchKind::Merge, forth.clone());
    let redo = action(title.clone(), redo, &forth).undone_by(undo.clone());
    action(title, replace, &forth).undone_by(undo.undone_by(redo))
}

/// Maximum width of a value in a title, in columns.
const VALUE: usize = 24;

/// Returns `: spec.replicas 3 → 5 and 2 more`, which distinguishes edits in the journal. Values of a Secret are never
/// shown.
fn changed(target: &ObjectRef, before: &Value, typed: &Value) -> String {
    let changes = merge::changes(before, typed);
    let value = |value: Option<&Value>| {
        value.map_or_else(
            || "unset".to_owned(),
            |value| fit_middle(&clean(&merge::plain(value)), VALUE).into_owned(),
        )
    };
    let one = |change: &merge::Change| {
        let path = clean(&change.path).into_owned();
        if &*target.kind.resource.plural == "secrets" {
            return path;
        }
        format!("{path} {} → {}", value(change.from.as_ref()), value(change.to.as_ref()))
    };
    match changes.as_slice() {
        [] => String::new(),
        [only] => format!(": {}", one(only)),
        [first, more @ ..] => format!(": {} and {} more", one(first), more.len()),
    }
}

fn kubectl(target: &ObjectRef, patch: &Value) -> String {
    let quoted = patch.to_string().replace('\'', "'\\''");
    format!("kubectl patch {} --type=merge -p '{quoted}'", target.kubectl_object())
}
