//! Executes the actions of scenarios: applies and deletes objects, starts and ends faults, all through the API like any
//! client.
//!
//! A scenario changes only objects that it has created, and deletes only those and objects in a namespace that it has
//! created.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::objects::{is_created_by, key_of, kind_of, objects, value_with, variables_of};
use super::observe::fault_name;
use api::{Api, ApiError, DeleteOptions};
use extension::fault::Fault;
use extension::scenario::{SCENARIO_MANAGER, Scenario, ScenarioObject, ScenarioStep};
use object::names::path_segment;
use object::well_known::annotation::PODIUM_MADE_BY_SCENARIO;
use object::{Key, Kind, Object, TypedKind};
use reconcile::ignore_gone;

/// Timeout of a request: a hanging one is retried.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The reason why an action was not executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ActionError {
    /// A retry may succeed.
    Later(String),
    /// It never will.
    Never(String),
}

/// Executes the actions of one scenario.
pub(super) struct ActionExecutor<'a> {
    pub(super) api: &'a Api,
    pub(super) client: &'a kube::Client,
    pub(super) scenario: &'a Scenario,
    pub(super) uid: &'a str,
}

impl ActionExecutor<'_> {
    /// Executes a step. Idempotent.
    pub(super) async fn step(&self, step: &ScenarioStep) -> Result<(), ActionError> {
        let variables = variables_of(self.scenario);
        if let Some(fault) = &step.fault {
            let object = json!({"apiVersion": "podium.dev/v1alpha1", "kind": "Fault",
                "metadata": {"name": fault_name(self.scenario, &fault.name)}, "spec": value_with(&fault.spec, &variables)});
            self.apply(&object).await?;
        }
        if let Some(name) = &step.heal {
            self.end_fault(name)?;
        }
        for manifest in &step.apply {
            self.apply(&value_with(manifest, &variables)).await?;
        }
        for reference in &step.delete {
            self.delete(reference, &variables)?;
        }
        Ok(())
    }

    /// Applies an object: a new one, or one that this scenario has created.
    pub(super) async fn apply(&self, manifest: &Value) -> Result<(), ActionError> {
        let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str);
        let (api_version, name) =
            (text("/apiVersion").unwrap_or_default(), text("/metadata/name").unwrap_or_default());
        // An unknown kind is no final error: its CustomResourceDefinition may have been applied just now.
        let kind = kind_of(api_version, text("/kind").unwrap_or_default()).map_err(ActionError::Later)?;
        let key = key_of(kind, text("/metadata/namespace"), name);
        let label = format!("{} {key}", kind.info().singular);
        if let Ok(found) = self.api.get(kind, &key) {
            if !is_created_by(&found, self.uid) {
                return Err(ActionError::Never(format!(
                    "{label} already exists; this scenario did not create it"
                )));
            }
            if found.meta().deletion_timestamp.is_some() {
                return Err(ActionError::Later(format!("{label} is being deleted")));
            }
        }
        let mut object = manifest.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
            if !annotations.is_object() {
                *annotations = json!({});
            }
            annotations[PODIUM_MADE_BY_SCENARIO] = self.uid.into();
        }
        let objects = self.objects(kind, api_version, &key);
        let params = PatchParams {
            field_validation: Some(kube::api::ValidationDirective::Strict),
            ..PatchParams::apply(SCENARIO_MANAGER).force()
        };
        let patch = Patch::Apply(&object);
        let segment = path_segment(name);
        let request = objects.patch(&segment, &params, &patch);
        match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(kube::Error::Api(status))) if is_final(status.code, &status.message) => {
                Err(ActionError::Never(format!("{label}: {}", status.message)))
            }
            Ok(Err(kube::Error::Api(status))) => {
                Err(ActionError::Later(format!("{label}: {}", status.message)))
            }
            Ok(Err(error)) => Err(ActionError::Later(format!("{label}: {error}"))),
            Err(_) => {
                Err(ActionError::Later(format!("{label}: no response in {} s", REQUEST_TIMEOUT.as_secs())))
            }
        }
    }

    fn objects(&self, kind: Kind, api_version: &str, key: &Key) -> kube::Api<DynamicObject> {
        let info = kind.info();
        let (group, version) = object::split_api_version(api_version);
        let resource = ApiResource {
            group: group.into(),
            version: version.into(),
            api_version: api_version.into(),
            kind: info.name.into(),
            plural: info.plural.into(),
        };
        if kind.namespaced() {
            kube::Api::namespaced_with(self.client.clone(), &path_segment(&key.namespace), &resource)
        } else {
            kube::Api::all_with(self.client.clone(), &resource)
        }
    }

    /// Returns true if an object may be deleted: this scenario has created it, or its namespace.
    fn may_delete(&self, object: &Object) -> bool {
        let namespace = || self.api.get(Kind::Namespace, &Key::new("", object.namespace()));
        is_created_by(object, self.uid)
            || !object.namespace().is_empty()
                && namespace().is_ok_and(|namespace| is_created_by(&namespace, self.uid))
    }

    fn delete(
        &self,
        reference: &ScenarioObject,
        variables: &BTreeMap<String, String>,
    ) -> Result<(), ActionError> {
        for object in objects(self.api, reference, variables).map_err(ActionError::Never)? {
            if !self.may_delete(&object) {
                let label = format!("{} {}", object.kind().info().singular, object.key());
                return Err(ActionError::Never(format!(
                    "{label} is not deleted: this scenario did not create it"
                )));
            }
            self.remove(&object)?;
        }
        Ok(())
    }

    fn remove(&self, object: &Object) -> Result<(), ActionError> {
        if object.meta().deletion_timestamp.is_some() {
            return Ok(());
        }
        let removed = self.api.delete(object.kind(), &object.key(), &DeleteOptions::uid(object.uid()));
        ignore_gone(removed).map_err(|error: ApiError| ActionError::Later(error.to_string()))
    }

    fn end_fault(&self, name: &str) -> Result<(), ActionError> {
        match self.api.get(Fault::kind(), &Key::new("", fault_name(self.scenario, name))) {
            Ok(fault) if is_created_by(&fault, self.uid) => self.remove(&fault),
            _ => Ok(()),
        }
    }

    /// Ends the scenario's faults and, unless its spec retains them, deletes the objects that it has created, in
    /// reverse order. Returns true if none of them is left.
    pub(super) fn clean_up(&self) -> Result<bool, ActionError> {
        let spec = &self.scenario.spec;
        let mut left: Vec<Arc<Object>> = Vec::new();
        for fault in spec.steps.iter().filter_map(|step| step.fault.as_ref()) {
            self.end_fault(&fault.name)?;
            let key = Key::new("", fault_name(self.scenario, &fault.name));
            left.extend(
                self.api.get(Fault::kind(), &key).ok().filter(|fault| is_created_by(fault, self.uid)),
            );
        }
        if spec.cleans_up() {
            let variables = variables_of(self.scenario);
            let applied = spec.steps.iter().flat_map(|step| &step.apply);
            for manifest in spec.setup.iter().chain(applied).rev() {
                let Some(object) = self.created_object(&value_with(manifest, &variables)) else { continue };
                self.remove(&object)?;
                left.push(object);
            }
        }
        Ok(left.iter().all(|object| {
            let now = self.api.get(object.kind(), &object.key());
            !now.is_ok_and(|now| now.uid() == object.uid())
        }))
    }

    /// The object of a manifest, if this scenario has created it.
    fn created_object(&self, manifest: &Value) -> Option<Arc<Object>> {
        let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str);
        let kind = kind_of(text("/apiVersion")?, text("/kind")?).ok()?;
        let key = key_of(kind, text("/metadata/namespace"), text("/metadata/name")?);
        self.api.get(kind, &key).ok().filter(|object| is_created_by(object, self.uid))
    }
}

/// Returns true if an error is final. Not-found and forbidden errors may be temporary: a namespace's service account
/// does not exist yet, or a quota is exhausted. An unknown field in server-side apply is final too, although its code
/// is 500, as in Kubernetes.
fn is_final(code: u16, message: &str) -> bool {
    matches!(code, 400 | 405 | 413 | 415 | 422) || message.starts_with("failed to create typed patch object")
}
