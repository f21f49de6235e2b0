//! The audit context of one request, from its arrival to the end of its response.

use std::collections::btree_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use parking_lot::Mutex;
use serde_json::Value;

use super::attributes::AuditAttributes;
use super::event::{Body, DecodeFn, Event, EventHeader, ObjectIdentity, RequestRecord};
use super::log::AuditLog;
use super::log::BodyReservation;
use super::policy::{Level, Stage};
use api::identity::User;
use api::warning_recorder::AuditRecorder;

/// The limit on a recorded response, in bytes; Kubernetes' `--audit-log-truncate-max-event-size`.
const MAX_BODY: usize = 10 << 20;
/// The limit on all annotations of a request, in bytes; further ones are left out.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// A handle to the audit context of one request.
#[derive(Clone)]
pub(crate) struct AuditContext {
    inner: Arc<Inner>,
}

struct Inner {
    log: AuditLog,
    request: IncomingRequest,
    /// Set after authentication.
    head: OnceLock<Arc<EventHeader>>,
    state: Mutex<AuditState>,
}

/// A request on arrival.
#[derive(Debug)]
pub(crate) struct IncomingRequest {
    /// The request's unique id, from the client or generated.
    pub(crate) id: String,
    pub(crate) at: Timestamp,
    /// Path and query.
    pub(crate) uri: String,
    pub(crate) user_agent: String,
    /// The source addresses, the nearest last.
    pub(crate) sources: Vec<IpAddr>,
}

#[derive(Default)]
struct AuditState {
    record: RequestRecord,
    annotated: usize,
    /// The reservation for the recorded chunks of the response.
    reserved: Option<BodyReservation>,
}

impl std::fmt::Debug for AuditContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trail").field("came", &self.inner.request).finish_non_exhaustive()
    }
}

impl AuditContext {
    /// Starts the context of a request.
    pub(crate) fn begin(log: AuditLog, request: IncomingRequest) -> Self {
        Self { inner: Arc::new(Inner { log, request, head: OnceLock::new(), state: Mutex::default() }) }
    }

    /// Returns the request's unique id.
    pub(crate) fn id(&self) -> &str {
        &self.inner.request.id
    }

    /// Sets the attributes after authentication; the policy then decides on the level.
    pub(crate) fn set_attributes(&self, attributes: AuditAttributes) {
        let Inner { log, request: came, head, .. } = &*self.inner;
        let decision = log.decide(&attributes);
        let made = Arc::new(EventHeader {
            id: came.id.clone(),
            received: came.at,
            uri: came.uri.clone(),
            user_agent: came.user_agent.clone(),
            sources: came.sources.iter().map(ToString::to_string).collect(),
            attributes,
            decision,
        });
        if head.set(made).is_ok() {
            self.write(Stage::RequestReceived, RequestRecord::default());
        }
    }

    fn level(&self) -> Level {
        self.inner.head.get().map_or(Level::None, |head| head.decision.level)
    }

    /// Sets the impersonated user.
    pub(crate) fn set_impersonated_user(&self, user: Arc<User>) {
        if self.level() > Level::None {
            self.inner.state.lock().record.impersonated = Some(user);
        }
    }

    /// Adds an annotation; the first one with a key wins.
    pub(crate) fn annotate(&self, key: impl Into<String>, value: impl Into<String>) {
        self.annotate_from(Level::Metadata, key.into(), value.into());
    }

    fn annotate_from(&self, least: Level, key: String, value: String) {
        if self.level() < least {
            return;
        }
        let mut state = self.inner.state.lock();
        let more = state.annotated + key.len() + value.len();
        if more > MAX_ANNOTATIONS {
            state.record.is_truncated = true;
            return;
        }
        if let Entry::Vacant(entry) = state.record.annotations.entry(key) {
            entry.insert(value);
            state.annotated = more;
        }
    }

