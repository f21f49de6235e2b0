//! The dialog that confirms the removal of nodes; it shows the work that a drain would still have to do.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use kube::api::PropagationPolicy;

use super::budget::BudgetTracker;
use super::plan::{Options, PodDeleteStatus, plan};
use crate::dialog::{Field, Fields, Note};
use crate::effect::{Dialog, Effect};
use crate::operations::{delete, title};
use console_data::context::Context;
use console_data::resource::ObjectRef;

/// Creates the dialog. The user must type the nodes' name, and undrained nodes are listed.
pub fn dialog(targets: Vec<ObjectRef>, hidden: usize) -> Dialog {
    let title = title("Remove", &targets, "nodes");
    let expected = match targets.as_slice() {
        [one] => one.name.clone(),
        many => format!("{} nodes", many.len()),
    };
    let (typed, shown, listed) = (expected.clone(), targets.clone(), delete::listing(&targets));
    let mut fields = Fields::default();
    let name = fields.add(Field::confirmation(&expected));
    let mut dialog = Dialog::new(title, "Remove", move |dialog, _| {
        if dialog.text(name).trim() != typed {
            return Err(format!("type {typed} to remove {}", if targets.len() == 1 { "it" } else { "them" }));
        }
        let delete_action = |target| delete::action(target, PropagationPolicy::Background, None, false);
        Ok(targets.iter().map(|target| Effect::Act(Box::new(delete_action(target)))).collect())
    })
    .line("Removing a node is permanent: its pods are terminated and their data on it is lost.")
    .lines(listed);
    if hidden > 0 {
        dialog = dialog.warning(format!("{hidden} of these are marked but hidden by the filter"));
    }
    dialog
        .fields(fields)
        .notes(move |_, cx| shown.iter().take(NOTES).filter_map(|node| leftover_note(cx, node)).collect())
}

/// Maximum number of nodes for which the dialog counts pods.
const NOTES: usize = 5;

/// Returns the pods that a drain would still have to evict from the node.
fn leftover_note(cx: &Context<'_>, node: &ObjectRef) -> Option<Note> {
    let options = Options { disable_eviction: true, ..Options::default() };
    let pods = cx.stores.pods_on(&node.name);
    let rows = plan(pods, &mut BudgetTracker::new([]), &options, &BTreeSet::new(), None);
    let count = |of: fn(PodDeleteStatus) -> bool| rows.iter().filter(|row| of(row.delete_status)).count();
    let there =
        count(|delete_status| delete_status.refuses() || matches!(delete_status, PodDeleteStatus::Evict));
    if there == 0 {
        return None;
    }
    let lost = count(|delete_status| delete_status == PodDeleteStatus::RefuseUnmanaged);
    let data = count(|delete_status| delete_status == PodDeleteStatus::RefuseData);
    let mut text = format!("{} is not drained, pods running: {there}", node.name);
    for (count, of_one, of_several) in [
        (lost, "has no controller and will be lost", "have no controller and will be lost"),
        (data, "loses its emptyDir data", "lose their emptyDir data"),
    ] {
        if count > 0 {
            let _ = write!(text, ", {count} {}", if count == 1 { of_one } else { of_several });
        }
    }
    Some(Note::Warning(text))
}
