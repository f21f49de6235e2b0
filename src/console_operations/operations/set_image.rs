//! Sets images: one field per container of the template, or of a pod.

use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};

use crate::dialog::{Field, FieldId, Fields, Text};
use crate::effect::{Dialog, Effect};
use console_data::action::{Action, Mutation, PatchKind};
use console_data::context::Context;
use console_data::resource::ObjectRef;
use console_data::template;
use object::well_known::annotation::CHANGE_CAUSE;

/// Shows the dialog with an image for each container.
pub fn show_dialog(cx: &Context<'_>, target: &ObjectRef) -> Vec<Effect> {
    let containers = containers(cx, target);
    if containers.is_empty() {
        return vec![Effect::failed(format!(
            "{}: its containers are not known here; edit it with <e>",
            target.describe()
        ))];
    }
    let is_pod = target.kind.is::<Pod>();
    let owner = pod_of(cx, target)
        .filter(|pod| pod.metadata.owner_references.as_ref().is_some_and(|owners| !owners.is_empty()));
    let before: Vec<(String, String)> =
        containers.iter().map(|c| (c.name.clone(), c.image.clone().unwrap_or_default())).collect();
    let mut fields = Fields::default();
    let typed: Vec<FieldId<Text>> = before
        .iter()
        .map(|(name, image)| fields.add(Field::text(name, image.clone()).hint("→ to edit")))
        .collect();
    let target = target.clone();
    let title = format!("Set image of {}", target.describe());
    let dialog = Dialog::new(title, "Set image", move |dialog, cx| {
        // Another client may have changed an image meanwhile.
        let live = self::containers(cx, &target);
        let mut changed: Vec<(String, String, String)> = Vec::new();
        let mut overtaken = Vec::new();
        for ((name, stood), field) in before.iter().zip(&typed) {
            let new = dialog.text(*field).trim().to_owned();
            if new.is_empty() && new != *stood {
                return Err(format!("{name}: the image is required"));
            }
            if new.contains(char::is_whitespace) && new != *stood {
                return Err(format!("{name}: the name of an image has no spaces"));
            }
            let one = live.iter().find(|container| container.name == *name);
            let old = one.map_or_else(|| stood.clone(), |one| one.image.clone().unwrap_or_default());
            match () {
                () if new == old => {}
                () if new == *stood => overtaken.push((name.clone(), old, new)),
                () => changed.push((name.clone(), old, new)),
            }
        }
        // An untouched field is not a request to restore the earlier image, unless a second Enter confirms it.
        if changed.is_empty() && !overtaken.is_empty() {
            let parts = overtaken.iter().map(|(name, old, _)| format!("{name} has {old} now"));
            let message = format!(
                "{}: press Enter again to set the image shown here",
                parts.collect::<Vec<_>>().join(", ")
            );
            if dialog.error.as_ref() != Some(&message) {
                return Err(message);
            }
            changed = overtaken;
        }
        if changed.is_empty() {
            return Ok(vec![Effect::info("nothing to change")]);
        }
        Ok(vec![Effect::Act(Box::new(image_action(&target, &changed)))])
    })
    .fields(fields);
    let dialog = match (is_pod, owner) {
        (false, _) => dialog,
        (true, None) => dialog.line("The container restarts with it."),
        (true, Some(_)) => dialog.warning(
            "The container restarts with it. Its owner's template does not change: the next pod has the old image.",
        ),
    };
    vec![Effect::dialog(dialog)]
}

fn image_action(target: &ObjectRef, changed: &[(String, String, String)]) -> Action {
    let forward: Vec<(&str, &str)> =
        changed.iter().map(|(name, _, new)| (name.as_str(), new.as_str())).collect();
    let back: Vec<(&str, &str)> =
        changed.iter().map(|(name, old, _)| (name.as_str(), old.as_str())).collect();
    images(target, &forward).undone_by(images(target, &back))
}

fn images(target: &ObjectRef, images: &[(&str, &str)]) -> Action {
    let list: Vec<Value> = images.iter().map(|(name, image)| json!({"name": name, "image": image})).collect();
    let assignments: Vec<String> = images.iter().map(|(name, image)| format!("{name}={image}")).collect();
    let kubectl = format!("kubectl set image {} {}", target.kubectl_object(), assignments.join(" "));
    if target.kind.is::<Pod>() {
        return patch(target, kubectl, &assignments, json!({"spec": {"containers": list}}));
    }
    // As `--record` did; otherwise the new revision would be listed under the previous change cause.
    let cause = json!({"annotations": {CHANGE_CAUSE: &kubectl}});
    let body = json!({"metadata": cause, "spec": {"template": {"spec": {"containers": list}}}});
    patch(target, kubectl, &assignments, body)
}

fn patch(target: &ObjectRef, kubectl: String, assignments: &[String], body: Value) -> Action {
    let title = format!("set image of {} {}", target.describe(), assignments.join(" "));
    Action::new(target, title, kubectl, Mutation::patch(target, PatchKind::Strategic, body))
}

fn pod_of<'a>(cx: &Context<'a>, target: &ObjectRef) -> Option<&'a Pod> {
    target.uid.as_ref().filter(|_| target.kind.is::<Pod>()).and_then(|uid| cx.stores.pods().get(uid))
}

fn containers(cx: &Context<'_>, target: &ObjectRef) -> Vec<Container> {
    if let Some(pod) = pod_of(cx, target) {
        return pod.spec.as_ref().map(|spec| spec.containers.clone()).unwrap_or_default();
    }
    let spec = template::object(cx.stores, target).as_ref().and_then(template::pod_spec);
    spec.map(|spec| spec.containers).unwrap_or_default()
}
