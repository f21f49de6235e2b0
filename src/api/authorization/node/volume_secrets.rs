//! The secrets with which persistent volumes are mounted, which the mounting node reads (Kubernetes'
//! `VisitPVSecretNames`). Secrets of a driver's controller are not for nodes.

use k8s_openapi::api::core::v1::{PersistentVolume, SecretReference};

/// Returns true if the volume is mounted with the secret; a reference without a namespace refers to the
/// namespace of the volume's claim.
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
