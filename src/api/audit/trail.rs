//! The audit context of one request, from its arrival to the end of its response.

use std::collections::btree_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use parking_lot::Mutex;
use serde_json::Value;

use super::attributes::Asked;
use super::event::{Body, Decode, Event, Head, Named, Told};
use super::log::AuditLog;
use super::log::Reserved;
use super::policy::{Level, Stage};
use crate::identity::User;

/// The limit on a recorded response; Kubernetes' `--audit-log-truncate-max-event-size`.
const MAX_BODY: usize = 10 << 20;
/// The limit on all annotations of a request, in bytes; further ones are left out.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// A handle to the audit context of one request.
#[derive(Clone)]
pub(crate) struct Trail {
    inner: Arc<Inner>,
}

struct Inner {
    log: AuditLog,
    came: Came,
    /// Set after authentication.
    head: OnceLock<Arc<Head>>,
    noted: Mutex<Noted>,
}

/// A request on arrival.
#[derive(Debug)]
pub(crate) struct Came {
    /// Its unique id, from the client or generated.
    pub(crate) id: String,
    pub(crate) at: Timestamp,
    /// Path and query.
    pub(crate) uri: String,
    pub(crate) user_agent: String,
    /// The source addresses, the nearest last.
    pub(crate) sources: Vec<IpAddr>,
}

#[derive(Default)]
struct Noted {
    told: Told,
    annotated: usize,
    /// The reservation for the recorded chunks of the response.
    reserved: Option<Reserved>,
}

impl std::fmt::Debug for Trail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trail").field("came", &self.inner.came).finish_non_exhaustive()
    }
}

impl Trail {
    /// Starts the context of a request.
    pub(crate) fn begin(log: AuditLog, came: Came) -> Self {
        Self { inner: Arc::new(Inner { log, came, head: OnceLock::new(), noted: Mutex::default() }) }
    }

    /// The request's unique id.
    pub(crate) fn id(&self) -> &str {
        &self.inner.came.id
    }

    /// Sets the attributes after authentication; the policy then decides on the level.
    pub(crate) fn asked(&self, asked: Asked) {
        let Inner { log, came, head, .. } = &*self.inner;
        let decision = log.decide(&asked);
        let made = Arc::new(Head {
            id: came.id.clone(),
            received: came.at,
            uri: came.uri.clone(),
            user_agent: came.user_agent.clone(),
            sources: came.sources.iter().map(ToString::to_string).collect(),
            asked,
            decision,
        });
        if head.set(made).is_ok() {
            self.write(Stage::RequestReceived, Told::default());
        }
    }

    fn level(&self) -> Level {
        self.inner.head.get().map_or(Level::None, |head| head.decision.level)
    }

    /// Sets the impersonated user.
    pub(crate) fn impersonates(&self, user: Arc<User>) {
        if self.level() > Level::None {
            self.inner.noted.lock().told.impersonated = Some(user);
        }
    }

    /// Adds an annotation; the first one with a key wins.
    pub(crate) fn annotate(&self, key: impl Into<String>, value: impl Into<String>) {
        self.annotate_from(Level::Metadata, key, value);
    }

    /// Adds an annotation that is recorded only at levels with bodies.
    pub(crate) fn annotate_in_detail(&self, key: impl Into<String>, value: impl Into<String>) {
        self.annotate_from(Level::Request, key, value);
    }

    fn annotate_from(&self, least: Level, key: impl Into<String>, value: impl Into<String>) {
        if self.level() < least {
            return;
        }
        let (key, value) = (key.into(), value.into());
        let mut noted = self.inner.noted.lock();
        let more = noted.annotated + key.len() + value.len();
        if more > MAX_ANNOTATIONS {
            noted.told.is_truncated = true;
            return;
        }
        if let Entry::Vacant(entry) = noted.told.annotations.entry(key) {
            entry.insert(value);
            noted.annotated = more;
        }
    }

    /// The request's body.
    pub(crate) fn sent(&self, media_type: &str, bytes: &Bytes, decode: Decode) {
        let Some(head) = self.inner.head.get() else { return };
        if head.decision.level >= Level::Request && head.asked.carries_objects() && !bytes.is_empty() {
            let body = Body { media_type: media_type.into(), pieces: vec![bytes.clone()], decode };
            self.inner.noted.lock().told.request = Some(body);
        }
    }

    /// Takes identifying fields from the object in the request, which its path may lack.
    pub(crate) fn carries(&self, object: &Value) {
        if self.level() == Level::None {
            return;
        }
        let text = |field: &str| {
            let value = object.get("metadata").and_then(|metadata| metadata.get(field));
            // No valid value is longer.
            let text = value.and_then(Value::as_str).filter(|text| text.len() <= 512);
            text.unwrap_or_default().to_string()
        };
        self.inner.noted.lock().told.named = Named {
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
        };
    }

    /// Returns true if the response's body is recorded.
    pub(crate) fn keeps_answer(&self) -> bool {
        let head = self.inner.head.get();
        head.is_some_and(|head| {
            head.decision.level == Level::RequestResponse
                && head.decision.tells(Stage::ResponseComplete)
                && head.asked.carries_objects()
        })
    }

    /// Starts recording the response's body.
    pub(crate) fn answer_begins(&self, media_type: &str, decode: Decode) {
        let mut noted = self.inner.noted.lock();
        noted.told.response = Some(Body { media_type: media_type.into(), pieces: Vec::new(), decode });
    }

    /// Records a chunk of the response's body.
    pub(crate) fn answers(&self, piece: &Bytes) {
        let mut noted = self.inner.noted.lock();
        let noted = &mut *noted;
        let Some(body) = &mut noted.told.response else { return };
        let reserved = noted.reserved.get_or_insert_with(|| self.inner.log.reserve());
        if body.len() + piece.len() > MAX_BODY || !reserved.grow(piece.len()) {
            (noted.told.response, noted.reserved, noted.told.is_truncated) = (None, None, true);
            return;
        }
        body.pieces.push(piece.clone());
    }

    /// Records the start of the response.
    pub(crate) fn answered(&self, code: u16, status: Option<Arc<Status>>) {
        let Some(head) = self.inner.head.get() else { return };
        let begun = {
            let mut noted = self.inner.noted.lock();
            (noted.told.code, noted.told.status) = (Some(code), status);
            let begins = head.asked.lasts() && head.decision.tells(Stage::ResponseStarted);
            begins.then(|| noted.told.clone())
        };
        if let Some(told) = begun {
            self.write(Stage::ResponseStarted, told);
        }
    }

    /// Records the end of the response, or of a request without one.
    pub(crate) fn ended(&self) {
        let (mut told, reserved) = {
            let mut noted = self.inner.noted.lock();
            (std::mem::take(&mut noted.told), noted.reserved.take())
        };
        let stage = match told.code {
            None if std::thread::panicking() => Stage::Panic,
            // The client left before the response: Kubernetes records this status.
            None => {
                (told.code, told.status) = (Some(200), Some(Arc::new(closed_early())));
                Stage::ResponseComplete
            }
            Some(_) => Stage::ResponseComplete,
        };
        self.write(stage, told);
        drop(reserved);
    }

    fn write(&self, stage: Stage, told: Told) {
        let Some(head) = self.inner.head.get().filter(|head| head.decision.tells(stage)) else { return };
        let at = self.inner.log.now();
        self.inner.log.write(Event { head: head.clone(), stage, at, told });
    }
}

/// The status of a request whose client did not wait for the response.
fn closed_early() -> Status {
    Status {
        status: Some("Success".into()),
        message: Some("Connection closed early".into()),
        ..Status::default()
    }
}
