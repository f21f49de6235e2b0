//! Scale: each object starts from its own count, marked sets too; what cannot be meant is asked about again.

use serde_json::json;

use crate::action::{Action, Mutation, PatchKind};
use crate::capacity;
use crate::context::Context;
use crate::dialog::{Field, FieldId, Fields, Note, Number};
use crate::effect::{Dialog, Effect};
use crate::resource::ObjectRef;
use crate::template;
use crate::text::grouped;
use crate::toast::Toast;

/// More than so many times of what there is now is asked about again: a digit too many makes it ten times.
const MUCH: i64 = 10;

/// One workload of the dialog.
struct Item {
    target: ObjectRef,
    /// How it is called in this dialog: by its name, with the namespace where names would be alike.
    name: String,
    now: Option<i32>,
    fits: Option<u64>,
    field: FieldId<Number>,
}

impl Item {
    /// Why so many are asked about again.
    fn doubt(&self, now: Option<i32>, wanted: i32) -> Option<String> {
        let much = now.filter(|now| *now > 0 && i64::from(wanted) > i64::from(*now) * MUCH);
        let much = much
            .map(|now| format!("{} times the {now} now", grouped(u64::from((wanted / now).unsigned_abs()))));
        let wanted = u64::from(wanted.unsigned_abs());
        let grows = now.is_none_or(|now| u64::from(now.unsigned_abs()) < wanted);
        let fits = self.fits.filter(|fits| grows && wanted > *fits);
        let fits = fits.map(|fits| format!("the ready nodes hold {}", grouped(fits)));
        let reasons: Vec<String> = much.into_iter().chain(fits).collect();
        (!reasons.is_empty()).then(|| format!("{} to {}: {}", self.name, grouped(wanted), reasons.join("\n")))
    }
}

/// The dialog that asks for a count for each.
pub(crate) fn dialog(cx: &Context<'_>, targets: Vec<ObjectRef>) -> Dialog {
    dialog_with(cx, targets, None)
}

/// The dialog that asks whether one is to have so many.
pub(crate) fn dialog_for(cx: &Context<'_>, target: ObjectRef, wanted: i32) -> Dialog {
    dialog_with(cx, vec![target], Some(wanted))
}

/// The counts there are now stand in the fields, or the one that is wanted.
fn dialog_with(cx: &Context<'_>, targets: Vec<ObjectRef>, wanted: Option<i32>) -> Dialog {
    let title = match targets.as_slice() {
        [one] => format!("Scale {}", one.describe()),
        many => format!("Scale {} workloads", many.len()),
    };
    let names = names(&targets);
    let mut fields = Fields::default();
    let items: Vec<Item> = targets
        .into_iter()
        .zip(names)
        .map(|(target, name)| {
            let (now, fits) = (count(cx, &target), capacity::fits(cx.stores, &target));
            let label = if name.is_empty() { "replicas" } else { &name };
            let field =
                Field::number(label, wanted.or(now).map(|count| count.to_string()).unwrap_or_default());
            let field = fields.add(field.hint(&hint(now, fits)));
            Item { name: if name.is_empty() { target.name.clone() } else { name }, target, now, fits, field }
        })
        .collect();
    let items = std::sync::Arc::new(items);
    let shown = items.clone();
    Dialog::new(title, "Scale", move |dialog, cx| submit(dialog, cx, &items)).fields(fields).notes(
        move |dialog, cx| {
            let overtaken = shown.iter().filter_map(|item| {
                let now = count(cx, &item.target).filter(|now| Some(*now) != item.now)?;
                Some(Note::Warning(format!("{} has {now} now", item.name)))
            });
            let mut notes: Vec<Note> = overtaken.collect();
            let to_zero = |item: &&Item| dialog.number(item.field) == Ok(Some(0)) && item.now != Some(0);
            let names: Vec<&str> = shown.iter().filter(to_zero).map(|item| item.name.as_str()).collect();
            if !names.is_empty() {
                notes.push(Note::Warning(format!("0 stops every pod of {}", names.join(", "))));
            }
            notes
        },
    )
}

/// `now 3 · fits: 61`.
fn hint(now: Option<i32>, fits: Option<u64>) -> String {
    let now = now.map_or_else(|| "now unknown".to_owned(), |now| format!("now {now}"));
    match fits {
        Some(fits) => format!("{now} · fits: {}", grouped(fits)),
        None => now,
    }
}

/// What tells the objects apart: nothing for one alone, their names, with the namespace where two are alike.
fn names(targets: &[ObjectRef]) -> Vec<String> {
    if targets.len() == 1 {
        return vec![String::new()];
    }
    let alike = |name: &str| targets.iter().filter(|target| target.name == name).count() > 1;
    let name = |target: &ObjectRef| match &target.namespace {
        Some(namespace) if alike(&target.name) => format!("{namespace}/{}", target.name),
        _ => target.name.clone(),
    };
    targets.iter().map(name).collect()
}

/// The changes; or one question more, where a count is beyond what is likely to be meant.
///
/// Somebody else may have scaled one meanwhile: what was typed holds, and a count that was left as it stood is no wish to have
/// it back. Where that is all there is, it is told, and Enter once more means it.
fn submit(dialog: &Dialog, cx: &Context<'_>, items: &[Item]) -> Result<Vec<Effect>, String> {
    let mut actions = Vec::new();
    let mut doubts = Vec::new();
    let mut overtaken = Vec::new();
    for item in items {
        let wanted = dialog.number(item.field)?.ok_or_else(|| format!("{}: how many?", item.name))?;
        let now = count(cx, &item.target).or(item.now);
        match now {
            now if Some(wanted) == now => {}
            Some(now) if Some(wanted) == item.now => overtaken.push((item, now, wanted)),
            now => {
                actions.push(action(&item.target, now, wanted));
                doubts.extend(item.doubt(now, wanted));
            }
        }
    }
    if actions.is_empty() && !overtaken.is_empty() {
        let told =
            overtaken.iter().map(|(item, now, wanted)| format!("{} has {now} now, not {wanted}", item.name));
        let told = format!("{}: enter again scales back", told.collect::<Vec<_>>().join(", "));
        if dialog.error.as_ref() != Some(&told) {
            return Err(told);
        }
        for (item, now, wanted) in overtaken {
            actions.push(action(&item.target, Some(now), wanted));
            doubts.extend(item.doubt(Some(now), wanted));
        }
    }
    if actions.is_empty() {
        return Ok(vec![Effect::Toast(Toast::note("nothing to change"))]);
    }
    if doubts.is_empty() {
        return Ok(actions.into_iter().map(|action| Effect::Act(Box::new(action))).collect());
    }
    let mut again = Dialog::new("So many?", "Scale", move |_, _| {
        Ok(actions.iter().map(|action| Effect::Act(Box::new(action.clone()))).collect())
    });
    for doubt in doubts {
        again = again.warning(doubt);
    }
    Ok(vec![Effect::ShowDialog(Box::new(again))])
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
        undoes: None,
        quiet: false,
    }
}

fn count(cx: &Context<'_>, target: &ObjectRef) -> Option<i32> {
    template::replicas(&template::object(cx.stores, target)?)
}
