//! Nodes: cordon and uncordon.

use serde_json::json;

use crate::action::{Action, Mutation, PatchKind};
use crate::effect::Effect;
use crate::resource::ObjectRef;

/// Lets no new pods come to a node (`unschedulable` true), or lets them come again.
pub(crate) fn cordon(node: &ObjectRef, unschedulable: bool) -> Effect {
    Effect::Act(Box::new(action(node, unschedulable)))
}

/// The change, with the way back.
pub(crate) fn action(node: &ObjectRef, unschedulable: bool) -> Action {
    let mut change = one_way(node, unschedulable);
    change.inverse = Some(Box::new(one_way(node, !unschedulable)));
    change
}

fn one_way(node: &ObjectRef, unschedulable: bool) -> Action {
    let verb = if unschedulable { "cordon" } else { "uncordon" };
    // kubectl removes the field on uncordon; null does so in a merge patch.
    let value = if unschedulable { json!(true) } else { json!(null) };
    Action {
        title: format!("{verb} {}", node.describe()),
        target: node.clone(),
        kubectl: format!("kubectl {verb} {}", node.name),
        mutation: Mutation::Patch {
            target: node.clone(),
            subresource: None,
            kind: PatchKind::Merge,
            body: json!({"spec": {"unschedulable": value}}),
        },
        inverse: None,
        undoes: None,
        quiet: false,
    }
}
