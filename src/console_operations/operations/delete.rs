//! Delete and kill: the consequences, the options, and the risks of a forced deletion.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service};
use kube::api::PropagationPolicy;

use super::title;
use crate::dialog::{Field, Fields, Note};
use crate::effect::{Dialog, Effect};
use console_data::action::{Action, Mutation, delete_params};
use console_data::catalogue::Catalogue;
use console_data::context::Context;
use console_data::related::selects;
use console_data::resource::{ObjectRef, ResourceKey, Uid};
use console_data::store::Stores;
use console_toolkit::text::counted;

/// The choice that leaves an object's dependents behind.
const ORPHAN: &str = "orphan";

const RISK: &str = "Force: the API removes the pod at once. Its processes may keep running for a while; \
                    a StatefulSet may then start a second pod with the same identity.";

/// The maximum number of consequences listed; a dialog must stay shorter than the screen.
const NOTES: usize = 5;
/// The maximum number of objects named; a list longer than the screen scrolls.
const NAMED: usize = 500;

/// Creates the dialog for a deletion; the filter hides `hidden` of the marked objects.
pub fn dialog(targets: Vec<ObjectRef>, hidden: usize) -> Dialog {
    let pods = targets.iter().all(|target| target.kind.is::<Pod>());
    let title = title("Delete", &targets, "objects");
    let listed = listing(&targets);
    let shown_targets = targets.clone();
    let options = ["background", "foreground", ORPHAN].map(String::from).to_vec();
    let mut fields = Fields::default();
    let dependents = fields.add(Field::choice("dependents", options).hint("like kubectl's --cascade"));
    let grace =
        fields.add(Field::number_or("grace seconds", if pods { "the pod's own" } else { "the default" }));
    let force = fields.add(Field::switch("force").hint("space turns it on"));
    let name = confirmation(&targets).map(|expected| (fields.add(Field::confirmation(&expected)), expected));
    let mut dialog = Dialog::new(title, "Delete", move |dialog, _| {
        if let Some((name, expected)) = &name
            && dialog.text(*name).trim() != expected
        {
            return Err(format!(
                "type {expected} to delete {}",
                if targets.len() == 1 { "it" } else { "them" }
            ));
        }
        let grace = dialog.number(grace)?.map(i32::unsigned_abs);
        let force = dialog.is_on(force);
        let policy = match dialog.choice(dependents) {
            "foreground" => PropagationPolicy::Foreground,
            ORPHAN => PropagationPolicy::Orphan,
            _ => PropagationPolicy::Background,
        };
        Ok(targets
            .iter()
            .map(|target| Effect::Act(Box::new(action(target, policy.clone(), grace, force))))
            .collect())
    });
    // The warning comes before the list, which may be longer than the screen.
    if hidden > 0 {
        dialog = dialog.warning(format!("{hidden} of these are marked but hidden by the filter"));
    }
    dialog.lines(listed).fields(fields).careful().notes(move |dialog, cx| {
        let orphans = dialog.choice(dependents) == ORPHAN;
        let mut notes: Vec<Note> =
            shown_targets.iter().filter_map(|target| consequence(cx, target, orphans)).collect();
        if notes.len() > NOTES {
            let left = notes.split_off(NOTES - 1).len();
            notes.push(Note::Plain(format!("… and {left} more of this kind")));
        }
        if dialog.is_on(force) {
            notes.push(Note::Warning(RISK.into()));
        }
        notes
    })
}

/// Returns the text to type before deleting objects that irrevocably take others with them; `None` for all other
/// objects.
pub fn confirmation(targets: &[ObjectRef]) -> Option<String> {
    let named = |is: fn(&ObjectRef) -> bool, plural: &str| {
        let mut of_kind = targets.iter().filter(|target| is(target));
        let first = of_kind.next()?;
        Some(match of_kind.count() {
            0 => first.name.clone(),
            more => format!("{} {plural}", more + 1),
        })
    };
    named(|target| target.kind.is::<Namespace>(), "namespaces")
        .or_else(|| named(|target| target.kind.is::<Node>(), "nodes"))
}

/// Creates the dialog for killing pods immediately.
pub fn kill_dialog(targets: Vec<ObjectRef>) -> Dialog {
    let (title, lines) = (title("Kill", &targets, "pods"), listing(&targets));
    let dialog = Dialog::new(title, "Kill", move |_, _| {
        let kill = |target| action(target, PropagationPolicy::Background, Some(0), true);
        Ok(targets.iter().map(|target| Effect::Act(Box::new(kill(target)))).collect())
    });
    dialog.warning(RISK).lines(lines)
}

/// Returns the names of the objects, unless the title has them already.
pub(crate) fn listing(targets: &[ObjectRef]) -> Vec<String> {
    if targets.len() == 1 {
        return Vec::new();
    }
    let mut lines: Vec<String> = targets.iter().take(NAMED).map(ObjectRef::describe).collect();
    if targets.len() > NAMED {
        lines.push(format!("… and {} more", targets.len() - NAMED));
    }
    lines
}

