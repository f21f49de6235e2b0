//! Protects claims that pods use and volumes that claims use (VOL-2): `pvc-protection-controller` and
//! `pv-protection-controller`.
//!
//! Each object has a finalizer from its creation on, so a deleted one stays Terminating until it is no longer used.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::context::Context;
use api::{Api, ApiError, Change, ChangeKind};
use object::finalizers::has_finalizer;
use object::owner::is_terminating;
use object::pod::node_name;
use object::storage::{CLAIM_PROTECTION, VOLUME_PROTECTION, claims_of, is_created_for, volume_phase};
use object::{Key, SharedObject, TypedKind};
use reconcile::preconditions::{add_finalizer, remove_finalizer};
use reconcile::{ReconcileError, Reconciler};

/// Starts the controller of claims.
pub(crate) fn start_claims(context: &Context) {
    context
        .controller(|_| Claims { api: context.api.clone() })
        .keys_of::<PersistentVolumeClaim>()
        .watches::<PersistentVolumeClaim, _>(|_, change| key_if_unprotected(change, CLAIM_PROTECTION))
        .watches::<Pod, _>(|_, change| released_claims(change))
        .run(&context.tasks);
}

/// Starts the controller of volumes.
pub(crate) fn start_volumes(context: &Context) {
    context
        .controller(|_| Volumes { api: context.api.clone() })
        .keys_of::<PersistentVolume>()
        .watches::<PersistentVolume, _>(|_, change| key_if_unprotected(change, VOLUME_PROTECTION))
        .run(&context.tasks);
}

struct Claims {
    api: Api,
}

impl Reconciler for Claims {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Ok(claim) = self.api.get_as::<PersistentVolumeClaim>(key) else { return Ok(()) };
        let in_use = || self.api.list_as(Some(&key.namespace)).iter().any(|pod| uses(pod, &claim));
        Ok(protect(&self.api, &claim, CLAIM_PROTECTION, in_use)?)
    }
}

/// Returns the claims of a pod that is deleted or terminating: it may have been their last user.
fn released_claims(change: &Change) -> Vec<Key> {
    let pod = change.object.get::<Pod>();
    let released = pod.filter(|pod| change.kind == ChangeKind::Deleted || is_terminating(&pod.metadata));
    let used = released.into_iter().flat_map(claims_of);
    used.map(|used| Key::new(change.object.namespace(), used.claim)).collect()
}

/// Returns true if a pod needs the claim: it is bound to a node, and, if the claim was created for it, is not being
/// deleted with a grace period of zero. A pod that has ended still counts, as in Kubernetes: users may inspect it.
fn uses(pod: &Pod, claim: &SharedObject<PersistentVolumeClaim>) -> bool {
    let meta = &pod.metadata;
    let given_up = is_terminating(meta) && meta.deletion_grace_period_seconds == Some(0);
    node_name(pod).is_some()
        && claims_of(pod).any(|used| {
            used.claim == claim.name() && (!used.ephemeral || (!given_up && is_created_for(claim, pod)))
        })
}

struct Volumes {
    api: Api,
}

impl Reconciler for Volumes {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Ok(volume) = self.api.get_as::<PersistentVolume>(key) else { return Ok(()) };
        Ok(protect(&self.api, &volume, VOLUME_PROTECTION, || volume_phase(&volume) == "Bound")?)
    }
}

/// Returns the key of an object that lacks its finalizer, or should lose it.
fn key_if_unprotected(change: &Change, finalizer: &str) -> Option<Key> {
    let meta: &ObjectMeta = change.object.meta();
    let is_due = change.kind != ChangeKind::Deleted && is_terminating(meta) == has_finalizer(meta, finalizer);
    is_due.then(|| change.object.key())
}

/// Adds the finalizer to living objects, and removes it from terminating ones that are not used.
fn protect<T: TypedKind>(
    api: &Api,
    object: &SharedObject<T>,
    finalizer: &str,
    in_use: impl FnOnce() -> bool,
) -> Result<(), ApiError> {
    match (is_terminating(object.metadata()), has_finalizer(object.metadata(), finalizer)) {
        (true, true) if !in_use() => remove_finalizer(api, object, finalizer),
        (false, false) => add_finalizer(api, object, finalizer),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_on_a_node_holds_its_claims_vol_2() {
        let claim: PersistentVolumeClaim = serde_json::from_value(json!({"metadata": {"name": "p-own",
            "namespace": "n", "ownerReferences":
                [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", "controller": true}]}}))
        .unwrap();
        let claim = SharedObject::from_value(claim);
        let named = json!({"name": "v", "persistentVolumeClaim": {"claimName": "p-own"}});
        let own = json!({"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}});
        let given_up = json!({"deletionTimestamp": "2026-11-21T00:00:00Z", "deletionGracePeriodSeconds": 0});
        for (rule, uid, node, volume, more, expected) in [
            ("named", "9", "n1", &named, json!({}), true),
            ("without a node", "9", "", &named, json!({}), false),
            ("named and given up", "9", "n1", &named, given_up.clone(), true),
            ("its own", "1", "n1", &own, json!({}), true),
            ("its own and given up", "1", "n1", &own, given_up, false),
            ("of a pod of this name before", "2", "n1", &own, json!({}), false),
        ] {
            let mut meta = json!({"name": "p", "namespace": "n", "uid": uid});
            meta.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let pod = json!({"metadata": meta,
                "spec": {"nodeName": node, "containers": [], "volumes": [volume]}});
            assert_eq!(uses(&serde_json::from_value(pod).unwrap(), &claim), expected, "{rule}");
        }
    }
}
