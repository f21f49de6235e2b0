//! The treatment of a volume after the deletion of its claim.

use k8s_openapi::api::core::v1::PersistentVolume;

use super::Binder;
use api::ApiError;
use object::storage::{PROVISIONED_BY, annotation, reclaim_policy, volume_phase};
use object::{Key, SharedObject};

/// The action that the reclaim policy requires.
#[derive(Debug, PartialEq, Eq)]
enum Reclaim {
    /// Keep the volume and its contents.
    Keep,
    /// Leave the deletion to the volume's provisioner.
    ByProvisioner,
    /// Fail with this reason and message.
    Fail(&'static str, String),
}

impl Binder {
    /// Marks the volume as released; the record of an earlier failure stays visible.
    pub(super) fn release(
        &self,
        volume: &SharedObject<PersistentVolume>,
    ) -> Result<SharedObject<PersistentVolume>, ApiError> {
        if !matches!(volume_phase(volume), "Released" | "Failed") {
            self.update_volume_status(volume, "Released", None)?;
        }
        self.api.get_as(&Key::new("", volume.name()))
    }

    /// Executes the policy of a released volume.
    pub(super) fn reclaim(&self, volume: &SharedObject<PersistentVolume>) -> Result<(), ApiError> {
        match decide(volume) {
            Reclaim::Keep | Reclaim::ByProvisioner => Ok(()),
            Reclaim::Fail(reason, message) => {
                self.update_volume_status(volume, "Failed", Some((reason, &message)))
            }
        }
    }
}

fn decide(volume: &PersistentVolume) -> Reclaim {
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    let spec = volume.spec.as_ref();
    let policy = reclaim_policy(volume);
    if policy == "Retain" {
        return Reclaim::Keep;
    }
    if policy == "Recycle" {
        return Reclaim::Fail("VolumeFailedRecycle", "No recycler plugin found for the volume!".to_string());
    }
    if policy != "Delete" {
        let message = "Volume has unrecognized PersistentVolumeReclaimPolicy".to_string();
        return Reclaim::Fail("VolumeUnknownReclaimPolicy", message);
    }
    if annotation(&volume.metadata, PROVISIONED_BY).is_some() {
        return Reclaim::ByProvisioner;
    }
    // Kubernetes' own host-path deleter removes only directories below /tmp; here a directory that a user created is
    // never removed.
    if let Some(source) = spec.and_then(|spec| spec.host_path.as_ref()) {
        let message =
            format!("host_path deleter only supports /tmp/.+ but received provided {}", source.path);
        return Reclaim::Fail("VolumeFailedDelete", message);
    }
    if spec.is_some_and(|spec| spec.csi.is_some()) {
        return Reclaim::ByProvisioner;
    }
    let message = format!(
        "error getting deleter volume plugin for volume \"{name}\": no deletable volume plugin matched"
    );
    Reclaim::Fail("VolumeFailedDelete", message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_users_directory_is_never_removed_vol_2() {
        let host_path = json!({"hostPath": {"path": "/srv/data"}});
        for (policy, source, provisioner, expected) in [
            ("Retain", &host_path, "", Reclaim::Keep),
            ("Delete", &host_path, "podium.dev/directory", Reclaim::ByProvisioner),
            (
                "Delete",
                &host_path,
                "",
                Reclaim::Fail(
                    "VolumeFailedDelete",
                    "host_path deleter only supports /tmp/.+ but received provided /srv/data".into(),
                ),
            ),
            (
                "Delete",
                &json!({"local": {"path": "/srv/data"}}),
                "",
                Reclaim::Fail(
                    "VolumeFailedDelete",
                    "error getting deleter volume plugin for volume \"v\": no deletable volume plugin matched"
                        .into(),
                ),
            ),
            (
                "Recycle",
                &host_path,
                "",
                Reclaim::Fail("VolumeFailedRecycle", "No recycler plugin found for the volume!".into()),
            ),
        ] {
            let mut spec = source.clone();
            spec["persistentVolumeReclaimPolicy"] = json!(policy);
            let mut volume = json!({"metadata": {"name": "v", "annotations": {}}, "spec": spec});
            if !provisioner.is_empty() {
                volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] = json!(provisioner);
            }
            assert_eq!(decide(&serde_json::from_value(volume).unwrap()), expected, "{policy} {source}");
        }
    }
}
