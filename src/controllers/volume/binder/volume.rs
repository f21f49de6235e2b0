//! Decides the next action for a volume from it and the claim it names: pure.

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};

use object::SharedObject;
use object::storage::{
    PROVISIONED_BY, annotation, claim_ref, claim_uid, reclaim_policy, same_mode, volume_name,
};
use reconcile::reference_to;

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Mark it as available: it serves no claim.
    Available,
    /// Mark it as bound to its claim.
    Bound,
    /// Sync its claim, which does not name it yet.
    SyncClaim,
    /// Report that its claim, which does not name it yet, needs another volume mode.
    ModeMismatch,
    /// Unbind it: its claim is bound to another.
    Unbind,
    /// Release it: its claim is deleted.
    Release,
}

/// Decides about a volume; `claim` is the one with the referenced name, regardless of its uid.
pub(super) fn decide(volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>) -> Action {
    let Some(uid) = claim_ref(volume).and_then(claim_uid) else {
        // The volume is free or reserved for a future claim; that claim's sync binds it.
        return Action::Available;
    };
    let Some(claim) = claim.filter(|claim| claim.metadata.uid.as_deref() == Some(uid)) else {
        return Action::Release;
    };
    match volume_name(claim) {
        None if !same_mode(volume, claim) => Action::ModeMismatch,
        None => Action::SyncClaim,
        Some(name) if volume.metadata.name.as_deref() == Some(name) => Action::Bound,
        // The volume was provisioned for the claim, which is bound to another volume, so it is not needed.
        Some(_) if is_provisioned(volume) && reclaim_policy(volume) == "Delete" => Action::Release,
        Some(_) => Action::Unbind,
    }
}

fn is_provisioned(volume: &PersistentVolume) -> bool {
    annotation(&volume.metadata, PROVISIONED_BY).is_some()
}

/// Returns the events for both if one is a file system and the other a block device.
pub(super) fn mode_mismatch(
    volume: &SharedObject<PersistentVolume>,
    claim: &SharedObject<PersistentVolumeClaim>,
) -> [(ObjectReference, String); 2] {
    let (volume_name, claim_name) = (volume.name(), claim.name());
    [
        (
            reference_to(volume.object()),
            format!(
                "Cannot bind PersistentVolume to requested PersistentVolumeClaim \"{claim_name}\" due to \
                 incompatible volumeMode."
            ),
        ),
        (
            reference_to(claim.object()),
            format!(
                "Cannot bind PersistentVolume \"{volume_name}\" to requested PersistentVolumeClaim due to \
                 incompatible volumeMode."
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_volumes_next_step_vol_2() {
        for (rule, reference, provisioned, policy, claim, expected) in [
            ("free", "", false, "Retain", None, Action::Available),
            ("reserved by name", "-", false, "Retain", Some(("1", "")), Action::Available),
            ("claim gone", "1", false, "Retain", None, Action::Release),
            ("claim made anew", "1", false, "Retain", Some(("2", "v")), Action::Release),
            ("claim does not know", "1", false, "Retain", Some(("1", "")), Action::SyncClaim),
            ("both know", "1", false, "Retain", Some(("1", "v")), Action::Bound),
            ("claim has another", "1", false, "Delete", Some(("1", "w")), Action::Unbind),
            ("made in vain", "1", true, "Delete", Some(("1", "w")), Action::Release),
            ("made in vain, to be retained", "1", true, "Retain", Some(("1", "w")), Action::Unbind),
        ] {
            let mut volume = json!({"metadata": {"name": "v", "annotations": {}},
                "spec": {"persistentVolumeReclaimPolicy": policy}});
            if !reference.is_empty() {
                let uid = reference.trim_matches('-');
                volume["spec"]["claimRef"] = json!({"namespace": "n", "name": "c", "uid": uid});
            }
            if provisioned {
                volume["metadata"]["annotations"] = json!({"pv.kubernetes.io/provisioned-by": "x"});
            }
            let volume = serde_json::from_value(volume).unwrap();
            let claim = claim.map(|(uid, name)| {
                let claim = json!({"metadata": {"namespace": "n", "name": "c", "uid": uid},
                    "spec": {"volumeName": name}});
                serde_json::from_value::<PersistentVolumeClaim>(claim).unwrap()
            });
            assert_eq!(decide(&volume, claim.as_ref()), expected, "{rule}");
        }
    }
}
