//! An edit as an action of the journal: what it sends, the kubectl command that does the same, the way back.

use serde_json::Value;

use super::{editable, merge};
use crate::console::action::{Action, Mutation, PatchKind};
use crate::console::resource::ObjectRef;

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
    let mut save = action(format!("edit {}", target.describe()), replace, &merge::patch(&before, typed));
    save.inverse =
        Some(Box::new(action(format!("take back the edit of {}", target.describe()), undo, &back)));
    save
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
