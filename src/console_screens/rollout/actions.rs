//! The actions of the rollout screen: undo, pause and resume, as data that the console executes.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use serde_json::{Map, Value, json};

use super::history::without_hash;
use console_data::action::{Action, Mutation, PatchKind};
use console_data::resource::ObjectRef;
use console_operations::operations::restart::is_paused;
use object::ObjectPart as _;
use object::well_known::annotation::{
    DEPLOYMENT_DESIRED_REPLICAS, DEPLOYMENT_MAX_REPLICAS, DEPLOYMENT_REVISION, DEPLOYMENT_REVISION_HISTORY,
    LAST_APPLIED,
};

/// System annotations that an undo leaves unchanged on the Deployment (kubectl's `annotationsToSkip`).
const SKIPPED: [&str; 7] = [
    LAST_APPLIED,
    DEPLOYMENT_REVISION,
    DEPLOYMENT_REVISION_HISTORY,
    DEPLOYMENT_DESIRED_REPLICAS,
    DEPLOYMENT_MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
    "deprecated.daemonset.template.generation",
];

/// Returns the JSON patch that gives a Deployment the template of a ReplicaSet, as `kubectl rollout undo` does; errors
/// have kubectl's wording.
pub(crate) fn undo_patch(deployment: &Deployment, set: &ReplicaSet) -> Result<Value, String> {
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    if is_paused(deployment) {
        return Err(format!(
            "you cannot rollback a paused deployment; resume it first with 'kubectl rollout resume \
             deployment/{name}' and try again"
        ));
    }
    let template = set.spec.template.clone();
    let Some(template) = template.map(without_hash) else {
        return Err("the revision has no template".to_owned());
    };
    let mut annotations = Map::new();
    for (key, value) in deployment.metadata.annotations.iter().flatten() {
        if SKIPPED.contains(&key.as_str()) {
            annotations.insert(key.clone(), json!(value));
        }
    }
    for (key, value) in set.metadata.annotations.iter().flatten() {
        if !SKIPPED.contains(&key.as_str()) {
            annotations.insert(key.clone(), json!(value));
        }
    }
    Ok(json!([
        { "op": "replace", "path": "/spec/template", "value": template.to_value() },
        { "op": "add", "path": "/metadata/annotations", "value": annotations },
    ]))
}

/// Rolls back to a revision. The inverse restores the template that is current now; by then the server has it as the
/// previous revision, so that `kubectl rollout undo` does the same.
pub(crate) fn undo(
    target: &ObjectRef,
    deployment: &Deployment,
    set: &ReplicaSet,
    number: i64,
) -> Result<Action, String> {
    let body = undo_patch(deployment, set)?;
    let template = &deployment.spec.template;
    let back = json!([
        { "op": "replace", "path": "/spec/template", "value": template.to_value() },
    ]);
    let action = |title: String, kubectl: String, body: Value| {
        Action::new(target, title, kubectl, Mutation::patch(target, PatchKind::Json, body))
    };
    let kubectl = format!("kubectl rollout undo{} deployment/{}", target.kubectl_namespace(), target.name);
    let title = format!("undo {} to revision {number}", target.describe());
    let to_revision = format!("{kubectl} --to-revision={number}");
    let inverse = action(format!("revert the undo of {}", target.describe()), kubectl, back);
    // Redo replaces only the template: the annotations would be those of an outdated revision.
    let forth = json!([{ "op": "replace", "path": "/spec/template", "value": body[0]["value"] }]);
    let redo = action(title.clone(), to_revision.clone(), forth).undone_by(inverse.clone());
    Ok(action(title, to_revision, body).undone_by(inverse.undone_by(redo)))
}

/// Pauses or resumes the rollout.
pub(crate) fn pause(target: &ObjectRef, paused: bool) -> Action {
    let one = |paused: bool| {
        let verb = if paused { "pause" } else { "resume" };
        let body = json!({ "spec": { "paused": if paused { json!(true) } else { Value::Null } } });
        Action::new(
            target,
            format!("{verb} {}", target.describe()),
            format!("kubectl rollout {verb}{} deployment/{}", target.kubectl_namespace(), target.name),
            Mutation::patch(target, PatchKind::Strategic, body),
        )
    };
    one(paused).undone_by(one(!paused))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(paused: bool) -> Deployment {
        serde_json::from_value(json!({
            "metadata": { "name": "web", "annotations": { DEPLOYMENT_REVISION: "4", "mine": "old",
                "kubectl.kubernetes.io/last-applied-configuration": "{}" } },
            "spec": { "paused": paused, "selector": {}, "template": {} },
        }))
        .unwrap()
    }

    /// DEP-4: an undo treats each annotation as kubectl does.
    #[test]
    fn an_undo_takes_the_template_and_leaves_the_systems_annotations() {
        let set: ReplicaSet = serde_json::from_value(json!({
            "metadata": { "annotations": { DEPLOYMENT_REVISION: "3", "mine": "new", "kubernetes.io/change-cause": "why" } },
            "spec": { "selector": {}, "template": { "metadata": { "labels": { "app": "web",
                "pod-template-hash": "abc" } } } },
        }))
        .unwrap();
        let patch = undo_patch(&deployment(false), &set).unwrap();
        assert_eq!(
            patch,
            json!([
                { "op": "replace", "path": "/spec/template",
                  "value": { "metadata": { "labels": { "app": "web" } } } },
                { "op": "add", "path": "/metadata/annotations", "value": {
                    DEPLOYMENT_REVISION: "4", "kubectl.kubernetes.io/last-applied-configuration": "{}",
                    "mine": "new", "kubernetes.io/change-cause": "why" } },
            ])
        );
        assert_eq!(
            undo_patch(&deployment(true), &set).unwrap_err(),
            "you cannot rollback a paused deployment; resume it first with 'kubectl rollout resume \
             deployment/web' and try again"
        );
    }
}
