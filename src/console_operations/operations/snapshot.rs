//! Snapshots of the whole cluster (SAFE-8): save, restore, and fork.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::dialog::{Field, Fields};
use crate::effect::{Dialog, Effect, Outbox};
use base::quote::shell_word;
use console_data::action::{Action, Mutation, Outcome};
use console_data::catalogue::Catalogue;
use console_data::context::Context;
use console_data::forks::Fork;
use console_data::message::Message;
use console_data::resource::{Kind, ObjectRef};
use console_toolkit::text::typed_path;
use console_toolkit::toast::Toast;

/// The API group of snapshots and restores.
const GROUP: &str = "podium.dev";
/// The resource of snapshots.
const PLURAL: &str = "clustersnapshots";
/// The resource of restores.
const RESTORES: &str = "clusterrestores";

/// Returns the kind of snapshots; `None` if the server has none.
pub fn kind(catalogue: &Catalogue) -> Option<&Kind> {
    find(catalogue, PLURAL)
}

/// Reports whether a kind is that of snapshots.
pub fn is_kind(kind: &Kind) -> bool {
    kind.resource.group == GROUP && kind.resource.plural == PLURAL
}

fn find<'a>(catalogue: &'a Catalogue, plural: &str) -> Option<&'a Kind> {
    catalogue.kinds().iter().find(|kind| kind.resource.group == GROUP && kind.resource.plural == plural)
}

/// Shows a dialog; if there is none, shows that the server does not support snapshots.
fn open_dialog(dialog: Option<Dialog>) -> Vec<Effect> {
    match dialog {
        Some(dialog) => vec![Effect::dialog(dialog)],
        None => vec![Effect::failed("this server does not support cluster snapshots")],
    }
}

/// Shows the dialog for saving a snapshot.
pub fn open_save_dialog(catalogue: &Catalogue) -> Vec<Effect> {
    open_dialog(kind(catalogue).cloned().map(save_dialog))
}

/// Shows the dialog for restoring a snapshot.
pub fn open_restore_dialog(catalogue: &Catalogue, snapshot: ObjectRef) -> Vec<Effect> {
    open_dialog(find(catalogue, RESTORES).cloned().map(|kind| restore_dialog(kind, snapshot)))
}

fn save_dialog(kind: Kind) -> Dialog {
    let mut fields = Fields::default();
    let name = fields.add(Field::text("name", ""));
    let claims = fields.add(Field::switch("claims").hint("include the files of volumes"));
    Dialog::new("Save a snapshot of the cluster", "Save", move |dialog, _| {
        let name = dialog.text(name).trim();
        if name.is_empty() {
            return Err("the name is required".into());
        }
        let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
        if !name.chars().all(is_inner) || name.starts_with(['-', '.']) || name.ends_with(['-', '.']) {
            return Err("a name has only lower-case letters, digits, - and . between them".into());
        }
        Ok(vec![Effect::Act(Box::new(save(&kind, name, dialog.is_on(claims))))])
    })
    .line("Saves all objects as they are now to a file in the data directory.")
    .fields(fields)
}

/// Creates the dialog for restoring a snapshot. The snapshot's name must be typed, because a restore ends every pod.
fn restore_dialog(kind: Kind, snapshot: ObjectRef) -> Dialog {
    let expected = snapshot.name.clone();
    let mut fields = Fields::default();
    let name = fields.add(Field::confirmation(&expected));
    let claims = fields.add(Field::switch("claims").hint("restore the files of volumes, too"));
    Dialog::new(format!("Restore the cluster from {}", snapshot.name), "Restore", move |dialog, _| {
        if dialog.text(name).trim() != expected {
            return Err(format!("type {expected} to restore it"));
        }
        Ok(vec![Effect::Act(Box::new(restore(&kind, &snapshot, dialog.is_on(claims))))])
    })
    .warning("All pods stop, and workloads start again from the objects of the snapshot.")
    .line("The present state is saved first, as another snapshot.")
    .fields(fields)
}

