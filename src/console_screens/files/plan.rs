//! The preview of applying manifests, object by object, from a server-side dry run; and the dialog that confirms it.
//!
//! Uses server-side apply with its own field manager: fields of other managers are not taken over unless the user
//! chooses so.

use std::collections::BTreeSet;
use std::path::Path;

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use manifest::Document;
use serde_json::Value;

use base::sort::SliceOrder;
use console_data::action::{Action, FIELD_MANAGER, Mutation, dry_run, error_text};
use console_data::changes::editable;
use console_data::context::Context;
use console_data::resource::{ObjectRef, Uid};
use console_data::scope::Scope;
use console_operations::dialog::{Field, Fields};
use console_operations::effect::{Dialog, Effect};
use console_toolkit::text::fit;

/// Maximum number of objects; for more, `podium apply` or kubectl is the right tool, because a dialog about them would
/// not be readable.
const MAX_OBJECTS: usize = 500;
/// Above this number of objects, a summary precedes the list.
const NAMED: usize = 10;

/// The predicted result for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ApplyOutcome {
    Created,
    Changed,
    /// Unchanged.
    Same,
    /// Other managers own some of its fields with other values: the managers and the fields.
    Contested(String),
    /// The server rejects it, or the request failed.
    Refused(String),
}

/// An object of a manifest with its predicted result.
#[derive(Clone, Debug)]
pub struct PlannedObject {
    pub(super) target: ObjectRef,
    pub(super) body: Value,
    pub(super) outcome: ApplyOutcome,
}

