//! Scale: each object starts from its own count, marked sets too; what cannot be meant is asked about again.
//!
//! The console has the objects of most workloads. Of other kinds, which may keep their count in any field
//! (`specReplicasPath`), a task reads the scale subresource for as long as the dialog is open.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kube::Client;
use serde_json::json;

use crate::action::{Action, Mutation, PatchKind, error_text};
use crate::capacity;
use crate::context::Context;
use crate::dialog::{Field, FieldId, Fields, Note, Number};
use crate::effect::{Dialog, Effect, Outbox};
use crate::kind_view::{self, Template};
use crate::resource::ObjectRef;
use crate::template;
use crate::text::grouped;
use crate::toast::Toast;

/// More than so many times of what there is now is asked about again: a digit too many makes it ten times.
const MUCH: i64 = 10;
/// The slot of the task that reads counts.
const SLOT: &str = "scale";
/// How long the server may take to tell a count.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time between two reads of a count.
const EVERY: Duration = Duration::from_secs(2);

/// One workload of the dialog.
struct Item {
    target: ObjectRef,
    /// How it is called in this dialog: by its name, with the namespace where names would be alike.
    name: String,
    /// Its count when the dialog opened, where the console had the object.
    stored: Option<i32>,
    fits: Option<u64>,
    field: FieldId<Number>,
}

/// The count of a workload while the dialog is open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Count {
    /// The first that was known.
    first: Option<i32>,
    /// The latest that was known.
    last: Option<i32>,
    /// Why it is not known now.
    trouble: Option<Trouble>,
}

/// Why a count is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Trouble {
    /// There is no such object any more.
    Gone(String),
    /// The server does not tell it.
    Untold(String),
}

/// The counts that the task sends to the dialog.
#[derive(Debug)]
struct Counts(HashMap<ObjectRef, Count>);

impl Item {
    /// The count as it is known now: of the object in the store, else as the server tells it.
    fn count(&self, dialog: &Dialog, cx: &Context<'_>) -> Count {
        if let Some(first) = self.stored {
            let last = stored(cx, &self.target);
            let is_gone = last.is_none() && cx.stores.synced(&self.target.kind.resource);
            let trouble = is_gone.then(|| Trouble::Gone("it was deleted".to_owned()));
            return Count { first: Some(first), last: last.or(Some(first)), trouble };
        }
        self.told(dialog)
    }

    /// The count as the server tells it.
    fn told(&self, dialog: &Dialog) -> Count {
        let counts = dialog.data::<Counts>().and_then(|counts| counts.0.get(&self.target));
        counts.cloned().unwrap_or_default()
    }

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

/// Asks for a count for each.
pub(crate) fn ask(cx: &Context<'_>, targets: Vec<ObjectRef>) -> Vec<Effect> {
    ask_with(cx, targets, None)
}

/// Asks whether one is to have so many.
pub(crate) fn ask_for(cx: &Context<'_>, target: ObjectRef, wanted: i32) -> Vec<Effect> {
    ask_with(cx, vec![target], Some(wanted))
}

fn ask_with(cx: &Context<'_>, targets: Vec<ObjectRef>, wanted: Option<i32>) -> Vec<Effect> {
    let untold: Vec<ObjectRef> =
        targets.iter().filter(|target| stored(cx, target).is_none()).cloned().collect();
    let mut effects = vec![Effect::ShowDialog(Box::new(dialog(cx, targets, wanted)))];
    if !untold.is_empty() {
        effects.push(Effect::task(SLOT, move |out| read_counts(out, untold)));
    }
    effects
}

/// The counts there are now stand in the fields, or the one that is wanted.
fn dialog(cx: &Context<'_>, targets: Vec<ObjectRef>, wanted: Option<i32>) -> Dialog {
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
            let stored = stored(cx, &target);
            // Without a pod template nothing says how many pods fit.
            let fits = stored.and_then(|_| capacity::fits(cx.stores, &target));
            let label = if name.is_empty() { "replicas" } else { &name };
            let field =
                Field::number(label, wanted.or(stored).map(|count| count.to_string()).unwrap_or_default());
            let count = Count { first: stored, last: stored, trouble: None };
            let field = fields.add(field.hint(&hint(&count, fits)));
            Item {
                name: if name.is_empty() { target.name.clone() } else { name },
                target,
                stored,
                fits,
                field,
            }
        })
        .collect();
    let items = Arc::new(items);
    let (shown, filled, left) = (items.clone(), items.clone(), items.clone());
    Dialog::new(title, "Scale", move |dialog, cx| submit(dialog, cx, &items))
        .fields(fields)
        .notes(move |dialog, cx| notes(dialog, cx, &shown))
        .on_data(move |dialog| {
            for item in filled.iter().filter(|item| item.stored.is_none()) {
                let count = item.told(dialog);
                dialog.set_hint(item.field, hint(&count, item.fits));
                if let Some(first) = count.first.filter(|_| wanted.is_none()) {
                    dialog.prefill(item.field, first);
                }
            }
        })
        .on_cancel(move |_, _| end_of_reads(&left))
}

