//! The total size of the owners of a budget's pods.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use api::{Api, ApiError};
use base::sort::CollectMap;
use object::owner::controller_of;
use object::{Key, Kind, ServedKind, SharedObject, Uid};
use reconcile::optional;

/// The owners' total size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ExpectedScale {
    pub(super) replicas: i32,
    /// Some pods have no controller.
    pub(super) unmanaged: bool,
}

/// The reason why the desired number of pods is unknown. The texts are kube-controller-manager's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ScaleError {
    /// The pod's controller is deleted, or another object has its name.
    #[error("found no controllers for pod \"{0}\"")]
    NoController(String),
    /// Its kind is not served here.
    #[error("no matches for kind \"{kind}\" in version \"{api_version}\"")]
    UnknownKind { kind: String, api_version: String },
    /// Its kind has no replica count.
    #[error("{0} does not implement the scale subresource")]
    NoScale(String),
    #[error("{0}")]
    Api(#[from] ApiError),
}

/// Returns the total size of the owners of these pods, counting each owner once.
pub(super) fn expected_scale(api: &Api, pods: &[SharedObject<Pod>]) -> Result<ExpectedScale, ScaleError> {
    // Maps each controller of pods to the object that sets its size, and the size. The ReplicaSets of a Deployment
    // share one.
    let mut known: BTreeMap<Uid, Option<(Uid, i32)>> = BTreeMap::new();
    let mut scale = ExpectedScale::default();
    for pod in pods {
        let Some(controller) = controller_of(&pod.metadata) else {
            scale.unmanaged = true;
            continue;
        };
        if !known.contains_key(&controller.uid) {
            known.insert(controller.uid.clone(), scale_of(api, pod.namespace(), controller)?);
        }
        if known[&controller.uid].is_none() {
            return Err(ScaleError::NoController(pod.name().to_string()));
        }
    }
    let scales: BTreeMap<Uid, i32> = known.into_values().flatten().collect_map();
    scale.replicas = scales.into_values().fold(0, i32::saturating_add);
    Ok(scale)
}

/// Returns the object that sets a controller's size, and the size; `None` if the controller is deleted.
fn scale_of(
    api: &Api,
    namespace: &str,
    controller: &OwnerReference,
) -> Result<Option<(Uid, i32)>, ScaleError> {
    let kinds = api.kinds();
    let served = kinds.by_api_version(&controller.api_version, &controller.kind);
    let kind = served.map(ServedKind::kind).ok_or_else(|| ScaleError::UnknownKind {
        kind: controller.kind.clone(),
        api_version: controller.api_version.clone(),
    })?;
    if !kinds.is_scalable(kind) {
        return Err(ScaleError::NoScale(kind.info().qualified_plural()));
    }
    let key = Key::new(namespace, controller.name.as_str());
    if kind == Kind::ReplicaSet
        && let Some(set) = optional(api.get_as::<ReplicaSet>(&key))?.filter(|set| set.uid() == controller.uid)
        && let Some(deployment) = controller_of(&set.metadata).filter(|r| r.kind == "Deployment")
    {
        return replicas(
            api,
            Kind::Deployment,
            &Key::new(namespace, deployment.name.as_str()),
            &deployment.uid,
        );
    }
    replicas(api, kind, &key, &controller.uid)
}

fn replicas(api: &Api, kind: Kind, key: &Key, uid: &str) -> Result<Option<(Uid, i32)>, ScaleError> {
    let scale = optional(api.scale(kind, key))?.filter(|scale| scale.metadata.uid.as_deref() == Some(uid));
    Ok(scale.map(|scale| (uid.to_string(), scale.spec.and_then(|s| s.replicas).unwrap_or(0))))
}
