//! Decides the volume for a claim, or the refusal: pure.
//!
//! A class of [`DIRECTORY_PROVISIONER`] provides a directory that every node reaches; a class of [`DISK_DRIVER`] a
//! disk, which is attached to one node at a time, and is a directory too.

use std::time::Duration;

use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, HostPathVolumeSource, PersistentVolume, PersistentVolumeClaim,
    PersistentVolumeSpec,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use base::sort::CollectMap;
use object::SharedObject;
use object::owner::is_terminating;
use object::storage::{
    BETA_STORAGE_PROVISIONER, DIRECTORY_PROVISIONER, DISK_DRIVER, DISK_PATH, PROVISIONED_BY,
    PROVISIONER_FINALIZER, STORAGE_PROVISIONER, annotation, claim_size, keep_for, volume_name,
};

/// The delay before a failed attempt is repeated.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_secs(15);

/// Returns true if this controller acts as the provisioner.
pub(super) fn is_builtin(provisioner: &str) -> bool {
    matches!(provisioner, DIRECTORY_PROVISIONER | DISK_DRIVER)
}

/// Returns true if a claim needs a volume from here, and has none.
pub(super) fn needs_provisioning(claim: &PersistentVolumeClaim) -> bool {
    let named = [STORAGE_PROVISIONER, BETA_STORAGE_PROVISIONER];
    let is_managed = |key: &str| annotation(&claim.metadata, key).is_some_and(is_builtin);
    named.iter().any(|key| is_managed(key))
        && volume_name(claim).is_none()
        && !is_terminating(&claim.metadata)
}

/// Returns the name of the volume for a claim: repeated attempts use the same name.
pub(super) fn volume_name_for(claim: &SharedObject<PersistentVolumeClaim>) -> String {
    format!("pvc-{}", claim.uid())
}

/// Returns the reason why a directory cannot serve the claim.
pub(super) fn refusal(claim: &PersistentVolumeClaim, class: &StorageClass) -> Option<String> {
    let spec = claim.spec.as_ref()?;
    let options = class.mount_options.as_deref().unwrap_or_default();
    let provisioner = class.provisioner.as_str();
    let shared = |mode: &&String| provisioner == DISK_DRIVER && !mode.starts_with("ReadWriteOnce");
    if let Some(mode) = spec.access_modes.iter().flatten().find(shared) {
        Some(format!("{DISK_DRIVER} is attached to one node at a time and cannot be {mode}"))
    } else if spec.volume_mode.as_deref() == Some("Block") {
        Some(format!("{provisioner} does not support block volume provisioning"))
    } else if spec.selector.is_some() {
        Some("claim.Spec.Selector is not supported".to_string())
    } else if spec.data_source.is_some() || spec.data_source_ref.is_some() {
        Some(format!("{provisioner} cannot provision a claim with a datasource"))
    } else if let Some(key) = class.parameters.iter().flatten().map(|(key, _)| key).next() {
        Some(format!("invalid option \"{key}\" for provisioner {provisioner}"))
    } else if !options.is_empty() {
        let class = class.metadata.name.as_deref().unwrap_or_default();
        Some(format!(
            "Mount options are not supported by the provisioner but StorageClass \"{class}\" has mount options {options:?}"
        ))
    } else {
        None
    }
}

