//! What the pods of a node refer to: whatever it may read because of them.

use k8s_openapi::api::core::v1::{
    EnvFromSource, EnvVar, PersistentVolume, PersistentVolumeClaim, Pod, PodSpec, Volume,
};
use k8s_openapi::api::storage::v1::CSIDriver;

use crate::Api;
use object::{Key, Shared};

/// Whether the pod is bound to the node.
pub(super) fn is_on(pod: &Shared<Pod>, node: &str) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node)
}

/// Whether a pod of the namespace that is bound to the node is such.
pub(super) fn pods(api: &Api, node: &str, namespace: &str, is_such: impl Fn(&PodSpec) -> bool) -> bool {
    !namespace.is_empty()
        && api
            .list_as::<Pod>(Some(namespace))
            .iter()
            .any(|pod| is_on(pod, node) && pod.spec.as_ref().is_some_and(&is_such))
}

/// Whether a pod of the node names the volume claim, or has it made for itself.
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

/// Whether a pod of the node takes the devices of the claim, which it names or was given one by its template.
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

/// Whether the pod reads the secret, or pulls its images with it.
pub(super) fn names_secret(spec: &PodSpec, name: &str) -> bool {
    let pulled = spec.image_pull_secrets.iter().flatten().any(|secret| secret.name == name);
    let mounted = spec.volumes.iter().flatten().any(|volume| {
        let projected = volume.projected.iter().flat_map(|p| p.sources.iter().flatten());
        volume.secret.as_ref().and_then(|secret| secret.secret_name.as_deref()) == Some(name)
            || projected.into_iter().any(|source| source.secret.as_ref().is_some_and(|s| s.name == name))
    });
    let read = environment(spec).any(|(from, env)| match (from, env) {
        (Some(from), _) => from.secret_ref.as_ref().is_some_and(|secret| secret.name == name),
        (_, Some(env)) => env
            .value_from
            .as_ref()
            .and_then(|source| source.secret_key_ref.as_ref())
            .is_some_and(|secret| secret.name == name),
        _ => false,
    });
    pulled || mounted || read
}

/// Whether the pod reads the config map.
pub(super) fn names_config_map(spec: &PodSpec, name: &str) -> bool {
    let mounted = spec.volumes.iter().flatten().any(|volume| {
        let projected = volume.projected.iter().flat_map(|p| p.sources.iter().flatten());
        volume.config_map.as_ref().is_some_and(|map| map.name == name)
            || projected.into_iter().any(|source| source.config_map.as_ref().is_some_and(|m| m.name == name))
    });
    let read = environment(spec).any(|(from, env)| match (from, env) {
        (Some(from), _) => from.config_map_ref.as_ref().is_some_and(|map| map.name == name),
        (_, Some(env)) => env
            .value_from
            .as_ref()
            .and_then(|source| source.config_map_key_ref.as_ref())
            .is_some_and(|map| map.name == name),
        _ => false,
    });
    mounted || read
}

type Source<'a> = (Option<&'a EnvFromSource>, Option<&'a EnvVar>);

/// Where the environment of every container comes from.
pub(super) fn environment(spec: &PodSpec) -> impl Iterator<Item = Source<'_>> {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let of_containers = containers.flat_map(|c| {
        let from = c.env_from.iter().flatten().map(|from| (Some(from), None));
        from.chain(c.env.iter().flatten().map(|env| (None, Some(env))))
    });
    let of_ephemeral = spec.ephemeral_containers.iter().flatten().flat_map(|c| {
        let from = c.env_from.iter().flatten().map(|from| (Some(from), None));
        from.chain(c.env.iter().flatten().map(|env| (None, Some(env))))
    });
    of_containers.chain(of_ephemeral)
}

/// Whether the pod refers to any secret.
pub(super) fn names_any_secret(spec: &PodSpec) -> bool {
    let volumes = spec.volumes.iter().flatten();
    spec.image_pull_secrets.as_ref().is_some_and(|secrets| !secrets.is_empty())
        || volumes.clone().any(|volume| volume.secret.is_some())
        || volumes
            .filter_map(|volume| volume.projected.as_ref())
            .flat_map(|projected| projected.sources.iter().flatten())
            .any(|source| source.secret.is_some())
        || environment(spec).any(|(from, env)| {
            let read = env.and_then(|env| env.value_from.as_ref());
            from.is_some_and(|from| from.secret_ref.is_some())
                || read.is_some_and(|read| read.secret_key_ref.is_some())
        })
}

/// Whether the pod refers to any config map.
pub(super) fn names_any_config_map(spec: &PodSpec) -> bool {
    let volumes = spec.volumes.iter().flatten();
    volumes.clone().any(|volume| volume.config_map.is_some())
        || volumes
            .filter_map(|volume| volume.projected.as_ref())
            .flat_map(|projected| projected.sources.iter().flatten())
            .any(|source| source.config_map.is_some())
        || environment(spec).any(|(from, env)| {
            let read = env.and_then(|env| env.value_from.as_ref());
            from.is_some_and(|from| from.config_map_ref.is_some())
                || read.is_some_and(|read| read.config_map_key_ref.is_some())
        })
}

/// Whether the pod has a use for tokens of the audience: a projected volume, or a driver of one of its volumes that
/// asks for them.
pub(super) fn uses_audience(api: &Api, pod: &Shared<Pod>, audience: &str) -> bool {
    let projects = |volume: &Volume| {
        let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        let mut tokens = sources.filter_map(|source| source.service_account_token.as_ref());
        tokens.any(|token| token.audience.as_deref().unwrap_or_default() == audience)
    };
    let driver_asks = |driver: &str| {
        let driver = api.get_as::<CSIDriver>(&Key::new("", driver)).ok();
        let requests = driver.and_then(|driver| driver.spec.token_requests.clone());
        requests.into_iter().flatten().any(|request| request.audience == audience)
    };
    pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()).any(|volume| {
        projects(volume) || driver_of(api, pod, volume).is_some_and(|driver| driver_asks(&driver))
    })
}

/// The name of the driver that provides a volume of the pod.
fn driver_of(api: &Api, pod: &Shared<Pod>, volume: &Volume) -> Option<String> {
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
