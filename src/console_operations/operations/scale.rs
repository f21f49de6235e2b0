//! Scales objects. If several are marked, each has a field of its own, prefilled with its count. Implausible values
//! need a second confirmation.
//!
//! The stores have the objects of most workloads. For other kinds, which may have their count in any field
//! (`specReplicasPath`), a task reads the scale subresource while the dialog is open.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kube::Client;
use serde_json::json;

use super::title;
use crate::dialog::{Field, FieldId, Fields, Note, Number};
use crate::effect::{Dialog, Effect, Outbox};
use console_data::action::{Action, Mutation, PatchKind, error_text};
use console_data::capacity;
use console_data::context::Context;
use console_data::kind_view::{self, Template};
use console_data::resource::ObjectRef;
use console_data::template;
use console_toolkit::text::grouped;

/// The factor of increase above which a second confirmation is needed: an extra digit makes it ten times.
const LARGE_INCREASE: i64 = 10;
/// The slot of the task that reads counts.
const SLOT: &str = "scale";
/// The timeout for reading a count.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The interval between two reads of a count.
const READ_INTERVAL: Duration = Duration::from_secs(2);

/// A workload in the dialog.
struct Item {
    target: ObjectRef,
    /// The label in this dialog: its name, with the namespace if names would be equal.
    name: String,
    /// Its count when the dialog opened, if the object is in the stores.
    stored: Option<i32>,
    fits: Option<u64>,
    field: FieldId<Number>,
}

/// The count of a workload while the dialog is open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Count {
    /// The first known count.
    first: Option<i32>,
    /// The latest known count.
    last: Option<i32>,
    /// The reason why the count is unknown now.
    error: Option<CountError>,
}

/// The reason why a count is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CountError {
    /// The object no longer exists.
    Gone(String),
    /// The server does not return the count.
    Unreadable(String),
}

/// The counts that the task sends to the dialog.
#[derive(Debug)]
struct Counts(HashMap<ObjectRef, Count>);

impl Item {
    /// Returns the present count: from the stored object, else from the server.
    fn count(&self, dialog: &Dialog, cx: &Context<'_>) -> Count {
        if let Some(first) = self.stored {
            let last = stored(cx, &self.target);
            let is_deleted = last.is_none() && cx.stores.synced(&self.target.kind.resource);
            let error = is_deleted.then(|| CountError::Gone("it was deleted".to_owned()));
            return Count { first: Some(first), last: last.or(Some(first)), error };
        }
        self.count_on_server(dialog)
    }

    /// Returns the count according to the server.
    fn count_on_server(&self, dialog: &Dialog) -> Count {
        let counts = dialog.data::<Counts>().and_then(|counts| counts.0.get(&self.target));
        counts.cloned().unwrap_or_default()
    }

    /// Returns the reason why a count needs a second confirmation.
    fn doubt(&self, now: Option<i32>, desired: i32) -> Option<String> {
        let much = now.filter(|now| *now > 0 && i64::from(desired) > i64::from(*now) * LARGE_INCREASE);
        let much = much.map(|now| {
            format!("{} times the present {now}", grouped(u64::from((desired / now).unsigned_abs())))
        });
        let desired = u64::from(desired.unsigned_abs());
        let grows = now.is_none_or(|now| u64::from(now.unsigned_abs()) < desired);
        let fits = self.fits.filter(|fits| grows && desired > *fits);
        let fits = fits.map(|fits| format!("the ready nodes have room for {}", grouped(fits)));
        let reasons: Vec<String> = much.into_iter().chain(fits).collect();
        (!reasons.is_empty())
            .then(|| format!("{} to {}: {}", self.name, grouped(desired), reasons.join("\n")))
    }
}

/// Shows the dialog for the counts.
pub fn open_dialog(cx: &Context<'_>, targets: Vec<ObjectRef>) -> Vec<Effect> {
    open_dialog_with(cx, targets, None)
}

/// Shows the dialog for one object with this count.
pub fn open_dialog_for(cx: &Context<'_>, target: ObjectRef, desired: i32) -> Vec<Effect> {
    open_dialog_with(cx, vec![target], Some(desired))
}

