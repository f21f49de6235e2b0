//! Ingress classes: each names the controller that serves its ingresses. Admission assigns the default class to
//! ingresses without one.

use k8s_openapi::api::networking::v1::{IngressClass, IngressClassParametersReference};
use serde_json::{Value, json};

use super::columns::{Column, NONE};
use super::ingress::typed_reference;
use super::resource::Resource;
use apimachinery::default::set_text;
use apimachinery::validate::signer::domain_prefixed_path;
use apimachinery::validate::{FieldErrors, Path, names};

/// The maximum size of a controller's name.
const MAX_CONTROLLER_BYTES: usize = 250;

impl Resource for IngressClass {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Controller", "Controller that is responsible for handling this class", |class, _| {
            json!(class.spec.as_ref().and_then(|spec| spec.controller.as_deref()).unwrap_or_default())
        }),
        Column::text("Parameters", "A reference to a resource with additional parameters", |class, _| {
            parameters_text(class.spec.as_ref().and_then(|spec| spec.parameters.as_ref()))
        }),
        Column::age(),
    ];

    fn apply_defaults(&mut self) {
        if let Some(parameters) = self.spec.as_mut().and_then(|spec| spec.parameters.as_mut()) {
            set_text(&mut parameters.scope, "Cluster");
        }
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::root("spec");
        let spec = self.spec.as_ref();
        let controller = spec.and_then(|spec| spec.controller.as_deref()).unwrap_or_default();
        if controller.len() > MAX_CONTROLLER_BYTES {
            errors.too_long(&path.child("controller"), MAX_CONTROLLER_BYTES);
        }
        domain_prefixed_path(errors, &path.child("controller"), controller);
        if let Some(own) = spec.and_then(|spec| spec.parameters.as_ref()) {
            parameters(errors, &path.child("parameters"), own);
        }
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        let controller =
            |class: &Self| class.spec.as_ref().and_then(|s| s.controller.clone()).unwrap_or_default();
        errors.immutable(&Path::root("spec").child("controller"), &controller(self), &controller(old));
        self.validate(errors);
    }
}

fn parameters_text(parameters: Option<&IngressClassParametersReference>) -> Value {
    let Some(parameters) = parameters else { return json!(NONE) };
    let IngressClassParametersReference { kind, name, .. } = parameters;
    json!(match &parameters.api_group {
        Some(group) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    })
}

fn parameters(errors: &mut FieldErrors, path: &Path<'_>, parameters: &IngressClassParametersReference) {
    let IngressClassParametersReference { api_group, kind, name, namespace, scope } = parameters;
    typed_reference(errors, path, api_group.as_deref(), kind, name);
    errors.required_one_of(&path.child("scope"), scope.as_deref(), &["Cluster", "Namespace"]);
    let at = path.child("namespace");
    match (scope.as_deref(), namespace.as_deref()) {
        (Some("Namespace"), None) => {
            errors.required(&at, "`parameters.scope` is set to 'Namespace'");
        }
        (Some("Namespace"), Some(namespace)) => {
            errors.invalid_each(&at, namespace, names::dns_1123_label(namespace));
        }
        (Some("Cluster"), Some(_)) => errors.forbidden(&at, "`parameters.scope` is set to 'Cluster'"),
        _ => {}
    }
}
