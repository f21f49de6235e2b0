//! The revisions of a Deployment and the differences of their templates.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use jiff::Timestamp;

use base::sort::{CollectMap, SliceOrder};
use console_data::changes::merge::{self, Change, plain};
use console_toolkit::difference::{LineChange, difference};
use console_toolkit::text::fit;
use manifest::to_yaml;
use object::ObjectPart as _;
use object::well_known::annotation::{
    CHANGE_CAUSE, DEPLOYMENT_REVISION, DEPLOYMENT_REVISION_HISTORY, RESTARTED_AT,
};
use object::well_known::label::POD_TEMPLATE_HASH;

/// Maximum number of changes listed for a revision, and maximum width of a value.
const CHANGES: usize = 2;
const VALUE: usize = 40;

/// One revision: a ReplicaSet that an undo can return to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Revision {
    pub(crate) number: i64,
    pub(crate) set: String,
    /// The ReplicaSet's creation time.
    pub(crate) created: Option<Timestamp>,
    /// The time when the Deployment got this revision: later than `created` if an undo returned to it.
    pub(crate) since: Option<Timestamp>,
    /// `kubernetes.io/change-cause`, if it was set for this revision. A Deployment copies the annotation to later
    /// revisions, where it is meaningless.
    pub(crate) change_cause: Option<String>,
    /// The difference from the previous revision.
    pub(crate) change: Option<String>,
    /// The images of its containers.
    pub(crate) images: Vec<String>,
    /// True if the Deployment has this template now.
    pub(crate) current: bool,
    /// True if an undo left this revision: the Deployment's current revision is older.
    pub(crate) undone: bool,
}

/// Returns the revisions of a Deployment, newest first.
pub(crate) fn revisions<'a>(
    deployment: &Deployment,
    sets: impl IntoIterator<Item = &'a ReplicaSet>,
) -> Vec<Revision> {
    let sets: Vec<&ReplicaSet> = sets.into_iter().collect();
    let mut revisions: Vec<Revision> = sets
        .iter()
        .filter_map(|set| {
            let number = revision_of(set)?;
            let template = set.spec.template.as_ref();
            Some(Revision {
                number,
                set: set.metadata.name.clone().unwrap_or_default(),
                created: created(set),
                since: since(deployment, set),
                change_cause: own_cause(set, &sets),
                change: before(set, &sets).and_then(|before| {
                    summarize_changes(before.spec.template.as_ref()?, set.spec.template.as_ref()?)
                }),
                images: template.map(images).unwrap_or_default(),
                current: is_current(deployment, set),
                undone: false,
            })
        })
        .collect();
    revisions.order_by_key(|revision| std::cmp::Reverse(revision.number));
    // An undo gives an old ReplicaSet a new number: it undid the revisions of all ReplicaSets that were created later.
    if let Some(made) = revisions.iter().find(|revision| revision.current).and_then(|current| current.created)
    {
        for revision in &mut revisions {
            revision.undone = !revision.current && revision.created.is_some_and(|created| created > made);
        }
    }
    revisions
}

fn created(set: &ReplicaSet) -> Option<Timestamp> {
    set.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

/// Returns the time when the Deployment got this revision: the creation of its ReplicaSet, or, after an undo, the last
/// progress of its rollout. A later change of the replica count does not touch that condition.
fn since(deployment: &Deployment, set: &ReplicaSet) -> Option<Timestamp> {
    let is_back = annotation(set, DEPLOYMENT_REVISION_HISTORY).is_some_and(|history| !history.is_empty());
    if !is_back || !is_current(deployment, set) {
        return created(set);
    }
    let conditions = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut progressing = conditions.filter(|condition| condition.type_.as_deref() == Some("Progressing"));
    let at = progressing.find_map(|condition| condition.last_update_time.as_ref().map(|time| time.0));
    at.max(created(set))
}

/// Returns the change cause of a revision, unless an older ReplicaSet has the same one.
fn own_cause(set: &ReplicaSet, sets: &[&ReplicaSet]) -> Option<String> {
    let cause = annotation(set, CHANGE_CAUSE).filter(|cause| !cause.is_empty())?;
    let is_older = |other: &&&ReplicaSet| match (created(other), created(set)) {
        (Some(a), Some(b)) if a != b => a < b,
        _ => revision_of(other) < revision_of(set),
    };
    let mut older = sets.iter().filter(is_older);
    let is_inherited = older.any(|other| annotation(other, CHANGE_CAUSE).as_ref() == Some(&cause));
    (!is_inherited).then_some(cause)
}

/// Returns the ReplicaSet of the previous revision.
fn before<'a>(set: &ReplicaSet, sets: &[&'a ReplicaSet]) -> Option<&'a ReplicaSet> {
    let number = revision_of(set)?;
    let older = sets.iter().filter(|other| revision_of(other).is_some_and(|other| other < number));
    older.max_by_key(|other| revision_of(other)).copied()
}

