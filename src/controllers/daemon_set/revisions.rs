//! The revisions of a DaemonSet: assigns pods to them, and deletes old ones.

use std::collections::HashSet;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::Pod;

use super::DaemonSets;
use crate::history::{LatestRevision, POD_REVISION_LABEL, equal_to};
use api::ApiError;
use object::SharedObject;
use reconcile::preconditions;

/// Returns the hash in the labels of a revision's pods; for an adopted revision without a hash, its name.
pub(super) fn hash_of(revision: &SharedObject<ControllerRevision>) -> &str {
    let labels = revision.metadata.labels.as_ref();
    labels.and_then(|l| l.get(POD_REVISION_LABEL)).map_or_else(|| revision.name(), String::as_str)
}

/// The hash a pod carries.
fn revision_hash(pod: &Pod) -> Option<&str> {
    Some(pod.metadata.labels.as_ref()?.get(POD_REVISION_LABEL)?.as_str())
}

impl DaemonSets {
    /// Deletes other revisions with the template of the latest one, after relabelling their pods to the latest.
    pub(super) fn merge_equal(
        &self,
        set: &SharedObject<DaemonSet>,
        latest: &LatestRevision,
        revisions: &mut Vec<SharedObject<ControllerRevision>>,
        pods: &mut [SharedObject<Pod>],
    ) -> Result<(), ApiError> {
        let equal = equal_to(revisions, &set.spec.template).into_iter().cloned();
        let doubles: Vec<_> = equal.filter(|r| r.uid() != latest.revision.uid()).collect();
        for double in doubles {
            for pod in pods.iter_mut().filter(|pod| revision_hash(pod) == Some(hash_of(&double))) {
                *pod = self.api.modify::<Pod>(&pod.key(), |fresh| {
                    if fresh.metadata.uid.as_deref() == Some(pod.uid()) {
                        let labels = fresh.metadata.labels.get_or_insert_default();
                        labels.insert(POD_REVISION_LABEL.to_string(), hash_of(&latest.revision).to_string());
                    }
                    Ok(())
                })?;
            }
            preconditions::delete(&self.api, &double)?;
            revisions.retain(|r| r.uid() != double.uid());
        }
        Ok(())
    }

    /// Deletes the oldest revisions beyond `revisionHistoryLimit`. Revisions with pods count, but are never deleted.
    pub(super) fn forget_old(
        &self,
        set: &DaemonSet,
        latest: &LatestRevision,
        revisions: &[SharedObject<ControllerRevision>],
        pods: &[SharedObject<Pod>],
    ) -> Result<(), ApiError> {
        let in_use: HashSet<&str> = pods.iter().filter_map(|pod| revision_hash(pod)).collect();
        let old_in_use: HashSet<&str> = revisions
            .iter()
            .filter(|r| r.uid() != latest.revision.uid() && in_use.contains(hash_of(r)))
            .map(SharedObject::name)
            .collect();
        let used = i32::try_from(old_in_use.len()).unwrap_or(i32::MAX);
        let limit = set.spec.revision_history_limit.map(|limit| limit.saturating_sub(used).max(0));
        let mut live = old_in_use;
        live.insert(latest.revision.name());
        self.history.truncate(revisions, &live, limit)
    }
}
