//! Controllers of the control plane (CON-19). A Fault pauses a controller, and deleting that Fault resumes it. While a
//! controller is paused, a step makes it reconcile one key.

use std::collections::BTreeSet;

use serde_json::json;

use super::fault::heal;
use crate::effect::{Dialog, Effect, Outbox};
use console_data::action::{Action, Mutation};
use console_data::catalogue::Catalogue;
use console_data::context::Context;
use console_data::resource::{Kind, ObjectRef};
use console_data::rows::controller::{
    ControllerStatus, GROUP, KeyStatus, PLURAL, format_micros, pausing, table_status,
};
use console_toolkit::text::clean;
use console_toolkit::toast::Toast;
use extension::fault::{Component, Fault, FaultTarget};

/// The message for a server that does not report its controllers.
pub const ABSENT: &str =
    "this server has no controllers.podium.dev: it is not Podium's and does not report its controllers";

/// Returns the resource of controllers, if the server has it.
pub fn kind(catalogue: &Catalogue) -> Option<&Kind> {
    catalogue.find_resource(&format!("{PLURAL}.{GROUP}"))
}

/// Returns the reason why controllers cannot be paused on this server.
pub fn refuses(catalogue: &Catalogue) -> Option<String> {
    let faults = catalogue.kind::<Fault>();
    let known = catalogue.kinds().iter().any(|kind| kind.resource == faults.resource);
    (!known).then(|| "this server does not support faults: its controllers cannot be paused".to_owned())
}

/// Pauses running controllers, and resumes paused ones, according to the status in the controllers' table.
pub fn toggle(cx: &Context<'_>, targets: &[ObjectRef]) -> Vec<Effect> {
    let mut seen = BTreeSet::new();
    let mut effects = Vec::new();
    for target in targets {
        let status = target.uid.as_ref().and_then(|uid| table_status(cx.stores, uid));
        // Several queues may belong to one component, which is paused as a whole.
        let component =
            status.as_ref().and_then(|status| Some((status.component.clone()?, status.node.clone())));
        if component.is_none_or(|component| seen.insert(component)) {
            effects.push(toggle_one(cx, target, status.as_ref()));
        }
    }
    effects
}

/// As [`toggle`], for one controller with this status.
pub fn toggle_one(cx: &Context<'_>, target: &ObjectRef, status: Option<&ControllerStatus>) -> Effect {
    let note = |message: String| Effect::info(message);
    let Some(status) = status else { return note(format!("{}: its status is not known yet", target.name)) };
    if let Some(why) = &status.cannot_pause {
        return note(format!("{} cannot be paused: {}", target.name, clean(why)));
    }
    let Some(component) = &status.component else { return note(format!("{} is not running", target.name)) };
    if !status.is_paused() {
        return Effect::Act(Box::new(pause(cx, component, status.node.as_deref())));
    }
    let pausing = pausing(cx.stores, status);
    let kind = cx.catalogue.kind::<Fault>();
    let faults: Vec<ObjectRef> =
        pausing.iter().map(|fault| ObjectRef::named(kind.clone(), &fault.metadata)).collect();
    let is_of_all = |fault: &&Fault| {
        let target = fault.spec.target.as_ref();
        target.and_then(FaultTarget::component) == Some(Component::Controllers)
    };
    match pausing.iter().copied().find(is_of_all) {
        _ if faults.is_empty() => note(format!("{}: the fault that pauses it was not found", target.name)),
        None => heal(&faults),
        Some(all) => {
            let name = all.metadata.name.as_deref().unwrap_or_default();
            let text = format!("Fault {} pauses all controllers: all of them resume.", clean(name));
            let dialog = Dialog::new("Resume", "Resume all", move |_, _| Ok(vec![heal(&faults)]));
            Effect::dialog(dialog.line(text))
        }
    }
}

/// Creates the action that pauses a component, with its undo. `node` selects the kubelet to pause.
fn pause(cx: &Context<'_>, component: &str, node: Option<&str>) -> Action {
    let faults = cx.stores.faults();
    let full_name = node.map_or_else(|| component.to_owned(), |node| format!("{component}-{node}"));
    let names = std::iter::once(format!("pause-{full_name}"))
        .chain((2..).map(|number| format!("pause-{full_name}-{number}")));
    // Ended faults remain until they are deleted.
    let name = names.into_iter().find(|name| faults.by_name("", name).is_none()).unwrap_or_default();
    let kind = cx.catalogue.kind::<Fault>();
    let mut fault_target = json!({"component": component});
    let (argument, what) = match node {
        Some(node) => {
            fault_target["node"] = node.into();
            (format!("{component}/{node}"), format!("{component} of {node}"))
        }
        None if component == "scheduler" => (component.to_owned(), format!("controller {component}")),
        None => (format!("controller/{component}"), format!("controller {component}")),
    };
    let body = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": name},
        "spec": {"type": "Pause", "target": fault_target},
    });
    let target = ObjectRef { kind, namespace: None, name, uid: None };
    let heal = format!("podium fault heal {}", target.name);
    let resume = Action::new(&target, format!("resume {what}"), heal, Mutation::delete(&target));
    let pause = format!("podium fault pause {argument} --name {}", target.name);
    Action::new(&target, format!("pause {what}"), pause, Mutation::create(&target, body)).undone_by(resume)
}

/// Makes a paused controller reconcile one key, or the next; reports the result.
pub fn step(target: &ObjectRef, key: Option<String>) -> Effect {
    let target = target.clone();
    Effect::task("step", move |out| async move { drop(take_step(&out, &target, key).await) })
}

/// As [`step`], for a task that needs the result.
pub async fn take_step(out: &Outbox, target: &ObjectRef, key: Option<String>) -> Option<KeyStatus> {
    // The action itself reports a refusal.
    let answer = out.act(step_action(target, key)).await.ok()?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the step was taken even if another version describes it otherwise"
    )]
    let done: KeyStatus = base::json::from_value(answer["status"].clone()).unwrap_or_default();
    let took = done.worked_microseconds.map(|micros| format!(" in {}", format_micros(micros)));
    let text = format!("{}: {}{}", target.name, done.summary(), took.unwrap_or_default());
    let is_error = matches!(done.result.as_str(), "Failed" | "Panicked");
    out.toast(if is_error { Toast::failed(text) } else { Toast::done(text) }).await;
    Some(done)
}

fn step_action(target: &ObjectRef, key: Option<String>) -> Action {
    let path = format!("/apis/{}/{PLURAL}/{}/step", target.kind.api_version(), target.name);
    let of = key.as_ref().map(|key| format!(" of {key}")).unwrap_or_default();
    let body = key.as_ref().map_or_else(|| json!({}), |key| json!({"spec": {"key": key}}));
    let body = body.to_string().replace('\'', r"'\''");
    Action::new(
        target,
        format!("step controller {}{of}", target.name),
        format!("kubectl create --raw {path} -f - <<< '{body}'"),
        Mutation::Step { target: target.clone(), key },
    )
    .quietly()
}
