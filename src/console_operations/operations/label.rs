//! Dialogs for labels of objects and taints of nodes, in kubectl's syntax. They also show the present labels or taints.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::{Map, Value, json};

use super::label_syntax::{LabelChange, labels, tainted, taints};
use super::title;
use crate::dialog::{Field, Fields, Note};
use crate::effect::{Dialog, Effect};
use base::sort::CollectMap;
use console_data::action::{Action, Mutation, PatchKind};
use console_data::context::Context;
use console_data::resource::ObjectRef;
use object::taint;

/// Creates the dialog that changes labels.
pub fn labels_dialog(targets: Vec<ObjectRef>) -> Dialog {
    let (title, shown) = (title("Label", &targets, "objects"), targets.clone());
    let mut fields = Fields::default();
    let typed = fields.add(Field::text("labels", "").hint("key=value sets one, key- removes it"));
    Dialog::new(title, "Label", move |dialog, cx| {
        let changes = labels(dialog.text(typed))?;
        if changes.is_empty() {
            return Err("labels: required".into());
        }
        Ok(targets
            .iter()
            .map(|target| {
                Effect::Act(Box::new(label_action(target, &changes, current_labels(cx, target).as_ref())))
            })
            .collect())
    })
    .fields(fields)
    .notes(move |_, cx| {
        let one = |target: &ObjectRef| {
            let pairs: Vec<String> =
                current_labels(cx, target)?.iter().map(|(k, v)| format!("{k}={v}")).collect();
            Some(Note::Plain(format!("{}: {}", target.name, or_none(&pairs))))
        };
        shown.iter().take(NOTES).filter_map(one).collect()
    })
}

/// The maximum number of objects of which the dialog shows the labels or taints.
const NOTES: usize = 4;

fn or_none(items: &[String]) -> String {
    if items.is_empty() { "none".into() } else { items.join(" ") }
}

/// Returns the labels of a stored object.
fn current_labels(cx: &Context<'_>, target: &ObjectRef) -> Option<BTreeMap<String, String>> {
    let object = cx.stores.object(&target.kind.resource, target.uid.as_ref()?)?;
    Some(object.metadata().labels.clone().unwrap_or_default())
}

/// Creates the action that changes labels, with its undo if the previous labels are known.
fn label_action(
    target: &ObjectRef,
    changes: &[LabelChange],
    before: Option<&BTreeMap<String, String>>,
) -> Action {
    label_change_action(target, changes).undone_by(before.map(|before| {
        let back: Vec<LabelChange> = changes
            .iter()
            .map(|change| LabelChange { key: change.key.clone(), value: before.get(&change.key).cloned() })
            .collect();
        label_change_action(target, &back)
    }))
}

fn label_change_action(target: &ObjectRef, changes: &[LabelChange]) -> Action {
    let argument = |change: &LabelChange| match &change.value {
        Some(value) => format!("{}={value}", change.key),
        None => format!("{}-", change.key),
    };
    let arguments = changes.iter().map(argument).collect::<Vec<_>>().join(" ");
    let labels: Map<String, Value> =
        changes.iter().map(|change| (change.key.clone(), json!(change.value))).collect_map();
    Action::new(
        target,
        format!("label {} {arguments}", target.describe()),
        format!("kubectl label {} {arguments} --overwrite", target.kubectl_object()),
        Mutation::patch(target, PatchKind::Merge, json!({"metadata": {"labels": labels}})),
    )
}

/// Creates the dialog for nodes' taints.
pub fn taints_dialog(targets: Vec<ObjectRef>) -> Dialog {
    let (title, shown) = (title("Taint", &targets, "objects"), targets.clone());
    let mut fields = Fields::default();
    let typed = fields.add(Field::text("taints", "").hint("key=value:NoSchedule adds one, key- removes it"));
    Dialog::new(title, "Taint", move |dialog, cx| {
        let changes = taints(dialog.text(typed))?;
        if changes.is_empty() {
            return Err("taints: required".into());
        }
        let arguments = dialog.text(typed).split_whitespace().collect::<Vec<_>>().join(" ");
        targets
            .iter()
            .map(|target| {
                let before = of_node(cx, target).ok_or_else(|| format!("{} is gone", target.name))?;
                let after =
                    tainted(&before, &changes).map_err(|error| format!("{}: {error}", target.name))?;
                Ok(Effect::Act(Box::new(taint_action(target, &arguments, &before, &after))))
            })
            .collect()
    })
    .fields(fields)
    .notes(move |dialog, cx| {
        let one = |target: &ObjectRef| {
            let current_taints: Vec<String> = of_node(cx, target)?.iter().map(taint::text).collect();
            Some(Note::Plain(format!("{}: {}", target.name, or_none(&current_taints))))
        };
        let mut notes: Vec<Note> = shown.iter().take(NOTES).filter_map(one).collect();
        if dialog.text(typed).contains(":NoExecute") && !dialog.text(typed).ends_with('-') {
            notes.push(Note::Warning("NoExecute evicts the pods that do not tolerate it".into()));
        }
        notes
    })
}

fn of_node(cx: &Context<'_>, target: &ObjectRef) -> Option<Vec<Taint>> {
    target.uid.as_ref().filter(|_| target.kind.is::<Node>())?;
    let node = cx.stores.nodes().by_name("", &target.name)?;
    Some(node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default())
}

/// Creates the action that changes taints, with its undo. It fails if the taints have changed meanwhile.
fn taint_action(target: &ObjectRef, arguments: &str, before: &[Taint], after: &[Taint]) -> Action {
    let step = |from: &[Taint], to: &[Taint], arguments: &str| {
        // A node without taints has no list of them: its value is null to a test.
        let from = (!from.is_empty()).then_some(from);
        let patch = json!([
            {"op": "test", "path": "/spec/taints", "value": from},
            {"op": "add", "path": "/spec/taints", "value": to},
        ]);
        Action::new(
            target,
            format!("taint {} {arguments}", target.describe()),
            format!("kubectl taint node {} {arguments} --overwrite", target.name),
            Mutation::patch(target, PatchKind::Json, patch),
        )
    };
    let back = |from: &[Taint], to: &[Taint]| {
        let is = |a: &Taint, b: &Taint| a.key == b.key && a.effect == b.effect;
        let removed = from.iter().filter(|t| !to.iter().any(|other| is(t, other)));
        let set = to.iter().filter(|t| !from.contains(t));
        let arguments: Vec<String> =
            removed.map(|t| format!("{}:{}-", t.key, t.effect)).chain(set.map(taint::text)).collect();
        arguments.join(" ")
    };
    step(before, after, arguments).undone_by(step(after, before, &back(after, before)))
}
