//! Watches: a stream of events, one JSON document per line (API-4).

use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;

use axum::response::Response;

use super::Server;
use super::chunks::ChunkBuilder;
use super::durability::ShownRevision;
use super::list_options::{ListOptions, revision, watch_timeout};
use super::negotiate::{MediaType, MediaTypeOptions};
use super::on_demand::{ChunkSender, ReaderGone};
use super::representation::encode_one;
use super::request::ResourceTarget;
use super::response_format::ResponseFormat;
use super::table::IncludeObject;
use super::watch_events::{self, bookmark_interval, put_bookmark, put_error, put_event, refusal, send_all};
use api::conversion::Source;
use api::{Api, ApiError, Selection};
use api::{Change, ChangeKind, Visibility, WatchExpired, Watcher};
use base::mistakes::Mistake;
use object::{Object, Revision, ServedKind};

/// Responds to a watch request.
pub(super) fn handle(
    server: &Server,
    target: &ResourceTarget,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    let query = &format.query;
    let kind = target.kind();
    let mut selection = query.selection(&server.api().kinds(), target.served)?;
    if let Some(name) = &target.name {
        selection.fields.push(object::selector::FieldRequirement {
            path: "metadata.name".into(),
            value: name.clone(),
            equal: true,
        });
    }
    let api = server.api();
    ListOptions::check_watch(query)?;
    let from = revision(query)?.map_or(0, |revision| revision.0);
    let send_initial = query.flag("sendInitialEvents");
    let media = format.accepted().media;
    let view = View {
        served: target.served,
        namespace: target.namespace.clone(),
        selection,
        accepted: format.accepted(),
        include: query.include_object(),
        api: api.clone(),
    };
    let lists_first = send_initial || (from == 0 && query.get("sendInitialEvents").is_none());
    // A plain watch waits for a future revision; the initial state at that revision cannot be sent first.
    if send_initial && let Err(error) = super::list::not_older_than(api, query) {
        return Ok(refusal(media, &error));
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
        Err(gone) => return Ok(refusal(media, &expired(&gone))),
    };
    let timeout = watch_timeout(query)?;
    let bookmarks = query.flag("allowWatchBookmarks");
    let initial_end = (send_initial && bookmarks).then_some(after);
    let run = WatchStream { view, watcher, bookmarks, initial_end };
    let response = watch_events::start(server, media, timeout, |to| run.send(initial, first, to));
    Ok(ShownRevision::up_to(after, response))
}