/// Shows the dialog for the directory of a fork. If the cluster's files are not on this machine, copies the command
/// that creates a fork there.
pub fn open_fork_dialog(cx: &Context<'_>, snapshot: ObjectRef) -> Vec<Effect> {
    if let Some(forks) = cx.forks {
        return vec![Effect::dialog(fork_dialog(forks.clone(), snapshot))];
    }
    let command = fork_command(&snapshot.name, "DIRECTORY");
    let note = format!(
        "this cluster's data directory may be on another machine; run this command there (copied): {command}"
    );
    vec![Effect::Copy(command), Effect::info(note)]
}

fn fork_command(snapshot: &str, directory: &str) -> String {
    format!("podium snapshot fork {snapshot} {}", shell_word(directory))
}

fn fork_dialog(forks: Arc<dyn Fork>, snapshot: ObjectRef) -> Dialog {
    let mut fields = Fields::default();
    let field = Field::text("directory", format!("~/podium-{}", snapshot.name)).hint("→ to edit");
    let directory = fields.add(field);
    Dialog::new(format!("Fork {}", snapshot.name), "Fork", move |dialog, _| {
        let typed = dialog.text(directory).trim();
        if typed.is_empty() {
            return Err("the directory is required".into());
        }
        let directory = typed_path(typed)?;
        let (forks, snapshot) = (forks.clone(), snapshot.clone());
        let note = format!("forking {} to {}…", snapshot.name, directory.display());
        let task = Effect::task("fork", move |out| async move {
            // A copy in progress is completed, even if its screen is closed.
            out.clone().spawn_detached(fork(out, forks, snapshot, directory));
        });
        Ok(vec![Effect::info(note), task])
    })
    .line("Creates a data directory on this machine for a second cluster that starts with the snapshot's objects.")
    .fields(fields)
}

/// Creates the fork; the journal records it, with its error if it failed.
async fn fork(out: Outbox, forks: Arc<dyn Fork>, snapshot: ObjectRef, directory: PathBuf) {
    let directory = std::path::absolute(&directory).unwrap_or(directory);
    let made = forks.fork(snapshot.name.clone(), directory.clone()).await;
    let place = directory.display().to_string();
    let title = format!("fork snapshot {} to {place}", snapshot.name);
    let kubectl = fork_command(&snapshot.name, &place);
    let action = Action::new(&snapshot, title, kubectl, Mutation::nothing());
    let action = Action { quiet: made.is_ok(), ..action };
    let note = made.as_ref().ok().map(|forked| {
        let objects = console_toolkit::text::counted(forked.objects, "object");
        Toast::done(format!("{place} holds {objects}; podium --data-dir {} starts it", shell_word(&place)))
    });
    let outcome = Outcome { action, error: made.err(), after: None };
    out.send(Message::ActionEnded(Box::new(outcome))).await;
    if let Some(note) = note {
        out.toast(note).await;
    }
}

fn create(kind: &Kind, name: &str, metadata: &Value, spec: &Value) -> (ObjectRef, Mutation) {
    let body = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata, "spec": spec,
    });
    let target = ObjectRef { kind: kind.clone(), namespace: None, name: name.to_owned(), uid: None };
    let mutation = Mutation::create(&target, body);
    (target, mutation)
}

fn claims_of(claims: bool) -> Value {
    if claims { json!({"claims": true}) } else { json!({}) }
}

fn save(kind: &Kind, name: &str, claims: bool) -> Action {
    let (target, mutation) = create(kind, name, &json!({"name": name}), &claims_of(claims));
    let kubectl = format!("podium snapshot save {name}{}", if claims { " --claims" } else { "" });
    Action::new(&target, format!("save snapshot {name}"), kubectl, mutation)
}

fn restore(kind: &Kind, snapshot: &ObjectRef, claims: bool) -> Action {
    let name = &snapshot.name;
    let prefix: String = name.chars().take(200).collect();
    let mut spec = claims_of(claims);
    spec["snapshot"] = json!(name);
    let (_, mutation) = create(kind, name, &json!({"generateName": format!("{prefix}-")}), &spec);
    let kubectl = format!("podium snapshot restore {name}{}", if claims { " --claims" } else { "" });
    Action::new(snapshot, format!("restore snapshot {name}"), kubectl, mutation)
}
