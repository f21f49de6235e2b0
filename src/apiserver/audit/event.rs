//! One line of the log: an `Event` of `audit.k8s.io/v1`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Status};
use serde::Serialize;
use serde_json::{Map, Value};

use super::attributes::{AuditAttributes, RequestTarget};
use super::policy::{Decision, Level, Stage};
use api::identity::User;
use base::sort::CollectMap;

/// The annotation for a body that was too long or incomplete, and is left out.
const TRUNCATED: &str = "audit.k8s.io/truncated";

/// The data of a request after authentication.
#[derive(Debug)]
pub(super) struct EventHeader {
    pub(super) id: String,
    pub(super) received: Timestamp,
    /// Path and query.
    pub(super) uri: String,
    pub(super) user_agent: String,
    /// The source addresses, the nearest last.
    pub(super) sources: Vec<String>,
    pub(super) attributes: AuditAttributes,
    pub(super) decision: Decision,
}

/// Decodes a body; `None` if it is no object. Runs on the log's writer thread.
pub(super) type DecodeFn = fn(media_type: &str, bytes: &[u8]) -> Option<Value>;

/// A body as it was sent.
#[derive(Clone, Debug)]
pub(super) struct Body {
    pub(super) media_type: String,
    pub(super) pieces: Vec<Bytes>,
    pub(super) decode: DecodeFn,
}

impl Body {
    /// Returns the length in bytes.
    pub(super) fn len(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    fn value(&self, omits_managed_fields: bool) -> Option<Value> {
        let mut value = match self.pieces.as_slice() {
            [whole] => (self.decode)(&self.media_type, whole),
            pieces => (self.decode)(&self.media_type, &pieces.concat()),
        }?;
        if omits_managed_fields {
            drop_managed_fields(&mut value);
        }
        Some(value)
    }
}

/// Removes managedFields of an object, of a list's items, and of the objects in a table's rows.
fn drop_managed_fields(value: &mut Value) {
    let of_one = |value: &mut Value| {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    };
    of_one(value);
    let mut each = |items: &str, of_each: &dyn Fn(&mut Value)| {
        value.get_mut(items).and_then(Value::as_array_mut).into_iter().flatten().for_each(of_each);
    };
    each("items", &of_one);
    each("rows", &|row| {
        row.get_mut("object").map(of_one);
    });
}

/// The identity of the object in the request; empty fields are unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ObjectIdentity {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
}

/// The data collected so far about a request's processing.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestRecord {
    /// The impersonated user.
    pub(super) impersonated: Option<Arc<User>>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) named: ObjectIdentity,
    pub(super) request: Option<Body>,
    pub(super) response: Option<Body>,
    /// True if a body was left out because it was too long or incomplete.
    pub(super) is_truncated: bool,
    /// The response, if it is a Status; else only its code is known.
    pub(super) status: Option<Arc<Status>>,
    /// `None` before the response.
    pub(super) code: Option<u16>,
}

/// An event to write.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) head: Arc<EventHeader>,
    pub(super) stage: Stage,
    pub(super) at: Timestamp,
    pub(super) record: RequestRecord,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireEvent<'a> {
    kind: &'static str,
    api_version: &'static str,
    level: &'static str,
    #[serde(rename = "auditID")]
    audit_id: &'a str,
    stage: &'static str,
    #[serde(rename = "requestURI")]
    request_uri: &'a str,
    verb: &'a str,
    user: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    impersonated_user: Option<Value>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "is_empty")]
    source_ips: &'a [String],
    #[serde(skip_serializing_if = "str::is_empty")]
    user_agent: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_ref: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_status: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_object: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_object: Option<Value>,
    request_received_timestamp: MicroTime,
    stage_timestamp: MicroTime,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
}

fn is_empty(list: &&[String]) -> bool {
    list.is_empty()
}

impl Event {
    /// Returns the approximate memory that the event holds until it is written, in bytes.
    pub(super) fn weight(&self) -> usize {
        let bodies = self.record.request.iter().chain(&self.record.response).map(Body::len).sum::<usize>();
        let annotations =
            self.record.annotations.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        1024 + self.head.uri.len() + annotations + bodies
    }

    /// Returns the event as one line of JSON with a newline.
    pub(super) fn line(mut self) -> Vec<u8> {
        let head = &self.head;
        let level = head.decision.level;
        let read = |body: &Option<Body>, from: Level| {
            body.as_ref().filter(|_| level >= from).map(|body| body.value(head.decision.omits_managed_fields))
        };
        let (request, response) =
            (read(&self.record.request, Level::Request), read(&self.record.response, Level::RequestResponse));
        if self.record.is_truncated || matches!(response, Some(None)) {
            self.record.annotations.insert(TRUNCATED.into(), "true".into());
        }
        let written = WireEvent {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: level.name(),
            audit_id: &head.id,
            stage: self.stage.name(),
            request_uri: &head.uri,
            verb: &head.attributes.verb,
            user: head.attributes.user.as_ref().map_or_else(|| Value::Object(Map::new()), |user| user.info()),
            impersonated_user: self.record.impersonated.as_ref().map(|user| user.info()),
            source_ips: &head.sources,
            user_agent: &head.user_agent,
            object_ref: object_ref(&head.attributes.on, &self.record.named),
            response_status: response_status(&self.record),
            request_object: request.flatten(),
            response_object: response.flatten(),
            request_received_timestamp: MicroTime(head.received),
            stage_timestamp: MicroTime(self.at),
            annotations: std::mem::take(&mut self.record.annotations),
        };
        let mut line = serde_json::to_vec(&written).expect("an event has only strings and numbers");
        line.push(b'\n');
        line
    }
}

fn object_ref(on: &RequestTarget, named: &ObjectIdentity) -> Option<Value> {
    let RequestTarget::Resource(resource) = on else { return None };
    let or = |from_request: &str, from_response: &str| {
        if from_request.is_empty() { from_response.to_string() } else { from_request.to_string() }
    };
    let fields = [
        ("resource", resource.plural.clone()),
        ("namespace", or(&resource.namespace, &named.namespace)),
        ("name", or(&resource.name, &named.name)),
        ("uid", named.uid.clone()),
        ("apiGroup", resource.group.clone()),
        ("apiVersion", resource.version.clone()),
        ("resourceVersion", named.resource_version.clone()),
        ("subresource", resource.subresource.clone()),
    ];
    let present = fields.into_iter().filter(|(_, value)| !value.is_empty());
    Some(Value::Object(present.map(|(field, value)| (field.to_string(), value.into())).collect_map()))
}

fn response_status(record: &RequestRecord) -> Option<Value> {
    let code = record.code?;
    let mut status = record.status.as_ref().and_then(|status| serde_json::to_value(&**status).ok());
    let fields = status.get_or_insert_with(|| serde_json::json!({"metadata": {}})).as_object_mut()?;
    fields.remove("kind");
    fields.remove("apiVersion");
    fields.insert("code".into(), code.into());
    status
}
