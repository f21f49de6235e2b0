//! The claims of a StatefulSet's pods: their names, owners, and the volumes that refer to them.
//!
//! Pure. A claim outlives its pod and its set, unless `persistentVolumeClaimRetentionPolicy` gives it an owner to be
//! deleted with.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use object::SharedObject;
use object::owner::{controller_of, controller_reference};

fn templates(set: &StatefulSet) -> impl Iterator<Item = (&PersistentVolumeClaim, &str)> {
    let templates = set.spec.volume_claim_templates.iter().flatten();
    templates.map(|claim| (claim, claim.metadata.name.as_deref().unwrap_or_default()))
}

fn claim_name(set: &StatefulSet, template: &str, ordinal: i32) -> String {
    format!("{template}-{}-{ordinal}", set.metadata.name.as_deref().unwrap_or_default())
}

/// Returns the names of the claims of the pod with this ordinal.
pub(super) fn claim_names(set: &StatefulSet, ordinal: i32) -> impl Iterator<Item = String> {
    templates(set).map(move |(_, template)| claim_name(set, template, ordinal))
}

/// Returns the ordinal of the pod to which a claim with this name belongs.
pub(super) fn ordinal_of(set: &StatefulSet, name: &str) -> Option<i32> {
    let set_name = set.metadata.name.as_deref().unwrap_or_default();
    templates(set).find_map(|(_, template)| {
        let pod = name.strip_prefix(template)?.strip_prefix('-')?;
        super::identity::ordinal_of(set_name, pod)
    })
}

/// Builds the claims of the pod with this ordinal, with the labels that select the pods.
pub(super) fn new_claims(set: &StatefulSet, ordinal: i32) -> Vec<PersistentVolumeClaim> {
    let selected = set.spec.selector.match_labels.clone().unwrap_or_default();
    let new = templates(set).map(|(template, name)| {
        let mut labels = template.metadata.labels.clone().unwrap_or_default();
        labels.extend(selected.clone());
        PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(claim_name(set, name, ordinal)),
                namespace: set.metadata.namespace.clone(),
                labels: Some(labels),
                annotations: template.metadata.annotations.clone(),
                finalizers: template.metadata.finalizers.clone(),
                ..ObjectMeta::default()
            },
            spec: template.spec.clone(),
            status: None,
        }
    });
    new.collect()
}

/// Returns a pod's volumes including its claims; a claim replaces a volume with its name.
pub(super) fn volumes_with_claims(
    set: &StatefulSet,
    ordinal: i32,
    volumes: Option<Vec<Volume>>,
) -> Option<Vec<Volume>> {
    let of_claims = templates(set).map(|(_, template)| Volume {
        name: template.to_string(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim_name(set, template, ordinal),
            read_only: None,
        }),
        ..Volume::default()
    });
    let is_claim = |volume: &Volume| templates(set).any(|(_, template)| template == volume.name);
    let others = volumes.into_iter().flatten().filter(|volume| !is_claim(volume));
    Some(of_claims.chain(others).collect::<Vec<_>>()).filter(|all| !all.is_empty())
}

/// Returns true if a pod has its claims among its volumes.
pub(super) fn has_volumes(set: &StatefulSet, ordinal: i32, pod: &Pod) -> bool {
    let volumes = || pod.spec.iter().flat_map(|s| s.volumes.iter().flatten());
    templates(set).all(|(_, template)| {
        let claim = volumes().find(|v| v.name == template).and_then(|v| v.persistent_volume_claim.as_ref());
        claim.is_some_and(|claim| claim.claim_name == claim_name(set, template, ordinal))
    })
}

/// The owner with which a claim is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimOwner {
    /// None: it stays.
    None,
    /// The set.
    Set,
    /// The pod, which is surplus.
    Pod,
}

/// Returns the owner with which a pod's claims are deleted, according to the set's policy.
pub(super) fn keeper(set: &StatefulSet, is_condemned: bool) -> ClaimOwner {
    let policy = set.spec.persistent_volume_claim_retention_policy.as_ref();
    let goes_with_set = policy.and_then(|p| p.when_deleted.as_deref()) == Some("Delete");
    if is_condemned && deletes_claims_on_scale_down(set) {
        ClaimOwner::Pod
    } else if goes_with_set {
        ClaimOwner::Set
    } else {
        ClaimOwner::None
    }
}

/// Returns true if claims are deleted with pods that are scaled away.
pub(super) fn deletes_claims_on_scale_down(set: &StatefulSet) -> bool {
    let policy = set.spec.persistent_volume_claim_retention_policy.as_ref();
    policy.and_then(|p| p.when_scaled.as_deref()) == Some("Delete")
}

/// Returns a claim's desired owners: the reference to the owner that [`keeper`] returns, and those of other objects
/// than this set or pod. A claim that has another controller is left alone.
pub(super) fn owners(
    claim: &ObjectMeta,
    set: &SharedObject<StatefulSet>,
    pod: &SharedObject<Pod>,
    keeper: ClaimOwner,
) -> Vec<OwnerReference> {
    let is_managed = |reference: &OwnerReference| [set.uid(), pod.uid()].contains(&reference.uid.as_str());
    let mut owners: Vec<OwnerReference> =
        claim.owner_references.iter().flatten().filter(|r| !is_managed(r)).cloned().collect();
    if controller_of(claim).is_none_or(is_managed) {
        match keeper {
            ClaimOwner::None => {}
            ClaimOwner::Set => owners.push(controller_reference(set.object())),
            ClaimOwner::Pod => owners.push(controller_reference(pod.object())),
        }
    }
    owners
}

