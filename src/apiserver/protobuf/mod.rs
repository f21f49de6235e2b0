//! Kubernetes' protobuf encoding: bodies are decoded into JSON values, responses are encoded from objects.
//!
//! kubectl sends such bodies for most `create` commands without a fallback to JSON; controllers on client-go
//! request such responses. One table (`fields.txt`) has the field numbers, and the schema graph has the
//! fields' types, so no generated code is needed.

mod encode;
mod fields;
mod message;
mod response;
mod wire;
pub(super) mod writer;

use serde_json::Value;

use apimachinery::schema::{TypeId, graph, roots};
use fields::fields;
use message::read_message;
pub(super) use response::{
    ListFrame, enveloped, event, has_form, item_head, list_frame, object, of_value, partial,
};
use wire::{Payload, Reader};

/// The media type of such bodies.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The first bytes of every body; a `runtime.Unknown` message follows.
const MAGIC: &[u8] = b"k8s\0";

/// The reason why a body cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// The body does not begin with the magic bytes.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NotProtobuf,
    /// The body is truncated, or a number in it is too long.
    #[error("unexpected EOF")]
    Truncated,
    /// A field's encoding does not fit its type.
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WrongWire {
        /// The JSON name.
        field: String,
        /// The wire type found.
        wire: u8,
    },
    /// Text that is not UTF-8, or embedded JSON that is invalid.
    #[error("proto: invalid content of field {0}")]
    InvalidContent(String),
    /// Messages are nested more deeply than in any real object.
    #[error("proto: nested too deep")]
    TooDeep,
    /// The API has no such type.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownType {
        /// As given.
        api_version: String,
        /// As given.
        kind: String,
    },
}

/// Decodes a whole body: magic, envelope, object. The value has `apiVersion` and `kind`.
///
/// Fields that hold their zero value are left out where Kubernetes' types cannot tell it from absence, as
/// their JSON encoding would leave them out.
pub fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = body.strip_prefix(MAGIC).ok_or(ProtobufError::NotProtobuf)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    let mut reader = Reader::new(envelope);
    while let Some((number, payload)) = reader.next()? {
        match (number, payload) {
            (1, Payload::Bytes(type_meta)) => {
                let mut reader = Reader::new(type_meta);
                while let Some((number, payload)) = reader.next()? {
                    let Payload::Bytes(text) = payload else { continue };
                    let text = utf8(text, "typeMeta")?;
                    match number {
                        1 => api_version = text,
                        2 => kind = text,
                        _ => {}
                    }
                }
            }
            (2, Payload::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let Some(ty) = type_of(&api_version, &kind) else {
        return Err(ProtobufError::UnknownType { api_version, kind });
    };
    let mut value = read_message(ty, raw)?;
    if let Value::Object(entries) = &mut value {
        entries.insert("apiVersion".into(), api_version.into());
        entries.insert("kind".into(), kind.into());
    }
    Ok(value)
}

fn type_of(api_version: &str, kind: &str) -> Option<TypeId> {
    // Every group has an alias of these options.
    if kind == "DeleteOptions" {
        return graph().named(roots::DELETE_OPTIONS);
    }
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    graph().root(group, version, kind).filter(|ty| has_message(*ty))
}

/// Returns true if a type has a protobuf form.
fn has_message(ty: TypeId) -> bool {
    fields(graph().get(ty).name).is_some()
}

fn utf8(bytes: &[u8], field: &str) -> Result<String, ProtobufError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| ProtobufError::InvalidContent(field.to_string()))
}

#[cfg(test)]
mod response_tests;
#[cfg(test)]
mod tests;
