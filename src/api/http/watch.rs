//! Watches: a stream of events, one JSON document a line (API-4).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use futures::Stream;
use http::StatusCode;
use rand::Rng;
use tokio::sync::mpsc;

use super::Server;
use super::list_options::{ListOptions, revision};
use super::negotiate::Form;
use super::request::{ResourceTarget, Wanted};
use super::respond::Answer;
use super::shown::Shown;
use super::table::IncludeObject;
use crate::api::{ApiError, Selection};
use crate::base::clock::Clock;
use crate::object::{Object, Revision, ServedKind};
use crate::store::{Change, ChangeKind, Expired, Visibility, Watcher};

/// Encoded events waiting for a slow connection; the store's ring holds the rest.
const QUEUED: usize = 16;

/// Answers a watch request.
pub(super) fn answer(
    server: &Server,
    target: &ResourceTarget,
    wanted: &Wanted,
) -> Result<Response, ApiError> {
    let query = &wanted.query;
    let kind = target.kind();
    let mut selection = query.selection(target.served)?;
    if let Some(name) = &target.name {
        selection.fields.push(crate::object::selector::FieldRequirement {
            path: "metadata.name".into(),
            value: name.clone(),
            equal: true,
        });
    }
    let api = server.api();
    ListOptions::check_watch(query)?;
    let from = revision(query)?.map_or(0, |revision| revision.0);
    let send_initial = query.flag("sendInitialEvents");
    let view = View {
        served: target.served,
        namespace: target.namespace.clone(),
        selection,
        form: wanted.form,
        include: query.include_object(),
        clock: api.clock().clone(),
    };
    let lists_first = send_initial || (from == 0 && query.get("sendInitialEvents").is_none());
    // A plain watch waits for a revision that lies ahead; the state as of then cannot be sent first.
    if send_initial && let Err(error) = super::list::not_older_than(api, query) {
        return Ok(refusal(&error));
    }
    let (initial, after) = if lists_first {
        let snapshot = api.list(kind, view.namespace.as_deref());
        (snapshot.objects, snapshot.revision)
    } else {
        (Vec::new(), if from == 0 { api.revision() } else { Revision(from) })
    };
    let mut watcher = api.watch(kind, after, Visibility::Durable);
    let first = match watcher.take() {
        Ok(first) => first,
        Err(gone) => return Ok(refusal(&expired(&gone))),
    };
    let timeout = match query.number::<u64>("timeoutSeconds")?.filter(|s| *s > 0) {
        Some(seconds) => Duration::from_secs(seconds),
        None => Duration::from_secs(rand::rng().random_range(1800..3600)),
    };
    let run = Run {
        view,
        watcher,
        bookmarks: query.flag("allowWatchBookmarks"),
        bookmark_every: api.timings().watch_bookmark.0,
        initial_end: send_initial.then_some(after),
    };
    let (sender, receiver) = mpsc::channel(QUEUED);
    let stopping = server.inner.stopping.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = stopping.cancelled() => {}
            () = tokio::time::sleep(timeout) => {}
            () = run.send(initial, first, sender) => {}
        }
    });
    let body = Body::from_stream(futures::StreamExt::map(receiver_stream(receiver), Ok::<_, Infallible>));
    Ok(Shown::up_to(after, Answer::typed(StatusCode::OK, "application/json", body)))
}

/// A watch that cannot be: once the request is understood, Kubernetes tells so in the stream.
fn refusal(error: &ApiError) -> Response {
    let mut out = BytesMut::new();
    put_error(&mut out, error);
    Answer::typed(StatusCode::OK, "application/json", Body::from(out.freeze()))
}

fn put_error(out: &mut BytesMut, error: &ApiError) {
    let status = serde_json::to_vec(&error.to_status()).unwrap_or_default();
    put_event(out, "ERROR", &status);
}

/// The end of a channel as a stream.
pub(super) fn receiver_stream<T>(receiver: mpsc::Receiver<T>) -> impl Stream<Item = T> {
    futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|item| (item, receiver))
    })
}

fn expired(error: &Expired) -> ApiError {
    ApiError::Expired(error.to_string())
}

/// What a watcher is shown, and how.
struct View {
    served: ServedKind,
    namespace: Option<String>,
    selection: Selection,
    form: Form,
    include: IncludeObject,
    clock: Clock,
}

