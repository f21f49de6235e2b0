//! Restarts workloads: one implementation for all views (`kubectl rollout restart`).

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;

use super::delete::listing;
use super::title;
use crate::effect::{Dialog, Effect};
use console_data::action::{Action, Mutation, PatchKind};
use console_data::context::Context;
use console_data::resource::ObjectRef;
use console_data::template;
use object::well_known::annotation;

/// Shows the dialog for a restart; if one of the objects cannot be restarted, shows the reason instead.
pub fn show_dialog(cx: &Context<'_>, targets: &[ObjectRef]) -> Vec<Effect> {
    let deployment = |target: &ObjectRef| {
        let namespace = target.namespace.as_deref().filter(|_| target.kind.is::<Deployment>())?;
        cx.stores.deployments().by_name(namespace, &target.name)
    };
    for target in targets {
        if deployment(target).is_some_and(is_paused) {
            return vec![Effect::failed(format!("{}: {}", target.describe(), PAUSED))];
        }
    }
    let restarted = targets.to_vec();
    let dialog = Dialog::new(title("Restart", targets, "workloads"), "Restart", move |_, cx| {
        let restart = |target| Effect::Act(Box::new(action(target, cx.now)));
        Ok(restarted.iter().map(restart).collect())
    });
    let effect = match targets {
        [one] => {
            let pods = match template::object(cx.stores, one).as_ref().and_then(template::replicas) {
                Some(1) => "pod is".to_owned(),
                Some(pods) => format!("{pods} pods are"),
                None => "pods are".to_owned(),
            };
            format!("Its {pods} replaced step by step, as its strategy allows.")
        }
        _ => "Their pods are replaced step by step, as their strategy allows.".to_owned(),
    };
    vec![Effect::dialog(dialog.lines(listing(targets)).line(effect))]
}

/// Returns whether rollouts of the Deployment are paused.
pub fn is_paused(deployment: &Deployment) -> bool {
    deployment.spec.paused == Some(true)
}

/// The reason why a paused Deployment is not restarted, in kubectl's words.
const PAUSED: &str = "can't restart paused deployment (run rollout resume first)";

/// Creates the action that restarts every pod. It sets the annotation on the template that `kubectl rollout restart`
/// sets, with the same precision of a second.
pub(crate) fn action(target: &ObjectRef, now: Timestamp) -> Action {
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let stamp = json!({annotation::RESTARTED_AT: now});
    let body = json!({"spec": {"template": {"metadata": {"annotations": stamp}}}});
    Action::new(
        target,
        format!("restart {}", target.describe()),
        format!("kubectl rollout restart {}", target.kubectl_object()),
        Mutation::patch(target, PatchKind::Strategic, body),
    )
}
