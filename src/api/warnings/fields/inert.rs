//! The table of fields without effect.

use super::InertField;
use super::ValueCondition::{self, FieldIsNot, Is, IsNot, Set};

pub(super) const VOLUME: &str = "api.core.v1.Volume";
const POD: &str = "api.core.v1.PodSpec";
const POD_SECURITY: &str = "api.core.v1.PodSecurityContext";
const SECURITY: &str = "api.core.v1.SecurityContext";
const CLAIM: &str = "api.core.v1.PersistentVolumeClaimSpec";

const MODULES: &str = "ignored here: Podium configures no security modules";
const WINDOWS: &str = "ignored here: nodes do not run Windows";
const DEVICES: &str = "Podium does not allocate devices; the pods stay pending";
const BLOCK: &str = "Podium provides no block devices; the pods wait";
const UNMOUNTABLE: &str = "Podium cannot mount volumes of this type; the pods wait (FailedMount)";
const OWNER: &str = "ignored here: all files of a volume have the same owner";
const METRICS: &str =
    "Podium supports only resource metrics; the autoscaler reports the problem (ScalingActive)";
const SOURCE: &str =
    "Podium does not copy data into new volumes; a claim that needs provisioning stays pending";

const fn row(of: &'static str, field: &'static str, when: ValueCondition, text: &'static str) -> InertField {
    InertField { of, field, when, text }
}

/// Each field of a built-in type that is accepted and has no effect, or not the one that Kubernetes gives it.
pub const INERT: &[InertField] = &[
    row(POD, "evictionResponders", Set, "ignored here: evictions do not call responders"),
    row(POD, "os", FieldIsNot("name", "linux"), "ignored here: pods run on this machine"),
    row(POD, "resourceClaims", Set, DEVICES),
    row(POD, "schedulingGroup", Set, "Podium does not support pod groups; the pods stay pending"),
    row("api.core.v1.ResourceRequirements", "claims", Set, DEVICES),
    row(POD_SECURITY, "appArmorProfile", FieldIsNot("type", "Unconfined"), MODULES),
    row(POD_SECURITY, "seLinuxChangePolicy", Set, MODULES),
    row(POD_SECURITY, "seLinuxOptions", Set, MODULES),
    row(POD_SECURITY, "windowsOptions", Set, WINDOWS),
    row(SECURITY, "appArmorProfile", FieldIsNot("type", "Unconfined"), MODULES),
    row(SECURITY, "seLinuxOptions", Set, MODULES),
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
        "Podium does not support trust bundles; the pods wait (FailedMount) unless the source is optional",
    ),
    row(
        "api.core.v1.VolumeProjection",
        "podCertificate",
        Set,
        "Podium issues no pod certificates; the pods wait (FailedMount)",
    ),
    row(CLAIM, "dataSource", Set, SOURCE),
    row(CLAIM, "dataSourceRef", Set, SOURCE),
    row(
        CLAIM,
        "volumeAttributesClassName",
        Set,
        "Podium does not modify volumes; the class is only matched with the volume's",
    ),
    row(CLAIM, "volumeMode", Is("Block"), BLOCK),
    row(
        "api.core.v1.VolumeResourceRequirements",
        "limits",
        Set,
        "ignored, as in Kubernetes: only requests determine a claim's size",
    ),
    row("api.autoscaling.v2.MetricSpec", "external", Set, METRICS),
    row("api.autoscaling.v2.MetricSpec", "object", Set, METRICS),
    row("api.autoscaling.v2.MetricSpec", "pods", Set, METRICS),
    row(
        "api.autoscaling.v2.MetricTarget",
        "value",
        Set,
        "ignored, as in Kubernetes: resource metrics have only averages",
    ),
    row("api.batch.v1.JobSpec", "scheduling", Set, "ignored here: Podium does not support pod groups"),
];