/// Returns the consequence of deleting an object, and its dependents unless they are orphaned.
fn consequence(cx: &Context<'_>, target: &ObjectRef, orphans: bool) -> Option<Note> {
    let uid = target.uid.as_ref()?;
    let store = cx.stores.get(&target.kind.resource)?;
    if store.synced() && store.get(uid).is_none() {
        return Some(Note::Plain(format!("{}: already deleted", target.name)));
    }
    match () {
        () if target.kind.is::<Pod>() => pod_consequence(cx, target, uid),
        () if target.kind.is::<Namespace>() => {
            let pods = cx.stores.pods().entries();
            let pods = pods.filter(|pod| pod.namespace() == Some(target.name.as_str())).count();
            Some(Note::Warning(format!(
                "everything in {} is deleted, including {}",
                target.name,
                counted(pods, "pod")
            )))
        }
        () if target.kind.is::<Node>() => {
            let pods = cx.stores.pod_count_on(&target.name);
            Some(Note::Warning(format!("{}: deleted for good, with {}", target.name, counted(pods, "pod"))))
        }
        () => {
            let mut counts = BTreeMap::new();
            dependents(cx.stores, uid, 0, &mut counts);
            let objects: Vec<String> = counts
                .iter()
                .map(|((_, resource), count)| {
                    format!("{count} {}", describe_kind(cx.catalogue, resource, *count))
                })
                .collect();
            let (name, listed) = (&target.name, objects.join(" and "));
            (!objects.is_empty()).then(|| {
                Note::Plain(if orphans {
                    format!("{name}: leaves {listed} behind")
                } else {
                    format!("{name}: also deletes {listed}")
                })
            })
        }
    }
}

fn pod_consequence(cx: &Context<'_>, target: &ObjectRef, uid: &Uid) -> Option<Note> {
    let pod = cx.stores.pods().entry(uid)?;
    if pod.controller.is_none() {
        return Some(Note::Warning(format!("{}: no controller; nothing will replace it", target.name)));
    }
    let kind = cx.catalogue.kind::<Service>();
    let services: Vec<&str> = cx
        .stores
        .services()
        .iter()
        .filter(|(_, service)| {
            selects(cx, &ObjectRef::of(kind.clone(), *service), pod.namespace(), &pod.labels)
        })
        .filter_map(|(_, service)| service.metadata.name.as_deref())
        .collect();
    (!services.is_empty())
        .then(|| Note::Plain(format!("{}: loses its endpoint in {}", target.name, services.join(", "))))
}

/// The maximum depth of the ownership graph, which may contain cycles.
const DEPTH: usize = 4;

/// Counts direct and indirect dependents of an object in the stores; the nearest first.
fn dependents(
    stores: &Stores,
    owner: &Uid,
    depth: usize,
    counts: &mut BTreeMap<(usize, ResourceKey), usize>,
) {
    if depth == DEPTH {
        return;
    }
    for (resource, store) in stores.all() {
        for object in store.owned_by(owner) {
            *counts.entry((depth, resource.clone())).or_default() += 1;
            if let Some(uid) = object.identity().uid {
                dependents(stores, &uid, depth + 1, counts);
            }
        }
    }
}

/// Returns the kind of a resource as a sentence names it: `replica sets`, or `replica set` for a count of one.
fn describe_kind(catalogue: &Catalogue, resource: &ResourceKey, count: usize) -> String {
    let Some(kind) = catalogue.kinds().iter().find(|kind| kind.resource == *resource) else {
        return resource.plural.to_string();
    };
    let mut phrase = String::new();
    let name = if count == 1 { kind.kind.clone() } else { kind.heading() };
    for letter in name.chars() {
        if letter.is_uppercase() && !phrase.is_empty() {
            phrase.push(' ');
        }
        phrase.extend(letter.to_lowercase());
    }
    phrase
}

/// Creates the action that deletes an object. It has no undo.
pub(crate) fn action(
    target: &ObjectRef,
    policy: PropagationPolicy,
    grace: Option<u32>,
    force: bool,
) -> Action {
    let grace = if force { Some(grace.unwrap_or(0)) } else { grace };
    let mut kubectl = format!("kubectl delete {}", target.kubectl_object());
    match policy {
        PropagationPolicy::Background => {}
        PropagationPolicy::Foreground => kubectl.push_str(" --cascade=foreground"),
        PropagationPolicy::Orphan => kubectl.push_str(" --cascade=orphan"),
    }
    if let Some(grace) = grace {
        let _ = write!(kubectl, " --grace-period={grace}");
    }
    if force {
        kubectl.push_str(" --force");
    }
    let params = delete_params(target, grace, Some(policy));
    let title = format!("{} {}", if force { "force delete" } else { "delete" }, target.describe());
    Action::new(target, title, kubectl, Mutation::Delete { target: target.clone(), params })
}
