//! Runtime classes: the container runtime configuration for pods, with its overhead and the nodes that have it.
//! Admission applies them to pods (`api::admission::runtime_class`).

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::api::node::v1::{RuntimeClass, Scheduling};
use serde_json::json;

use super::columns::Column;
use super::resource::Resource;
use apimachinery::validate::{FieldErrors, Path, metadata, names, placement, resources};

impl Resource for RuntimeClass {
    const ALLOWS_UNCONDITIONAL_UPDATE: bool = false;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text(
            "Handler",
            "The handler of the container runtime for pods of this class.",
            |class, _| json!(class.handler),
        ),
        Column::age(),
    ];

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::root("handler");
        errors.invalid_each(&path, &self.handler, names::dns_1123_label(&self.handler));
        if let Some(overhead) = &self.overhead {
            resources::overhead(errors, &Path::root("overhead"), overhead.pod_fixed.as_ref());
        }
        if let Some(scheduling) = &self.scheduling {
            self::scheduling(errors, &Path::root("scheduling"), scheduling);
        }
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
        errors.immutable(&Path::root("handler"), &self.handler, &old.handler);
    }
}

fn scheduling(errors: &mut FieldErrors, path: &Path<'_>, scheduling: &Scheduling) {
    metadata::labels(errors, &path.child("nodeSelector"), scheduling.node_selector.as_ref());
    let list = path.child("tolerations");
    let mut seen: Vec<&Toleration> = Vec::new();
    for (path, toleration) in list.each(scheduling.tolerations.iter().flatten()) {
        placement::toleration(errors, &path, toleration);
        if seen.contains(&toleration) {
            errors.duplicate(&path, &object::json_of(toleration));
        } else {
            seen.push(toleration);
        }
    }
}
