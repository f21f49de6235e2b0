//! An object in the form that a client asks for: itself, a table of one row, its metadata alone.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::negotiate::{Form, MetaVersion};
use super::table::{IncludeObject, Table, TableMeta};
use crate::Api;
use object::{Object, ServedKind};

/// One object in the form asked for.
pub(super) fn encode_one(
    api: &Api,
    served: ServedKind,
    form: Form,
    include: IncludeObject,
    object: &Arc<Object>,
) -> Bytes {
    match form {
        Form::Object => served.json(object),
        Form::Table(version) => {
            let metadata =
                TableMeta { resource_version: object.revision().to_string(), ..TableMeta::default() };
            let strategy = api.kinds().strategy_in(served);
            Table::new(&*strategy, served, version, include, api.clock().now())
                .whole([&**object], &metadata)
                .into()
        }
        Form::Metadata(version) => partial(version, object).to_string().into(),
    }
}

/// An object's metadata as an object of its own.
pub(super) fn partial(version: MetaVersion, object: &Object) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": version.api_version(), "metadata": object.shown_meta()})
}