/// Ends the task that reads counts, where there is one.
fn end_of_reads(items: &[Item]) -> Vec<Effect> {
    let reads = items.iter().any(|item| item.stored.is_none());
    if reads { vec![Effect::Cancel(SLOT)] } else { Vec::new() }
}

/// Warns of changes since the dialog opened, and of what the typed counts would do.
fn notes(dialog: &Dialog, cx: &Context<'_>, items: &[Item]) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut emptied = Vec::new();
    for item in items {
        let count = item.count(dialog, cx);
        match (&count.trouble, count.last) {
            (Some(Trouble::Gone(why)), _) => notes.push(format!("{}: {why}", item.name)),
            (Some(Trouble::Untold(why)), _) => {
                notes.push(format!("the server does not tell the count of {}: {why}", item.name));
            }
            (None, Some(now)) if Some(now) != count.first => {
                notes.push(format!("{} has {now} now", item.name))
            }
            (None, _) => {}
        }
        if dialog.number(item.field) == Ok(Some(0)) && count.first != Some(0) {
            emptied.push(item.name.as_str());
        }
    }
    if !emptied.is_empty() {
        notes.push(format!("0 stops every pod of {}", emptied.join(", ")));
    }
    notes.into_iter().map(Note::Warning).collect()
}

/// `now 3 · fits: 61`.
fn hint(count: &Count, fits: Option<u64>) -> String {
    let now = match (count.first, &count.trouble) {
        (Some(now), _) => format!("now {now}"),
        (None, None) => "asking the server…".to_owned(),
        (None, Some(_)) => "now unknown".to_owned(),
    };
    match fits {
        Some(fits) => format!("{now} · fits: {}", grouped(fits)),
        None => now,
    }
}

/// Reads the counts of these every [`EVERY`], and sends changed ones to the dialog.
async fn read_counts(out: Outbox, targets: Vec<ObjectRef>) {
    let mut counts: HashMap<ObjectRef, Count> = HashMap::new();
    loop {
        let before = counts.clone();
        let read = targets.iter().map(|target| read_count(out.client(), target));
        for (target, read) in targets.iter().zip(join_all(read).await) {
            let count = counts.entry(target.clone()).or_default();
            match read {
                Ok(now) => {
                    count.first.get_or_insert(now);
                    (count.last, count.trouble) = (Some(now), None);
                }
                Err(trouble) => count.trouble = Some(trouble),
            }
        }
        if counts != before {
            out.dialog_data(Counts(counts.clone())).await;
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Reads a count from the scale subresource, as `kubectl scale` does.
async fn read_count(client: Client, target: &ObjectRef) -> Result<i32, Trouble> {
    let api = target.api(client);
    let Ok(answer) = tokio::time::timeout(PATIENCE, api.get_scale(&target.name)).await else {
        return Err(Trouble::Untold(format!("no answer within {} s", PATIENCE.as_secs())));
    };
    let scale = answer.map_err(|error| {
        let why = error_text(&error);
        let is_absent = matches!(&error, kube::Error::Api(status) if status.code == 404);
        if is_absent { Trouble::Gone(why) } else { Trouble::Untold(why) }
    })?;
    let is_other = |uid: &str| target.uid.as_ref().is_some_and(|known| known.as_str() != uid);
    if scale.metadata.uid.as_deref().is_some_and(is_other) {
        return Err(Trouble::Gone("it was deleted, and another of its name was made".to_owned()));
    }
    // Servers leave a count of 0 out.
    Ok(scale.spec.and_then(|spec| spec.replicas).unwrap_or(0))
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
        let Count { first, last, trouble } = item.count(dialog, cx);
        match (last, trouble) {
            (_, Some(Trouble::Gone(why))) => return Err(format!("{}: {why}", item.name)),
            (None, None) => {
                return Err(format!("{}: its count is still being read, try again in a moment", item.name));
            }
            (now, _) if Some(wanted) == now => {}
            (Some(now), _) if Some(wanted) == first => overtaken.push((item, now, wanted)),
            (now, _) => {
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
    let mut effects = end_of_reads(items);
    if actions.is_empty() {
        effects.push(Effect::Toast(Toast::note("nothing to change")));
        return Ok(effects);
    }
    if doubts.is_empty() {
        effects.extend(actions.into_iter().map(|action| Effect::Act(Box::new(action))));
        return Ok(effects);
    }
    let mut again = Dialog::new("So many?", "Scale", move |_, _| {
        Ok(actions.iter().map(|action| Effect::Act(Box::new(action.clone()))).collect())
    });
    for doubt in doubts {
        again = again.warning(doubt);
    }
    effects.push(Effect::ShowDialog(Box::new(again)));
    Ok(effects)
}

/// The change, with the way back when the count before is known.
pub fn action(target: &ObjectRef, before: Option<i32>, wanted: i32) -> Action {
    let change = before.map_or_else(|| format!("to {wanted}"), |before| format!("{before} → {wanted}"));
    Action {
        title: format!("scale {} {change}", target.describe()),
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

/// The count of a workload whose objects the console has; none of another kind.
fn stored(cx: &Context<'_>, target: &ObjectRef) -> Option<i32> {
    if kind_view::of(&target.kind.resource).template == Template::None {
        return None;
    }
    template::replicas(&template::object(cx.stores, target)?)
}
