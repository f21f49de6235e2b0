//! Responses as protobuf messages: objects, lists chunk by chunk, events of watches.
//!
//! Each is in an envelope, Kubernetes' `runtime.Unknown`, which names its type. Custom resources and tables
//! have no such form; metadata alone has one for every kind.

use serde_json::Value;

use super::encode::Field;
use super::writer::{OpenMessage, put_bytes, put_head};
use super::{MAGIC, has_message, type_of};
use api::ApiError;
use apimachinery::schema::{Shape, TypeId, graph};
use object::{Object, ServedKind};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// The field number of a list's items, and of an object's or list's metadata.
const ITEMS: u32 = 2;
const METADATA: u32 = 1;

/// Returns true if objects of a kind in a version have a protobuf form. CustomResourceDefinitions have none
/// here: a schema's alternatives have messages of their own in Kubernetes, and clients request JSON.
pub(crate) fn has_form(served: ServedKind) -> bool {
    message_type(served).is_some()
}

fn message_type(served: ServedKind) -> Option<TypeId> {
    if served.kind().is_custom() || served.group() == "apiextensions.k8s.io" {
        return None;
    }
    let ty = graph().root(served.group(), served.version(), served.kind().info().name)?;
    has_message(ty).then_some(ty)
}

fn broken() -> ApiError {
    ApiError::Internal("cannot encode an object as protobuf".into())
}

/// Returns an object as a message without its envelope.
pub(crate) fn object(served: ServedKind, object: &Object) -> Result<Vec<u8>, ApiError> {
    let shape = Shape::Object(message_type(served).ok_or_else(broken)?);
    let mut out = Vec::new();
    let written = if let ServedKind::Stored(_) = served {
        let owners = object.managed_fields();
        let owners = (!owners.is_empty()).then(|| owners.to_value());
        object.serialize_content(Field::root(&mut out, &shape, owners.as_ref()))
    } else {
        let value = served.value(object);
        serde::Serialize::serialize(&value, Field::root(&mut out, &shape, None))
    };
    written.map_err(|_| broken())?;
    Ok(out)
}

/// Returns an object's metadata alone, as a message without its envelope.
pub(crate) fn partial(object: &Object) -> Result<Vec<u8>, ApiError> {
    metadata_alone(&object.client_metadata())
}

fn metadata_alone(metadata: &Value) -> Result<Vec<u8>, ApiError> {
    let mut out = Vec::new();
    put_metadata(&mut out, OBJECT_META, metadata)?;
    Ok(out)
}

fn put_metadata(out: &mut Vec<u8>, schema: &str, metadata: &Value) -> Result<(), ApiError> {
    let shape = Shape::Object(graph().named(schema).ok_or_else(broken)?);
    let open = OpenMessage::message(out, METADATA);
    serde::Serialize::serialize(metadata, Field::root(out, &shape, None)).map_err(|_| broken())?;
    open.close(out);
    Ok(())
}

/// Returns a message in its envelope.
pub(crate) fn enveloped(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut out = envelope_head(api_version, kind, message.len());
    out.extend_from_slice(message);
    out.extend_from_slice(ENVELOPE_TAIL);
    out
}

/// Empty encoding and content type.
const ENVELOPE_TAIL: &[u8] = &[3 << 3 | 2, 0, 4 << 3 | 2, 0];

fn envelope_head(api_version: &str, kind: &str, length: usize) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    let open = OpenMessage::message(&mut out, 1);
    put_bytes(&mut out, 1, api_version.as_bytes());
    put_bytes(&mut out, 2, kind.as_bytes());
    open.close(&mut out);
    put_head(&mut out, 2, length);
    out
}

/// The bytes around the items of a list.
pub(crate) struct ListFrame {
    pub(crate) head: Vec<u8>,
    pub(crate) tail: &'static [u8],
}

/// Returns the frame of a list whose items take this many bytes, each with its [`item_head`].
pub(crate) fn list_frame(
    api_version: &str,
    kind: &str,
    metadata: &Value,
    items: usize,
) -> Result<ListFrame, ApiError> {
    let mut own = Vec::new();
    put_metadata(&mut own, LIST_META, metadata)?;
    let mut head = envelope_head(api_version, kind, own.len() + items);
    head.extend(own);
    Ok(ListFrame { head, tail: ENVELOPE_TAIL })
}

/// Returns the bytes before an item of a list.
pub(crate) fn item_head(length: usize) -> Vec<u8> {
    let mut out = Vec::new();
    put_head(&mut out, ITEMS, length);
    out
}

/// Returns a response other than a stored object, in its envelope; `None` if its type has no message.
pub(crate) fn of_value(value: &Value) -> Option<Vec<u8>> {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    let message = if api_version.starts_with("meta.k8s.io/") {
        match kind {
            "PartialObjectMetadata" => metadata_alone(value.get("metadata")?).ok()?,
            "PartialObjectMetadataList" => {
                let mut out = Vec::new();
                put_metadata(&mut out, LIST_META, value.get("metadata")?).ok()?;
                for item in value.get("items")?.as_array()? {
                    put_bytes(&mut out, ITEMS, &metadata_alone(item.get("metadata")?).ok()?);
                }
                out
            }
            _ => return None,
        }
    } else {
        let ty = type_of(api_version, kind).filter(|_| !api_version.starts_with("apiextensions.k8s.io/"))?;
        let mut out = Vec::new();
        serde::Serialize::serialize(value, Field::root(&mut out, &Shape::Object(ty), None)).ok()?;
        out
    };
    Some(enveloped(api_version, kind, &message))
}

/// Returns an event of a watch, with an object in its envelope: a `meta.v1.WatchEvent` with its length first.
pub(crate) fn event(type_: &str, object: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 4];
    put_bytes(&mut out, 1, type_.as_bytes());
    let open = OpenMessage::message(&mut out, 2);
    put_bytes(&mut out, 1, object);
    open.close(&mut out);
    let length = (out.len() - 4) as u32;
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}
