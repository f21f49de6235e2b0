//! The claims that a pod uses: those it names, and those created for its ephemeral volumes.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Volume};

use crate::owner::is_controlled_by;

/// A pod's volume that is backed by a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimUse<'a> {
    /// The volume's name in the pod.
    pub volume: &'a str,
    /// The claim's name; it is in the pod's namespace.
    pub claim: String,
    /// The claim is created for this pod and deleted with it.
    pub ephemeral: bool,
    /// The pod must not write to it.
    pub read_only: bool,
}

/// Returns the claims of a pod, volume by volume.
pub fn claims_of(pod: &Pod) -> impl Iterator<Item = ClaimUse<'_>> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| claim_of(pod, volume))
}

fn claim_of<'a>(pod: &Pod, volume: &'a Volume) -> Option<ClaimUse<'a>> {
    let used = |claim: String, ephemeral: bool, read_only: bool| ClaimUse {
        volume: volume.name.as_str(),
        claim,
        ephemeral,
        read_only,
    };
    if let Some(source) = &volume.persistent_volume_claim {
        return Some(used(source.claim_name.clone(), false, source.read_only == Some(true)));
    }
    volume.ephemeral.as_ref().map(|_| used(ephemeral_claim_name(pod, &volume.name), true, false))
}

/// Returns the name of the claim created for a pod's volume.
pub fn ephemeral_claim_name(pod: &Pod, volume: &str) -> String {
    format!("{}-{volume}", pod.metadata.name.as_deref().unwrap_or_default())
}

/// Returns true if a claim was created for this pod: another claim with the same name must not be used.
pub fn is_created_for(claim: &PersistentVolumeClaim, pod: &Pod) -> bool {
    claim.metadata.namespace == pod.metadata.namespace
        && pod.metadata.uid.as_deref().is_some_and(|uid| is_controlled_by(&claim.metadata, uid))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_uses_the_claims_it_names_and_those_made_for_it_vol_2() {
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "n", "uid": "1"},
            "spec": {"containers": [], "volumes": [{"name": "tmp", "emptyDir": {}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "mine", "readOnly": true}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}}))
            .unwrap();
        let used: Vec<_> = claims_of(&pod).map(|u| (u.volume, u.claim, u.ephemeral, u.read_only)).collect();
        assert_eq!(
            used,
            [("data", "mine".to_string(), false, true), ("scratch", "p-scratch".to_string(), true, false)]
        );
        let claim = |namespace: &str, owner: &str| -> PersistentVolumeClaim {
            serde_json::from_value(json!({"metadata": {"name": "p-scratch", "namespace": namespace,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner,
                    "controller": true}]}}))
            .unwrap()
        };
        assert!(is_created_for(&claim("n", "1"), &pod));
        assert!(!is_created_for(&claim("n", "2"), &pod), "of a pod that had the name before");
        assert!(!is_created_for(&claim("m", "1"), &pod));
    }
}
