//! Snapshots of the whole cluster and restores from them (`podium.dev`); `cluster::snapshots` performs them.

use serde_json::json;

use super::columns::Column;
use super::resource::Resource;
use apimachinery::validate::{FieldErrors, Path, names};
use object::cluster_snapshot::{COMPLETE, ClusterRestore, ClusterSnapshot, READY};
use object::conditions;

/// The longest grace period that pods can be given, in seconds: a day.
const LONGEST_GRACE: i64 = 86_400;

impl Resource for ClusterSnapshot {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Ready", "Whether the snapshot can be restored.", |snapshot, _| {
            let conditions = snapshot.status.as_ref().and_then(|status| status.conditions.as_ref());
            json!(conditions::get(conditions, READY).map_or("Unknown", |ready| &ready.status))
        }),
        Column::text("Objects", "The number of saved objects.", |snapshot, _| {
            json!(number(snapshot.status.as_ref().and_then(|status| status.objects)))
        }),
        Column::text(
            "Bytes",
            "The size of the file in bytes, without the contents of claims.",
            |snapshot, _| json!(number(snapshot.status.as_ref().and_then(|status| status.bytes))),
        ),
        Column::text("Claims", "The number of claims whose contents are saved.", |snapshot, _| {
            json!(number(snapshot.status.as_ref().and_then(|status| status.claims)))
        }),
        Column::age(),
        Column::wide("Message", "The message of the condition Ready or Complete.", |snapshot, _| {
            let conditions = snapshot.status.as_ref().and_then(|status| status.conditions.as_ref());
            json!(conditions::get(conditions, READY).map_or("", |ready| &ready.message))
        }),
    ];

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        if self.spec != old.spec {
            errors.forbidden(&Path::root("spec"), "field is immutable");
        }
    }
}

impl Resource for ClusterRestore {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Snapshot", "The snapshot that is restored.", |restore, _| json!(restore.spec.snapshot)),
        Column::text("Phase", "The phase of the restore.", |restore, _| json!(restore.phase())),
        Column::text("Before", "The snapshot that was taken before the restore.", |restore, _| {
            let before = restore.status.as_ref().and_then(|status| status.before.as_deref());
            json!(before.unwrap_or("<none>"))
        }),
        Column::age(),
        Column::wide("Message", "The message of the condition Ready or Complete.", |restore, _| {
            let conditions = restore.status.as_ref().and_then(|status| status.conditions.as_ref());
            json!(conditions::get(conditions, COMPLETE).map_or("", |complete| &complete.message))
        }),
    ];

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::root("spec");
        errors.required_name(&path.child("snapshot"), &self.spec.snapshot, names::dns_1123_subdomain);
        if let Some(grace) = &self.spec.grace_period_seconds
            && !(0..=LONGEST_GRACE).contains(grace)
        {
            let detail = format!("must be between 0 and {LONGEST_GRACE}, inclusive");
            errors.invalid(&path.child("gracePeriodSeconds"), grace, detail);
        }
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        if self.spec != old.spec {
            errors.forbidden(&Path::root("spec"), "field is immutable");
        }
    }
}

fn number(known: Option<i64>) -> String {
    known.map_or_else(|| "<none>".to_owned(), |number| number.to_string())
}
