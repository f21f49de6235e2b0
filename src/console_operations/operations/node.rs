//! Nodes: cordon and uncordon.

use serde_json::json;

use crate::effect::Effect;
use console_data::action::{Action, Mutation, PatchKind};
use console_data::context::Context;
use console_data::resource::ObjectRef;
use console_data::rows::node::is_cordoned;

/// Cordons a node (`unschedulable` true) or uncordons it. If the node has the state already, according to the store,
/// the action has no undo: an undo would revert an earlier change. The request is sent nevertheless, because the store
/// may be late.
pub fn cordon(cx: &Context<'_>, node: &ObjectRef, unschedulable: bool) -> Effect {
    let known = node.uid.as_ref().and_then(|uid| cx.stores.nodes().get(uid));
    let mut action = action(node, unschedulable);
    if known.is_some_and(|known| is_cordoned(known) == unschedulable) {
        let so = if unschedulable { "already cordoned" } else { "was not cordoned" };
        action.title = format!("{} ({so})", action.title);
        action.inverse = None;
    }
    Effect::Act(Box::new(action))
}

/// Creates the action that cordons or uncordons a node, with its undo.
pub(crate) fn action(node: &ObjectRef, unschedulable: bool) -> Action {
    cordon_action(node, unschedulable).undone_by(cordon_action(node, !unschedulable))
}

fn cordon_action(node: &ObjectRef, unschedulable: bool) -> Action {
    let verb = if unschedulable { "cordon" } else { "uncordon" };
    // kubectl removes the field on uncordon; null does so in a merge patch.
    let value = if unschedulable { json!(true) } else { json!(null) };
    Action::new(
        node,
        format!("{verb} {}", node.describe()),
        format!("kubectl {verb} {}", node.name),
        Mutation::patch(node, PatchKind::Merge, json!({"spec": {"unschedulable": value}})),
    )
}
