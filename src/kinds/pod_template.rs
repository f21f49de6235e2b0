//! Pod templates.

use k8s_openapi::api::core::v1::PodTemplate;

use super::columns::{Column, template_labels};
use super::resource::{PodShape, Resource};
use apimachinery::default::pod_spec;
use apimachinery::validate::{FieldErrors, Path};

impl Resource for PodTemplate {
    const ALLOWS_CREATE_ON_UPDATE: bool = true;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::containers(),
        Column::images(),
        Column::text("Pod Labels", "The labels for the pod template.", |object, _| {
            template_labels(object.template.as_ref())
        }),
    ];

    fn apply_defaults(&mut self) {
        pod_spec::template(self.template.get_or_insert_default());
    }

    fn validate(&self, errors: &mut FieldErrors) {
        if let Some(template) = &self.template {
            apimachinery::validate::pod_spec::template(errors, &Path::root("template"), template);
        }
    }

    fn pod(&self) -> Option<PodShape<'_>> {
        PodShape::of("template.spec", self.template.as_ref()?)
    }
}
