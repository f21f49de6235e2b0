//! Creates the claims of a StatefulSet's pods and sets their owners.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};

use super::{StatefulSets, storage};
use api::ApiError;
use object::owner::is_terminating;
use object::pod::{Phase, phase};
use object::{Key, SharedObject};
use reconcile::optional;

impl StatefulSets {
    /// Returns true if a pod's claims exist and have the right owners. For a condemned pod only the owners matter,
    /// and only a pod that waits for its claims gets new ones.
    pub(super) fn has_sound_claims(
        &self,
        set: &SharedObject<StatefulSet>,
        ordinal: i32,
        pod: &SharedObject<Pod>,
        is_condemned: bool,
    ) -> bool {
        let keeper = storage::keeper(set, is_condemned);
        storage::claim_names(set, ordinal).all(|name| match self.claim(set, &name) {
            Some(claim) => {
                let owners = storage::owners(&claim.metadata, set, pod, keeper);
                claim.metadata.owner_references.as_deref().unwrap_or_default() == owners
            }
            None => is_condemned || phase(pod) != Phase::Pending,
        })
    }

    fn claim(
        &self,
        set: &SharedObject<StatefulSet>,
        name: &str,
    ) -> Option<SharedObject<PersistentVolumeClaim>> {
        self.api.get_as(&Key::new(set.namespace(), name)).ok()
    }

    /// Returns true if an earlier pod's claims must be deleted before the next pod of its name is created: the new pod
    /// would lose its storage while it runs.
    pub(super) fn waits_for_claims(
        &self,
        set: &SharedObject<StatefulSet>,
        ordinal: i32,
        pod_name: &str,
    ) -> bool {
        storage::deletes_claims_on_scale_down(set)
            && storage::claim_names(set, ordinal)
                .filter_map(|name| self.claim(set, &name))
                .any(|claim| storage::is_of_earlier_pod(&claim.metadata, pod_name))
    }

    /// Creates the missing claims of a pod; tries all, and records an event for each.
    pub(super) fn make_claims(
        &self,
        set: &SharedObject<StatefulSet>,
        ordinal: i32,
        pod_name: &str,
    ) -> Result<(), ApiError> {
        let mut failure = None;
        for claim in storage::new_claims(set, ordinal) {
            let name = claim.metadata.name.clone().unwrap_or_default();
            if let Some(there) = self.claim(set, &name) {
                if is_terminating(&there.metadata) {
                    failure.get_or_insert(ApiError::Unavailable(format!("pvc {name} is being deleted")));
                }
                continue;
            }
            match self.api.create_as(claim) {
                Ok(_) => {
                    let message =
                        format!("create Claim {name} Pod {pod_name} in StatefulSet {} success", set.name());
                    self.control.recorder().normal(set.object(), "SuccessfulCreate", message);
                }
                Err(error) if error.is_already_exists() => {}
                Err(error) => {
                    if !error.is_namespace_terminating() {
                        let message = format!(
                            "create Claim {name} for Pod {pod_name} in StatefulSet {} failed error: {error}",
                            set.name()
                        );
                        self.control.recorder().warning(set.object(), "FailedCreate", message);
                    }
                    failure.get_or_insert(error);
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Sets the owners of a pod's claims; returns true if any changed.
    pub(super) fn hand_over_claims(
        &self,
        set: &SharedObject<StatefulSet>,
        ordinal: i32,
        pod: &SharedObject<Pod>,
        is_condemned: bool,
    ) -> Result<bool, ApiError> {
        let keeper = storage::keeper(set, is_condemned);
        let mut changed = false;
        for claim in storage::claim_names(set, ordinal).filter_map(|name| self.claim(set, &name)) {
            let after = self.api.modify::<PersistentVolumeClaim>(&claim.key(), |fresh| {
                let owners = storage::owners(&fresh.metadata, set, pod, keeper);
                fresh.metadata.owner_references = Some(owners).filter(|owners| !owners.is_empty());
                Ok(())
            });
            changed |=
                optional(after)?.is_some_and(|after| after.object().revision() != claim.object().revision());
        }
        Ok(changed)
    }
}
