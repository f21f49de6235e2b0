//! An edit as an action of the journal: what it sends, the kubectl command that does the same, the way back.

use serde_json::Value;

use crate::action::{Action, Mutation, PatchKind};
use crate::changes::{editable, merge};
use crate::resource::ObjectRef;
use crate::text::clean;

/// Replaces the object by `typed`, on top of the version `base`. Its inverse sets back only what was changed,
/// so that what others do meanwhile stays.
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
    let what = changed(&before, typed);
    let mut save =
        action(format!("edit {}{what}", target.describe()), replace, &merge::patch(&before, typed));
    let mut undo = action(format!("take back the edit of {}{what}", target.describe()), undo, &back);
    // Redone field by field, too: the version this replacement was made for is gone by then.
    let forth = merge::patch(&before, typed);
    let redo = Mutation::Patch {
        target: target.clone(),
        subresource: None,
        kind: PatchKind::Merge,
        body: forth.clone(),
    };
    let mut redo = action(format!("edit {}{what}", target.describe()), redo, &forth);
    redo.inverse = Some(Box::new(undo.clone()));
    undo.inverse = Some(Box::new(redo));
    save.inverse = Some(Box::new(undo));
    save
}

/// `: spec.replicas and 2 more`, what tells one edit from the next in the journal.
fn changed(before: &Value, typed: &Value) -> String {
    let changes = merge::changes(before, typed);
    match changes.as_slice() {
        [] => String::new(),
        [only] => format!(": {}", clean(&only.path)),
        [first, more @ ..] => format!(": {} and {} more", clean(&first.path), more.len()),
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
