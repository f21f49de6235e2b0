//! Node fences (`podium.dev`); `cluster::fencing` performs them.

use serde_json::json;

use super::columns::Column;
use super::resource::Resource;
use apimachinery::validate::{FieldErrors, Path};
use object::conditions;
use object::node_fence::{FENCED, NodeFence};

/// The maximum size of a reason, in bytes.
const LONGEST_REASON: usize = 1024;

impl Resource for NodeFence {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Phase", "The phase of the fence.", |fence, _| json!(fence.phase())),
        Column::text("Reason", "The reason for the fence.", |fence, _| {
            json!(fence.spec.reason.as_deref().unwrap_or("<none>"))
        }),
        Column::age(),
        Column::wide("Message", "The message of the condition Fenced.", |fence, _| {
            let conditions = fence.status.as_ref().and_then(|status| status.conditions.as_ref());
            json!(conditions::get(conditions, FENCED).map_or("", |fenced| &fenced.message))
        }),
    ];

    fn validate(&self, errors: &mut FieldErrors) {
        if self.spec.reason.as_ref().is_some_and(|reason| reason.len() > LONGEST_REASON) {
            errors.too_long(&Path::root("spec").child("reason"), LONGEST_REASON);
        }
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        if self.spec != old.spec {
            errors.forbidden(&Path::root("spec"), "field is immutable");
        }
    }
}
