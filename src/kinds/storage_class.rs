//! Storage classes. Their provisioner, parameters and policies are immutable, since existing volumes were created
//! according to them.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use k8s_openapi::api::core::v1::TopologySelectorTerm;
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::json;

use super::columns::Column;
use super::resource::Resource;
use apimachinery::default::set_text;
use apimachinery::validate::{FieldErrors, Path, metadata, names};
use base::sort::CollectMap;
use object::storage::{DEFAULT_CLASS, UNSET};

/// The maximum number of parameters.
const MAX_PARAMETERS: usize = 512;
/// The maximum total bytes of the parameters' names and values; also of a VolumeAttachment's metadata.
pub(super) const MAX_PARAMETER_BYTES: usize = 256 * 1024;

impl Resource for StorageClass {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name_as(|class, _| {
            let annotations = class.metadata.annotations.as_ref();
            let default = annotations.and_then(|a| a.get(DEFAULT_CLASS)).is_some_and(|v| v == "true");
            let name = class.metadata.name.as_deref().unwrap_or_default();
            json!(if default { format!("{name} (default)") } else { name.into() })
        }),
        Column::text("Provisioner", "The provisioner of volumes of this class.", |class, _| {
            json!(class.provisioner)
        }),
        Column::text("ReclaimPolicy", "The policy for a volume after its claim is deleted.", |class, _| {
            json!(class.reclaim_policy.as_deref().unwrap_or("Delete"))
        }),
        Column::text("VolumeBindingMode", "The time at which claims are bound.", |class, _| {
            json!(class.volume_binding_mode.as_deref().unwrap_or(UNSET))
        }),
        Column::text("AllowVolumeExpansion", "Whether claims can be expanded.", |class, _| {
            json!(class.allow_volume_expansion.unwrap_or(false))
        }),
        Column::age(),
    ];

    fn apply_defaults(&mut self) {
        set_text(&mut self.reclaim_policy, "Delete");
        set_text(&mut self.volume_binding_mode, "Immediate");
    }

    fn validate(&self, errors: &mut FieldErrors) {
        provisioner(errors, &Path::root("provisioner"), &self.provisioner);
        parameters(errors, &Path::root("parameters"), self.parameters.as_ref());
        let policy = self.reclaim_policy.as_deref().unwrap_or_default();
        errors.one_of(&Path::root("reclaimPolicy"), policy, &["Delete", "Retain"]);
        errors.required_one_of(
            &Path::root("volumeBindingMode"),
            self.volume_binding_mode.as_deref(),
            &["Immediate", "WaitForFirstConsumer"],
        );
        let path = Path::root("allowedTopologies");
        let mut seen = Vec::new();
        for (path, term) in path.each(self.allowed_topologies.iter().flatten()) {
            topology(errors, &path, term);
            let places = allowed_values(term);
            if seen.contains(&places) {
                errors.duplicate(&path.child("matchLabelExpressions"), "");
            }
            seen.push(places);
        }
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
        let parameters = |class: &Self| class.parameters.clone().unwrap_or_default();
        errors.immutable(&Path::root("parameters"), &parameters(self), &parameters(old));
        errors.immutable(&Path::root("provisioner"), &self.provisioner, &old.provisioner);
        errors.immutable(&Path::root("reclaimPolicy"), &self.reclaim_policy, &old.reclaim_policy);
        errors.immutable(
            &Path::root("volumeBindingMode"),
            &self.volume_binding_mode,
            &old.volume_binding_mode,
        );
    }
}

/// Validates the name of a provisioner: an optional domain and a name, in upper or lower case.
pub(super) fn provisioner(errors: &mut FieldErrors, path: &Path<'_>, name: &str) {
    if name.is_empty() {
        errors.required(path, "");
    } else {
        errors.invalid_each(path, name, names::qualified_name(&name.to_lowercase()));
    }
}

/// Validates the parameters for the provisioner.
pub(super) fn parameters(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    parameters: Option<&BTreeMap<String, String>>,
) {
    let parameters = parameters.into_iter().flatten();
    if parameters.clone().count() > MAX_PARAMETERS {
        return errors.too_long(path, MAX_PARAMETERS);
    }
    let mut bytes = 0;
    for (key, value) in parameters {
        if key.is_empty() {
            errors.invalid(path, key, "field can not be empty.");
        }
        bytes += key.len() + value.len();
    }
    if bytes > MAX_PARAMETER_BYTES {
        errors.too_long(path, MAX_PARAMETER_BYTES);
    }
}

/// Returns the allowed values of each label in a term, independently of their order.
fn allowed_values(term: &TopologySelectorTerm) -> BTreeMap<&str, BTreeSet<&str>> {
    let expressions = term.match_label_expressions.iter().flatten();
    expressions.map(|one| (one.key.as_str(), one.values.iter().map(String::as_str).collect())).collect_map()
}

fn topology(errors: &mut FieldErrors, path: &Path<'_>, term: &TopologySelectorTerm) {
    let list = path.child("matchLabelExpressions");
    let expressions = term.match_label_expressions.as_deref().unwrap_or_default();
    if expressions.is_empty() {
        errors.required(&list, "");
    }
    let mut keys = HashSet::new();
    for (i, expression) in expressions.iter().enumerate() {
        let path = list.index(i);
        errors.unique(&mut keys, &path.child("key"), &expression.key);
        let values = path.child("values");
        if expression.values.is_empty() {
            errors.required(&values, "");
        }
        let mut seen = HashSet::new();
        for (i, value) in expression.values.iter().enumerate() {
            errors.unique(&mut seen, &values.index(i), value);
        }
        metadata::label_key(errors, &path.child("key"), &expression.key);
    }
}
