//! The manifests of a project: built images and the project's label are set in their pods. Does no I/O.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::target::BuildTarget;
use manifest::Document;
use object::well_known::label::PODIUM_PROJECT;

/// The maximum depth of a manifest in which pods are searched.
const MOST_DEPTH: usize = 64;

/// Manifests that are ready to be applied.
#[derive(Debug, Default)]
pub(super) struct PreparedManifests {
    pub(super) documents: Vec<Document>,
    /// For each target: the positions of the documents that use its image.
    pub(super) users: Vec<Vec<usize>>,
    /// The namespaces of the documents.
    pub(super) namespaces: Vec<String>,
}

/// Sets the images of the current versions, each the full reference of the target at its position, and the project's
/// label.
pub(super) fn prepare(
    mut documents: Vec<Document>,
    targets: &[&BuildTarget],
    versions: &[String],
    project: &str,
    namespace: &str,
) -> PreparedManifests {
    let mut users = vec![Vec::new(); targets.len()];
    let mut namespaces = BTreeSet::new();
    for (position, document) in documents.iter_mut().enumerate() {
        let mut used = BTreeSet::new();
        let mut replace = |image: &str| {
            let target = targets.iter().position(|target| target.is_image_of(image))?;
            used.insert(target);
            versions.get(target).cloned()
        };
        set_pods(&mut document.value, &mut replace, project, 0);
        for target in used {
            users[target].push(position);
        }
        namespaces.insert(namespace_of(document, namespace).to_owned());
    }
    PreparedManifests { documents, users, namespaces: namespaces.into_iter().collect() }
}

/// The namespace in which an object is.
pub(super) fn namespace_of<'a>(document: &'a Document, default: &'a str) -> &'a str {
    let own = document.value.pointer("/metadata/namespace").and_then(Value::as_str);
    own.filter(|name| !name.is_empty()).unwrap_or(default)
}

/// Visits every pod and pod template in a value: the maps with `spec.containers`.
fn set_pods(value: &mut Value, replace: &mut dyn FnMut(&str) -> Option<String>, project: &str, depth: usize) {
    if depth > MOST_DEPTH {
        return;
    }
    match value {
        Value::Object(fields) => {
            if fields.get("spec").and_then(|spec| spec.get("containers")).is_some_and(Value::is_array) {
                set_pod(fields, replace, project);
                return;
            }
            fields.values_mut().for_each(|field| set_pods(field, replace, project, depth + 1));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| set_pods(item, replace, project, depth + 1)),
        _ => {}
    }
}

fn set_pod(pod: &mut Map<String, Value>, replace: &mut dyn FnMut(&str) -> Option<String>, project: &str) {
    if let Some(spec) = pod.get_mut("spec") {
        images(spec, &mut |image| {
            if let Some(version) = replace(image) {
                *image = version;
            }
        });
    }
    let metadata = pod.entry("metadata").or_insert_with(|| json!({}));
    let Some(metadata) = metadata.as_object_mut() else { return };
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if labels.is_null() {
        *labels = json!({});
    }
    if let Some(labels) = labels.as_object_mut() {
        labels.insert(PODIUM_PROJECT.to_owned(), project.into());
    }
}

/// Visits the images of a pod's spec: of its containers and of its volumes.
fn images(spec: &mut Value, visit: &mut dyn FnMut(&mut String)) {
    let mut visit = |field: Option<&mut Value>| {
        if let Some(Value::String(image)) = field {
            visit(image);
        }
    };
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            visit(container.get_mut("image"));
        }
    }
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        visit(volume.pointer_mut("/image/reference"));
    }
}

/// The images of all pods and pod templates in an object, in order.
pub(super) fn images_of(object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut note = |image: &str| {
        found.push(image.to_owned());
        None
    };
    set_pods(&mut object.clone(), &mut note, "", 0);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_and_the_label_are_set_in_every_pod_template_dev_3() {
        let pod = |image: &str, init: &str, labels: Value| {
            json!({"metadata": {"labels": labels}, "spec": {
                "containers": [{"name": "a", "image": image}, {"name": "b", "image": "other"}],
                "initContainers": [{"name": "i", "image": init}],
                "volumes": [{"name": "v", "image": {"reference": image}}, {"name": "e", "emptyDir": {}}]}})
        };
        let before = pod("app:v1", "app", json!({"x": "y"}));
        let after = pod("app:dev-1", "app:dev-1", json!({"x": "y", "podium.dev/project": "p"}));
        let table = [
            (before.clone(), after.clone()),
            (
                json!({"kind": "Deployment", "spec": {"template": before}}),
                json!({"kind": "Deployment", "spec": {"template": after}}),
            ),
            (
                json!({"spec": {"jobTemplate": {"spec": {"template": before}}}}),
                json!({"spec": {"jobTemplate": {"spec": {"template": after}}}}),
            ),
            (json!({"data": {"image": "app"}}), json!({"data": {"image": "app"}})),
            (
                json!({"spec": {"containers": [{"image": "app"}]}}),
                json!({"metadata": {"labels": {"podium.dev/project": "p"}}, "spec": {"containers": [{"image": "app:dev-1"}]}}),
            ),
            (
                json!({"spec": {"containers": "hostile"}, "metadata": 7}),
                json!({"spec": {"containers": "hostile"}, "metadata": 7}),
            ),
        ];
        for (mut value, expect) in table {
            let mut replace = |image: &str| image.starts_with("app").then(|| "app:dev-1".to_owned());
            set_pods(&mut value, &mut replace, "p", 0);
            assert_eq!(value, expect);
        }
        assert_eq!(images_of(&before), ["app:v1", "other", "app", "app:v1"]);
    }
}
