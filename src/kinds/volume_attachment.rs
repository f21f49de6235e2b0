//! Volume attachments: requests of a driver's controller to attach a volume to a node. Podium acts on those of its own
//! driver for disks (`object::storage::DISK_DRIVER`), and stores others for their drivers.

use k8s_openapi::api::storage::v1::{VolumeAttachment, VolumeAttachmentSource, VolumeError};
use serde_json::json;

use super::columns::Column;
use super::resource::Resource;
use apimachinery::validate::storage::driver_name;
use apimachinery::validate::{FieldErrors, Path, names};

/// The maximum size of an error's message.
const MAX_MESSAGE_BYTES: usize = 1024;

impl Resource for VolumeAttachment {
    const ALLOWS_UNCONDITIONAL_UPDATE: bool = false;
    const WARNING: Option<&'static str> =
        Some("Podium's controller attaches volumes, and only those of the driver disk.podium.dev");
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Attacher", "The driver that attaches the volume.", |one, _| json!(one.spec.attacher)),
        Column::text("PV", "The name of the volume.", |one, _| {
            json!(one.spec.source.persistent_volume_name.as_deref().unwrap_or_default())
        }),
        Column::text("Node", "The node that the volume is attached to.", |one, _| json!(one.spec.node_name)),
        Column::boolean("Attached", "Whether the volume is attached.", |one, _| {
            json!(one.status.as_ref().is_some_and(|status| status.attached))
        }),
        Column::age(),
    ];

    fn complete_status(&mut self) {
        self.status.get_or_insert_default();
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::root("spec");
        driver_name(errors, &path.child("attacher"), &self.spec.attacher);
        source(errors, &path.child("source"), &self.spec.source);
        let node = &self.spec.node_name;
        errors.invalid_each(&path.child("nodeName"), node, names::dns_1123_subdomain(node));
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
        if self.spec != old.spec {
            let shown = object::json_of(&self.spec);
            errors.invalid(&Path::root("spec"), &shown, "field is immutable");
        }
    }

    fn validate_status(&self, _old: &Self, errors: &mut FieldErrors) {
        let Some(status) = &self.status else { return };
        let path = Path::root("status");
        error(errors, &path.child("attachError"), status.attach_error.as_ref());
        error(errors, &path.child("detachError"), status.detach_error.as_ref());
        let metadata: usize =
            status.attachment_metadata.iter().flatten().map(|(key, value)| key.len() + value.len()).sum();
        if metadata > super::storage_class::MAX_PARAMETER_BYTES {
            errors.too_long(&path.child("attachmentMetadata"), super::storage_class::MAX_PARAMETER_BYTES);
        }
    }
}

fn source(errors: &mut FieldErrors, path: &Path<'_>, source: &VolumeAttachmentSource) {
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (&source.inline_volume_spec, &source.persistent_volume_name) {
        (None, None) => errors.required(path, ONE),
        (Some(_), Some(_)) => errors.forbidden(path, ONE),
        (None, Some(name)) if name.is_empty() => {
            errors
                .required(&path.child("persistentVolumeName"), "must specify non empty persistentVolumeName");
        }
        (None, Some(name)) => {
            let path = path.child("persistentVolumeName");
            errors.invalid_each(&path, name, names::dns_1123_subdomain(name));
        }
        (Some(spec), None) => {
            super::persistent_volume::inline_spec(errors, &path.child("inlineVolumeSpec"), spec);
        }
    }
}

fn error(errors: &mut FieldErrors, path: &Path<'_>, error: Option<&VolumeError>) {
    let message = error.and_then(|error| error.message.as_deref()).unwrap_or_default();
    if message.len() > MAX_MESSAGE_BYTES {
        errors.too_long(&path.child("message"), MAX_MESSAGE_BYTES);
    }
    if let Some(code) = error.and_then(|error| error.error_code).filter(|code| *code < 0) {
        let detail = format!("must be between 0 and {}, inclusive", i32::MAX);
        errors.invalid(&path.child("errorCode"), &code, detail);
    }
}