    /// The request's body.
    pub(crate) fn record_request(&self, media_type: &str, bytes: &Bytes, decode: DecodeFn) {
        let Some(head) = self.inner.head.get() else { return };
        if head.decision.level >= Level::Request && head.attributes.carries_objects() && !bytes.is_empty() {
            let body = Body { media_type: media_type.into(), pieces: vec![bytes.clone()], decode };
            self.inner.state.lock().record.request = Some(body);
        }
    }

    /// Records the namespace, name, uid and resourceVersion of the object in the request's body, which the
    /// path may lack.
    pub(crate) fn record_object_identity(&self, object: &Value) {
        if self.level() == Level::None {
            return;
        }
        let text = |field: &str| {
            let value = object.get("metadata").and_then(|metadata| metadata.get(field));
            // No valid value is longer; longer text from clients is left out.
            let text = value.and_then(Value::as_str).filter(|text| text.len() <= 512);
            text.unwrap_or_default().to_string()
        };
        self.inner.state.lock().record.named = ObjectIdentity {
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
        };
    }

    /// Returns true if the response's body is recorded.
    pub(crate) fn records_response(&self) -> bool {
        let head = self.inner.head.get();
        head.is_some_and(|head| {
            head.decision.level == Level::RequestResponse
                && head.decision.logs_stage(Stage::ResponseComplete)
                && head.attributes.carries_objects()
        })
    }

    /// Starts recording the response's body.
    pub(crate) fn begin_response(&self, media_type: &str, decode: DecodeFn) {
        let mut state = self.inner.state.lock();
        state.record.response = Some(Body { media_type: media_type.into(), pieces: Vec::new(), decode });
    }

    /// Records a chunk of the response's body.
    pub(crate) fn record_chunk(&self, piece: &Bytes) {
        let mut state = self.inner.state.lock();
        let state = &mut *state;
        let Some(body) = &mut state.record.response else { return };
        let reserved = state.reserved.get_or_insert_with(|| self.inner.log.reserve());
        if body.len() + piece.len() > MAX_BODY || !reserved.grow(piece.len()) {
            (state.record.response, state.reserved, state.record.is_truncated) = (None, None, true);
            return;
        }
        body.pieces.push(piece.clone());
    }

    /// Records the start of the response.
    pub(crate) fn response_started(&self, code: u16, status: Option<Arc<Status>>) {
        let Some(head) = self.inner.head.get() else { return };
        let started = {
            let mut state = self.inner.state.lock();
            (state.record.code, state.record.status) = (Some(code), status);
            let begins =
                head.attributes.is_long_running() && head.decision.logs_stage(Stage::ResponseStarted);
            begins.then(|| state.record.clone())
        };
        if let Some(record) = started {
            self.write(Stage::ResponseStarted, record);
        }
    }

    /// Records the end of the response, or of a request without one.
    pub(crate) fn response_completed(&self) {
        let (mut record, reserved) = {
            let mut state = self.inner.state.lock();
            (std::mem::take(&mut state.record), state.reserved.take())
        };
        let stage = match record.code {
            None if std::thread::panicking() => Stage::Panic,
            // The client left before the response: Kubernetes records this status.
            None => {
                (record.code, record.status) = (Some(200), Some(Arc::new(closed_early())));
                Stage::ResponseComplete
            }
            Some(_) => Stage::ResponseComplete,
        };
        self.write(stage, record);
        drop(reserved);
    }

    fn write(&self, stage: Stage, record: RequestRecord) {
        let Some(head) = self.inner.head.get().filter(|head| head.decision.logs_stage(stage)) else { return };
        let at = self.inner.log.now();
        self.inner.log.write(Event { head: head.clone(), stage, at, record });
    }
}

impl AuditRecorder for AuditContext {
    fn annotate(&self, key: String, value: String) {
        self.annotate_from(Level::Metadata, key, value);
    }

    fn annotate_in_detail(&self, key: String, value: String) {
        self.annotate_from(Level::Request, key, value);
    }
}

/// Returns the status of a request whose client did not wait for the response.
fn closed_early() -> Status {
    Status {
        status: Some("Success".into()),
        message: Some("Connection closed early".into()),
        ..Status::default()
    }
}
