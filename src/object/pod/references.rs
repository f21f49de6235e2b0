//! The Secrets and ConfigMaps that a pod refers to: in its volumes, in the environments of its containers (init, app
//! and ephemeral), and for pulling images (Kubernetes' `VisitPodSecretNames` and `VisitPodConfigmapNames`).

use k8s_openapi::api::core::v1::{
    EnvFromSource, EnvVar, LocalObjectReference, PodSpec, Volume, VolumeProjection,
};

/// Returns the secrets that the pod reads, or pulls its images with.
pub fn secrets(spec: &PodSpec) -> impl Iterator<Item = &str> {
    let pulled = spec.image_pull_secrets.iter().flatten().map(|secret| secret.name.as_str());
    let mounted = spec.volumes.iter().flatten().filter_map(of_inline);
    let projected = projected(spec).filter_map(|source| Some(source.secret.as_ref()?.name.as_str()));
    let read = environment(spec).filter_map(|(from, env)| match (from, env) {
        (Some(from), _) => Some(from.secret_ref.as_ref()?.name.as_str()),
        (_, env) => Some(env?.value_from.as_ref()?.secret_key_ref.as_ref()?.name.as_str()),
    });
    pulled.chain(mounted).chain(projected).chain(read)
}

/// Returns the config maps that the pod reads.
pub fn config_maps(spec: &PodSpec) -> impl Iterator<Item = &str> {
    let mounted = spec.volumes.iter().flatten().filter_map(|v| Some(v.config_map.as_ref()?.name.as_str()));
    let projected = projected(spec).filter_map(|source| Some(source.config_map.as_ref()?.name.as_str()));
    let read = environment(spec).filter_map(|(from, env)| match (from, env) {
        (Some(from), _) => Some(from.config_map_ref.as_ref()?.name.as_str()),
        (_, env) => Some(env?.value_from.as_ref()?.config_map_key_ref.as_ref()?.name.as_str()),
    });
    mounted.chain(projected).chain(read)
}

/// Returns the sources of the pod's projected volumes.
pub fn projected(spec: &PodSpec) -> impl Iterator<Item = &VolumeProjection> {
    let volumes = spec.volumes.iter().flatten().filter_map(|volume| volume.projected.as_ref());
    volumes.flat_map(|projected| projected.sources.iter().flatten())
}

type Source<'a> = (Option<&'a EnvFromSource>, Option<&'a EnvVar>);

/// Returns the sources of every container's environment.
fn environment(spec: &PodSpec) -> impl Iterator<Item = Source<'_>> {
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

/// Returns the secret that an inline volume of the pod names; it is in the pod's namespace.
fn of_inline(volume: &Volume) -> Option<&str> {
    let reference: Option<&LocalObjectReference> = None
        .or_else(|| volume.csi.as_ref()?.node_publish_secret_ref.as_ref())
        .or_else(|| volume.cephfs.as_ref()?.secret_ref.as_ref())
        .or_else(|| volume.cinder.as_ref()?.secret_ref.as_ref())
        .or_else(|| volume.flex_volume.as_ref()?.secret_ref.as_ref())
        .or_else(|| volume.iscsi.as_ref()?.secret_ref.as_ref())
        .or_else(|| volume.rbd.as_ref()?.secret_ref.as_ref())
        .or_else(|| volume.storageos.as_ref()?.secret_ref.as_ref())
        .or_else(|| Some(&volume.scale_io.as_ref()?.secret_ref));
    let plain = || {
        let azure = volume.azure_file.as_ref().map(|azure| azure.secret_name.as_str());
        azure.or_else(|| volume.secret.as_ref()?.secret_name.as_deref())
    };
    reference.map(|reference| reference.name.as_str()).or_else(plain)
}
