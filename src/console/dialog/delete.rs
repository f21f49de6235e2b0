//! Delete and kill: what goes, how, and what a force delete risks.

use std::fmt::Write as _;

use kube::api::{DeleteParams, Preconditions, PropagationPolicy};

use super::{Dialog, Field, Fields, Note};
use crate::console::action::{Action, Mutation};
use crate::console::context::Context;
use crate::console::effect::Effect;
use crate::console::object_commands::selects;
use crate::console::resource::{ObjectRef, Watched};
use crate::console::rows;
use crate::console::store::controller_of;

const RISK: &str = "Force: the API forgets the pod at once. Its processes may run on for a while; \
                    a StatefulSet may then start a second pod of the same identity.";

/// Most consequences that are told; a dialog must stay shorter than the screen.
const NOTES: usize = 5;

/// Asks before deleting; `hidden` of the marked objects are not shown by the filter.
pub fn ask(targets: Vec<ObjectRef>, hidden: usize) -> Dialog {
    let pods = targets.iter().all(|target| target.kind.watched == Some(Watched::Pods));
    let title = match targets.as_slice() {
        [one] => format!("Delete {}", one.describe()),
        many => format!("Delete {} objects", many.len()),
    };
    let listed = listing(&targets);
    let shown_targets = targets.clone();
    let options = ["background", "foreground", "orphan"].map(String::from).to_vec();
    let mut fields = Fields::default();
    let dependants = fields.add(Field::choice("dependants", options).hint("when what it owns goes"));
    let grace =
        fields.add(Field::number_or("grace seconds", if pods { "the pod's own" } else { "the default" }));
    let force = fields.add(Field::switch("force").hint("space turns it on"));
    let mut dialog = Dialog::new(title, "Delete", move |dialog, _| {
        let grace = dialog.number(grace)?.map(i32::unsigned_abs);
        let force = dialog.is_on(force);
        let policy = match dialog.text(dependants) {
            "foreground" => PropagationPolicy::Foreground,
            "orphan" => PropagationPolicy::Orphan,
            _ => PropagationPolicy::Background,
        };
        Ok(targets
            .iter()
            .map(|target| Effect::Act(Box::new(action(target, policy.clone(), grace, force))))
            .collect())
    });
    for line in listed {
        dialog = dialog.line(line);
    }
    if hidden > 0 {
        dialog = dialog.warning(format!("{hidden} of these are marked but hidden by the filter"));
    }
    dialog.fields(fields).careful().notes(move |dialog, cx| {
        let mut notes: Vec<Note> =
            shown_targets.iter().filter_map(|target| consequence(cx, target)).collect();
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

/// Asks before killing pods at once.
pub fn kill(targets: Vec<ObjectRef>) -> Dialog {
    let title = match targets.as_slice() {
        [one] => format!("Kill {}", one.describe()),
        many => format!("Kill {} pods", many.len()),
    };
    let lines = listing(&targets);
    let mut dialog = Dialog::new(title, "Kill", move |_, _| {
        let kill = |target| action(target, PropagationPolicy::Background, Some(0), true);
        Ok(targets.iter().map(|target| Effect::Act(Box::new(kill(target)))).collect())
    });
    for line in lines {
        dialog = dialog.line(line);
    }
    dialog.warning(RISK)
}

/// The objects by name, where the title does not say it already.
fn listing(targets: &[ObjectRef]) -> Vec<String> {
    if targets.len() == 1 {
        return Vec::new();
    }
    let mut lines: Vec<String> = targets.iter().take(8).map(ObjectRef::describe).collect();
    if targets.len() > 8 {
        lines.push(format!("… and {} more", targets.len() - 8));
    }
    lines
}

/// What goes with an object.
fn consequence(cx: &Context<'_>, target: &ObjectRef) -> Option<Note> {
    let uid = target.uid.as_ref()?;
    let kind = target.kind.watched?;
    if rows::synced(cx.stores, kind) && rows::row(cx.stores, kind, uid).is_none() {
        return Some(Note::Plain(format!("{}: is already gone", target.name)));
    }
    match kind {
        Watched::Deployments => {
            let sets: Vec<_> = cx.stores.replica_sets.owned_by(uid).collect();
            let pods: usize = sets
                .iter()
                .filter_map(|set| crate::console::store::uid_of(&***set))
                .map(|set| cx.stores.pods.owned_by(&set).count())
                .sum();
            Some(Note::Plain(format!(
                "{}: {} replica sets and {pods} pods go with it",
                target.name,
                sets.len()
            )))
        }
        Watched::ReplicaSets => {
            let pods = cx.stores.pods.owned_by(uid).count();
            Some(Note::Plain(format!("{}: {pods} pods go with it", target.name)))
        }
        Watched::Pods => {
            let pod = cx.stores.pods.get(uid)?;
            if controller_of(&**pod).is_none() {
                return Some(Note::Warning(format!(
                    "{}: no controller; nothing will replace it",
                    target.name
                )));
            }
            let row = crate::console::rows::pod::row(pod)?;
            let services: Vec<&str> = cx
                .stores
                .services
                .iter()
                .filter(|(_, service)| selects(cx, &ObjectRef::of(Watched::Services, &***service), &row))
                .filter_map(|(_, service)| service.metadata.name.as_deref())
                .collect();
            (!services.is_empty()).then(|| {
                Note::Plain(format!("{}: loses its endpoint in {}", target.name, services.join(", ")))
            })
        }
        Watched::Namespaces => {
            let pods = cx
                .stores
                .pods
                .iter()
                .filter(|(_, pod)| pod.metadata.namespace.as_deref() == Some(&target.name));
            Some(Note::Warning(format!(
                "everything in {} goes with it, {} pods among it",
                target.name,
                pods.count()
            )))
        }
        Watched::Nodes => {
            let pods = cx.stores.pod_count_on(&target.name);
            Some(Note::Warning(format!("{}: gone for good, its {pods} pods are removed", target.name)))
        }
        _ => None,
    }
}

/// A deletion. There is no way back.
pub fn action(target: &ObjectRef, policy: PropagationPolicy, grace: Option<u32>, force: bool) -> Action {
    let grace = if force { Some(grace.unwrap_or(0)) } else { grace };
    let mut kubectl = format!(
        "kubectl delete {}/{}{}",
        target.kind.kubectl_name(),
        target.name,
        target.kubectl_namespace()
    );
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
    let params = DeleteParams {
        grace_period_seconds: grace,
        propagation_policy: Some(policy),
        preconditions: target
            .uid
            .as_ref()
            .map(|uid| Preconditions { uid: Some(uid.to_string()), resource_version: None }),
        ..DeleteParams::default()
    };
    Action {
        title: format!("{} {}", if force { "force delete" } else { "delete" }, target.describe()),
        target: target.clone(),
        kubectl,
        mutation: Mutation::Delete { target: target.clone(), params },
        inverse: None,
        takes_back: None,
        quiet: false,
    }
}
