//! Scale: each object starts from its own count, marked sets too.

use serde_json::json;

use super::{Dialog, Field};
use crate::console::action::{Action, Mutation, PatchKind};
use crate::console::context::Context;
use crate::console::effect::Effect;
use crate::console::resource::{ObjectRef, Watched};

/// Asks for a count for each.
pub fn ask(cx: &Context<'_>, targets: Vec<ObjectRef>) -> Dialog {
    let counts: Vec<Option<i32>> = targets.iter().map(|target| count(cx, target)).collect();
    let title = match targets.as_slice() {
        [one] => format!("Scale {}", one.describe()),
        many => format!("Scale {} workloads", many.len()),
    };
    let labels: Vec<String> = targets
        .iter()
        .map(|target| if targets.len() == 1 { "replicas".to_owned() } else { target.name.clone() })
        .collect();
    let mut fields = Vec::new();
    for (label, count) in labels.iter().zip(&counts) {
        let hint = match count {
            Some(count) => format!("now {count}"),
            None => "now unknown".into(),
        };
        fields
            .push(Field::number(label, count.map(|count| count.to_string()).unwrap_or_default()).hint(&hint));
    }
    let submit_counts = counts.clone();
    let submit_labels = labels.clone();
    let mut dialog = Dialog::new(title, "Scale", move |dialog, _| {
        let mut effects = Vec::new();
        for ((target, before), label) in targets.iter().zip(&submit_counts).zip(&submit_labels) {
            let text = dialog.text(label);
            let wanted: i32 = text.parse().map_err(|_| format!("{}: how many?", target.name))?;
            if Some(wanted) != *before {
                effects.push(Effect::Act(Box::new(action(target, *before, wanted))));
            }
        }
        if effects.is_empty() {
            effects.push(Effect::Toast(crate::console::toast::Toast::note("nothing to change")));
        }
        Ok(effects)
    });
    for field in fields {
        dialog = dialog.field(field);
    }
    dialog.notes(move |dialog, _| {
        let to_zero = labels
            .iter()
            .zip(&counts)
            .filter(|(label, before)| dialog.text(label) == "0" && **before != Some(0));
        let names: Vec<&str> = to_zero.map(|(label, _)| label.as_str()).collect();
        if names.is_empty() {
            return Vec::new();
        }
        vec![super::Note::Warning("0 stops every pod of it".into())]
    })
}

/// The change, with the way back when the count before is known.
pub fn action(target: &ObjectRef, before: Option<i32>, wanted: i32) -> Action {
    let from = before.map_or_else(|| "?".to_owned(), |before| before.to_string());
    Action {
        title: format!("scale {} {from} → {wanted}", target.describe()),
        target: target.clone(),
        kubectl: format!(
            "kubectl scale {}/{}{} --replicas={wanted}",
            target.kind.kubectl_name(),
            target.name,
            target.kubectl_namespace()
        ),
        mutation: Mutation::Patch {
            target: target.clone(),
            subresource: Some("scale"),
            kind: PatchKind::Merge,
            body: json!({"spec": {"replicas": wanted}}),
        },
        inverse: before.map(|before| {
            let mut back = action(target, None, before);
            back.title = format!("scale {} {wanted} → {before}", target.describe());
            Box::new(back)
        }),
        quiet: false,
    }
}

fn count(cx: &Context<'_>, target: &ObjectRef) -> Option<i32> {
    let uid = target.uid.as_ref()?;
    match target.kind.watched? {
        Watched::Deployments => cx.stores.deployments.get(uid)?.spec.replicas,
        Watched::ReplicaSets => cx.stores.replica_sets.get(uid)?.spec.replicas,
        _ => None,
    }
}
