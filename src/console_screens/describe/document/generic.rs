//! Describes kinds without a file of their own: every field becomes a key, and a Secret's data is described only by its
//! size.

use serde_json::Value;

use super::builder::{DocumentBuilder, Tone, controller, identity, items, labels, text, time};

/// Describes any object: its metadata, then all other fields with their nesting.
pub(crate) fn describe(doc: &mut DocumentBuilder, object: &Value) {
    start(doc, object);
    for (key, value) in object.as_object().into_iter().flatten() {
        if !matches!(key.as_str(), "metadata" | "kind" | "apiVersion") {
            tree(doc, 0, &title(key), value);
        }
    }
}

/// Describes a ConfigMap with its data.
pub(crate) fn config_map(doc: &mut DocumentBuilder, object: &Value) {
    start(doc, object);
    doc.head(0, "Data");
    for (key, value) in object["data"].as_object().into_iter().flatten() {
        doc.head(2, key);
        for line in text(value).lines() {
            doc.line(4, line, Tone::Plain);
        }
    }
    let binary = object["binaryData"].as_object().filter(|data| !data.is_empty());
    if let Some(binary) = binary {
        doc.head(0, "BinaryData");
        for (key, value) in binary {
            doc.field(2, key, format!("{} bytes", decoded_length(&text(value))));
        }
    }
}

/// Describes a Secret: the keys of its data and the length of each value, never the value.
pub(crate) fn secret(doc: &mut DocumentBuilder, object: &Value) {
    start(doc, object);
    doc.field(0, "Type", text(&object["type"]));
    doc.head(0, "Data");
    for (key, value) in object["data"].as_object().into_iter().flatten() {
        doc.field(2, key, format!("{} bytes", decoded_length(&text(value))));
    }
}

fn start(doc: &mut DocumentBuilder, object: &Value) {
    identity(doc, object);
    labels(doc, object);
    doc.field(0, "API Version", text(&object["apiVersion"]));
    doc.field(0, "Kind", text(&object["kind"]));
    doc.field(0, "CreationTimestamp", time(&object["metadata"]["creationTimestamp"]));
    if object["metadata"]["deletionTimestamp"].is_string() {
        doc.toned(0, "Deleted", time(&object["metadata"]["deletionTimestamp"]), Tone::Waiting);
        doc.list(0, "Finalizers", items(object, "/metadata/finalizers").map(text));
    }
    if let Some(controller) = controller(object) {
        doc.field(0, "Controlled By", controller);
    }
}

/// Returns the number of bytes that a base64 text encodes, without decoding it.
fn decoded_length(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

fn tree(doc: &mut DocumentBuilder, indent: usize, key: &str, value: &Value) {
    match value {
        Value::Object(map) if map.is_empty() => doc.field(indent, key, ""),
        Value::Object(map) => {
            doc.head(indent, key);
            for (key, value) in map {
                tree(doc, indent + 2, &title(key), value);
            }
        }
        Value::Array(list) if list.iter().all(|item| !item.is_object() && !item.is_array()) => {
            doc.list(indent, key, list.iter().map(text));
        }
        Value::Array(list) => {
            doc.head(indent, key);
            for (index, item) in list.iter().enumerate() {
                let name = item["name"].as_str().or(item["type"].as_str());
                tree(doc, indent + 2, name.unwrap_or(&index.to_string()), item);
            }
        }
        scalar => doc.field(indent, key, text(scalar)),
    }
}

/// Returns `minAvailable` as `Min Available`; kubectl titles unknown fields like this.
fn title(key: &str) -> String {
    let mut title = String::with_capacity(key.len() + 4);
    let mut before_lower = false;
    for (index, letter) in key.chars().enumerate() {
        if index == 0 {
            title.extend(letter.to_uppercase());
        } else {
            if letter.is_uppercase() && before_lower {
                title.push(' ');
            }
            title.push(letter);
        }
        before_lower = letter.is_lowercase();
    }
    title
}