/// Summarizes the difference between two templates; `None` if they are equal.
fn summarize_changes(from: &PodTemplateSpec, to: &PodTemplateSpec) -> Option<String> {
    let value = |template: &PodTemplateSpec| pruned(without_hash(template.clone()).to_value());
    let changes = merge::changes(&value(from), &value(to));
    let mut descriptions: Vec<String> = changes.iter().flat_map(describe_change).collect();
    let more = descriptions.len().saturating_sub(CHANGES);
    descriptions.truncate(CHANGES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!descriptions.is_empty()).then(|| format!("{}{more}", descriptions.join(", ")))
}

fn describe_change(change: &Change) -> Vec<String> {
    let Change { path, from, to } = change;
    let is_restart = to.as_ref().is_some_and(|to| to.get(RESTARTED_AT).is_some());
    if is_restart || path.contains(RESTARTED_AT) {
        return vec!["restart".to_owned()];
    }
    let text = |value: &Option<Value>| value.as_ref().map(|value| fit(&plain(value), VALUE).into_owned());
    if path.rsplit('.').next() == Some("image")
        && let (Some(from), Some(to)) = (text(from), text(to))
    {
        return vec![format!("image {from} → {to}")];
    }
    if let Some((_, variable)) = path.split_once("].env") {
        return variables(variable, from.as_ref(), to.as_ref());
    }
    let path = path.strip_prefix("spec.").unwrap_or(path);
    vec![match (text(from), text(to)) {
        (Some(from), Some(to)) => format!("{path} {from} → {to}"),
        (None, Some(to)) => format!("{path} {to}"),
        (_, None) => format!("{path} removed"),
    }]
}

/// Returns the changed environment variables at a path after `env`: all of them, one, or a field of one.
fn variables(path: &str, from: Option<&Value>, to: Option<&Value>) -> Vec<String> {
    let value = |variable: &Value| {
        let value = variable.get("value").map(plain);
        fit(&value.unwrap_or_else(|| "…".to_owned()), VALUE).into_owned()
    };
    let Some(one) = path.strip_prefix('[') else {
        // The whole list was added or removed.
        let name = |variable: &Value| variable.get("name").map(plain).unwrap_or_default();
        let all = |list: Option<&Value>| list.and_then(Value::as_array).cloned().unwrap_or_default();
        return match to {
            Some(_) => all(to).iter().map(|one| format!("env {}={}", name(one), value(one))).collect(),
            None => all(from).iter().map(|one| format!("env {} removed", name(one))).collect(),
        };
    };
    let (name, field) = one.split_once(']').unwrap_or((one, ""));
    vec![match (field, to) {
        (_, None) if field.is_empty() => format!("env {name} removed"),
        (".value", Some(to)) => format!("env {name}={}", fit(&plain(to), VALUE)),
        ("", Some(to)) => format!("env {name}={}", value(to)),
        _ => format!("env {name}"),
    }]
}

/// Returns the revision number of a ReplicaSet.
pub(crate) fn revision_of(set: &ReplicaSet) -> Option<i64> {
    annotation(set, DEPLOYMENT_REVISION)?.parse().ok()
}

fn annotation(set: &ReplicaSet, key: &str) -> Option<String> {
    set.metadata.annotations.as_ref()?.get(key).cloned()
}

/// Returns whether this is the Deployment's new ReplicaSet: its template equals the Deployment's, except for the hash.
pub(crate) fn is_current(deployment: &Deployment, set: &ReplicaSet) -> bool {
    let current = without_hash(deployment.spec.template.clone());
    set.spec.template.clone().map(without_hash) == Some(current)
}

/// Returns the template without the label that the controller adds to distinguish ReplicaSets.
pub(crate) fn without_hash(mut template: PodTemplateSpec) -> PodTemplateSpec {
    if let Some(labels) = template.metadata.as_mut().and_then(|metadata| metadata.labels.as_mut()) {
        labels.remove(POD_TEMPLATE_HASH);
    }
    // If the hash was the only label, the Deployment has no labels at all.
    if let Some(metadata) = &mut template.metadata {
        metadata.labels = metadata.labels.take().filter(|labels| !labels.is_empty());
    }
    template.metadata = template.metadata.filter(|metadata| *metadata != ObjectMeta::default());
    template
}