/// Builds the volume for a claim, reserved for it, with this directory.
pub(super) fn volume(
    claim: &SharedObject<PersistentVolumeClaim>,
    class: &SharedObject<StorageClass>,
    path: &str,
) -> PersistentVolume {
    let policy = class.reclaim_policy.clone().unwrap_or_else(|| "Delete".into());
    let annotations = [(PROVISIONED_BY.to_string(), class.provisioner.clone())].collect_map();
    let is_disk = class.provisioner == DISK_DRIVER;
    let name = volume_name_for(claim);
    let finalizers = (policy == "Delete").then(|| vec![PROVISIONER_FINALIZER.to_string()]);
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        annotations: Some(annotations),
        finalizers,
        ..ObjectMeta::default()
    };
    let spec = PersistentVolumeSpec {
        access_modes: claim.spec.as_ref().and_then(|spec| spec.access_modes.clone()),
        capacity: Some([("storage".to_string(), claim_size(claim).to_binary())].collect_map()),
        host_path: (!is_disk)
            .then(|| HostPathVolumeSource { path: path.into(), type_: Some("Directory".into()) }),
        csi: is_disk.then(|| CSIPersistentVolumeSource {
            driver: DISK_DRIVER.into(),
            volume_handle: name,
            volume_attributes: Some([(DISK_PATH.to_string(), path.to_string())].collect_map()),
            ..CSIPersistentVolumeSource::default()
        }),
        persistent_volume_reclaim_policy: Some(policy),
        storage_class_name: Some(class.name().into()),
        volume_mode: Some("Filesystem".into()),
        ..PersistentVolumeSpec::default()
    };
    let mut volume = PersistentVolume { metadata, spec: Some(spec), status: None };
    keep_for(&mut volume, claim);
    // The volume was created for the claim, so it does not count as bound by a controller.
    if let Some(annotations) = &mut volume.metadata.annotations {
        annotations.remove(object::storage::BOUND_BY_CONTROLLER);
    }
    volume
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn claim(annotations: &Value, spec: &Value) -> SharedObject<PersistentVolumeClaim> {
        let mut spec = spec.clone();
        if spec["accessModes"].is_null() {
            spec["accessModes"] = json!(["ReadWriteOnce"]);
        }
        spec["resources"] = json!({"requests": {"storage": "1024Mi"}});
        let claim = json!({"metadata": {"name": "c", "namespace": "n", "uid": "1", "annotations": annotations},
            "spec": spec});
        SharedObject::from_value(serde_json::from_value(claim).unwrap())
    }

    fn class(more: &Value) -> SharedObject<StorageClass> {
        let mut class = more.clone();
        class["metadata"] = json!({"name": "standard"});
        if class["provisioner"].is_null() {
            class["provisioner"] = json!(DIRECTORY_PROVISIONER);
        }
        SharedObject::from_value(serde_json::from_value(class).unwrap())
    }

    #[test]
    fn claims_of_the_provisioner_get_a_host_path_directory_vol_2() {
        let own = json!({"volume.kubernetes.io/storage-provisioner": "podium.dev/directory"});
        let external = json!({"volume.kubernetes.io/storage-provisioner": "example.com/nfs"});
        assert!(needs_provisioning(&claim(&own, &json!({}))));
        assert!(!needs_provisioning(&claim(&external, &json!({}))));
        assert!(!needs_provisioning(&claim(&own, &json!({"volumeName": "v"}))));

        let made = volume(&claim(&own, &json!({})), &class(&json!({})), "/d/pvc-1");
        let made = serde_json::to_value(made).unwrap();
        assert_eq!(made["metadata"]["name"], "pvc-1");
        assert_eq!(made["spec"]["capacity"]["storage"], "1Gi");
        assert_eq!(made["spec"]["hostPath"], json!({"path": "/d/pvc-1", "type": "Directory"}));
        assert_eq!(made["spec"]["claimRef"]["uid"], "1");
        assert_eq!(made["metadata"]["finalizers"], json!([PROVISIONER_FINALIZER]));
        assert_eq!(made["metadata"]["annotations"], json!({PROVISIONED_BY: DIRECTORY_PROVISIONER}));
        let retained = volume(&claim(&own, &json!({})), &class(&json!({"reclaimPolicy": "Retain"})), "/d");
        assert!(retained.metadata.finalizers.is_none());

        let disks = json!({"provisioner": "disk.podium.dev"});
        let disk = volume(&claim(&own, &json!({})), &class(&disks), "/d/pvc-1");
        let disk = serde_json::to_value(disk).unwrap();
        assert_eq!(disk["spec"]["hostPath"], Value::Null);
        assert_eq!(
            disk["spec"]["csi"],
            json!({"driver": "disk.podium.dev", "volumeHandle": "pvc-1",
            "volumeAttributes": {"path": "/d/pvc-1"}})
        );
        assert_eq!(disk["metadata"]["annotations"], json!({PROVISIONED_BY: "disk.podium.dev"}));
    }

    #[test]
    fn unsupported_claims_for_a_directory_are_refused_with_the_reason_vol_2() {
        for (spec, class_given, expected) in [
            (json!({}), json!({}), None),
            (
                json!({"volumeMode": "Block"}),
                json!({}),
                Some("podium.dev/directory does not support block volume provisioning"),
            ),
            (json!({"selector": {}}), json!({}), Some("claim.Spec.Selector is not supported")),
            (
                json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "x"}}),
                json!({}),
                Some("podium.dev/directory cannot provision a claim with a datasource"),
            ),
            (
                json!({}),
                json!({"parameters": {"type": "ssd"}}),
                Some("invalid option \"type\" for provisioner podium.dev/directory"),
            ),
            (
                json!({}),
                json!({"mountOptions": ["ro"]}),
                Some(
                    "Mount options are not supported by the provisioner but StorageClass \"standard\" has mount \
                     options [\"ro\"]",
                ),
            ),
            (
                json!({"accessModes": ["ReadWriteMany"]}),
                json!({"provisioner": "disk.podium.dev"}),
                Some("disk.podium.dev is attached to one node at a time and cannot be ReadWriteMany"),
            ),
            (json!({"accessModes": ["ReadWriteOncePod"]}), json!({"provisioner": "disk.podium.dev"}), None),
        ] {
            let actual = refusal(&claim(&json!({}), &spec), &class(&class_given));
            assert_eq!(actual.as_deref(), expected, "{spec} {class_given}");
        }
    }
}
