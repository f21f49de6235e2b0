//! Protobuf bodies: a short body decodes to a short object, regardless of the lengths that it claims.

use serde_json::Value;

use apiserver::protobuf::decode;
use object::{Object, ServedKind};

/// The types that the first byte selects.
const TYPES: [(&str, &str); 6] = [
    ("v1", "Pod"),
    ("apps/v1", "Deployment"),
    ("v1", "Service"),
    ("v1", "ConfigMap"),
    ("batch/v1", "CronJob"),
    ("v1", "DeleteOptions"),
];

/// Input: one byte for the type, and then the object's message; or a whole body, which starts with the magic number.
pub(super) fn check(bytes: &[u8]) {
    let Some((&choice, message)) = bytes.split_first() else { return };
    if bytes.starts_with(b"k8s\0") {
        read(bytes);
    } else {
        let (api_version, kind) = TYPES[usize::from(choice) % TYPES.len()];
        read(&body(api_version, kind, message));
    }
}

fn read(body: &[u8]) {
    let Ok(value) = decode(body) else { return };
    let written = value.to_string();
    // An element without bytes is written with its type's required fields, so the text may be larger than the body, but
    // only by a bounded factor.
    assert!(written.len() <= 4096 + body.len() * 512, "{} bytes of {}", written.len(), body.len());
    assert!(serde_json::from_str::<Value>(&written).is_ok(), "{written}");
    let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
    if let Some(served) = ServedKind::from_api_version(&text("apiVersion"), &text("kind")) {
        let _ = Object::from_value(served.kind(), served.stored(value));
    }
}

fn body(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut type_meta = Vec::new();
    field(&mut type_meta, 1, api_version.as_bytes());
    field(&mut type_meta, 2, kind.as_bytes());
    let mut body = b"k8s\0".to_vec();
    field(&mut body, 1, &type_meta);
    field(&mut body, 2, message);
    body
}

/// Appends a length-delimited field.
fn field(into: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    into.push((number << 3) | 2);
    let mut length = bytes.len();
    while length >= 0x80 {
        into.push(length as u8 | 0x80);
        length >>= 7;
    }
    into.push(length as u8);
    into.extend_from_slice(bytes);
}
