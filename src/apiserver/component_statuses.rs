//! `componentstatuses` of v1, deprecated since 1.19: the health of the control plane's components. Read only,
//! never stored.
//!
//! All components are this process: they are healthy if it responds.

use axum::response::Response;
use http::Method;
use serde_json::{Value, json};

use super::Server;
use super::response_format::ResponseFormat;
use super::table;
use super::virtual_objects::VirtualObjects;
use api::ApiError;
use object::{Kind, Object};

pub(super) const PLURAL: &str = "componentstatuses";
pub(super) const KIND: &str = "ComponentStatus";
const API_VERSION: &str = "v1";
const DEPRECATION: &str = "v1 ComponentStatus is deprecated in v1.19+";

/// The names that Kubernetes lists.
const NAMES: [&str; 3] = ["controller-manager", "etcd-0", "scheduler"];

/// The components of a path: one, or all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ComponentTarget {
    name: Option<String>,
}

impl ComponentTarget {
    /// Parses the segments of a path.
    pub(super) fn parse(group: &str, version: &str, rest: &[&str]) -> Option<Self> {
        match (group, version, rest) {
            ("", API_VERSION, [PLURAL]) => Some(Self { name: None }),
            ("", API_VERSION, [PLURAL, name]) => Some(Self { name: Some((*name).into()) }),
            _ => None,
        }
    }

    /// Returns true for the whole collection.
    pub(super) fn is_collection(&self) -> bool {
        self.name.is_none()
    }
}

/// Answers a request for component statuses.
pub(super) fn handle(
    server: &Server,
    target: &ComponentTarget,
    method: &Method,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    format.only_reads(method)?;
    format.warnings.warn(Some(DEPRECATION.to_string()));
    let found: Vec<Value> = match &target.name {
        Some(name) if NAMES.contains(&name.as_str()) => vec![status(name)],
        Some(name) => {
            return Err(ApiError::VirtualNotFound { resource: PLURAL, group: "", name: name.clone() });
        }
        None => {
            // Only names and labels can be selected, as for any kind.
            let selection = format.query.selection(&server.api().kinds(), Kind::Namespace.into())?;
            let is_selected = |name: &&str| {
                let named = json!({"metadata": {"name": name}});
                Object::from_value(Kind::Namespace, named).is_ok_and(|object| selection.matches(&object))
            };
            NAMES.iter().copied().filter(is_selected).map(status).collect()
        }
    };
    let statuses = VirtualObjects {
        kind: KIND,
        api_version: API_VERSION.into(),
        metadata: json!({}),
        objects: found,
        is_single: !target.is_collection(),
    };
    statuses.respond(format, |version, include, all| {
        let columns = ["Name", "Status", "Message", "Error"].map(|name| (name, "string"));
        let cells = |status: &Value| json!([status["metadata"]["name"], "Healthy", "ok", ""]);
        table::of_rows(version, include, &columns, all.iter().map(|status| (status, cells(status))))
    })
}

fn status(name: &str) -> Value {
    json!({"kind": KIND, "apiVersion": API_VERSION, "metadata": {"name": name, "creationTimestamp": null},
        "conditions": [{"type": "Healthy", "status": "True", "message": "ok"}]})
}
