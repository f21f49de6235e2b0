//! Leases.

use k8s_openapi::api::coordination::v1::Lease;
use serde_json::json;

use super::columns::Column;
use super::resource::Resource;
use apimachinery::validate::{FieldErrors, Path, names};

impl Resource for Lease {
    const ALLOWS_CREATE_ON_UPDATE: bool = true;
    const ALLOWS_UNCONDITIONAL_UPDATE: bool = false;
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
        if let Some(seconds) = spec.lease_duration_seconds
            && seconds <= 0
        {
            errors.invalid(&path.child("leaseDurationSeconds"), &seconds, "must be greater than 0");
        }
        errors.non_negative(&path.child("leaseTransitions"), spec.lease_transitions.unwrap_or(0));
        let strategy = spec.strategy.as_deref();
        match strategy {
            Some(own) if own.contains('/') => {
                errors.invalid_each(&path.child("strategy.strategy"), own, names::qualified_name(own));
            }
            // Kubernetes' own strategies have no domain, and its error repeats the field's name.
            Some(own) => errors.one_of(&path.child("strategy.strategy"), own, &["OldestEmulationVersion"]),
            None => {}
        }
        let has = |text: Option<&str>| text.is_some_and(|text| !text.is_empty());
        if has(spec.preferred_holder.as_deref()) && !has(strategy) {
            let detail = "may only be specified if `strategy` is defined";
            errors.forbidden(&path.child("preferredHolder"), detail);
        }
    }
}
