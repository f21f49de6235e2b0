//! An object in the form that a client requests: itself, a table of one row, its metadata alone.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::negotiate::{MediaType, MediaTypeOptions, MetaVersion, Representation};
use super::protobuf;
use super::table::{IncludeObject, Table, TableMeta};
use api::{Api, ApiError};
use object::{Object, ServedKind};

/// Encodes one object in the requested form and media type.
pub(super) fn encode_one(
    api: &Api,
    served: ServedKind,
    MediaTypeOptions { form, media }: MediaTypeOptions,
    include: IncludeObject,
    object: &Arc<Object>,
) -> Result<Bytes, ApiError> {
    if media == MediaType::Protobuf {
        let (api_version, kind) = named(form, served);
        return Ok(protobuf::enveloped(&api_version, kind, &message(form, served, object)?).into());
    }
    Ok(match form {
        Representation::Object => served.json(object),
        Representation::Table(version) => {
            let metadata =
                TableMeta { resource_version: object.revision().to_string(), ..TableMeta::default() };
            let strategy = api.kinds().strategy_in(served);
            Table::new(&*strategy, served, version, include, api.server_clock().now())
                .whole([&**object], &metadata)
                .into()
        }
        Representation::Metadata(version) => partial(version, object).to_string().into(),
    })
}

/// Returns the version and kind of an object in a form other than a table.
fn named(form: Representation, served: ServedKind) -> (String, &'static str) {
    match form {
        Representation::Metadata(version) | Representation::Table(version) => {
            (version.api_version().into(), "PartialObjectMetadata")
        }
        Representation::Object => (served.api_version(), served.kind().info().name),
    }
}

/// Returns an object in a form other than a table, as a message without its envelope.
pub(super) fn message(
    form: Representation,
    served: ServedKind,
    object: &Object,
) -> Result<Vec<u8>, ApiError> {
    match form {
        Representation::Metadata(_) | Representation::Table(_) => protobuf::partial(object),
        Representation::Object => protobuf::object(served, object),
    }
}

/// Returns an object's metadata as an object of its own.
pub(super) fn partial(version: MetaVersion, object: &Object) -> Value {
    version.partial(&object.client_metadata())
}
