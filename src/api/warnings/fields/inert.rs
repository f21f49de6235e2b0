//! The table of fields without effect.

use super::InertField;
use super::When::{self, FieldIsNot, Is, IsNot, Set};

pub(super) const VOLUME: &str = "api.core.v1.Volume";
const POD: &str = "api.core.v1.PodSpec";
const POD_SECURITY: &str = "api.core.v1.PodSecurityContext";
const SECURITY: &str = "api.core.v1.SecurityContext";
const CLAIM: &str = "api.core.v1.PersistentVolumeClaimSpec";

const MODULES: &str = "ignored here: processes have the machine's security modules";
const SYSTEM_CALLS: &str = "ignored here: no system call is filtered";
const WINDOWS: &str = "ignored here: this is not Windows";
const DEVICES: &str = "devices are not allocated here; its pods stay pending";
const BLOCK: &str = "block devices are not offered here; its pods wait";
const UNMOUNTABLE: &str = "volumes of this type cannot be mounted here; its pods wait (FailedMount)";
const OWNER: &str = "ignored here: files of volumes belong to one user";
const METRICS: &str = "no server of such metrics is asked here; the autoscaler says so (ScalingActive)";
const SOURCE: &str = "no volume is filled from another here; a claim that must be provisioned stays pending";

const fn row(of: &'static str, field: &'static str, when: When, text: &'static str) -> InertField {
    InertField { of, field, when, text }
}

/// Each field of a built-in type that is accepted and has no effect, or not the one that Kubernetes gives it.
pub(crate) const INERT: &[InertField] = &[
    row(POD, "evictionResponders", Set, "ignored here: no eviction asks them"),
    row(POD, "hostUsers", Is("false"), "ignored here: a pod's users are this machine's"),
    row(POD, "imagePullSecrets", Set, "ignored here: no image is pulled from a registry"),
    row(POD, "os", FieldIsNot("name", "linux"), "ignored here: pods run on this machine"),
    row(POD, "resourceClaims", Set, DEVICES),
    row(POD, "schedulingGroup", Set, "pod groups are not served here; its pods stay pending"),
    row("api.core.v1.ResourceRequirements", "claims", Set, DEVICES),
    row(POD_SECURITY, "appArmorProfile", FieldIsNot("type", "Unconfined"), MODULES),
    row(POD_SECURITY, "seLinuxChangePolicy", Set, MODULES),
    row(POD_SECURITY, "seLinuxOptions", Set, MODULES),
    row(POD_SECURITY, "seccompProfile", FieldIsNot("type", "Unconfined"), SYSTEM_CALLS),
    row(POD_SECURITY, "windowsOptions", Set, WINDOWS),
    row(SECURITY, "appArmorProfile", FieldIsNot("type", "Unconfined"), MODULES),
    row(
        SECURITY,
        "procMount",
        IsNot("Default"),
        "ignored here where Podium is run by root: a pod's users are this machine's",
    ),
    row(SECURITY, "seLinuxOptions", Set, MODULES),
    row(SECURITY, "seccompProfile", FieldIsNot("type", "Unconfined"), SYSTEM_CALLS),
    row(SECURITY, "windowsOptions", Set, WINDOWS),
    row("api.core.v1.Container", "volumeDevices", Set, BLOCK),
    row("api.core.v1.EphemeralContainer", "volumeDevices", Set, BLOCK),
    row("api.core.v1.GRPCAction", "mode", IsNot("Plaintext"), "ignored here: the probe speaks plain HTTP/2"),
    row("api.core.v1.HTTPGetAction", "protocol", Set, "ignored here: the probe speaks HTTP/1.1"),
    row("api.core.v1.VolumeMount", "bindMountOptions", Set, "ignored here"),
    row("api.core.v1.VolumeMount", "mountPropagation", IsNot("None"), "ignored here: mounts are not shared"),
    row(VOLUME, "awsElasticBlockStore", Set, UNMOUNTABLE),
    row(VOLUME, "azureDisk", Set, UNMOUNTABLE),
    row(VOLUME, "azureFile", Set, UNMOUNTABLE),
    row(VOLUME, "cephfs", Set, UNMOUNTABLE),
    row(VOLUME, "cinder", Set, UNMOUNTABLE),
    row(VOLUME, "csi", Set, UNMOUNTABLE),
    row(VOLUME, "fc", Set, UNMOUNTABLE),
    row(VOLUME, "flexVolume", Set, UNMOUNTABLE),
    row(VOLUME, "flocker", Set, UNMOUNTABLE),
    row(VOLUME, "gcePersistentDisk", Set, UNMOUNTABLE),
    row(VOLUME, "gitRepo", Set, UNMOUNTABLE),
    row(VOLUME, "glusterfs", Set, UNMOUNTABLE),
    row(VOLUME, "image", Set, UNMOUNTABLE),
    row(VOLUME, "iscsi", Set, UNMOUNTABLE),
    row(VOLUME, "nfs", Set, UNMOUNTABLE),
    row(VOLUME, "photonPersistentDisk", Set, UNMOUNTABLE),
    row(VOLUME, "portworxVolume", Set, UNMOUNTABLE),
    row(VOLUME, "quobyte", Set, UNMOUNTABLE),
    row(VOLUME, "rbd", Set, UNMOUNTABLE),
    row(VOLUME, "scaleIO", Set, UNMOUNTABLE),
    row(VOLUME, "storageos", Set, UNMOUNTABLE),
    row(VOLUME, "vsphereVolume", Set, UNMOUNTABLE),
    row("api.core.v1.ConfigMapVolumeSource", "defaultUser", Set, OWNER),
    row("api.core.v1.DownwardAPIVolumeSource", "defaultUser", Set, OWNER),
    row("api.core.v1.ProjectedVolumeSource", "defaultUser", Set, OWNER),
    row("api.core.v1.SecretVolumeSource", "defaultUser", Set, OWNER),
    row("api.core.v1.DownwardAPIVolumeFile", "user", Set, OWNER),
    row("api.core.v1.KeyToPath", "user", Set, OWNER),
    row("api.core.v1.ServiceAccountTokenProjection", "user", Set, OWNER),
    row(
        "api.core.v1.VolumeProjection",
        "clusterTrustBundle",
        Set,
        "trust bundles are not served here; its pods wait (FailedMount) unless it is optional",
    ),
    row(
        "api.core.v1.VolumeProjection",
        "podCertificate",
        Set,
        "certificates of pods are not issued here; its pods wait (FailedMount)",
    ),
    row(CLAIM, "dataSource", Set, SOURCE),
    row(CLAIM, "dataSourceRef", Set, SOURCE),
    row(
        CLAIM,
        "volumeAttributesClassName",
        Set,
        "no volume is modified here; it is only matched with the volume's",
    ),
    row(CLAIM, "volumeMode", Is("Block"), BLOCK),
    row(
        "api.core.v1.VolumeResourceRequirements",
        "limits",
        Set,
        "ignored, as in Kubernetes: a claim is as large as it requests",
    ),
    row("api.autoscaling.v2.MetricSpec", "external", Set, METRICS),
    row("api.autoscaling.v2.MetricSpec", "object", Set, METRICS),
    row("api.autoscaling.v2.MetricSpec", "pods", Set, METRICS),
    row(
        "api.autoscaling.v2.MetricTarget",
        "value",
        Set,
        "ignored, as in Kubernetes: metrics of resources have averages alone",
    ),
    row("api.batch.v1.JobSpec", "scheduling", Set, "ignored here: pod groups are not served"),
];