/// Waits until the kind's definition is deleted, or no longer serves the version, and all earlier writes are
/// durable; forever with a built-in kind.
async fn no_longer_served(api: Api, served: ServedKind) {
    if !served.kind().is_custom() {
        return std::future::pending().await;
    }
    let mut changed = api.kinds_changed();
    while api.kinds().serves(served) {
        if changed.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
    // The store reports disk errors itself.
    let _ = api.durable(api.revision()).await;
}

fn expired(error: &WatchExpired) -> ApiError {
    ApiError::Expired(error.to_string())
}

/// The view of a watcher: its selection and encoding.
struct View {
    served: ServedKind,
    namespace: Option<String>,
    selection: Selection,
    accepted: MediaTypeOptions,
    include: IncludeObject,
    api: Api,
}

impl View {
    fn shows(&self, object: &Object) -> bool {
        self.namespace.as_deref().is_none_or(|n| n == object.namespace()) && self.selection.matches(object)
    }

    /// Returns the event of a change for this watcher: an object that enters the selection is added. One that leaves
    /// it is deleted, in its former state, by which the client finds it, and with the revision of the change.
    fn event(&self, change: &Change) -> Option<(&'static str, Arc<Object>)> {
        let now = change.kind != ChangeKind::Deleted && self.shows(&change.object);
        let before = change.previous.as_ref().is_some_and(|p| self.shows(p));
        let kind = match (before, now) {
            (false, false) => return None,
            (true, false) if Mistake::KeepSelected.is_enabled() => return None,
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
        };
        let former = if now || change.kind == ChangeKind::Deleted { None } else { change.former() };
        Some((kind, former.unwrap_or_else(|| change.object.clone())))
    }

    /// Returns the objects in the watcher's version.
    async fn in_version(&self, objects: Vec<Arc<Object>>) -> Result<Vec<Arc<Object>>, ApiError> {
        self.api.in_version(objects, self.served, Source::Cached).await
    }

    /// Returns the changes of a custom kind that may concern the watcher, with objects in its version.
    async fn changes(&self, mut changes: Vec<Change>) -> Result<Vec<Change>, ApiError> {
        let sees_previous = !self.selection.is_of_names();
        changes.retain(|change| {
            let is_here = self.namespace.as_deref().is_none_or(|n| n == change.object.namespace());
            is_here && (sees_previous || self.event(change).is_some())
        });
        let objects = changes.iter().map(|change| change.object.clone()).collect();
        for (change, object) in changes.iter_mut().zip(self.in_version(objects).await?) {
            change.object = object;
        }
        if sees_previous {
            let with_previous = || changes.iter().enumerate().filter(|(_, change)| change.previous.is_some());
            let places: Vec<usize> = with_previous().map(|(place, _)| place).collect();
            let objects = with_previous().filter_map(|(_, change)| change.previous.clone()).collect();
            for (place, object) in places.into_iter().zip(self.in_version(objects).await?) {
                changes[place].set_previous(object);
            }
        }
        Ok(changes)
    }

    fn encode(&self, out: &mut ChunkBuilder, type_: &str, object: &Arc<Object>) {
        self.api.metrics().requests.watch_event(self.served);
        let encoded = encode_one(&self.api, self.served, self.accepted, self.include, object);
        match encoded {
            Ok(object) => put_event(out, self.accepted.media, type_, object),
            Err(error) => put_error(out, self.accepted.media, &error),
        }
    }

    fn bookmark(&self, out: &mut ChunkBuilder, revision: Revision, ends_initial: bool) {
        self.api.metrics().requests.watch_event(self.served);
        let api_version = self.served.api_version();
        let kind = (self.served.kind().info().name, api_version.as_str());
        put_bookmark(out, self.accepted, kind, revision, ends_initial);
    }
}

/// The number of initial objects that are converted at once, before the client reads them.
const CONVERTED_TOGETHER: usize = 500;

/// One running watch.
struct WatchStream {
    view: View,
    watcher: Watcher,
    bookmarks: bool,
    /// The revision of the bookmark after the initial state; `None` if the client did not request both.
    initial_end: Option<Revision>,
}

impl WatchStream {
    async fn send(
        mut self,
        initial: Vec<Arc<Object>>,
        first: Vec<Change>,
        mut to: ChunkSender,
    ) -> Result<(), ReaderGone> {
        let mut out = ChunkBuilder::default();
        let mut initial = initial.into_iter();
        loop {
            let mut some: Vec<_> = initial.by_ref().take(CONVERTED_TOGETHER).collect();
            if some.is_empty() {
                break;
            }
            if self.view.selection.is_of_names() {
                some.retain(|object| self.view.shows(object));
            }
            let mut batches = ConversionBatches::of(some.len());
            while let Some(turn) = batches.next() {
                let shown = self.view.in_version(some[turn.clone()].to_vec());
                let Some(shown) =
                    batches.wait_for_conversion(&turn, &mut to, self.view.accepted.media, shown).await?
                else {
                    continue;
                };
                for object in shown {
                    if self.view.shows(&object) {
                        self.view.encode(&mut out, "ADDED", &object);
                        send_full(&mut out, &mut to).await?;
                    }
                }
                if batches.has_failed {
                    send_all(&mut out, &mut to).await?;
                }
            }
        }
        if let Some(revision) = self.initial_end {
            self.view.bookmark(&mut out, revision, true);
        }
        send_all(&mut out, &mut to).await?;
        self.send_changes(first, &mut to).await?;
        let mut bookmark = bookmark_interval(&self.view.api);
        let mut unserved = pin!(no_longer_served(self.view.api.clone(), self.view.served));
        loop {
            // Changes are taken from the store only once the client requests them: until then the ring holds
            // them for all watchers.
            while !to.wait_for_reader().await {
                // The wait timed out: there were no events, or the client does not read them.
                if to.is_closed() || self.watcher.bookmark().is_none() {
                    return Err(ReaderGone);
                }
            }
            tokio::select! {
                () = to.closed() => return Err(ReaderGone),
                () = &mut unserved => return self.send_rest(&mut to).await,
                changes = self.watcher.next() => match changes {
                    Ok(changes) => self.send_changes(changes, &mut to).await?,
                    Err(error) => {
                        put_error(&mut out, self.view.accepted.media, &expired(&error));
                        return send_all(&mut out, &mut to).await;
                    }
                },
                _ = bookmark.tick() => {
                    // Taken even if the client wants no bookmarks, because it prevents the expiry of a quiet
                    // watch's cursor.
                    if let Some(revision) = self.watcher.bookmark()
                        && self.bookmarks
                    {
                        self.view.bookmark(&mut out, revision, false);
                        send_all(&mut out, &mut to).await?;
                    }
                }
            }
        }
    }

    /// Sends the remaining changes after the kind's removal.
    async fn send_rest(&mut self, to: &mut ChunkSender) -> Result<(), ReaderGone> {
        while let Ok(changes) = self.watcher.take() {
            if changes.is_empty() {
                break;
            }
            self.send_changes(changes, to).await?;
        }
        Ok(())
    }

    async fn send_changes(&self, changes: Vec<Change>, to: &mut ChunkSender) -> Result<(), ReaderGone> {
        if !self.view.served.kind().is_custom() {
            return self.send_change_events(&changes, to).await;
        }
        let mut batches = ConversionBatches::of(changes.len());
        while let Some(turn) = batches.next() {
            let shown = self.view.changes(changes[turn.clone()].to_vec());
            if let Some(shown) =
                batches.wait_for_conversion(&turn, to, self.view.accepted.media, shown).await?
            {
                self.send_change_events(&shown, to).await?;
            }
        }
        Ok(())
    }

    async fn send_change_events(&self, changes: &[Change], to: &mut ChunkSender) -> Result<(), ReaderGone> {
        let mut out = ChunkBuilder::default();
        for change in changes {
            if let Some((type_, object)) = self.view.event(change) {
                self.view.encode(&mut out, type_, &object);
                send_full(&mut out, to).await?;
            }
        }
        send_all(&mut out, to).await
    }
}

/// Batches of objects that are converted together. The first batch has all objects. If a conversion fails,
/// batches start again with one object and double in length, so that the events before an object that cannot
/// be converted are still sent.
struct ConversionBatches {
    count: usize,
    /// The number of finished objects.
    done: usize,
    length: usize,
    has_failed: bool,
}

impl ConversionBatches {
    fn of(count: usize) -> Self {
        Self { count, done: 0, length: count, has_failed: false }
    }

    fn next(&self) -> Option<Range<usize>> {
        let end = self.done.saturating_add(self.length).min(self.count);
        (self.done < end).then_some(self.done..end)
    }

    /// Waits for the conversion of a batch, as long as the client stays; `None` if it must be retried with a
    /// smaller one. If a single object fails, the client gets the error, and the watch ends.
    async fn wait_for_conversion<T>(
        &mut self,
        batch: &Range<usize>,
        to: &mut ChunkSender,
        media: MediaType,
        made: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<Option<T>, ReaderGone> {
        let made = tokio::select! {
            biased;
            made = made => made,
            () = to.closed() => return Err(ReaderGone),
        };
        match made {
            Ok(made) => {
                self.done = batch.end;
                self.length = self.length.saturating_mul(2);
                Ok(Some(made))
            }
            Err(_) if batch.len() > 1 => {
                self.has_failed = true;
                self.length = 1;
                Ok(None)
            }
            Err(error) => {
                let mut out = ChunkBuilder::default();
                put_error(&mut out, media, &error);
                send_all(&mut out, to).await?;
                Err(ReaderGone)
            }
        }
    }
}

async fn send_full(out: &mut ChunkBuilder, to: &mut ChunkSender) -> Result<(), ReaderGone> {
    while let Some(piece) = out.full() {
        to.send(piece).await?;
    }
    Ok(())
}
