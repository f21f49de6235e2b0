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
    let action = |title: String, mutation: Mutation, patch: &Value| Action {
        title,
        target: target.clone(),
        kubectl: kubectl(target, patch),
        mutation,
        inverse: None,
        undoes: None,
        quiet: false,
    };
    let back = merge::patch(typed, &before);
    let undo = Mutation::Patch {
        target: target.clone(),
        subresource: None,
        kind: PatchKind::Merge,
        body: back.clone(),
    };
    let replace = Mutation::Replace { target: target.clone(), body: editable::whole(typed, base) };
    let changes = changed(target, &before, typed);
    let back_to = changed(target, typed, &before);
    let mut save =
        action(format!("edit {}{changes}", target.describe()), replace, &merge::patch(&before, typed));
    let mut undo = action(format!("undo the edit of {}{back_to}", target.describe()), undo, &back);
    // Redo patches only the changed fields, too: the version that the replacement was based on is outdated by then.
    let forth = merge::patch(&before, typed);
    let redo = Mutation::Patch {
        target: target.clone(),
        subresource: None,
        kind: PatchKind::Merge,
        body: forth.clone(),
    };
    let mut redo = action(format!("edit {}{changes}", target.describe()), redo, &forth);
    redo.inverse = Some(Box::new(undo.clone()));
    undo.inverse = Some(Box::new(redo));
    save.inverse = Some(Box::new(undo));
    save
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
    format!(
        "kubectl patch {}/{}{} --type=merge -p '{quoted}'",
        target.kind.kubectl_name(),
        target.name,
        target.kubectl_namespace()
    )
}