/// Returns the objects of the documents, each in the namespace that it names or in the current one.
pub(super) fn plan_targets(
    cx: &Context<'_>,
    documents: Vec<Document>,
    errors: &mut Vec<String>,
) -> Vec<(ObjectRef, Value)> {
    if documents.len() > MAX_OBJECTS {
        errors.push(format!("{} objects are too many for a dialog; use podium apply -f", documents.len()));
        return Vec::new();
    }
    let shown = match cx.scope {
        Scope::One(name) => name.as_str(),
        Scope::All => "default",
    };
    let mut targets = Vec::new();
    for document in documents {
        let text = |field: &str| {
            document.value.pointer(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
        let Some(known) = cx.catalogue.by_gvk(&version, &kind) else {
            errors
                .push(document.error("kind", format!("this server has no {kind} of {version}")).to_string());
            continue;
        };
        if name.is_empty() {
            errors.push(document.error("metadata", "the name is missing").to_string());
            continue;
        }
        let own = Some(text("/metadata/namespace")).filter(|own| !own.is_empty());
        let namespace = known.namespaced.then(|| own.unwrap_or_else(|| shown.to_owned()));
        let mut body = document.value;
        if let (Some(namespace), Some(metadata)) = (&namespace, body.get_mut("metadata")) {
            metadata["namespace"] = namespace.as_str().into();
        }
        targets.push((ObjectRef { kind: known.clone(), namespace, name, uid: None }, body));
    }
    targets
}

/// Sends a dry run for each object.
pub(super) async fn try_all(client: &Client, targets: Vec<(ObjectRef, Value)>) -> Vec<PlannedObject> {
    let mut planned = Vec::new();
    let mut new_namespaces = BTreeSet::new();
    for (mut target, body) in targets {
        // A dry run does not create namespaces, so that objects in a new namespace cannot be tried.
        if target.namespace.as_ref().is_some_and(|name| new_namespaces.contains(name)) {
            planned.push(PlannedObject { target, body, outcome: ApplyOutcome::Created });
            continue;
        }
        let live = target.api(client.clone()).get_opt(&target.name).await;
        let outcome = match live {
            Err(error) => ApplyOutcome::Refused(error_text(&error)),
            Ok(live) => {
                let live = live.map(|live| {
                    target.uid = live.metadata.uid.as_deref().map(Uid::from);
                    object::json_of(live)
                });
                try_one(client, &target, &body, live.as_ref()).await
            }
        };
        if outcome == ApplyOutcome::Created && target.kind.is::<Namespace>() {
            new_namespaces.insert(target.name.clone());
        }
        planned.push(PlannedObject { target, body, outcome });
    }
    planned
}

async fn try_one(client: &Client, target: &ObjectRef, body: &Value, live: Option<&Value>) -> ApplyOutcome {
    let apply = Mutation::Apply { target: target.clone(), body: body.clone(), force: false };
    match (dry_run(client, &apply).await, live) {
        (Err(kube::Error::Api(status)), Some(_)) if status.code == 409 => {
            ApplyOutcome::Contested(status.message.clone())
        }
        (Err(error), _) => ApplyOutcome::Refused(error_text(&error)),
        (Ok(_), None) => ApplyOutcome::Created,
        (Ok(Some(then)), Some(live)) if editable::strip(&then) == editable::strip(live) => ApplyOutcome::Same,
        (Ok(_), Some(_)) => ApplyOutcome::Changed,
    }
}

/// Looks up the objects; returns those that exist and the errors of failed requests.
pub(super) async fn find_all(
    client: &Client,
    targets: Vec<(ObjectRef, Value)>,
) -> (Vec<ObjectRef>, Vec<String>) {
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    // Objects that others depend on are deleted last.
    for (mut target, _) in targets.into_iter().rev() {
        match target.api(client.clone()).get_opt(&target.name).await {
            Ok(None) => {}
            Ok(Some(live)) => {
                target.uid = live.metadata.uid.as_deref().map(Uid::from);
                found.push(target);
            }
            Err(error) => errors.push(format!("{}: {}", target.describe(), error_text(&error))),
        }
    }
    (found, errors)
}

/// Formats errors for a toast; only the first ones.
pub(super) fn listed(errors: &[String]) -> String {
    let mut lines: Vec<String> = errors.iter().take(5).cloned().collect();
    if errors.len() > 5 {
        lines.push(format!("… and {} more", errors.len() - 5));
    }
    lines.join("\n")
}

/// Returns the dialog that confirms the apply, or a toast if there is nothing to apply.
pub(super) fn confirm_apply(path: &Path, planned: Vec<PlannedObject>) -> Vec<Effect> {
    if planned.iter().all(|one| one.outcome == ApplyOutcome::Same) {
        let text = match planned.as_slice() {
            [one] => format!("{} is unchanged", one.target.describe()),
            all => format!("all {} objects are unchanged", all.len()),
        };
        return vec![Effect::info(text)];
    }
    if planned.iter().all(|one| matches!(one.outcome, ApplyOutcome::Refused(_) | ApplyOutcome::Same)) {
        let refusal = |one: &PlannedObject| match &one.outcome {
            ApplyOutcome::Refused(why) => Some(format!("{}: {why}", one.target.describe())),
            _ => None,
        };
        return vec![Effect::failed(listed(&planned.iter().filter_map(refusal).collect::<Vec<_>>()))];
    }
    vec![Effect::dialog(dialog(path, planned))]
}

fn dialog(path: &Path, planned: Vec<PlannedObject>) -> Dialog {
    let name =
        path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
    let contested = planned.iter().any(|one| matches!(one.outcome, ApplyOutcome::Contested(_)));
    let mut lines = Vec::new();
    // Warnings about which the user must decide come before the list, however long it is.
    let mut warnings = Vec::new();
    // Unchanged objects come last.
    let mut sorted: Vec<&PlannedObject> = planned.iter().collect();
    sorted.order_by_key(|one| one.outcome == ApplyOutcome::Same);
    if planned.len() > NAMED {
        lines.push(summary(&planned));
    }
    for one in sorted {
        let object = one.target.describe();
        match &one.outcome {
            ApplyOutcome::Created => lines.push(format!("+ {object}  is created")),
            ApplyOutcome::Changed => lines.push(format!("~ {object}  is changed")),
            ApplyOutcome::Same => lines.push(format!("  {object}  is unchanged")),
            ApplyOutcome::Contested(why) => warnings.push(format!("{object}: {}", fit(why, 300))),
            ApplyOutcome::Refused(why) => warnings.push(format!("{object} is skipped: {}", fit(why, 300))),
        }
    }
    let changes =
        planned.iter().any(|one| matches!(one.outcome, ApplyOutcome::Changed | ApplyOutcome::Contested(_)));
    if changes {
        let undo = "The journal cannot undo this; :versions has the earlier state.".to_owned();
        // The note is below a list that fits on one page, and above a longer list.
        lines.insert(if planned.len() > NAMED { 0 } else { lines.len() }, undo);
    }
    let mut fields = Fields::default();
    let force =
        contested.then(|| fields.add(Field::switch("take over").hint("fields that other managers own")));
    let path = path.to_owned();
    let mut dialog = Dialog::new(format!("Apply {name}"), "Apply", move |dialog, _| {
        let force = force.is_some_and(|force| dialog.is_on(force));
        let action = action(&path, &planned, force)
            .ok_or("nothing left to apply: other managers own these fields; take over, or cancel")?;
        Ok(vec![Effect::Act(Box::new(action))])
    });
    for warning in warnings {
        dialog = dialog.warning(warning);
    }
    dialog = dialog.lines(lines);
    if contested { dialog.fields(fields).careful() } else { dialog }
}

/// Returns `16 objects: 13 created, 3 unchanged`.
fn summary(planned: &[PlannedObject]) -> String {
    let count = |is: fn(&ApplyOutcome) -> bool| planned.iter().filter(|one| is(&one.outcome)).count();
    let counts = [
        (count(|fate| *fate == ApplyOutcome::Created), "created"),
        (count(|fate| *fate == ApplyOutcome::Changed), "changed"),
        (count(|fate| *fate == ApplyOutcome::Same), "unchanged"),
        (count(|fate| matches!(fate, ApplyOutcome::Contested(_))), "in conflict"),
        (count(|fate| matches!(fate, ApplyOutcome::Refused(_))), "refused"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    format!("{} objects: {}", planned.len(), counts.collect::<Vec<_>>().join(", "))
}

/// Applies the objects that the server accepts. If all of them are new, undo deletes them.
fn action(path: &Path, planned: &[PlannedObject], force: bool) -> Option<Action> {
    let goes = |one: &&PlannedObject| match one.outcome {
        ApplyOutcome::Created | ApplyOutcome::Changed => true,
        ApplyOutcome::Contested(_) => force,
        ApplyOutcome::Same | ApplyOutcome::Refused(_) => false,
    };
    let goes: Vec<&PlannedObject> = planned.iter().filter(goes).collect();
    let first = goes.first()?;
    let file = path.display();
    let namespace = first.target.kubectl_namespace();
    let taking = if force { " --force-conflicts" } else { "" };
    let apply =
        |one: &&PlannedObject| Mutation::Apply { target: one.target.clone(), body: one.body.clone(), force };
    let count = match goes.len() {
        1 => first.target.describe(),
        many => format!("{many} objects"),
    };
    let name = path.file_name().map_or_else(|| file.to_string(), |name| name.to_string_lossy().into_owned());
    let target = ObjectRef { uid: None, ..first.target.clone() };
    let act = |verb: &str, kubectl: String, mutations: Vec<Mutation>| {
        Action::new(&target, format!("{verb} {name}: {count}"), kubectl, Mutation::All(mutations))
    };
    let new = goes.iter().all(|one| one.outcome == ApplyOutcome::Created);
    let delete = |one: &&PlannedObject| Mutation::delete(&one.target);
    let back = act(
        "delete",
        format!("kubectl delete{namespace} -f {file}"),
        goes.iter().rev().map(delete).collect(),
    );
    let applied = act(
        "apply",
        format!("kubectl apply --server-side --field-manager={FIELD_MANAGER}{taking}{namespace} -f {file}"),
        goes.iter().map(apply).collect(),
    );
    Some(applied.undone_by(new.then_some(back)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use console_data::builtin_kinds;
    use console_operations::dialog::Note;
    use k8s_openapi::api::apps::v1::Deployment;
    use serde_json::json;

    fn planned(name: &str, outcome: ApplyOutcome) -> PlannedObject {
        let kind = builtin_kinds::kind::<Deployment>();
        let target =
            ObjectRef { kind, namespace: Some("default".to_owned()), name: name.to_owned(), uid: None };
        PlannedObject { target, body: json!({}), outcome }
    }

    #[test]
    fn every_object_is_named_and_what_asks_for_a_decision_stands_first_con_17() {
        let mut all: Vec<PlannedObject> =
            (0..40).map(|number| planned(&format!("d-{number}"), ApplyOutcome::Created)).collect();
        all.push(planned("same", ApplyOutcome::Same));
        all.push(planned("refused", ApplyOutcome::Refused("no".into())));
        let confirmation = dialog(Path::new("/m"), all);
        let texts: Vec<&str> = confirmation
            .text
            .iter()
            .map(|note| match note {
                Note::Plain(text) | Note::Warning(text) => text.as_str(),
            })
            .collect();
        assert_eq!(texts[0], "Deployment default/refused is skipped: no");
        assert_eq!(texts[1], "42 objects: 40 created, 1 unchanged, 1 refused");
        for number in 0..40 {
            let line = format!("+ Deployment default/d-{number}  is created");
            assert!(texts.contains(&line.as_str()), "{line} is not in {texts:?}");
        }
        assert_eq!(texts.last(), Some(&"  Deployment default/same  is unchanged"));
    }

    #[test]
    fn only_what_is_new_can_be_taken_back_and_nothing_is_taken_over_unasked_con_17() {
        let path = Path::new("/m/web.yaml");
        let new = [
            planned("a", ApplyOutcome::Created),
            planned("b", ApplyOutcome::Created),
            planned("c", ApplyOutcome::Same),
        ];
        let action_of_new = action(path, &new, false).expect("something to do");
        assert_eq!(action_of_new.title, "apply web.yaml: 2 objects");
        let back = action_of_new.inverse.expect("it can be taken back");
        let Mutation::All(all) = &back.mutation else { panic!("{:?}", back.mutation) };
        let names: Vec<&str> = all
            .iter()
            .map(|one| match one {
                Mutation::Delete { target, .. } => target.name.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(names, ["b", "a"], "the last first, and not what was there before");

        let mixed = [planned("a", ApplyOutcome::Created), planned("b", ApplyOutcome::Changed)];
        assert!(action(path, &mixed, false).expect("something to do").inverse.is_none());

        let contested = [planned("a", ApplyOutcome::Contested("conflict".into()))];
        assert!(action(path, &contested, false).is_none(), "not unasked");
        let taken = action(path, &contested, true).expect("requested");
        assert!(taken.kubectl.contains(" --force-conflicts "), "{}", taken.kubectl);
        assert!(matches!(&taken.mutation, Mutation::All(all)
            if matches!(all.as_slice(), [Mutation::Apply { force: true, .. }])));
    }
}
