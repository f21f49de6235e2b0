//! Defaults of volumes.

use k8s_openapi::api::core::v1::{
    AzureDiskVolumeSource, DownwardAPIVolumeFile, ResourceFieldSelector, Volume, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{image, set, set_text};

/// The default permissions of files in volumes.
const DEFAULT_MODE: i32 = 0o644;

/// The default lifetime of a projected token, in seconds.
const TOKEN_SECONDS: i64 = 3600;

/// Fills in the defaults of a volume.
pub fn volume(volume: &mut Volume) {
    // A volume that names no source is an emptyDir.
    if (Volume { name: volume.name.clone(), ..Volume::default() }) == *volume {
        volume.empty_dir = Some(k8s_openapi::api::core::v1::EmptyDirVolumeSource::default());
    }
    if let Some(source) = &mut volume.secret {
        set(&mut source.default_mode, DEFAULT_MODE);
    }
    if let Some(source) = &mut volume.config_map {
        set(&mut source.default_mode, DEFAULT_MODE);
    }
    if let Some(source) = &mut volume.downward_api {
        set(&mut source.default_mode, DEFAULT_MODE);
        source.items.iter_mut().flatten().for_each(downward_file);
    }
    if let Some(source) = &mut volume.projected {
        set(&mut source.default_mode, DEFAULT_MODE);
        source.sources.iter_mut().flatten().for_each(projection);
    }
    if let Some(source) = &mut volume.host_path {
        set(&mut source.type_, "");
    }
    if let Some(source) = &mut volume.image {
        image::pull_policy(source.reference.as_deref(), &mut source.pull_policy);
    }
    if let Some(source) = &mut volume.azure_disk {
        azure_disk(source);
    }
    if let Some(source) = &mut volume.iscsi {
        set_text(&mut source.iscsi_interface, "default");
    }
    if let Some(source) = &mut volume.rbd {
        rbd(&mut source.pool, &mut source.user, &mut source.keyring);
    }
    if let Some(source) = &mut volume.scale_io {
        set_text(&mut source.storage_mode, "ThinProvisioned");
        set_text(&mut source.fs_type, "xfs");
    }
    if let Some(claim) = volume.ephemeral.as_mut().and_then(|e| e.volume_claim_template.as_mut()) {
        set_text(&mut claim.spec.volume_mode, "Filesystem");
    }
}

/// Applies the defaults of an Azure disk in a pod or a persistent volume.
pub fn azure_disk(source: &mut AzureDiskVolumeSource) {
    set_text(&mut source.caching_mode, "ReadWrite");
    set_text(&mut source.kind, "Shared");
    set_text(&mut source.fs_type, "ext4");
    set(&mut source.read_only, false);
}

/// Applies the defaults of a Ceph block device in a pod or a persistent volume.
pub fn rbd(pool: &mut Option<String>, user: &mut Option<String>, keyring: &mut Option<String>) {
    set_text(pool, "rbd");
    set_text(user, "admin");
    set_text(keyring, "/etc/ceph/keyring");
}

fn projection(projection: &mut VolumeProjection) {
    if let Some(token) = &mut projection.service_account_token {
        set(&mut token.expiration_seconds, TOKEN_SECONDS);
    }
    if let Some(source) = &mut projection.downward_api {
        source.items.iter_mut().flatten().for_each(downward_file);
    }
}

fn downward_file(file: &mut DownwardAPIVolumeFile) {
    if let Some(field) = &mut file.field_ref {
        set_text(&mut field.api_version, "v1");
    }
    if let Some(resource) = &mut file.resource_field_ref {
        divisor(resource);
    }
}

/// A missing divisor is shown as 0 and means 1.
pub fn divisor(resource: &mut ResourceFieldSelector) {
    set(&mut resource.divisor, Quantity("0".into()));
}
