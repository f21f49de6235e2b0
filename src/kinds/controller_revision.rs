//! Controller revisions.

use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::json;

use super::columns::{Column, or_none};
use super::resource::Resource;
use apimachinery::validate::{FieldErrors, Path, changed_part::changed_part};
use object::owner;

impl Resource for ControllerRevision {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Controller", "Controller of the object", |revision, _| {
            let controller = owner::controller_of(&revision.metadata).map(|owner| {
                let group = owner.api_version.split_once('/').map(|(group, _)| format!(".{group}"));
                format!("{}{}/{}", owner.kind.to_lowercase(), group.unwrap_or_default(), owner.name)
            });
            or_none(controller.as_deref())
        }),
        Column::text(
            "Revision",
            "Revision indicates the revision of the state represented by Data.",
            |revision, _| json!(revision.revision.unwrap_or(0)),
        ),
        Column::age(),
    ];

    fn validate(&self, errors: &mut FieldErrors) {
        if self.data.0.is_null() {
            errors.required(&Path::root("data"), "data is mandatory");
        }
        errors.non_negative(&Path::root("revision"), self.revision.unwrap_or(0));
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
        if self.data != old.data {
            errors.invalid(
                &Path::root("data"),
                &changed_part(&self.data.0, &old.data.0),
                "field is immutable",
            );
        }
    }
}
