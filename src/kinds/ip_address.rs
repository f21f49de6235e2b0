//! IP addresses: each records an address of the service range that is in use, and the object that uses it
//! (`controllers::service_addresses`).

use std::net::IpAddr;

use k8s_openapi::api::networking::v1::{IPAddress, ParentReference};
use serde_json::{Value, json};

use super::columns::Column;
use super::resource::{Resource, SelectableField, selectable};
use apimachinery::validate::{FieldErrors, Path, names};

impl Resource for IPAddress {
    const NAME_RULE: fn(&str) -> Vec<String> = |name| match name.parse::<IpAddr>() {
        Ok(address) if address.to_string() == name => Vec::new(),
        Ok(_) => vec!["must be a canonical format IP address".into()],
        Err(_) => vec![format!("ParseAddr({}): unable to parse IP", base::quote::quote(name))],
    };
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("ParentRef", "Reference to a parent object.", |address, _| {
            parent(&address.spec.parent_ref)
        }),
        Column::age(),
    ];
    const SELECTABLE: &'static [SelectableField<Self>] =
        &[selectable("spec.parentRef.resource", |address| address.spec.parent_ref.resource.as_str().into())];

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::root("spec.parentRef");
        if self.spec.parent_ref == ParentReference::default() {
            return errors.required(&path, "");
        }
        let ParentReference { group, name, namespace, resource } = &self.spec.parent_ref;
        errors.optional_name(&path.child("group"), group.as_deref(), names::dns_1123_subdomain);
        errors.required_name(&path.child("resource"), resource, names::path_segment);
        errors.required_name(&path.child("name"), name, names::path_segment);
        errors.optional_name(&path.child("namespace"), namespace.as_deref(), names::path_segment);
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
        let path = Path::root("spec.parentRef");
        if self.spec.parent_ref != old.spec.parent_ref {
            let shown = object::json_of(&self.spec.parent_ref);
            errors.invalid(&path, &shown, "field is immutable");
        }
    }
}

/// Returns `services/default/web`; `things.example.com/web` for a cluster-scoped object of another group.
fn parent(reference: &ParentReference) -> Value {
    let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let mut text = reference.resource.clone();
    if let Some(group) = filled(&reference.group) {
        text = format!("{text}.{group}");
    }
    if let Some(namespace) = filled(&reference.namespace) {
        text = format!("{text}/{namespace}");
    }
    json!(format!("{text}/{}", reference.name))
}
