//! The name of an object in the cluster, with its kind.

use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::manifests::namespace_of;
use manifest::Document;

/// The name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ObjectName {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl ObjectName {
    /// The name of a document's object; `namespace` is that of documents without one.
    pub(super) fn of(document: &Document, namespace: &str) -> Self {
        let text = |pointer: &str| {
            document.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        Self {
            api_version: text("/apiVersion"),
            kind: text("/kind"),
            namespace: namespace_of(document, namespace).to_owned(),
            name: text("/metadata/name"),
        }
    }

    /// Returns true if both are the same object, maybe in different versions.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.group() == other.group()
            && (&self.kind, &self.namespace, &self.name) == (&other.kind, &other.namespace, &other.name)
    }

    /// The API group; empty for the core group.
    fn group(&self) -> &str {
        self.api_version.rsplit_once('/').map_or("", |(group, _)| group)
    }

    /// `deployment.apps/web`.
    pub(super) fn label(&self) -> String {
        let dot = if self.group().is_empty() { "" } else { "." };
        format!("{}{dot}{}/{}", self.kind.to_lowercase(), self.group(), self.name)
    }

    /// A document with the name alone.
    pub(super) fn document(&self) -> Option<Document> {
        let metadata = json!({"name": self.name, "namespace": self.namespace});
        let value = json!({"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata});
        manifest::parse_values(&value.to_string(), "podium dev").pop()?.ok()
    }

    /// The API of the object's kind in its namespace.
    pub(super) fn api(&self, client: &Client) -> Api<DynamicObject> {
        let version = self.api_version.rsplit_once('/').map_or(&*self.api_version, |(_, version)| version);
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(self.group(), version, &self.kind));
        Api::namespaced_with(client.clone(), &self.namespace, &resource)
    }
}
