//! Watching controllers (API-4, CON-19): changes are sent once a second.
//!
//! Invariant: controllers are observed only while there are watches, and once for all of them.

use std::time::Duration;

use axum::response::Response;
use tokio::time::MissedTickBehavior;

use super::view::{Columns, ControllerView};
use super::{GROUP, KIND, NameSelection, VERSION};
use crate::Server;
use crate::chunks::ChunkBuilder;
use crate::list_options::{ListOptions, revision, watch_timeout};
use crate::negotiate::MediaTypeOptions;
use crate::on_demand::{ChunkSender, ReaderGone};
use crate::response_format::ResponseFormat;
use crate::table::IncludeObject;
use crate::watch_events::{self, bookmark_interval, put_bookmark, put_value, refusal, send_all};
use api::controller_changes::{ControllerSnapshot, ObservedController};
use api::{Api, ApiError};
use object::Revision;

/// The interval between two observations.
const EVERY: Duration = Duration::from_secs(1);
/// An observation of another watch that is at most this old is reused.
const FRESH: Duration = Duration::from_millis(900);

/// Responds to a watch request.
pub(super) fn handle(
    server: &Server,
    selection: NameSelection,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    let query = &format.query;
    ListOptions::check_watch(query)?;
    let from = revision(query)?;
    let send_initial = query.flag("sendInitialEvents");
    let bookmarks = query.flag("allowWatchBookmarks");
    let timeout = watch_timeout(query)?;
    let (api, accepted) = (server.api(), format.accepted());
    if let Some(from) = from
        && api.knows_controllers_after(from).is_err()
    {
        let message = format!("changes after {from} are not available; list the controllers again");
        return Ok(refusal(accepted.media, &ApiError::Expired(message)));
    }
    let look = api.observe_controllers(FRESH);
    let lists_first = send_initial || (from.is_none() && query.get("sendInitialEvents").is_none());
    let run = ControllerWatch {
        api: api.clone(),
        selection,
        accepted,
        include: query.include_object(),
        delivered: from.unwrap_or(look.revision),
        columns: Columns::Defined,
        bookmarks,
        ends_initial: send_initial && bookmarks,
    };
    Ok(watch_events::start(server, accepted.media, timeout, |to| run.send(look, lists_first, to)))
}

/// One running watch.
struct ControllerWatch {
    api: Api,
    selection: NameSelection,
    accepted: MediaTypeOptions,
    include: IncludeObject,
    /// All changes up to this revision were sent.
    delivered: Revision,
    /// The state of the client's column definitions.
    columns: Columns,
    bookmarks: bool,
    /// The client requested the initial state, and bookmarks: one marks its end.
    ends_initial: bool,
}

impl ControllerWatch {
    async fn send(
        mut self,
        first: ControllerSnapshot,
        lists_first: bool,
        mut to: ChunkSender,
    ) -> Result<(), ReaderGone> {
        let mut out = ChunkBuilder::default();
        if lists_first {
            for one in &first.all {
                self.put(&mut out, "ADDED", one);
            }
            self.delivered = first.revision;
        }
        self.put_changes(&mut out, &first);
        if self.ends_initial {
            self.put_bookmark(&mut out, true);
        }
        send_all(&mut out, &mut to).await?;
        let mut tick = tokio::time::interval(EVERY);
        // The first tick is immediate.
        tick.tick().await;
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut bookmark = bookmark_interval(&self.api);
        loop {
            tokio::select! {
                () = to.closed() => return Err(ReaderGone),
                _ = tick.tick() => {
                    let look = self.api.observe_controllers(FRESH);
                    self.put_changes(&mut out, &look);
                }
                _ = bookmark.tick() => {
                    if self.bookmarks {
                        self.put_bookmark(&mut out, false);
                    }
                }
            }
            // If the client does not read, this waits; the client later gets the state of that later time.
            send_all(&mut out, &mut to).await?;
        }
    }

    /// Writes the changes that the client has not received.
    fn put_changes(&mut self, out: &mut ChunkBuilder, look: &ControllerSnapshot) {
        for (one, is_gone) in look.after(self.delivered) {
            let type_ = match () {
                // A client that never received the object gets no deletion of it.
                () if is_gone && one.appeared > self.delivered => continue,
                () if is_gone => "DELETED",
                () if one.appeared > self.delivered => "ADDED",
                () => "MODIFIED",
            };
            self.put(out, type_, one);
        }
        self.delivered = self.delivered.max(look.revision);
    }

    fn put(&mut self, out: &mut ChunkBuilder, type_: &str, seen: &ObservedController) {
        if !self.selection.has(&seen.name) {
            return;
        }
        let view = if type_ == "DELETED" {
            ControllerView::new(seen, None)
        } else {
            self.selection.view_of(&self.api, seen)
        };
        let now = self.api.server_clock().now();
        let object = view.in_form(self.accepted.form, self.include, now, self.columns);
        self.columns = Columns::Known;
        put_value(out, self.accepted.media, type_, &object);
    }

    fn put_bookmark(&self, out: &mut ChunkBuilder, ends_initial: bool) {
        let api_version = format!("{GROUP}/{VERSION}");
        put_bookmark(out, self.accepted, (KIND, &api_version), self.delivered, ends_initial);
    }
}
