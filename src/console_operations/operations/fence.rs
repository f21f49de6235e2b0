//! Fences of nodes (SAFE-5): all processes of a node are killed, so that other nodes can safely take over its pods and
//! volumes; and the undo. The control plane does the work; this module creates and deletes the NodeFence.

use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use crate::dialog::{Field, Fields, Note};
use crate::effect::{Dialog, Effect, Route};
use base::sort::SliceOrder;
use console_data::action::{Action, Mutation};
use console_data::builtin_kinds;
use console_data::catalogue::Catalogue;
use console_data::context::Context;
use console_data::resource::ObjectRef;
use console_data::rows::node::{is_over, is_ready};
use console_toolkit::text::counted;
use extension::node_fence::NodeFence;

/// The maximum number of pods named in the dialog.
const NAMED: usize = 5;

/// The maximum length of a reason in bytes, which is the server's limit.
const LONGEST_REASON: usize = 1024;

/// Returns the reason why nodes cannot be fenced on this server.
pub(crate) fn refuses(catalogue: &Catalogue) -> Option<String> {
    let fence_kind = builtin_kinds::kind::<NodeFence>();
    let known = catalogue.kinds().iter().any(|kind| kind.resource == fence_kind.resource);
    (!known).then(|| "this server does not support fences of nodes".to_owned())
}

fn fence_of(node: &ObjectRef) -> ObjectRef {
    ObjectRef {
        kind: builtin_kinds::kind::<NodeFence>(),
        namespace: None,
        name: node.name.clone(),
        uid: None,
    }
}

/// Shows the dialog for fencing a node; if it is fenced already, for removing the fence.
pub fn show_dialog(cx: &Context<'_>, node: &ObjectRef) -> Vec<Effect> {
    let dialog = match cx.stores.node_fences().by_name("", &node.name) {
        Some(fence) => unfence_dialog(ObjectRef::of(builtin_kinds::kind::<NodeFence>(), fence)),
        None => fence_dialog(node),
    };
    vec![Effect::dialog(dialog)]
}

/// Creates the dialog for fencing a node. The node's name must be typed, because its processes are killed without
/// warning.
fn fence_dialog(node: &ObjectRef) -> Dialog {
    let (target, shown, typed) = (fence_of(node), node.name.clone(), node.name.clone());
    let mut fields = Fields::default();
    let name = fields.add(Field::confirmation(&typed));
    let reason = fields.add(Field::text_or("reason", "a note for later readers"));
    Dialog::new(format!("Fence {}", node.describe()), "Fence", move |dialog, _| {
        if dialog.text(name).trim() != typed {
            return Err(format!("type {typed} to fence it"));
        }
        let reason = dialog.text(reason).trim();
        if reason.len() > LONGEST_REASON {
            return Err(format!("reason: at most {LONGEST_REASON} bytes"));
        }
        let fence = action(&target, Some(reason).filter(|reason| !reason.is_empty()));
        Ok(vec![Effect::Act(Box::new(fence)), Effect::open(Route::Describe(target.clone()))])
    })
    .line("All its processes are killed, its disks are detached, and its pods move to other nodes.")
    .fields(fields)
    .notes(move |_, cx| notes(cx, &shown))
}

/// Lists the processes that are killed, and a gentler alternative.
fn notes(cx: &Context<'_>, node: &str) -> Vec<Note> {
    let pods = cx.stores.pods_on(node).filter(|pod| !is_over(pod));
    let mut names: Vec<String> = pods
        .map(|pod| {
            let metadata = &pod.metadata;
            format!(
                "{}/{}",
                metadata.namespace.as_deref().unwrap_or_default(),
                metadata.name.as_deref().unwrap_or_default()
            )
        })
        .collect();
    names.order();
    let mut notes = vec![Note::Warning(format!(
        "The processes of {} are killed at once, without a grace period; unwritten data is lost.",
        counted(names.len(), "pod")
    ))];
    notes.extend(names.iter().take(NAMED).map(|name| Note::Plain(format!("  {name}"))));
    if names.len() > NAMED {
        notes.push(Note::Plain(format!("  and {} more", names.len() - NAMED)));
    }
    if cx.stores.nodes().by_name("", node).is_some_and(is_ready) {
        notes.push(Note::Warning(format!("{node} is Ready: a drain would stop its pods gracefully.")));
    }
    notes
}

/// Creates the dialog for removing a fence.
pub fn unfence_dialog(fence: ObjectRef) -> Dialog {
    let node = ObjectRef { kind: builtin_kinds::kind::<Node>(), uid: None, ..fence.clone() };
    Dialog::new(format!("Unfence {}", node.describe()), "Unfence", move |_, _| {
        Ok(vec![
            Effect::Act(Box::new(delete(&fence))),
            Effect::open(Route::Describe(ObjectRef { uid: None, ..fence.clone() })),
        ])
    })
    .line("The node starts again without pods, and is in service as soon as it is Ready.")
}

/// Creates the action that fences a node, with its undo.
pub(crate) fn action(target: &ObjectRef, reason: Option<&str>) -> Action {
    let spec: Value = reason.map_or_else(|| json!({}), |reason| json!({"reason": reason}));
    let body = json!({
        "apiVersion": target.kind.api_version(), "kind": target.kind.kind,
        "metadata": {"name": target.name}, "spec": spec,
    });
    let reason_flag =
        reason.map(|reason| format!(" --reason '{}'", reason.replace('\'', r"'\''"))).unwrap_or_default();
    Action::new(
        target,
        format!("fence Node {}", target.name),
        format!("podium fence {} --yes{reason_flag}", target.name),
        Mutation::create(target, body),
    )
    .undone_by(delete(target))
}

/// Creates the action that removes the fence.
fn delete(target: &ObjectRef) -> Action {
    Action::new(
        target,
        format!("unfence Node {}", target.name),
        format!("podium fence --release {}", target.name),
        Mutation::delete(target),
    )
}
