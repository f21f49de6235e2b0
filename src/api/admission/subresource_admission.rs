//! Requests to subresources with a body that is not stored: a binding, an eviction, the options of a session.

use serde_json::{Value, json};

use super::attributes::{Attributes, Operation, Options, Subject};
use super::dynamic;
use crate::{Api, ApiError, DeleteOptions, WriteOptions};
use object::{Key, Kind};

impl Api {
    /// Runs the configured admission for a creation below an object (`binding`); returns the changed body, if
    /// admission was called.
    pub fn admit_new_below(
        &self,
        kind: Kind,
        key: &Key,
        subresource: &str,
        options: &WriteOptions,
        carried: impl FnOnce() -> Value,
    ) -> Result<Option<Value>, ApiError> {
        if !dynamic::has_matching_configuration(self, &[Operation::Create], kind, subresource) {
            return Ok(None);
        }
        let mut carried = carried();
        let attributes = Attributes {
            operation: Operation::Create,
            resource: options.requested.unwrap_or(kind.into()),
            subresource,
            namespace: &key.namespace,
            name: &key.name,
            object: Subject::None,
            old_object: Subject::None,
            options: Options::Write(options),
            requester: self.requester(options.user.as_deref()),
        };
        dynamic::admit_carried(self, &attributes, &mut carried)?;
        Ok(Some(carried))
    }

    /// Runs the configured admission for an eviction.
    pub(crate) fn admit_eviction(
        &self,
        pod: &Key,
        body: Option<&Value>,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        const SUBRESOURCE: &str = "eviction";
        if !dynamic::has_matching_configuration(self, &[Operation::Create], Kind::Pod, SUBRESOURCE) {
            return Ok(());
        }
        let mut eviction = body.filter(|given| given.is_object()).cloned().unwrap_or_else(|| json!({}));
        let mut metadata = eviction["metadata"].take();
        if !metadata.is_object() {
            metadata = json!({});
        }
        (metadata["name"], metadata["namespace"]) = (json!(pod.name), json!(pod.namespace));
        eviction["metadata"] = metadata;
        (eviction["apiVersion"], eviction["kind"]) = ("policy/v1".into(), "Eviction".into());
        let warnings = options.warnings.clone();
        let write = WriteOptions { dry_run: options.dry_run, warnings, ..WriteOptions::default() };
        let attributes = Attributes {
            operation: Operation::Create,
            resource: Kind::Pod.into(),
            subresource: SUBRESOURCE,
            namespace: &pod.namespace,
            name: &pod.name,
            object: Subject::Body(&eviction),
            old_object: Subject::None,
            options: Options::Write(&write),
            requester: self.requester(options.user.as_deref()),
        };
        dynamic::admit(self, &attributes)
    }

    /// Runs the configured admission for a session (`exec`), by its options.
    pub fn admit_session(
        &self,
        kind: Kind,
        key: &Key,
        subresource: &str,
        options: &WriteOptions,
        session: &Value,
    ) -> Result<(), ApiError> {
        let attributes = Attributes {
            operation: Operation::Connect,
            resource: kind.into(),
            subresource,
            namespace: &key.namespace,
            name: &key.name,
            object: Subject::Body(session),
            old_object: Subject::None,
            options: Options::Connect(&options.warnings),
            requester: self.requester(options.user.as_deref()),
        };
        dynamic::admit(self, &attributes)
    }
}
