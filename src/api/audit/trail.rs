//! What is noted of one request on its way, from its coming to the end of its answer.

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

/// An answer of more bytes is left out; Kubernetes' `--audit-log-truncate-max-event-size`.
const MAX_BODY: usize = 10 << 20;
/// All annotations of a request, in bytes: what more there is to say is left out.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// The notes of one request; a handle to them.
#[derive(Clone)]
pub(crate) struct Trail {
    inner: Arc<Inner>,
}

struct Inner {
    log: AuditLog,
    came: Came,
    /// Once it is known who asks.
    head: OnceLock<Arc<Head>>,
    noted: Mutex<Noted>,
}

/// A request as it comes.
#[derive(Debug)]
pub(crate) struct Came {
    /// What tells it from all others; by the client, or made up.
    pub(crate) id: String,
    pub(crate) at: Timestamp,
    /// Path and query.
    pub(crate) uri: String,
    pub(crate) user_agent: String,
    /// Where it comes from, the nearest last.
    pub(crate) sources: Vec<IpAddr>,
}

#[derive(Default)]
struct Noted {
    told: Told,
    annotated: usize,
    /// For the pieces of the answer that are kept.
    reserved: Option<Reserved>,
}

impl std::fmt::Debug for Trail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trail").field("came", &self.inner.came).finish_non_exhaustive()
    }
}

impl Trail {
    /// A request has come.
    pub(crate) fn begin(log: AuditLog, came: Came) -> Self {
        Self { inner: Arc::new(Inner { log, came, head: OnceLock::new(), noted: Mutex::default() }) }
    }

    /// What tells the request from all others.
    pub(crate) fn id(&self) -> &str {
        &self.inner.came.id
    }

    /// It is known now who asks for what: the policy decides what is written of it.
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

    /// It is made as somebody else.
    pub(crate) fn impersonates(&self, user: Arc<User>) {
        if self.level() > Level::None {
            self.inner.noted.lock().told.impersonated = Some(user);
        }
    }

    /// Notes something beside; the first to use a key has it.
    pub(crate) fn annotate(&self, key: impl Into<String>, value: impl Into<String>) {
        self.annotate_from(Level::Metadata, key, value);
    }

    /// Notes what only those want to read who want to read bodies.
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

    /// The object that the request carries, for what its path does not say.
    pub(crate) fn carries(&self, object: &Value) {
        if self.level() == Level::None {
            return;
        }
        let text = |field: &str| {
            let value = object.get("metadata").and_then(|metadata| metadata.get(field));
            // No name is longer that is one.
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

    /// Whether the answer's body is kept.
    pub(crate) fn keeps_answer(&self) -> bool {
        let head = self.inner.head.get();
        head.is_some_and(|head| {
            head.decision.level == Level::RequestResponse
                && head.decision.tells(Stage::ResponseComplete)
                && head.asked.carries_objects()
        })
    }

    /// The answer's body begins.
    pub(crate) fn answer_begins(&self, media_type: &str, decode: Decode) {
        let mut noted = self.inner.noted.lock();
        noted.told.response = Some(Body { media_type: media_type.into(), pieces: Vec::new(), decode });
    }

    /// A piece of the answer's body.
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

    /// The answer has begun.
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

    /// The answer has ended, or there will be none.
    pub(crate) fn ended(&self) {
        let (mut told, reserved) = {
            let mut noted = self.inner.noted.lock();
            (std::mem::take(&mut noted.told), noted.reserved.take())
        };
        let stage = match told.code {
            None if std::thread::panicking() => Stage::Panic,
            // The client has gone before there was an answer: what Kubernetes says then.
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

/// What is said of a request whose client did not wait for its answer.
fn closed_early() -> Status {
    Status {
        status: Some("Success".into()),
        message: Some("Connection closed early".into()),
        ..Status::default()
    }
}
