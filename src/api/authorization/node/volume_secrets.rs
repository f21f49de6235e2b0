//! The secrets with which volumes are mounted, which the node that mounts them reads (Kubernetes'
//! `VisitPodSecretNames` and `VisitPVSecretNames`). Those of a driver's controller are none of a node's.

use k8s_openapi::api::core::v1::{LocalObjectReference, PersistentVolume, SecretReference, Volume};

/// The secret of a volume that stands in a pod, from the pod's namespace.
pub(super) fn of_inline(volume: &Volume) -> Option<&str> {
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

/// Whether a volume is mounted with the secret; one that names no namespace means its claim's.
pub(super) fn is_mounted_with(volume: &PersistentVolume, namespace: &str, name: &str) -> bool {
    let Some(spec) = &volume.spec else { return false };
    let claims = spec.claim_ref.as_ref().and_then(|claim| claim.namespace.as_deref()).unwrap_or_default();
    let is = |of: Option<&str>, named: Option<&str>| {
        named == Some(name) && of.filter(|of| !of.is_empty()).unwrap_or(claims) == namespace
    };
    let refers = |reference: Option<&SecretReference>| {
        reference.is_some_and(|of| is(of.namespace.as_deref(), of.name.as_deref()))
    };
    let csi = spec.csi.as_ref();
    refers(csi.and_then(|csi| csi.node_publish_secret_ref.as_ref()))
        || refers(csi.and_then(|csi| csi.node_stage_secret_ref.as_ref()))
        || refers(csi.and_then(|csi| csi.node_expand_secret_ref.as_ref()))
        || refers(spec.cephfs.as_ref().and_then(|source| source.secret_ref.as_ref()))
        || refers(spec.cinder.as_ref().and_then(|source| source.secret_ref.as_ref()))
        || refers(spec.flex_volume.as_ref().and_then(|source| source.secret_ref.as_ref()))
        || refers(spec.iscsi.as_ref().and_then(|source| source.secret_ref.as_ref()))
        || refers(spec.rbd.as_ref().and_then(|source| source.secret_ref.as_ref()))
        || refers(spec.scale_io.as_ref().map(|source| &source.secret_ref))
        || spec
            .azure_file
            .as_ref()
            .is_some_and(|azure| is(azure.secret_namespace.as_deref(), Some(&azure.secret_name)))
        || spec
            .storageos
            .as_ref()
            .and_then(|source| source.secret_ref.as_ref())
            .is_some_and(|of| is(of.namespace.as_deref(), of.name.as_deref()))
}
