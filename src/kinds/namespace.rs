//! Namespaces.

use k8s_openapi::api::core::v1::{Namespace, NamespaceSpec, NamespaceStatus};
use serde_json::json;

use super::columns::Column;
use super::resource::{Resource, SelectableField, selectable, text};
use apimachinery::default::{set, set_text};
use apimachinery::validate::{FieldErrors, Path, metadata, names};
use object::Kind;

/// The label that every namespace has, with its own name as the value.
const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

impl Resource for Namespace {
    const NAME_RULE: fn(&str) -> Vec<String> = names::dns_1123_label;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Status", "The status of the namespace", |n, _| json!(phase(n))),
        Column::age(),
    ];
    const SELECTABLE: &'static [SelectableField<Self>] = &[
        selectable("status.phase", |n| phase(n).into()),
        selectable("name", |n| text(n.metadata.name.as_ref())),
    ];

    fn apply_defaults(&mut self) {
        if let Some(name) = self.metadata.name.clone().filter(|n| !n.is_empty()) {
            self.metadata.labels.get_or_insert_default().insert(NAMESPACE_NAME_LABEL.to_string(), name);
        }
        // A namespace that is being deleted loses its finalizer permanently, so only others get it.
        if self.metadata.deletion_timestamp.is_none() {
            let spec = self.spec.get_or_insert_with(NamespaceSpec::default);
            set(&mut spec.finalizers, vec!["kubernetes".to_string()]);
        }
        let status = self.status.get_or_insert_with(NamespaceStatus::default);
        set_text(&mut status.phase, "Active");
    }

    fn carry_over(&mut self, old: &Self) {
        self.spec.clone_from(&old.spec);
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let finalizers = self.spec.as_ref().and_then(|s| s.finalizers.as_ref());
        for (i, finalizer) in finalizers.into_iter().flatten().enumerate() {
            let path = Path::root("spec.finalizers");
            metadata::finalizer_name(errors, Kind::Namespace, &path.index(i), finalizer);
        }
    }

    fn validate_status(&self, _old: &Self, errors: &mut FieldErrors) {
        let (expected, timestamp) = match self.metadata.deletion_timestamp {
            None => ("Active", "empty"),
            Some(_) => ("Terminating", "not empty"),
        };
        if phase(self) != expected {
            let detail = format!("may only be '{expected}' if `deletionTimestamp` is {timestamp}");
            errors.invalid(&Path::root("status").child("Phase"), phase(self), detail);
        }
    }
}

fn phase(namespace: &Namespace) -> &str {
    namespace.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}
