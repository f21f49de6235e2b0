//! Revisions as data: their content, names, order and expiry.
//!
//! Pure; never looks at the API.

use std::collections::{BTreeMap, HashSet};

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::{Value, json};

use crate::hash::{fnv_1, spelled};
use api::ApiError;
use apimachinery::patch::{PatchType, apply_patch_value};
use base::sort::SliceOrder;
use object::owner::controller_reference;
use object::{Key, Kind, Object, ObjectPart as _, SharedObject};

/// The longest prefix from the owner's name, so that the whole is a valid name.
const LONGEST_PREFIX: usize = 223;

/// Returns a revision's content: the strategic merge patch that brings the owner back to this template.
pub(super) fn data_of(template: &PodTemplateSpec) -> Value {
    let mut template = template.to_value();
    if let Some(fields) = template.as_object_mut() {
        fields.insert("$patch".into(), "replace".into());
    }
    json!({"spec": {"template": template}})
}

/// Returns the hash in a revision's name; `collisions` changes it for the same data.
pub(super) fn hash_of(data: &Value, collisions: i32) -> String {
    let data = data.to_string();
    spelled(fnv_1(&[data.as_bytes(), collisions.to_string().as_bytes()]))
}

/// Builds a new revision of `owner`. It carries the template's labels, so that the owner's selector finds it, its
/// hash under `hash_label`, and the owner's annotations, to preserve the change cause.
pub(super) fn new_revision(
    owner: &Object,
    template: &PodTemplateSpec,
    number: i64,
    collisions: i32,
    hash_label: &str,
) -> ControllerRevision {
    let data = data_of(template);
    let hash = hash_of(&data, collisions);
    let mut labels: BTreeMap<String, String> =
        template.metadata.as_ref().and_then(|m| m.labels.clone()).unwrap_or_default();
    labels.insert(hash_label.to_string(), hash.clone());
    let prefix = &owner.name()[..owner.name().floor_char_boundary(LONGEST_PREFIX)];
    ControllerRevision {
        metadata: ObjectMeta {
            labels: Some(labels),
            annotations: owner.meta().annotations.clone(),
            owner_references: Some(vec![controller_reference(owner)]),
            ..Key::new(owner.namespace(), format!("{prefix}-{hash}")).metadata()
        },
        data: RawExtension(data),
        revision: Some(number),
    }
}

/// Returns a revision's number; one without a number is older than all others.
pub(crate) fn number_of(revision: &ControllerRevision) -> i64 {
    revision.revision.unwrap_or(0)
}

/// Sorts by number, then age, then name, oldest first.
pub(super) fn sort(revisions: &mut [SharedObject<ControllerRevision>]) {
    revisions.order_by_key(|r| (number_of(r), r.metadata.creation_timestamp.clone(), r.name().to_string()));
}

/// Returns the number after all of these.
pub(crate) fn next_number(revisions: &[SharedObject<ControllerRevision>]) -> i64 {
    revisions.iter().map(|r| number_of(r)).max().unwrap_or(0).saturating_add(1)
}

/// Returns the revisions of this template, in the given order.
pub(crate) fn equal_to<'a>(
    revisions: &'a [SharedObject<ControllerRevision>],
    template: &PodTemplateSpec,
) -> Vec<&'a SharedObject<ControllerRevision>> {
    let data = data_of(template);
    revisions.iter().filter(|r| r.data.0 == data).collect()
}

/// Returns the template in a revision of an owner of `kind`; `current` is the owner's present template.
pub(crate) fn template_of(
    kind: Kind,
    current: &PodTemplateSpec,
    revision: &ControllerRevision,
) -> Result<PodTemplateSpec, ApiError> {
    let unreadable = |reason: String| {
        let name = revision.metadata.name.as_deref().unwrap_or_default();
        ApiError::Internal(format!("ControllerRevision {name} has no template of a {kind}: {reason}"))
    };
    let owner = json!({"spec": {"template": current.to_value()}});
    let mut patched = apply_patch_value(kind, PatchType::StrategicMerge, &owner, revision.data.0.clone())
        .map_err(|e| unreadable(e.to_string()))?;
    PodTemplateSpec::decode(patched["spec"]["template"].take()).map_err(|e| unreadable(e.to_string()))
}