/// Returns true if a claim still belongs to an earlier pod of this name, and is deleted with it.
pub(super) fn is_of_earlier_pod(claim: &ObjectMeta, pod_name: &str) -> bool {
    claim.owner_references.iter().flatten().any(|r| r.kind == "Pod" && r.name == pod_name)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(policy: &Value) -> SharedObject<StatefulSet> {
        let value = json!({"metadata": {"name": "web", "namespace": "default", "uid": "set"},
            "spec": {"selector": {"matchLabels": {"app": "nginx"}}, "serviceName": "nginx", "template": {},
                "persistentVolumeClaimRetentionPolicy": policy,
                "volumeClaimTemplates": [
                    {"metadata": {"name": "www", "labels": {"tier": "disk"}, "annotations": {"a": "b"}},
                        "spec": {"accessModes": ["ReadWriteOnce"]}},
                    {"metadata": {"name": "log"}, "spec": {}}]}});
        SharedObject::from_value(serde_json::from_value(value).unwrap())
    }

    fn meta(owners: &[(&str, &str, bool)]) -> ObjectMeta {
        let owners: Vec<Value> = owners
            .iter()
            .map(|(kind, uid, controller)| {
                json!({"apiVersion": "v1", "kind": kind, "name": "web-1", "uid": uid, "controller": controller})
            })
            .collect();
        serde_json::from_value(json!({"ownerReferences": owners})).unwrap()
    }

    #[test]
    fn claims_are_named_for_template_set_and_ordinal_sts_1() {
        let set = set(&json!({}));
        let claims = new_claims(&set, 3);
        let names: Vec<&str> = claims.iter().filter_map(|c| c.metadata.name.as_deref()).collect();
        assert_eq!(names, ["www-web-3", "log-web-3"]);
        assert_eq!(
            serde_json::to_value(&claims[0].metadata).unwrap(),
            json!({"name": "www-web-3", "namespace": "default", "labels": {"app": "nginx", "tier": "disk"},
                "annotations": {"a": "b"}})
        );
        for (name, expected) in [
            ("www-web-3", Some(3)),
            ("log-web-0", Some(0)),
            ("www-web-x", None),
            ("www-other-3", None),
            ("tmp-web-3", None),
            ("web-3", None),
        ] {
            assert_eq!(ordinal_of(&set, name), expected, "{name}");
        }
    }

    #[test]
    fn the_retention_policy_decides_the_owner_of_a_claim_sts_1() {
        for (scaled, deleted, stays, condemned) in [
            ("Retain", "Retain", ClaimOwner::None, ClaimOwner::None),
            ("Retain", "Delete", ClaimOwner::Set, ClaimOwner::Set),
            ("Delete", "Retain", ClaimOwner::None, ClaimOwner::Pod),
            ("Delete", "Delete", ClaimOwner::Set, ClaimOwner::Pod),
        ] {
            let set = set(&json!({"whenScaled": scaled, "whenDeleted": deleted}));
            assert_eq!((keeper(&set, false), keeper(&set, true)), (stays, condemned), "{scaled} {deleted}");
        }
    }

    #[test]
    fn only_references_to_this_set_and_pod_are_touched_sts_1() {
        let set = set(&json!({}));
        let pod: Pod = serde_json::from_value(
            json!({"metadata": {"name": "web-1", "namespace": "default", "uid": "pod"}}),
        )
        .unwrap();
        let pod = SharedObject::from_value(pod);
        let uids = |claim: &ObjectMeta, keeper: ClaimOwner| {
            owners(claim, &set, &pod, keeper).iter().map(|r| r.uid.clone()).collect::<Vec<_>>().join(" ")
        };
        for (rule, before, keeper, expected) in [
            ("new", meta(&[]), ClaimOwner::Set, "set"),
            ("idle", meta(&[("StatefulSet", "set", true)]), ClaimOwner::None, ""),
            ("handed on", meta(&[("StatefulSet", "set", true)]), ClaimOwner::Pod, "pod"),
            ("taken back", meta(&[("Pod", "pod", true)]), ClaimOwner::Set, "set"),
            ("beside another", meta(&[("Thing", "other", false)]), ClaimOwner::Set, "other set"),
            ("another owner's", meta(&[("Thing", "other", true)]), ClaimOwner::Set, "other"),
            (
                "given up",
                meta(&[("Thing", "other", true), ("StatefulSet", "set", false)]),
                ClaimOwner::Set,
                "other",
            ),
            ("made controller", meta(&[("StatefulSet", "set", false)]), ClaimOwner::Set, "set"),
        ] {
            assert_eq!(uids(&before, keeper), expected, "{rule}");
        }
        assert_eq!(owners(&meta(&[]), &set, &pod, ClaimOwner::Pod)[0].controller, Some(true));
        assert!(is_of_earlier_pod(&meta(&[("Pod", "old", true)]), "web-1"));
        assert!(!is_of_earlier_pod(&meta(&[("StatefulSet", "set", true)]), "web-1"));
    }
}
