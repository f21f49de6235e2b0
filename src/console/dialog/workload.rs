//! Restart and set image.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Container;
use serde_json::{Value, json};

use super::{Dialog, Field, FieldId, Fields};
use crate::console::action::{Action, Mutation, PatchKind};
use crate::console::context::Context;
use crate::console::effect::Effect;
use crate::console::resource::ObjectRef;
use crate::console::rollout::actions;
use crate::console::template;

/// Asks before restarting; where one of them cannot be restarted, says why and asks nothing.
pub fn restart(cx: &Context<'_>, targets: &[ObjectRef]) -> Vec<Effect> {
    let deployment = |target: &ObjectRef| {
        let namespace = target.namespace.as_deref().filter(|_| target.kind.is::<Deployment>())?;
        cx.stores.deployments().by_name(namespace, &target.name)
    };
    for target in targets {
        if deployment(target).is_some_and(actions::is_paused) {
            return vec![Effect::failed(format!("{}: {}", target.describe(), actions::PAUSED))];
        }
    }
    let title = match targets {
        [one] => format!("Restart {}", one.describe()),
        many => format!("Restart {} workloads", many.len()),
    };
    let restarted = targets.to_vec();
    let mut dialog = Dialog::new(title, "Restart", move |_, cx| {
        let restart = |target| Effect::Act(Box::new(actions::restart(target, cx.now)));
        Ok(restarted.iter().map(restart).collect())
    });
    if targets.len() > 1 {
        for target in targets.iter().take(8) {
            dialog = dialog.line(target.describe());
        }
    }
    let pods = match targets {
        [one] => object(cx, one).as_ref().and_then(template::replicas),
        _ => None,
    };
    let pods = pods.map_or_else(|| "pods".to_owned(), |pods| format!("{pods} pods"));
    dialog = dialog.line(format!("Its {pods} are replaced step by step, as its strategy allows."));
    vec![Effect::Ask(Box::new(dialog))]
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
    let mut fields = Fields::default();
    let typed: Vec<FieldId> =
        before.iter().map(|(name, image)| fields.add(Field::text(name, image.clone()))).collect();
    let target = target.clone();
    let title = format!("Set image of {}", target.describe());
    let dialog = Dialog::new(title, "Set image", move |dialog, _| {
        let changed: Vec<(String, String, String)> = before
            .iter()
            .zip(&typed)
            .map(|((name, old), field)| (name.clone(), old.clone(), dialog.text(*field).trim().to_owned()))
            .filter(|(_, old, new)| old != new)
            .collect();
        if let Some((name, ..)) = changed.iter().find(|(.., new)| new.is_empty()) {
            return Err(format!("{name}: which image?"));
        }
        if changed.is_empty() {
            return Ok(vec![Effect::Toast(crate::console::toast::Toast::note("nothing to change"))]);
        }
        Ok(vec![Effect::Act(Box::new(image_action(&target, &changed)))])
    })
    .fields(fields);
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
        takes_back: None,
        quiet: false,
    }
}

fn containers(cx: &Context<'_>, target: &ObjectRef) -> Vec<Container> {
    let spec = object(cx, target).as_ref().and_then(template::pod_spec);
    spec.map(|spec| spec.containers).unwrap_or_default()
}

/// The object as the console has it, where it has all of it.
fn object(cx: &Context<'_>, target: &ObjectRef) -> Option<Value> {
    Some(cx.stores.object(&target.kind.resource, target.uid.as_ref()?)?.to_json())
}
