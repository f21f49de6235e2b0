//! Revisions: finds the new ReplicaSet, numbers it, and selects old ones for deletion.

use std::cmp::Reverse;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};

use super::annotations;
use super::hash::same_template;
use base::sort::SliceOrder;
use object::{SharedObject, owner};

/// Returns the oldest ReplicaSet with the Deployment's template.
///
/// Several can have it if two writers created one each; choosing the oldest makes all writers choose the same.
pub(super) fn find_new<'a>(
    deployment: &Deployment,
    replica_sets: &'a [SharedObject<ReplicaSet>],
) -> Option<&'a SharedObject<ReplicaSet>> {
    let template = &deployment.spec.template;
    replica_sets
        .iter()
        .filter(|set| set.spec.template.as_ref().is_some_and(|t| same_template(t, template)))
        .min_by_key(|set| (set.metadata.creation_timestamp.clone(), set.name().to_string()))
}

/// Returns the revision of a ReplicaSet that becomes the new one.
pub(super) fn next_revision<'a>(old: impl Iterator<Item = &'a SharedObject<ReplicaSet>>) -> i64 {
    old.map(|set| annotations::revision(&set.metadata)).max().unwrap_or(0).saturating_add(1)
}

/// Returns the old ReplicaSets beyond the history limit, lowest revisions first; those with pods stay.
pub(super) fn to_clean_up<'a>(
    limit: Option<i32>,
    old: impl Iterator<Item = &'a SharedObject<ReplicaSet>>,
) -> Vec<&'a SharedObject<ReplicaSet>> {
    let Some(limit) = limit.filter(|l| *l != i32::MAX) else { return Vec::new() };
    let mut candidates: Vec<_> = old.filter(|set| !owner::is_terminating(&set.metadata)).collect();
    let beyond = candidates.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    candidates.order_by_key(|set| {
        (
            annotations::revision(&set.metadata),
            set.metadata.creation_timestamp.clone(),
            set.name().to_string(),
        )
    });
    candidates.truncate(beyond);
    candidates.retain(|set| is_empty(set));
    candidates
}

fn is_empty(set: &ReplicaSet) -> bool {
    let generation = set.metadata.generation.unwrap_or(0);
    set.spec.replicas == Some(0)
        && set
            .status
            .as_ref()
            .is_some_and(|s| s.replicas == 0 && s.observed_generation.unwrap_or(0) >= generation)
}

/// Returns the ReplicaSet of the requested revision; 0 is the one before the newest.
pub(super) fn revision_to_roll_back_to(
    requested: i64,
    replica_sets: &[SharedObject<ReplicaSet>],
) -> Option<&SharedObject<ReplicaSet>> {
    let mut by_revision: Vec<_> = replica_sets.iter().collect();
    by_revision.order_by_key(|set| Reverse(annotations::revision(&set.metadata)));
    match requested {
        0 => by_revision.get(1).copied(),
        _ => by_revision.into_iter().find(|set| annotations::revision(&set.metadata) == requested),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(name: &str, revision: i64, replicas: i32, image: &str) -> SharedObject<ReplicaSet> {
        let template = json!({"metadata": {"labels": {"pod-template-hash": name}},
            "spec": {"containers": [{"name": "c", "image": image}]}});
        let value = json!({
            "metadata": {"name": name, "namespace": "default", "generation": 1,
                "creationTimestamp": format!("2026-11-21T00:00:{:02}Z", name.as_bytes()[0] - b'a'),
                "annotations": {"deployment.kubernetes.io/revision": revision.to_string()}},
            "spec": {"replicas": replicas, "selector": {}, "template": template},
            "status": {"replicas": replicas, "observedGeneration": 1}});
        SharedObject::from_value(serde_json::from_value(value).unwrap())
    }

    fn names(sets: &[&SharedObject<ReplicaSet>]) -> String {
        sets.iter().map(|s| s.name()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn history_keeps_the_newest_and_never_one_with_pods_dep_4() {
        let sets = [set("a", 1, 0, "1"), set("b", 9, 0, "2"), set("c", 3, 0, "3"), set("d", 2, 1, "4")];
        for (limit, expected) in [
            (Some(0), "a c b"),
            (Some(1), "a c"),
            (Some(2), "a"),
            (Some(3), "a"),
            (Some(4), ""),
            (Some(i32::MAX), ""),
            (None, ""),
        ] {
            assert_eq!(names(&to_clean_up(limit, sets.iter())), expected, "{limit:?}");
        }
    }

    #[test]
    fn a_template_that_was_there_before_is_found_again_dep_4() {
        let sets = [set("b", 2, 0, "nginx:2"), set("a", 1, 0, "nginx:1"), set("c", 3, 0, "nginx:1")];
        let deployment: Deployment = serde_json::from_value(json!({"metadata": {"name": "web"},
            "spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "c", "image": "nginx:1"}]}}}}))
        .unwrap();
        assert_eq!(find_new(&deployment, &sets).map(SharedObject::name), Some("a"));
        assert_eq!(next_revision(sets.iter()), 4);
        assert_eq!(revision_to_roll_back_to(0, &sets).map(SharedObject::name), Some("b"));
        assert_eq!(revision_to_roll_back_to(1, &sets).map(SharedObject::name), Some("a"));
        assert!(revision_to_roll_back_to(7, &sets).is_none());
        assert!(revision_to_roll_back_to(0, &sets[..1]).is_none());
    }
}
