//! Leases.

use k8s_openapi::api::coordination::v1::Lease;
use serde_json::json;

use super::columns::Column;
use super::resource::Resource;
use crate::validate::{FieldErrors, Path};

impl Resource for Lease {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Holder", "The identity of the holder of the current lease.", |lease, _| {
            json!(lease.spec.as_ref().and_then(|s| s.holder_identity.as_deref()).unwrap_or_default())
        }),
        Column::age(),
    ];

    fn validate(&self, errors: &mut FieldErrors) {
        let Some(spec) = &self.spec else { return };
        let path = Path::root("spec");
        if spec.holder_identity.as_deref() == Some("") && spec.strategy.is_none() {
            errors.invalid(&path.child("holderIdentity"), "", "must not be empty");
        }
        if let Some(seconds) = spec.lease_duration_seconds
            && seconds <= 0
        {
            errors.invalid(&path.child("leaseDurationSeconds"), &seconds, "must be greater than 0");
        }
        errors.non_negative(&path.child("leaseTransitions"), spec.lease_transitions.unwrap_or(0));
    }
}
