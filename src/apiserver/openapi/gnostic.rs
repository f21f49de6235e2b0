//! OpenAPI version 2 in the protobuf form that kubectl up to 1.29 insists on (`openapi.v2.Document`).
//!
//! Only the parts that such clients read are written: complete definitions, and paths with the parameters of
//! their patch operations.

use serde_json::{Map, Value};

use crate::discovery::KUBERNETES_VERSION;
use crate::protobuf::writer::{put_bytes, put_number};

/// The media type of the response.
pub(crate) const MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The name of that media type which those clients accept. It is no valid media type.
const FORMER_MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// Returns true if the value of an `Accept` header names the protobuf form.
pub(crate) fn is_accepted(accept: &str) -> bool {
    [MEDIA_TYPE, FORMER_MEDIA_TYPE].iter().any(|name| accept.contains(name))
}

/// Encodes the head of a version 2 document. Paths and definitions may follow it in any number of parts:
/// repeated occurrences of a field are merged.
pub(super) fn encode_head() -> Vec<u8> {
    let mut out = Message::default();
    out.raw(1, b"2.0");
    let mut info = Message::default();
    info.raw(1, b"Kubernetes");
    info.raw(2, KUBERNETES_VERSION.as_bytes());
    out.message(2, &info);
    out.bytes
}

/// Encodes one path of a version 2 document.
pub(super) fn encode_path(path: &str, item: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.message(8, &wrapped(2, &named(path, &path_item(item))));
    out.bytes
}

/// Encodes one definition of a version 2 document.
pub(super) fn encode_definition(name: &str, definition: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.message(9, &wrapped(1, &named(name, &schema(definition))));
    out.bytes
}

/// A message under construction.
#[derive(Default)]
struct Message {
    bytes: Vec<u8>,
}

impl Message {
    fn raw(&mut self, number: u32, bytes: &[u8]) {
        put_bytes(&mut self.bytes, number, bytes);
    }

    fn message(&mut self, number: u32, message: &Self) {
        self.raw(number, &message.bytes);
    }

    /// Writes a string, if the value is one.
    fn text(&mut self, number: u32, value: &Value) {
        if let Some(text) = value.as_str() {
            self.raw(number, text.as_bytes());
        }
    }

    fn texts(&mut self, number: u32, value: &Value) {
        for text in value.as_array().into_iter().flatten() {
            self.text(number, text);
        }
    }

    /// Writes the `x-` entries: a name and YAML, of which JSON is a subset.
    fn extensions(&mut self, number: u32, of: &Value) {
        for (name, value) in entries(of).filter(|(name, _)| name.starts_with("x-")) {
            self.message(number, &named(name, &any(value)));
        }
    }
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn named(name: &str, value: &Message) -> Message {
    let mut out = Message::default();
    out.raw(1, name.as_bytes());
    out.message(2, value);
    out
}

fn any(value: &Value) -> Message {
    let mut out = Message::default();
    out.raw(2, value.to_string().as_bytes());
    out
}

fn path_item(item: &Value) -> Message {
    let mut out = Message::default();
    for (name, number) in [("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("patch", 8)] {
        if let Some(value) = item.get(name) {
            out.message(number, &operation(value));
        }
    }
    out
}

fn operation(value: &Value) -> Message {
    let mut out = Message::default();
    out.text(3, &value["description"]);
    out.texts(6, &value["produces"]);
    out.texts(7, &value["consumes"]);
    for parameter in value["parameters"].as_array().into_iter().flatten().filter(|p| p["in"] == "query") {
        let mut query = Message::default();
        query.text(2, &parameter["in"]);
        query.text(3, &parameter["description"]);
        query.text(4, &parameter["name"]);
        query.text(6, &parameter["type"]);
        // ParametersItem, Parameter, NonBodyParameter: each is a `oneof`.
        out.message(8, &wrapped(1, &wrapped(2, &wrapped(3, &query))));
    }
    out.extensions(13, value);
    out
}

fn wrapped(number: u32, message: &Message) -> Message {
    let mut out = Message::default();
    out.message(number, message);
    out
}

fn named_schemas(schemas: &Value) -> Message {
    let mut out = Message::default();
    for (name, value) in entries(schemas) {
        out.message(1, &named(name, &schema(value)));
    }
    out
}

fn schema(value: &Value) -> Message {
    let mut out = Message::default();
    out.text(1, &value["$ref"]);
    out.text(2, &value["format"]);
    out.text(4, &value["description"]);
    if let Some(default) = value.get("default") {
        out.message(5, &any(default));
    }
    out.texts(19, &value["required"]);
    match &value["additionalProperties"] {
        values @ Value::Object(_) => out.message(21, &wrapped(1, &schema(values))),
        Value::Bool(true) => {
            let mut item = Message::default();
            put_number(&mut item.bytes, 2, 1);
            out.message(21, &item);
        }
        _ => {}
    }
    if value["type"].is_string() {
        let mut type_ = Message::default();
        type_.text(1, &value["type"]);
        out.message(22, &type_);
    }
    if value["items"].is_object() {
        out.message(23, &wrapped(1, &schema(&value["items"])));
    }
    if value["properties"].is_object() {
        out.message(25, &named_schemas(&value["properties"]));
    }
    out.extensions(31, value);
    out
}