fn open_dialog_with(cx: &Context<'_>, targets: Vec<ObjectRef>, desired: Option<i32>) -> Vec<Effect> {
    let unread: Vec<ObjectRef> =
        targets.iter().filter(|target| stored(cx, target).is_none()).cloned().collect();
    let mut effects = vec![Effect::dialog(dialog(cx, targets, desired))];
    if !unread.is_empty() {
        effects.push(Effect::task(SLOT, move |out| read_counts(out, unread)));
    }
    effects
}

/// Creates the dialog, prefilled with the present counts or the requested one.
fn dialog(cx: &Context<'_>, targets: Vec<ObjectRef>, desired: Option<i32>) -> Dialog {
    let title = title("Scale", &targets, "workloads");
    let names = names(&targets);
    let mut fields = Fields::default();
    let items: Vec<Item> = targets
        .into_iter()
        .zip(names)
        .map(|(target, name)| {
            let stored = stored(cx, &target);
            // Without a pod template the number of pods that fit is unknown.
            let fits = stored.and_then(|_| capacity::max_replicas(cx.stores, &target));
            let label = if name.is_empty() { "replicas" } else { &name };
            let field =
                Field::number(label, desired.or(stored).map(|count| count.to_string()).unwrap_or_default());
            let count = Count { first: stored, last: stored, error: None };
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
                let count = item.count_on_server(dialog);
                dialog.set_hint(item.field, hint(&count, item.fits));
                if let Some(first) = count.first.filter(|_| desired.is_none()) {
                    dialog.prefill(item.field, first);
                }
            }
        })
        .on_cancel(move |_, _| end_of_reads(&left))
}

/// Returns the effect that ends the task that reads counts, if it runs.
fn end_of_reads(items: &[Item]) -> Vec<Effect> {
    let reads = items.iter().any(|item| item.stored.is_none());
    if reads { vec![Effect::Cancel(SLOT)] } else { Vec::new() }
}

/// Warns of changes since the dialog opened, and of the effects of the typed counts.
fn notes(dialog: &Dialog, cx: &Context<'_>, items: &[Item]) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut emptied = Vec::new();
    for item in items {
        let count = item.count(dialog, cx);
        match (&count.error, count.last) {
            (Some(CountError::Gone(why)), _) => notes.push(format!("{}: {why}", item.name)),
            (Some(CountError::Unreadable(why)), _) => {
                notes.push(format!("cannot read the replicas of {}: {why}", item.name));
            }
            (None, Some(now)) if Some(now) != count.first => {
                notes.push(format!("{} has {now} now", item.name));
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

/// Formats the hint: `now 3 · fits: 61`.
fn hint(count: &Count, fits: Option<u64>) -> String {
    let now = match (count.first, &count.error) {
        (Some(now), _) => format!("now {now}"),
        (None, None) => "reading…".to_owned(),
        (None, Some(_)) => "now unknown".to_owned(),
    };
    match fits {
        Some(fits) => format!("{now} · fits: {}", grouped(fits)),
        None => now,
    }
}

/// Reads the counts every [`READ_INTERVAL`], and sends changed ones to the dialog.
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
                    (count.last, count.error) = (Some(now), None);
                }
                Err(trouble) => count.error = Some(trouble),
            }
        }
        if counts != before {
            out.dialog_data(Counts(counts.clone())).await;
        }
        tokio::time::sleep(READ_INTERVAL).await;
    }
}

/// Reads a count from the scale subresource, as `kubectl scale` does.
async fn read_count(client: Client, target: &ObjectRef) -> Result<i32, CountError> {
    let api = target.api(client);
    let Ok(answer) = tokio::time::timeout(TIMEOUT, api.get_scale(&target.path_name())).await else {
        return Err(CountError::Unreadable(format!("no answer within {} s", TIMEOUT.as_secs())));
    };
    let scale = answer.map_err(|error| {
        let message = error_text(&error);
        let is_absent = matches!(&error, kube::Error::Api(status) if status.code == 404);
        if is_absent { CountError::Gone(message) } else { CountError::Unreadable(message) }
    })?;
    let is_other = |uid: &str| target.uid.as_ref().is_some_and(|known| known.as_str() != uid);
    if scale.metadata.uid.as_deref().is_some_and(is_other) {
        return Err(CountError::Gone("it was deleted and created again".to_owned()));
    }
    // Servers omit a count of 0.
    Ok(scale.spec.and_then(|spec| spec.replicas).unwrap_or(0))
}

