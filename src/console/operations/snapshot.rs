//! Snapshots of the whole cluster (SAFE-8): save one, bring one back, and the command that makes a second cluster of one.

use serde_json::{Value, json};

use crate::action::{Action, Mutation};
use crate::catalogue::Catalogue;
use crate::dialog::{Field, Fields};
use crate::effect::{Dialog, Effect};
use crate::resource::{Kind, ObjectRef};
use crate::toast::Toast;

/// The API group of snapshots and restores.
const GROUP: &str = "podium.dev";
/// The resource of snapshots.
const PLURAL: &str = "clustersnapshots";
/// The resource of restores.
const RESTORES: &str = "clusterrestores";

/// The kind of snapshots; none where the server keeps none.
pub(crate) fn kind(catalogue: &Catalogue) -> Option<&Kind> {
    find(catalogue, PLURAL)
}

fn find<'a>(catalogue: &'a Catalogue, plural: &str) -> Option<&'a Kind> {
    catalogue.kinds().iter().find(|kind| kind.resource.group == GROUP && kind.resource.plural == plural)
}

/// Shows the dialog of a command, or says why there is none.
fn ask(dialog: Option<Dialog>) -> Vec<Effect> {
    match dialog {
        Some(dialog) => vec![Effect::ShowDialog(Box::new(dialog))],
        None => vec![Effect::failed("this server keeps no snapshots of the cluster")],
    }
}

/// Asks before a snapshot is saved.
pub(crate) fn ask_to_save(catalogue: &Catalogue) -> Vec<Effect> {
    ask(kind(catalogue).cloned().map(save_dialog))
}

/// Asks before the cluster is brought back to a snapshot.
pub(crate) fn ask_to_restore(catalogue: &Catalogue, snapshot: ObjectRef) -> Vec<Effect> {
    ask(find(catalogue, RESTORES).cloned().map(|kind| restore_dialog(kind, snapshot)))
}

fn save_dialog(kind: Kind) -> Dialog {
    let mut fields = Fields::default();
    let name = fields.add(Field::text("name", ""));
    let claims = fields.add(Field::switch("claims").hint("keep what is in their directories, too"));
    Dialog::new("Save a snapshot of the cluster", "Save", move |dialog, _| {
        let name = dialog.text(name).trim();
        if name.is_empty() {
            return Err("which name?".into());
        }
        Ok(vec![Effect::Act(Box::new(save(&kind, name, dialog.is_on(claims))))])
    })
    .line("All objects as they are now, in a file of the data directory.")
    .fields(fields)
}

/// The snapshot's name must be typed: every pod ends.
fn restore_dialog(kind: Kind, snapshot: ObjectRef) -> Dialog {
    let wanted = snapshot.name.clone();
    let mut fields = Fields::default();
    let name = fields.add(Field::confirmation(&wanted));
    let claims = fields.add(Field::switch("claims").hint("bring back what claims held, too"));
    Dialog::new(format!("Restore the cluster from {}", snapshot.name), "Restore", move |dialog, _| {
        if dialog.text(name).trim() != wanted {
            return Err(format!("type {wanted} to restore it"));
        }
        Ok(vec![Effect::Act(Box::new(restore(&kind, &snapshot, dialog.is_on(claims))))])
    })
    .warning("Every pod ends, and workloads start anew with the objects of the snapshot.")
    .line("What is there before is kept as a snapshot of its own.")
    .fields(fields)
}

/// The command that makes a data directory of a snapshot: that is done on the machine which has the files.
pub(crate) fn fork(snapshot: &ObjectRef) -> Vec<Effect> {
    let command = format!("podium snapshot fork {} DIRECTORY", snapshot.name);
    let note = format!("a fork is made where the data directory is: {command} (copied)");
    vec![Effect::Copy(command), Effect::Toast(Toast::note(note))]
}

fn create(kind: &Kind, name: &str, metadata: &Value, spec: &Value) -> (ObjectRef, Mutation) {
    let body = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata, "spec": spec,
    });
    let target = ObjectRef { kind: kind.clone(), namespace: None, name: name.to_owned(), uid: None };
    (target.clone(), Mutation::Create { target, body })
}

fn claims_of(claims: bool) -> Value {
    if claims { json!({"claims": true}) } else { json!({}) }
}

fn save(kind: &Kind, name: &str, claims: bool) -> Action {
    let (target, mutation) = create(kind, name, &json!({"name": name}), &claims_of(claims));
    Action {
        title: format!("save snapshot {name}"),
        kubectl: format!("podium snapshot save {name}{}", if claims { " --claims" } else { "" }),
        inverse: None,
        mutation,
        target,
        undoes: None,
        quiet: false,
    }
}

fn restore(kind: &Kind, snapshot: &ObjectRef, claims: bool) -> Action {
    let name = &snapshot.name;
    let prefix: String = name.chars().take(200).collect();
    let mut spec = claims_of(claims);
    spec["snapshot"] = json!(name);
    let (_, mutation) = create(kind, name, &json!({"generateName": format!("{prefix}-")}), &spec);
    Action {
        title: format!("restore snapshot {name}"),
        kubectl: format!("podium snapshot restore {name}{}", if claims { " --claims" } else { "" }),
        inverse: None,
        mutation,
        target: snapshot.clone(),
        undoes: None,
        quiet: false,
    }
}
