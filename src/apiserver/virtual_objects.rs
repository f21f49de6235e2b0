//! Responses with objects that are computed for each request and never stored.

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::negotiate::{MetaVersion, Representation};
use super::respond::Responder;
use super::response_format::ResponseFormat;
use super::table::IncludeObject;
use api::ApiError;

/// Objects of one kind.
pub(super) struct VirtualObjects {
    pub(super) kind: &'static str,
    pub(super) api_version: String,
    /// The metadata of their list.
    pub(super) metadata: Value,
    pub(super) objects: Vec<Value>,
    /// True for an object that the path names: it is not in a list.
    pub(super) is_single: bool,
}

impl VirtualObjects {
    /// Responds with the objects in the form that the client accepts; `table` encodes them as a table.
    pub(super) fn respond(
        self,
        format: &ResponseFormat,
        table: impl FnOnce(MetaVersion, IncludeObject, &[Value]) -> Value,
    ) -> Result<Response, ApiError> {
        let Self { kind, api_version, metadata, mut objects, is_single } = self;
        let (kind, api_version) = match format.form() {
            Representation::Table(version) => {
                let table = table(version, format.query.include_object(), &objects);
                return Responder::json(StatusCode::OK, &table);
            }
            Representation::Metadata(version) => {
                objects = objects.iter().map(|object| version.partial(&object["metadata"])).collect();
                ("PartialObjectMetadata", version.api_version())
            }
            Representation::Object => (kind, api_version.as_str()),
        };
        let body = if is_single {
            objects.pop().unwrap_or_default()
        } else {
            json!({"kind": format!("{kind}List"), "apiVersion": api_version, "metadata": metadata, "items": objects})
        };
        Responder::json(StatusCode::OK, &body)
    }
}
