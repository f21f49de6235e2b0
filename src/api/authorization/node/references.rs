//! The objects that the pods of a node reference, which the node may therefore read.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, PodSpec, Volume};
use k8s_openapi::api::storage::v1::CSIDriver;

use super::volume_secrets;
use crate::Api;
use object::pod::references::projected;
use object::{Key, SharedObject};

/// Returns true if the pod is bound to the node.
pub(super) fn is_on(pod: &SharedObject<Pod>, node: &str) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node)
}

/// Returns true if `is_such` holds for a pod of the namespace that is bound to the node.
pub(super) fn any_pod_of_node(
    api: &Api,
    node: &str,
    namespace: &str,
    is_such: impl Fn(&PodSpec) -> bool,
) -> bool {
    !namespace.is_empty()
        && api
            .list_as::<Pod>(Some(namespace))
            .iter()
            .any(|pod| is_on(pod, node) && pod.spec.as_ref().is_some_and(&is_such))
}

/// Returns true if a pod of the node names the volume claim, or has an ephemeral volume for it.
pub(super) fn names_claim(api: &Api, node: &str, namespace: &str, claim: &str) -> bool {
    !namespace.is_empty()
        && api.list_as::<Pod>(Some(namespace)).iter().any(|pod| {
            let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
            is_on(pod, node)
                && volumes.into_iter().any(|volume| {
                    let named = volume.persistent_volume_claim.as_ref().map(|c| c.claim_name.as_str());
                    named == Some(claim)
                        || (volume.ephemeral.is_some() && claim == format!("{}-{}", pod.name(), volume.name))
                })
        })
}

/// Returns true if a pod of the node uses the resource claim, which it names or got from its template.
pub(super) fn names_resource_claim(api: &Api, node: &str, namespace: &str, claim: &str) -> bool {
    !namespace.is_empty()
        && api.list_as::<Pod>(Some(namespace)).iter().any(|pod| {
            let named = pod.spec.iter().flat_map(|spec| spec.resource_claims.iter().flatten());
            let given = pod.status.iter().flat_map(|status| status.resource_claim_statuses.iter().flatten());
            let extended = pod.status.as_ref().and_then(|s| s.extended_resource_claim_status.as_ref());
            is_on(pod, node)
                && (named.into_iter().any(|of| of.resource_claim_name.as_deref() == Some(claim))
                    || given.into_iter().any(|of| of.resource_claim_name.as_deref() == Some(claim))
                    || extended.is_some_and(|of| of.resource_claim_name == claim))
        })
}

/// Returns true if a volume of a pod of the node is mounted with the secret.
pub(super) fn mounts_with_secret(api: &Api, node: &str, namespace: &str, name: &str) -> bool {
    api.list_as::<PersistentVolume>(None).iter().any(|volume| {
        let claim = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
        volume_secrets::is_mounted_with(volume, namespace, name)
            && claim.is_some_and(|claim| {
                let part = |of: &Option<String>| of.clone().unwrap_or_default();
                names_claim(api, node, &part(&claim.namespace), &part(&claim.name))
            })
    })
}

/// Returns true if the pod needs tokens of the audience: for a projected volume, or for a driver of one of
/// its volumes that requests them.
pub(super) fn uses_audience(api: &Api, pod: &SharedObject<Pod>, audience: &str) -> bool {
    let driver_requests = |driver: &str| {
        let driver = api.get_as::<CSIDriver>(&Key::new("", driver)).ok();
        let requests = driver.and_then(|driver| driver.spec.token_requests.clone());
        requests.into_iter().flatten().any(|request| request.audience == audience)
    };
    pod.spec.as_ref().is_some_and(|spec| {
        let mut tokens = projected(spec).filter_map(|source| source.service_account_token.as_ref());
        let mut drivers = spec.volumes.iter().flatten().filter_map(|volume| driver_of(api, pod, volume));
        tokens.any(|token| token.audience.as_deref().unwrap_or_default() == audience)
            || drivers.any(|driver| driver_requests(&driver))
    })
}

/// Returns the name of the driver that provides a volume of the pod.
fn driver_of(api: &Api, pod: &SharedObject<Pod>, volume: &Volume) -> Option<String> {
    if let Some(inline) = &volume.csi {
        return Some(inline.driver.clone());
    }
    let claim = match &volume.persistent_volume_claim {
        Some(named) => named.claim_name.clone(),
        None => volume.ephemeral.as_ref().map(|_| format!("{}-{}", pod.name(), volume.name))?,
    };
    let claim = api.get_as::<PersistentVolumeClaim>(&Key::new(pod.namespace(), &claim)).ok()?;
    let bound = claim.spec.as_ref()?.volume_name.clone()?;
    let bound = api.get_as::<PersistentVolume>(&Key::new("", &bound)).ok()?;
    Some(bound.spec.as_ref()?.csi.as_ref()?.driver.clone())
}