/// Returns the images of a template's containers, init containers first.
pub(crate) fn images(template: &PodTemplateSpec) -> Vec<String> {
    let Some(spec) = &template.spec else { return Vec::new() };
    spec.init_containers
        .iter()
        .flatten()
        .chain(&spec.containers)
        .filter_map(|container| container.image.clone())
        .collect()
}

/// Returns the difference between two templates as YAML, with three lines of context.
pub(crate) fn template_diff(
    from: Option<&PodTemplateSpec>,
    to: Option<&PodTemplateSpec>,
) -> Vec<(LineChange, String)> {
    let text = |template: Option<&PodTemplateSpec>| {
        let value = template.map(|template| without_hash(template.clone()).to_value());
        to_yaml(&pruned(value.unwrap_or_default()))
    };
    difference(&text(from), &text(to))
}

/// Removes empty fields, which would only add noise to the diff.
fn pruned(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter()
                .filter(|(key, value)| !(value.is_null() || key == "creationTimestamp"))
                .map(|(key, value)| (key, pruned(value)))
                .collect_map(),
        ),
        Value::Array(list) => Value::Array(list.into_iter().map(pruned).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deployment(image: &str) -> Deployment {
        serde_json::from_value(json!({ "metadata": { "name": "web" }, "spec": { "selector": {}, "template": {
            "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "nginx", "image": image }] } } } }))
        .unwrap()
    }

    fn set(name: &str, revision: &str, image: &str, cause: Option<&str>) -> ReplicaSet {
        let mut annotations = serde_json::Map::from_iter([(DEPLOYMENT_REVISION.to_owned(), json!(revision))]);
        if let Some(cause) = cause {
            annotations.insert(CHANGE_CAUSE.to_owned(), json!(cause));
        }
        serde_json::from_value(json!({
            "metadata": { "name": name, "annotations": annotations },
            "spec": { "selector": {}, "template": {
                "metadata": { "labels": { "app": "web", "pod-template-hash": name } },
                "spec": { "containers": [{ "name": "nginx", "image": image }] } } },
        }))
        .unwrap()
    }

    /// CON-5, DEP-4: the history is sorted newest first, and the current revision is found by its template.
    #[test]
    fn revisions_are_listed_newest_first() {
        let sets = [
            set("a", "2", "nginx:1.7.9", None),
            set("b", "10", "nginx:1.9.1", Some("kubectl set image")),
            set("c", "x", "broken", None),
        ];
        let list = revisions(&deployment("nginx:1.9.1"), &sets);
        let described: Vec<(i64, bool, Option<&str>)> = list
            .iter()
            .map(|revision| (revision.number, revision.current, revision.change_cause.as_deref()))
            .collect();
        assert_eq!(described, [(10, true, Some("kubectl set image")), (2, false, None)]);
        assert_eq!(list[1].images, ["nginx:1.7.9"]);
    }

    /// After an undo, the next undo does not go back to the broken revision.
    #[test]
    fn an_undo_skips_the_revision_that_was_undone_before_con_5() {
        let at = |seconds: i64, mut set: ReplicaSet| {
            let time = Timestamp::from_second(seconds).unwrap();
            set.metadata.creation_timestamp =
                Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time));
            set
        };
        let sets = [
            at(100, set("a", "1", "nginx:1.7.8", None)),
            at(200, set("b", "4", "nginx:1.7.9", None)),
            at(300, set("c", "3", "nginx:1.91", None)),
        ];
        let list = revisions(&deployment("nginx:1.7.9"), &sets);
        let listed: Vec<_> =
            list.iter().map(|revision| (revision.number, revision.current, revision.undone)).collect();
        assert_eq!(listed, [(4, true, false), (3, false, true), (1, false, false)]);
        let rolled = revisions(&deployment("nginx:1.91"), &sets);
        assert!(rolled.iter().all(|revision| !revision.undone), "{rolled:?}");
    }

    /// Reported case: one `set image`, then eight changes of a variable, all of which were listed as "set image".
    #[test]
    fn a_cause_that_is_handed_on_is_no_cause_of_the_next_revisions_con_5() {
        let made =
            |seconds: i64, revision: &str, image: &str, env: &serde_json::Value, cause: Option<&str>| {
                let mut set = set(&format!("s{seconds}"), revision, image, cause);
                let time = Timestamp::from_second(seconds).unwrap();
                set.metadata.creation_timestamp =
                    Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time));
                let mut value = serde_json::to_value(&set).unwrap();
                if !env.is_null() {
                    value["spec"]["template"]["spec"]["containers"][0]["env"] = env.clone();
                }
                serde_json::from_value::<ReplicaSet>(value).unwrap()
            };
        let cause = Some("kubectl set image deployment/web nginx=nginx:1.9.1");
        let env = |value: &str| json!([{"name": "N", "value": value}, {"name": "M", "value": "m"}]);
        let mut restarted = made(600, "6", "nginx:1.9.1", &env("2"), cause);
        restarted.spec.template.as_mut().unwrap().metadata.as_mut().unwrap().annotations =
            Some([(RESTARTED_AT.to_owned(), "now".to_owned())].into());
        let sets = [
            made(100, "1", "nginx:1.7.9", &json!(null), None),
            made(200, "2", "nginx:1.9.1", &json!(null), cause),
            made(300, "3", "nginx:1.9.1", &env("1"), cause),
            made(400, "4", "nginx:1.9.1", &env("2"), cause),
            made(500, "5", "nginx:1.9.2", &env("2"), None),
            restarted,
        ];
        let list = revisions(&deployment("nginx:1.9.1"), &sets);
        let described: Vec<_> =
            list.iter().map(|one| (one.number, one.change_cause.as_deref(), one.change.as_deref())).collect();
        assert_eq!(
            described,
            [
                (6, None, Some("restart, image nginx:1.9.2 → nginx:1.9.1")),
                (5, None, Some("image nginx:1.9.1 → nginx:1.9.2")),
                (4, None, Some("env N=2")),
                (3, None, Some("env N=1, env M=m")),
                (2, cause, Some("image nginx:1.7.9 → nginx:1.9.1")),
                (1, None, None),
            ]
        );
        // After an undo the revision has a new number, and keeps its change cause.
        let mut back = sets.to_vec();
        back[1].metadata.annotations.as_mut().unwrap().insert(DEPLOYMENT_REVISION.into(), "7".into());
        let list = revisions(&deployment("nginx:1.9.1"), &back);
        assert_eq!((list[0].number, list[0].change_cause.as_deref()), (7, cause));
    }

    /// A revision that an undo returned to dates from the undo.
    #[test]
    fn a_revision_is_as_old_as_the_change_that_made_it_con_5() {
        let mut set = set("a", "3", "nginx:1.7.9", None);
        set.metadata.annotations.as_mut().unwrap().insert(DEPLOYMENT_REVISION_HISTORY.into(), "1".into());
        let mut value = serde_json::to_value(&set).unwrap();
        value["metadata"]["creationTimestamp"] = json!("2026-05-01T11:00:00Z");
        let set: ReplicaSet = serde_json::from_value(value).unwrap();
        let at = |text: &str| Some(text.parse::<Timestamp>().unwrap());
        let mut back = serde_json::to_value(deployment("nginx:1.7.9")).unwrap();
        back["status"]["conditions"] = json!([{"type": "Progressing", "status": "True",
            "reason": "NewReplicaSetAvailable", "lastUpdateTime": "2026-05-01T11:58:31Z"}]);
        let back: Deployment = serde_json::from_value(back).unwrap();
        let list = revisions(&back, [&set]);
        assert_eq!(
            (list[0].created, list[0].since),
            (at("2026-05-01T11:00:00Z"), at("2026-05-01T11:58:31Z"))
        );
        // For a revision that is not the current one, only the creation time is known.
        assert_eq!(revisions(&deployment("nginx:1.9.1"), [&set])[0].since, at("2026-05-01T11:00:00Z"));
    }

    #[test]
    fn the_diff_shows_what_an_undo_would_change() {
        let template = |image| set("x", "1", image, None).spec.template;
        let (old, new) = (template("nginx:1.7.9"), template("nginx:1.9.1"));
        let diff = template_diff(old.as_ref(), new.as_ref());
        let text: Vec<String> = diff.iter().map(|(sign, line)| format!("{}{line}", sign.mark())).collect();
        assert_eq!(
            text,
            [
                "     app: web", " spec:", "   containers:", "-  - image: nginx:1.7.9",
                "+  - image: nginx:1.9.1", "     name: nginx",
            ]
        );
        assert!(template_diff(old.as_ref(), old.as_ref()).is_empty());
    }
}
