//! Restart and set image.

use k8s_openapi::api::core::v1::Container;
use serde_json::{Value, json};

use super::{Dialog, Field};
use crate::console::action::{Action, Mutation, PatchKind};
use crate::console::context::Context;
use crate::console::effect::Effect;
use crate::console::resource::{ObjectRef, Watched};

/// Asks before restarting.
pub fn restart(targets: Vec<ObjectRef>) -> Dialog {
    let title = match targets.as_slice() {
        [one] => format!("Restart {}", one.describe()),
        many => format!("Restart {} workloads", many.len()),
    };
    let lines: Vec<String> = targets.iter().map(ObjectRef::describe).collect();
    let mut dialog = Dialog::new(title, "Restart", move |_, cx| {
        let now = cx.now.to_string();
        Ok(targets.iter().map(|target| Effect::Act(Box::new(restart_action(target, &now)))).collect())
    });
    for line in lines.into_iter().take(8) {
        dialog = dialog.line(line);
    }
    dialog.focus = super::Focus::Submit;
    dialog.line("Its pods are replaced step by step, as its strategy allows.")
}

/// The annotation on the template that `kubectl rollout restart` sets.
pub fn restart_action(target: &ObjectRef, now: &str) -> Action {
    let stamp = json!({"kubectl.kubernetes.io/restartedAt": now});
    Action {
        title: format!("restart {}", target.describe()),
        target: target.clone(),
        kubectl: format!(
            "kubectl rollout restart {}/{}{}",
            target.kind.kubectl_name(),
            target.name,
            target.kubectl_namespace()
        ),
        mutation: Mutation::Patch {
            target: target.clone(),
            subresource: None,
            kind: PatchKind::Strategic,
            body: json!({"spec": {"template": {"metadata": {"annotations": stamp}}}}),
        },
        inverse: None,
        quiet: false,
    }
}

/// Asks for an image for each container.
pub fn set_image(cx: &Context<'_>, target: &ObjectRef) -> Vec<Effect> {
    let containers = containers(cx, target);
    if containers.is_empty() {
        return vec![Effect::failed(format!(
            "{}: its containers are not known here; edit it with <e>",
            target.describe()
        ))];
    }
    let before: Vec<(String, String)> =
        containers.iter().map(|c| (c.name.clone(), c.image.clone().unwrap_or_default())).collect();
    let fields: Vec<Field> = before.iter().map(|(name, image)| Field::text(name, image.clone())).collect();
    let target = target.clone();
    let title = format!("Set image of {}", target.describe());
    let mut dialog = Dialog::new(title, "Set image", move |dialog, _| {
        let changed: Vec<(String, String, String)> = before
            .iter()
            .map(|(name, old)| (name.clone(), old.clone(), dialog.text(name).trim().to_owned()))
            .filter(|(_, old, new)| old != new)
            .collect();
        if let Some((name, ..)) = changed.iter().find(|(.., new)| new.is_empty()) {
            return Err(format!("{name}: which image?"));
        }
        if changed.is_empty() {
            return Ok(vec![Effect::Toast(crate::console::toast::Toast::note("nothing to change"))]);
        }
        Ok(vec![Effect::Act(Box::new(image_action(&target, &changed)))])
    });
    for field in fields {
        dialog = dialog.field(field);
    }
    vec![Effect::Ask(Box::new(dialog))]
}

fn image_action(target: &ObjectRef, changed: &[(String, String, String)]) -> Action {
    let forward: Vec<(&str, &str)> =
        changed.iter().map(|(name, _, new)| (name.as_str(), new.as_str())).collect();
    let back: Vec<(&str, &str)> =
        changed.iter().map(|(name, old, _)| (name.as_str(), old.as_str())).collect();
    let mut action = images(target, &forward);
    action.inverse = Some(Box::new(images(target, &back)));
    action
}

fn images(target: &ObjectRef, images: &[(&str, &str)]) -> Action {
    let list: Vec<Value> = images.iter().map(|(name, image)| json!({"name": name, "image": image})).collect();
    let words: Vec<String> = images.iter().map(|(name, image)| format!("{name}={image}")).collect();
    let kubectl = format!(
        "kubectl set image {}/{}{} {}",
        target.kind.kubectl_name(),
        target.name,
        target.kubectl_namespace(),
        words.join(" ")
    );
    // As `--record` did: else the new revision would be listed under the reason of the one before.
    let cause = json!({"annotations": {"kubernetes.io/change-cause": &kubectl}});
    Action {
        title: format!("set image of {} {}", target.describe(), words.join(" ")),
        target: target.clone(),
        kubectl,
        mutation: Mutation::Patch {
            target: target.clone(),
            subresource: None,
            kind: PatchKind::Strategic,
            body: json!({"metadata": cause, "spec": {"template": {"spec": {"containers": list}}}}),
        },
        inverse: None,
        quiet: false,
    }
}

fn containers(cx: &Context<'_>, target: &ObjectRef) -> Vec<Container> {
    let template = target.uid.as_ref().and_then(|uid| match target.kind.watched? {
        Watched::Deployments => cx.stores.deployments.get(uid)?.spec.template.spec.clone(),
        Watched::ReplicaSets => cx.stores.replica_sets.get(uid)?.spec.template.as_ref()?.spec.clone(),
        _ => None,
    });
    template.map(|spec| spec.containers).unwrap_or_default()
}
