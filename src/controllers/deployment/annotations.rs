//! The annotations with which a Deployment records its history on its ReplicaSets.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use object::well_known::annotation::LAST_APPLIED;
pub(super) use object::well_known::annotation::{
    DEPLOYMENT_DESIRED_REPLICAS as DESIRED_REPLICAS, DEPLOYMENT_MAX_REPLICAS as MAX_REPLICAS,
    DEPLOYMENT_REVISION as REVISION, DEPLOYMENT_REVISION_HISTORY as REVISION_HISTORY,
};

/// The revision to roll back to in the old rollback API; "0" is the previous one.
pub(super) const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";

/// The longest history annotation of a ReplicaSet.
const HISTORY_CHARACTERS: usize = 2000;

/// Returns true if an annotation belongs to the Deployment only and is not copied to its ReplicaSets.
fn is_private(name: &str) -> bool {
    matches!(name, REVISION | REVISION_HISTORY | DESIRED_REPLICAS | MAX_REPLICAS | ROLLBACK_TO | LAST_APPLIED)
}

/// Returns a whole number from an annotation.
pub(super) fn number<N: std::str::FromStr>(meta: &ObjectMeta, name: &str) -> Option<N> {
    meta.annotations.as_ref()?.get(name)?.parse().ok()
}

/// Returns the revision of an object; 0 if it has none.
pub(super) fn revision(meta: &ObjectMeta) -> i64 {
    number(meta, REVISION).unwrap_or(0)
}

/// Sets the annotations that proportional scaling reads.
pub(super) fn set_sizes(annotations: &mut BTreeMap<String, String>, desired: i32, max: i32) {
    annotations.insert(DESIRED_REPLICAS.into(), desired.to_string());
    annotations.insert(MAX_REPLICAS.into(), max.to_string());
}

/// Updates the new ReplicaSet's annotations: copies the Deployment's (the change cause among them), and sets
/// `revision`, which never decreases. A previous revision goes to the history.
pub(super) fn sync(annotations: &mut BTreeMap<String, String>, deployment: &ObjectMeta, revision: i64) {
    for (name, value) in deployment.annotations.iter().flatten().filter(|(name, _)| !is_private(name)) {
        if annotations.get(name) != Some(value) {
            annotations.insert(name.clone(), value.clone());
        }
    }
    let before = annotations.get(REVISION).cloned();
    let Ok(number) = before.as_deref().unwrap_or("0").parse::<i64>() else { return };
    if number >= revision {
        return;
    }
    annotations.insert(REVISION.into(), revision.to_string());
    if let Some(before) = before {
        let history = annotations.entry(REVISION_HISTORY.into()).or_default();
        *history = appended(history, &before);
    }
}

/// Gives a Deployment the annotations of the ReplicaSet it is rolled back to; its private ones stay.
pub(super) fn restore(deployment: &mut ObjectMeta, replica_set: Option<&BTreeMap<String, String>>) {
    let annotations = deployment.annotations.get_or_insert_default();
    annotations.retain(|name, _| is_private(name));
    let shared = replica_set.into_iter().flatten().filter(|(name, _)| !is_private(name));
    annotations.extend(shared.map(|(name, value)| (name.clone(), value.clone())));
}

/// Returns `history,revision`, without the oldest entries if the text is too long.
fn appended(history: &str, revision: &str) -> String {
    let mut entries: Vec<&str> = history.split(',').filter(|e| !e.is_empty()).collect();
    entries.push(revision);
    let mut length: usize = entries.iter().map(|e| e.len() + 1).sum::<usize>() - 1;
    let mut start = 0;
    while length > HISTORY_CHARACTERS && start + 1 < entries.len() {
        length -= entries[start].len() + 1;
        start += 1;
    }
    entries[start..].join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_string(), (*v).to_string())).collect()
    }

    #[test]
    fn a_rolled_back_set_gets_the_next_revision_and_remembers_the_old_dep_4() {
        let deployment = ObjectMeta {
            annotations: Some(map(&[
                ("kubernetes.io/change-cause", "undo"),
                (REVISION, "2"),
                (LAST_APPLIED, "{}"),
            ])),
            ..ObjectMeta::default()
        };
        let mut set =
            map(&[(REVISION, "1"), ("kubernetes.io/change-cause", "first"), (DESIRED_REPLICAS, "3")]);
        sync(&mut set, &deployment, 3);
        assert_eq!(
            set,
            map(&[
                (REVISION, "3"),
                (REVISION_HISTORY, "1"),
                ("kubernetes.io/change-cause", "undo"),
                (DESIRED_REPLICAS, "3")
            ])
        );
        sync(&mut set, &deployment, 5);
        assert_eq!((set[REVISION].as_str(), set[REVISION_HISTORY].as_str()), ("5", "1,3"));
        let before = set.clone();
        sync(&mut set, &deployment, 4);
        assert_eq!(set, before, "a revision never goes back");
    }

    #[test]
    fn a_rolled_back_deployment_gets_the_old_cause_and_keeps_what_is_its_own_dep_4() {
        let mut deployment = ObjectMeta {
            annotations: Some(map(&[
                ("kubernetes.io/change-cause", "third"),
                ("since", "third"),
                (REVISION, "3"),
            ])),
            ..ObjectMeta::default()
        };
        restore(
            &mut deployment,
            Some(&map(&[("kubernetes.io/change-cause", "first"), (REVISION, "1"), (MAX_REPLICAS, "4")])),
        );
        assert_eq!(
            deployment.annotations,
            Some(map(&[("kubernetes.io/change-cause", "first"), (REVISION, "3")]))
        );
    }

    #[test]
    fn history_drops_its_oldest_entries_dep_4() {
        let mut history = String::new();
        for revision in 1..=1000 {
            history = appended(&history, &revision.to_string());
        }
        assert!(history.len() <= HISTORY_CHARACTERS && history.ends_with(",999,1000"), "{history}");
    }
}
