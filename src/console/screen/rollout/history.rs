//! The revisions of a Deployment and how their templates differ.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use jiff::Timestamp;

use crate::changes::lines::{Sign, difference};
use manifest::to_yaml;

/// Where the revision of a Deployment or ReplicaSet is kept.
pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";
const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";
const HASH: &str = "pod-template-hash";

/// One revision: a ReplicaSet that can be gone back to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Revision {
    /// Its number.
    pub(crate) number: i64,
    /// The ReplicaSet's name.
    pub(crate) set: String,
    /// When the ReplicaSet was made.
    pub(crate) created: Option<Timestamp>,
    /// `kubernetes.io/change-cause`, if given.
    pub(crate) change_cause: Option<String>,
    /// The images of its containers.
    pub(crate) images: Vec<String>,
    /// Whether the Deployment has its template now.
    pub(crate) current: bool,
    /// Whether the Deployment was taken back from it: what it has now is older.
    pub(crate) left: bool,
}

/// The revisions of a Deployment, newest first.
pub(crate) fn revisions<'a>(
    deployment: &Deployment,
    sets: impl IntoIterator<Item = &'a ReplicaSet>,
) -> Vec<Revision> {
    let mut revisions: Vec<Revision> = sets
        .into_iter()
        .filter_map(|set| {
            let number = revision_of(set)?;
            let template = set.spec.template.as_ref();
            Some(Revision {
                number,
                set: set.metadata.name.clone().unwrap_or_default(),
                created: set.metadata.creation_timestamp.as_ref().map(|time| time.0),
                change_cause: annotation(set, CHANGE_CAUSE).filter(|cause| !cause.is_empty()),
                images: template.map(images).unwrap_or_default(),
                current: is_current(deployment, set),
                left: false,
            })
        })
        .collect();
    revisions.sort_by_key(|revision| std::cmp::Reverse(revision.number));
    // An undo gives an old ReplicaSet a new number: what was made after it, the Deployment has been taken back from.
    if let Some(made) = revisions.iter().find(|revision| revision.current).and_then(|current| current.created)
    {
        for revision in &mut revisions {
            revision.left = !revision.current && revision.created.is_some_and(|created| created > made);
        }
    }
    revisions
}

/// The revision number of a ReplicaSet.
pub(crate) fn revision_of(set: &ReplicaSet) -> Option<i64> {
    annotation(set, REVISION)?.parse().ok()
}

fn annotation(set: &ReplicaSet, key: &str) -> Option<String> {
    set.metadata.annotations.as_ref()?.get(key).cloned()
}

/// Whether this is the Deployment's new ReplicaSet: its template is the Deployment's, without the hash.
pub(crate) fn is_current(deployment: &Deployment, set: &ReplicaSet) -> bool {
    let wanted = without_hash(deployment.spec.template.clone());
    set.spec.template.clone().map(without_hash) == Some(wanted)
}

/// A template without the label the controller adds to tell ReplicaSets apart.
pub(crate) fn without_hash(mut template: PodTemplateSpec) -> PodTemplateSpec {
    if let Some(labels) = template.metadata.as_mut().and_then(|metadata| metadata.labels.as_mut()) {
        labels.remove(HASH);
    }
    // Nothing but the hash was there: the Deployment has no labels at all then.
    if let Some(metadata) = &mut template.metadata {
        metadata.labels = metadata.labels.take().filter(|labels| !labels.is_empty());
    }
    template.metadata = template.metadata.filter(|metadata| *metadata != ObjectMeta::default());
    template
}

/// The images of a template's containers, init containers first.
pub(crate) fn images(template: &PodTemplateSpec) -> Vec<String> {
    let Some(spec) = &template.spec else { return Vec::new() };
    spec.init_containers
        .iter()
        .flatten()
        .chain(&spec.containers)
        .filter_map(|container| container.image.clone())
        .collect()
}

/// The difference of two templates as YAML, with three lines around each change.
pub(crate) fn template_diff(
    from: Option<&PodTemplateSpec>,
    to: Option<&PodTemplateSpec>,
) -> Vec<(Sign, String)> {
    let text = |template: Option<&PodTemplateSpec>| {
        let value = template.map(|template| without_hash(template.clone()));
        let value = value.and_then(|template| serde_json::to_value(template).ok()).unwrap_or(Value::Null);
        to_yaml(&pruned(value))
    };
    difference(&text(from), &text(to))
}

/// Without fields that say nothing: they would only be lines to read over.
fn pruned(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter()
                .filter(|(key, value)| !(value.is_null() || key == "creationTimestamp"))
                .map(|(key, value)| (key, pruned(value)))
                .collect(),
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
        let mut annotations = serde_json::Map::from_iter([(REVISION.to_owned(), json!(revision))]);
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

    /// CON-5, DEP-4: the history, newest first, with the current one found by its template.
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

    /// CONSOLE-FOUND 22: after an undo the broken revision is not what the next undo goes to.
    #[test]
    fn what_was_taken_back_from_is_told_con_5() {
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
        let told: Vec<_> =
            list.iter().map(|revision| (revision.number, revision.current, revision.left)).collect();
        assert_eq!(told, [(4, true, false), (3, false, true), (1, false, false)]);
        let rolled = revisions(&deployment("nginx:1.91"), &sets);
        assert!(rolled.iter().all(|revision| !revision.left), "{rolled:?}");
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
                "     app: web",
                " spec:",
                "   containers:",
                "-  - image: nginx:1.7.9",
                "+  - image: nginx:1.9.1",
                "     name: nginx",
            ]
        );
        assert!(template_diff(old.as_ref(), old.as_ref()).is_empty());
    }
}
