//! CSI drivers: their capabilities. Podium stores them because charts contain them, but no volume here uses a
//! third-party CSI driver.

use k8s_openapi::api::storage::v1::CSIDriver;
use serde_json::json;

use super::columns::Column;
use super::resource::Resource;
use apimachinery::default::{set, set_text};
use apimachinery::validate::{FieldErrors, Path};

const MODES: &[&str] = &["Persistent", "Ephemeral"];
const GROUP_POLICIES: &[&str] = &["File", "None", "ReadWriteOnceWithFSType"];
/// The shortest interval between two reports of the number of volumes a node can attach, in seconds.
const MIN_UPDATE_SECONDS: i64 = 10;

impl Resource for CSIDriver {
    const ALLOWS_UNCONDITIONAL_UPDATE: bool = false;
    const WARNING: Option<&'static str> = Some(
        "Podium mounts only volumes of the driver disk.podium.dev; a pod that uses another driver stays pending",
    );
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::boolean(
            "AttachRequired",
            "Indicates this CSI volume driver requires an attach operation.",
            |driver, _| json!(driver.spec.attach_required.unwrap_or(true)),
        ),
        Column::boolean(
            "PodInfoOnMount",
            "Indicates this CSI volume driver requires additional pod information during mount operations.",
            |driver, _| json!(driver.spec.pod_info_on_mount.unwrap_or(false)),
        ),
        Column::boolean(
            "StorageCapacity",
            "Indicates that the driver reports its storage capacity.",
            |driver, _| json!(driver.spec.storage_capacity.unwrap_or(false)),
        ),
        Column::text("TokenRequests", "The service account tokens that the driver receives.", |driver, _| {
            let tokens = driver.spec.token_requests.as_deref().unwrap_or_default();
            let audiences: Vec<&str> = tokens.iter().map(|token| token.audience.as_str()).collect();
            json!(if audiences.is_empty() { "<unset>".into() } else { audiences.join(",") })
        }),
        Column::boolean(
            "RequiresRepublish",
            "Whether the driver requires volumes to be republished periodically.",
            |driver, _| json!(driver.spec.requires_republish.unwrap_or(false)),
        ),
        Column::text("Modes", "The volume lifecycle modes supported by the driver.", |driver, _| {
            json!(driver.spec.volume_lifecycle_modes.as_deref().unwrap_or_default().join(","))
        }),
        Column::age(),
    ];

    fn apply_defaults(&mut self) {
        let spec = &mut self.spec;
        set(&mut spec.attach_required, true);
        set(&mut spec.pod_info_on_mount, false);
        set(&mut spec.storage_capacity, false);
        set(&mut spec.requires_republish, false);
        set(&mut spec.se_linux_mount, false);
        set_text(&mut spec.fs_group_policy, "ReadWriteOnceWithFSType");
        if spec.volume_lifecycle_modes.as_ref().is_none_or(Vec::is_empty) {
            spec.volume_lifecycle_modes = Some(vec!["Persistent".into()]);
        }
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::root("spec");
        let list = path.child("volumeLifecycleModes");
        for mode in self.spec.volume_lifecycle_modes.iter().flatten() {
            errors.one_of(&list, mode, MODES);
        }
        errors.required_one_of(
            &path.child("fsGroupPolicy"),
            self.spec.fs_group_policy.as_deref(),
            GROUP_POLICIES,
        );
        let list = path.child("tokenRequests");
        let mut audiences = std::collections::HashSet::new();
        for (path, token) in list.each(self.spec.token_requests.iter().flatten()) {
            if !audiences.insert(&token.audience) {
                errors.duplicate(&path.child("audience"), &token.audience);
                continue;
            }
            let Some(seconds) = token.expiration_seconds else { continue };
            let path = path.child("expirationSeconds");
            if seconds < 10 * 60 {
                errors.invalid(&path, &seconds, "may not specify a duration less than 10 minutes");
            }
            if seconds > 1 << 32 {
                errors.invalid(&path, &seconds, "may not specify a duration larger than 2^32 seconds");
            }
        }
        if let Some(seconds) = self.spec.node_allocatable_update_period_seconds
            && seconds < MIN_UPDATE_SECONDS
        {
            let path = path.child("nodeAllocatableUpdatePeriodSeconds");
            errors.invalid(&path, &seconds, "must be greater than or equal to 10 seconds");
        }
        if let Some(in_secrets) = self.spec.service_account_token_in_secrets
            && self.spec.token_requests.as_ref().is_none_or(Vec::is_empty)
        {
            let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
            errors.invalid(&path.child("serviceAccountTokenInSecrets"), &in_secrets, detail);
        }
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
        let path = Path::root("spec");
        errors.immutable(
            // The error has Kubernetes' spelling of the field.
            &path.child("attachedRequired"),
            &self.spec.attach_required,
            &old.spec.attach_required,
        );
        errors.immutable(
            &path.child("volumeLifecycleModes"),
            &self.spec.volume_lifecycle_modes,
            &old.spec.volume_lifecycle_modes,
        );
    }
}
