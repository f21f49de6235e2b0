//! The pods of node shells, as changes of the cluster: one is created before a shell and deleted after it; leftovers of
//! killed consoles are deleted on request.

use k8s_openapi::api::core::v1::Pod;

use crate::dialog::{Field, Fields};
use crate::effect::{Dialog, Effect};
use base::sort::SliceOrder;
use console_data::action::{Action, Mutation};
use console_data::builtin_kinds;
use console_data::node_shell::{self, LeftoverState, NodeShell};
use console_data::resource::{ObjectRef, Uid};
use console_data::store::Stores;
use console_toolkit::text::clean;

/// The maximum number of pods named in a dialog.
const NAMED: usize = 6;

/// Returns a new pod's reference for a shell on this node.
pub fn fresh_pod(node: &str, settings: &NodeShell) -> ObjectRef {
    ObjectRef {
        kind: builtin_kinds::kind::<Pod>(),
        namespace: Some(settings.namespace.clone()),
        name: node_shell::pod_name(node),
        uid: None,
    }
}

/// Creates the action that creates the pod. It has no undo, because the console deletes the pod when the shell ends.
pub fn make(node: &str, settings: &NodeShell, pod: &ObjectRef) -> Action {
    let title = format!("shell on Node {}: create {} from {}", clean(node), pod.describe(), settings.image);
    let mutation = Mutation::create(pod, settings.pod(node, &pod.name));
    Action::new(pod, title, settings.kubectl(node), mutation).quietly()
}

/// Creates the action that deletes the pod.
pub fn remove(pod: &ObjectRef) -> Action {
    let title = format!("remove the node shell's {}", pod.describe());
    let kubectl = format!("kubectl delete pod {}{}", pod.name, pod.kubectl_namespace());
    Action::new(pod, title, kubectl, Mutation::delete(pod)).quietly()
}

/// Returns the pods of other consoles' shells, with their nodes, without unpacking any.
fn leftover_pods(stores: &Stores) -> Vec<(ObjectRef, LeftoverState, String)> {
    let mut all: Vec<(ObjectRef, LeftoverState, String)> = stores
        .pods()
        .entries()
        .filter_map(|pod| {
            let seen = &pod.summary;
            let left =
                node_shell::leftover_pod(&pod.labels, seen.deletion_timestamp.is_some(), seen.is_over)?;
            let node = seen.node.as_deref().unwrap_or_default().to_owned();
            Some((pod.object(builtin_kinds::kind::<Pod>()), left, node))
        })
        .collect();
    all.order_by(|(a, ..), (b, ..)| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    all
}

/// Returns the message about leftovers when a console starts; `None` if there are none.
pub fn leftover_notice(stores: &Stores) -> Option<String> {
    let over = leftover_pods(stores).iter().filter(|(_, left, _)| *left == LeftoverState::Over).count();
    match over {
        0 => None,
        1 => Some("a killed console left a node shell pod behind; :node-shells removes it".to_owned()),
        many => {
            Some(format!("killed consoles left {many} node shell pods behind; :node-shells removes them"))
        }
    }
}

/// Creates the dialog for deleting leftovers; an error says that there are none.
pub fn removal_dialog(stores: &Stores) -> Result<Dialog, String> {
    let all = leftover_pods(stores);
    let count = |state: LeftoverState| all.iter().filter(|(_, left, _)| *left == state).count();
    let (over, there) = (count(LeftoverState::Over), count(LeftoverState::Running));
    if over + there == 0 {
        return Err("found no node shell pods of other consoles".to_owned());
    }
    let lines: Vec<String> = all
        .iter()
        .take(NAMED)
        .map(|(pod, left, node)| {
            let how = match left {
                LeftoverState::Over => "ended",
                LeftoverState::Running => "exists",
            };
            format!("{} on {}: {how}", pod.describe(), clean(node))
        })
        .collect();
    let more = all.len().saturating_sub(NAMED);
    let mut fields = Fields::default();
    let also = (there > 0).then(|| fields.add(Field::switch("also those that still exist").on(over == 0)));
    let targets: Vec<(ObjectRef, LeftoverState)> =
        all.into_iter().map(|(pod, left, _)| (pod, left)).collect();
    let mut dialog = Dialog::new("Remove node shell pods", "Remove", move |dialog, _| {
        let all = also.is_some_and(|also| dialog.is_on(also));
        let removable = targets.iter().filter(|(_, left)| all || *left == LeftoverState::Over);
        let effects: Vec<Effect> =
            removable.map(|(pod, _)| Effect::Act(Box::new(Action { quiet: false, ..remove(pod) }))).collect();
        if effects.is_empty() { Err("no pod is selected".to_owned()) } else { Ok(effects) }
    })
    .lines(lines);
    if more > 0 {
        dialog = dialog.line(format!("and {more} more"));
    }
    if there > 0 {
        dialog = dialog.warning(
            "Pods that still exist may be in use by another console; those of killed consoles end by themselves.",
        );
    }
    Ok(dialog.fields(fields).careful())
}

/// Returns the pod's reference with the uid of the created object.
pub fn with_uid(pod: &ObjectRef, made: &serde_json::Value) -> ObjectRef {
    let uid = made.pointer("/metadata/uid").and_then(serde_json::Value::as_str).map(Uid::from);
    ObjectRef { uid, ..pod.clone() }
}