/// Returns distinct labels: empty for a single object, else names, with the namespace if two are equal.
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

/// Returns the changes; or asks for a second confirmation of an implausible count.
///
/// Another client may have scaled an object meanwhile: typed counts apply, but an untouched field is not a request to
/// restore the earlier count. If there is nothing else to change, the dialog says so, and a second Enter confirms it.
fn submit(dialog: &Dialog, cx: &Context<'_>, items: &[Item]) -> Result<Vec<Effect>, String> {
    let mut actions = Vec::new();
    let mut doubts = Vec::new();
    let mut overtaken = Vec::new();
    for item in items {
        let desired = dialog
            .number(item.field)?
            .ok_or_else(|| format!("{}: the number of replicas is required", item.name))?;
        let Count { first, last, error: trouble } = item.count(dialog, cx);
        match (last, trouble) {
            (_, Some(CountError::Gone(why))) => return Err(format!("{}: {why}", item.name)),
            (None, None) => {
                return Err(format!(
                    "{}: its replicas are still being read; try again in a moment",
                    item.name
                ));
            }
            (now, _) if Some(desired) == now => {}
            (Some(now), _) if Some(desired) == first => overtaken.push((item, now, desired)),
            (now, _) => {
                actions.push(action(&item.target, now, desired));
                doubts.extend(item.doubt(now, desired));
            }
        }
    }
    if actions.is_empty() && !overtaken.is_empty() {
        let changes = overtaken
            .iter()
            .map(|(item, now, desired)| format!("{} has {now} now, not {desired}", item.name));
        let message = format!("{}: enter again scales back", changes.collect::<Vec<_>>().join(", "));
        if dialog.error.as_ref() != Some(&message) {
            return Err(message);
        }
        for (item, now, desired) in overtaken {
            actions.push(action(&item.target, Some(now), desired));
            doubts.extend(item.doubt(Some(now), desired));
        }
    }
    let mut effects = end_of_reads(items);
    if actions.is_empty() {
        effects.push(Effect::info("nothing to change"));
        return Ok(effects);
    }
    if doubts.is_empty() {
        effects.extend(actions.into_iter().map(|action| Effect::Act(Box::new(action))));
        return Ok(effects);
    }
    let mut again = Dialog::new("Confirm replicas", "Scale", move |_, _| {
        Ok(actions.iter().map(|action| Effect::Act(Box::new(action.clone()))).collect())
    });
    for doubt in doubts {
        again = again.warning(doubt);
    }
    effects.push(Effect::dialog(again));
    Ok(effects)
}

/// Creates the action that sets the count, with its undo if the previous count is known.
pub fn action(target: &ObjectRef, before: Option<i32>, desired: i32) -> Action {
    let change = before.map_or_else(|| format!("to {desired}"), |before| format!("{before} → {desired}"));
    let body = json!({"spec": {"replicas": desired}});
    Action::new(
        target,
        format!("scale {} {change}", target.describe()),
        format!("kubectl scale {} --replicas={desired}", target.kubectl_object()),
        Mutation::patch_subresource(target, "scale", PatchKind::Merge, body),
    )
    .undone_by(before.map(|before| {
        let title = format!("scale {} {desired} → {before}", target.describe());
        Action { title, ..action(target, None, before) }
    }))
}

/// Returns the count of a workload in the stores; `None` for other kinds.
fn stored(cx: &Context<'_>, target: &ObjectRef) -> Option<i32> {
    if kind_view::of(&target.kind.resource).template == Template::None {
        return None;
    }
    template::replicas(&template::object(cx.stores, target)?)
}