impl View {
    fn shows(&self, object: &Object) -> bool {
        self.namespace.as_deref().is_none_or(|n| n == object.namespace()) && self.selection.matches(object)
    }

    /// The event for a change as this watcher sees it: an object that leaves the selection is deleted, one
    /// that enters it is added.
    fn event(&self, change: &Change) -> Option<(&'static str, Arc<Object>)> {
        let now = change.kind != ChangeKind::Deleted && self.shows(&change.object);
        let before = change.previous.as_ref().is_some_and(|p| self.shows(p));
        let kind = match (before, now) {
            (false, false) => return None,
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
        };
        Some((kind, change.object.clone()))
    }

    fn encode(&self, out: &mut BytesMut, type_: &str, object: &Arc<Object>) {
        let body =
            super::resource::encode_one(self.served, self.form, self.include, self.clock.now(), object);
        put_event(out, type_, &body);
    }

    fn bookmark(&self, out: &mut BytesMut, revision: Revision, ends_initial: bool) {
        let (name, version) = (self.served.kind().info().name, self.served.api_version());
        let mut metadata =
            serde_json::json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if ends_initial {
            metadata["annotations"] = serde_json::json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.form {
            Form::Object => serde_json::json!({
                "kind": name, "apiVersion": version, "metadata": metadata}),
            Form::Metadata => serde_json::json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}),
            Form::Table => serde_json::json!({
                "kind": "Table", "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": revision.to_string()}, "columnDefinitions": null,
                "rows": [{"cells": [], "object": {"kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1", "metadata": metadata}}]}),
        };
        put_event(out, "BOOKMARK", object.to_string().as_bytes());
    }
}

fn put_event(out: &mut BytesMut, type_: &str, object: &[u8]) {
    out.put(&b"{\"type\":\""[..]);
    out.put(type_.as_bytes());
    out.put(&b"\",\"object\":"[..]);
    out.put(object);
    out.put(&b"}\n"[..]);
}

/// One running watch.
struct Run {
    view: View,
    watcher: Watcher,
    bookmarks: bool,
    bookmark_every: Duration,
    /// The client asked for the state first, and to be told when it has it, as of this revision.
    initial_end: Option<Revision>,
}

impl Run {
    async fn send(mut self, initial: Vec<Arc<Object>>, first: Vec<Change>, to: mpsc::Sender<Bytes>) {
        for chunk in initial.chunks(128) {
            let mut out = BytesMut::new();
            for object in chunk.iter().filter(|o| self.view.shows(o)) {
                self.view.encode(&mut out, "ADDED", object);
            }
            if !out.is_empty() && to.send(out.freeze()).await.is_err() {
                return;
            }
        }
        if let Some(revision) = self.initial_end {
            let mut out = BytesMut::new();
            self.view.bookmark(&mut out, revision, true);
            if to.send(out.freeze()).await.is_err() {
                return;
            }
        }
        if !self.send_changes(&first, &to).await {
            return;
        }
        let mut bookmark =
            tokio::time::interval_at(tokio::time::Instant::now() + self.bookmark_every, self.bookmark_every);
        bookmark.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = to.closed() => return,
                changes = self.watcher.next() => match changes {
                    Ok(changes) => if !self.send_changes(&changes, &to).await {
                        return;
                    },
                    Err(error) => {
                        let mut out = BytesMut::new();
                        put_error(&mut out, &expired(&error));
                        let _ = to.send(out.freeze()).await;
                        return;
                    }
                },
                _ = bookmark.tick() => {
                    // Also keeps the cursor of a quiet watch from expiring.
                    if let Some(revision) = self.watcher.bookmark()
                        && self.bookmarks
                    {
                        let mut out = BytesMut::new();
                        self.view.bookmark(&mut out, revision, false);
                        if to.send(out.freeze()).await.is_err() {
                            return;
                        }
                    }
                }
            }
        }
    }

    /// Whether the client is still there.
    async fn send_changes(&self, changes: &[Change], to: &mpsc::Sender<Bytes>) -> bool {
        let mut out = BytesMut::new();
        for change in changes {
            if let Some((type_, object)) = self.view.event(change) {
                self.view.encode(&mut out, type_, &object);
            }
        }
        out.is_empty() || to.send(out.freeze()).await.is_ok()
    }
}
