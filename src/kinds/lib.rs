//! The kinds. Each has its own file with an implementation of one trait ([`resource::Resource`]): its defaults, rules,
//! columns with their cells, selectable fields, scale, and usage of quotas.
//!
//! Shared rules are in other crates: metadata, pod specs and field errors in `apimachinery::validate`, the order of the
//! steps of a write in `api::write`. To add a built-in kind, add a row to the table of `object::kind` and a file here.
//! Definitions add custom resources at run time, which the API treats like built-in kinds (`api::served_kinds`).
//!
//! Architecture Invariant: a kind's rules see one object, or its old and new version; they know no store and no cluster.

#[cfg(test)]
mod cases;
mod columns;
mod compiled_schema;
mod custom;
pub mod default_flows;
mod defaulting;
mod embedded;
mod error;
pub mod load_balancer;
mod previous_items;
mod pruning;
mod resource;
mod rule_costs;
mod schema_fields;
mod schema_rules;
mod served_schema;
mod structural;
#[cfg(test)]
mod structural_model;

pub mod admission_policy;
mod api_service;
mod certificate_signing_request;
mod client_config;
mod cluster_role;
mod cluster_role_binding;
mod config_map;
mod controller_revision;
mod cron_job;
mod csi_driver;
mod csi_node;
mod csi_storage_capacity;
mod custom_resource_definition;
mod daemon_set;
mod deployment;
mod device_allocation;
mod device_claim;
mod device_class;
mod device_taint_rule;
mod endpoint_slice;
mod endpoints;
mod event;
mod flow_schema;
mod horizontal_pod_autoscaler;
mod ingress;
mod ingress_class;
mod ip_address;
pub mod ip_families;
mod job;
mod lease;
mod limit_range;
pub mod match_conditions;
mod namespace;
mod network_policy;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
mod pod_disruption_budget;
mod pod_preset;
mod pod_template;
mod priority_class;
mod priority_level_configuration;
mod replica_set;
mod replication_controller;
mod resource_claim;
mod resource_claim_template;
mod resource_quota;
mod resource_slice;
mod role;
mod role_binding;
mod runtime_class;
mod secret;
mod service;
mod service_account;
mod service_cidr;
mod stateful_set;
mod storage_class;
mod volume_attachment;
mod volume_attributes_class;
mod webhook_configuration;

use k8s_openapi::api::core::v1::{Binding, Event, Pod};

use apimachinery::validate::{FieldError, FieldErrors, ephemeral, metadata};
use object::{Kind, Object};

pub use api_service::{ANSWERED_ONLY, is_built_in};
pub use certificate_signing_request::{approval_differs, date_conditions, preserve_approval, with_approval};
pub use columns::{ColumnDefinition, RowCondition};
pub use custom::CustomStrategy;
pub use error::DefinitionError;
pub use priority_class::is_system_priority_class;
pub use resource::{PodShape, Replicas, Strategy};
pub use served_schema::{KindSchemas, ServedSchema};

/// Returns the strategy of a built-in kind; for custom kinds, a strategy without any rules.
pub fn built_in(kind: Kind) -> &'static dyn Strategy {
    resource::built_in(kind).unwrap_or(&custom::UndefinedStrategy)
}

/// Fills in the defaults of a built-in kind. Idempotent.
pub fn apply_defaults(object: &mut Object) {
    built_in(object.kind()).apply_defaults(object);
}

/// Validates a new object of a built-in kind, which must have its defaults. Returns no errors if it may be stored.
pub fn validate_create(object: &Object) -> Vec<FieldError> {
    built_in(object.kind()).create_errors(object)
}

impl dyn Strategy + '_ {
    /// Validates a new object. Returns no errors if it may be stored.
    pub fn create_errors(&self, object: &Object) -> Vec<FieldError> {
        let mut errors = FieldErrors::default();
        metadata::validate_meta(&mut errors, object.kind(), self.name_rule(), object.meta());
        self.validate_create(object, &mut errors);
        errors.into_vec()
    }

    /// Validates a new version of an object, both for itself and as a change of the old one.
    pub fn update_errors(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = meta_update_errors(new, old);
        self.validate_update(new, old, &mut errors);
        errors.into_vec()
    }

    /// Validates a new status. The object's spec is the old one.
    pub fn status_errors(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = meta_update_errors(new, old);
        self.validate_status(new, old, &mut errors);
        errors.into_vec()
    }
}

fn meta_update_errors(new: &Object, old: &Object) -> FieldErrors {
    let mut errors = FieldErrors::default();
    metadata::validate_meta_update(&mut errors, new.kind(), new.meta(), old.meta());
    errors
}

/// Validates a pod after a write through its `resize` subresource.
pub fn resize_errors(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = meta_update_errors(new, old);
    if let (Some(new), Some(old)) = (new.get::<Pod>(), old.get::<Pod>()) {
        pod::validate_resize(&mut errors, new, old);
    }
    errors.into_vec()
}

/// Validates a pod after a write through its `ephemeralcontainers` subresource.
pub fn ephemeral_containers_errors(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    if let (Some(new), Some(old)) = (new.get::<Pod>(), old.get::<Pod>()) {
        pod::validate_pod(&mut errors, new);
        ephemeral::update(&mut errors, new, old);
    }
    errors.into_vec()
}

/// Validates a new event that is written in the form of events.k8s.io.
pub fn new_event_errors(object: &Object) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    if let Some(event) = object.get::<Event>() {
        event::new_event(&mut errors, event);
    }
    errors.into_vec()
}

/// Validates the assignment of a pod to a node.
pub fn binding_errors(binding: &Binding) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    pod::validate_binding(&mut errors, binding);
    errors.into_vec()
}
