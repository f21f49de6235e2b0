//! Nodes: cordon and uncordon.

use serde_json::json;

use crate::action::{Action, Mutation, PatchKind};
use crate::context::Context;
use crate::effect::Effect;
use crate::resource::ObjectRef;
use crate::rows::node::is_cordoned;

/// Lets no new pods come to a node (`unschedulable` true), or lets them come again. What one is already, as far as is
/// known here, has no way back: that would change something where this did not. It is sent nevertheless, for what is
/// known here may be late.
pub(crate) fn cordon(cx: &Context<'_>, node: &ObjectRef, unschedulable: bool) -> Effect {
    let known = node.uid.as_ref().and_then(|uid| cx.stores.nodes().get(uid));
    let mut action = action(node, unschedulable);
    if known.is_some_and(|known| is_cordoned(known) == unschedulable) {
        let so = if unschedulable { "it was already" } else { "it was not cordoned" };
        action.title = format!("{} ({so})", action.title);
        action.inverse = None;
    }
    Effect::Act(Box::new(action))
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