/// Returns the oldest revisions beyond the history limit; those in `live` neither count nor are returned.
///
/// `revisions` are sorted, oldest first.
pub(super) fn beyond_limit<'a>(
    revisions: &'a [SharedObject<ControllerRevision>],
    live: &HashSet<&str>,
    limit: i32,
) -> Vec<&'a SharedObject<ControllerRevision>> {
    let mut spare: Vec<_> = revisions.iter().filter(|r| !live.contains(r.name())).collect();
    spare.truncate(spare.len().saturating_sub(usize::try_from(limit).unwrap_or(0)));
    spare
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::StatefulSet;

    use super::*;

    fn template(image: &str) -> PodTemplateSpec {
        serde_json::from_value(json!({"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": image}], "nodeSelector": {"disk": "ssd"}}}))
        .unwrap()
    }

    fn owner(name: &str) -> Object {
        let set: StatefulSet = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "default", "uid": "u",
                "annotations": {"kubernetes.io/change-cause": "because"}},
            "spec": {"selector": {}, "serviceName": "", "template": {}}}))
        .unwrap();
        Object::new(set)
    }

    fn revision(image: &str, number: i64) -> SharedObject<ControllerRevision> {
        SharedObject::from_value(new_revision(&owner("web"), &template(image), number, 0, "hash"))
    }

    #[test]
    fn a_revision_is_the_patch_that_brings_its_template_back_sts_2() {
        let one = revision("nginx:1", 1);
        assert_eq!(
            one.data.0.to_string(),
            r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"image":"nginx:1","name":"c"}],"nodeSelector":{"disk":"ssd"}}}}}"#
        );
        let mut other = template("nginx:2");
        other.spec.as_mut().unwrap().node_selector = Some([("zone".to_string(), "a".to_string())].into());
        assert_eq!(template_of(Kind::StatefulSet, &other, &one).unwrap(), template("nginx:1"));
        assert_eq!(template_of(Kind::DaemonSet, &other, &one).unwrap(), template("nginx:1"));
        let nonsense = ControllerRevision {
            data: RawExtension(json!({"spec": {"template": 7}})),
            ..ControllerRevision::default()
        };
        assert!(template_of(Kind::StatefulSet, &other, &nonsense).is_err());
    }

    #[test]
    fn a_revision_is_named_for_its_owner_and_its_hash_sts_2() {
        let one = revision("nginx:1", 3);
        let hash = &one.metadata.labels.as_ref().unwrap()["hash"];
        assert_eq!(one.name(), format!("web-{hash}"));
        assert_eq!(one.metadata.labels.as_ref().unwrap()["app"], "web");
        assert_eq!(one.metadata.annotations.as_ref().unwrap()["kubernetes.io/change-cause"], "because");
        assert_eq!(one.metadata.owner_references.as_ref().unwrap()[0].controller, Some(true));
        assert_eq!(revision("nginx:1", 9).name(), one.name(), "the number is not part of it");
        assert_ne!(revision("nginx:2", 3).name(), one.name());
        let collided = new_revision(&owner("web"), &template("nginx:1"), 3, 1, "hash");
        assert_ne!(collided.metadata.name.as_deref(), Some(one.name()));
        let long = new_revision(&owner(&"x".repeat(250)), &template("nginx:1"), 3, 0, "hash");
        assert!(long.metadata.name.unwrap().len() <= 253);
    }

    #[test]
    fn history_goes_oldest_first_and_never_what_is_used_sts_2() {
        let mut revisions = vec![revision("c", 3), revision("a", 1), revision("d", 4), revision("b", 2)];
        sort(&mut revisions);
        assert_eq!(revisions.iter().map(|r| number_of(r)).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(next_number(&revisions), 5);
        assert_eq!(next_number(&[]), 1);
        assert_eq!(equal_to(&revisions, &template("b"))[0].name(), revisions[1].name());
        assert!(equal_to(&revisions, &template("z")).is_empty());
        let live: HashSet<&str> = [revisions[1].name(), revisions[3].name()].into();
        for (limit, expected) in [(0, vec![1, 3]), (1, vec![1]), (2, vec![]), (10, vec![])] {
            let deleted: Vec<i64> =
                beyond_limit(&revisions, &live, limit).iter().map(|r| number_of(r)).collect();
            assert_eq!(deleted, expected, "{limit}");
        }
    }
}
