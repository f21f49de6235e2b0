//! podium.dev: the changes of an object or of a kind's objects, as far back as watch history reaches
//! (SAFE-8).
//!
//! The history of an API path is at `/apis/podium.dev/v1alpha1/history` followed by that path, e.g.
//! `…/history/apis/apps/v1/namespaces/a/deployments/web`. A client that may read the path may read its past.
//! Read only.
//!
//! | parameter | meaning |
//! |---|---|
//! | `limit` | the maximum number of changes, the newest ones; 500 at most |
//! | `until` | changes up to a revision, or up to a time of RFC 3339; the response's `until` is that revision |
//! | `after` | changes after a revision; if there are too many, the oldest of them, and `newer` counts the rest |
//! | `includeObject=None` | changes without their objects |

use axum::response::Response;
use http::{Method, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Server;
use super::durability::ShownRevision;
use super::request::ResourceTarget;
use super::respond::Responder;
use super::response_format::ResponseFormat;
use super::table::IncludeObject;
use super::verdicts::{GROUP, VERSION};
use api::ChangeKind;
use api::history::Span;
use api::served_kinds::Defaults;
use api::{Api, ApiError};
use base::clock::time;
use base::quote::quote;
use object::{Object, Revision};

/// The limit on changes in one response.
const MAX_CHANGES: usize = 500;

/// Responds with the changes.
pub(super) fn handle(
    server: &Server,
    target: &ResourceTarget,
    method: &Method,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    format.only_reads(method)?;
    let most = format
        .query
        .number::<usize>("limit")?
        .filter(|most| *most > 0)
        .unwrap_or(MAX_CHANGES)
        .min(MAX_CHANGES);
    let api = server.api();
    let is_selected = |object: &Object| {
        target.namespace.as_ref().is_none_or(|namespace| namespace == object.namespace())
            && target.name.as_ref().is_none_or(|name| name == object.name())
    };
    let bare = format.query.get("includeObject").and_then(IncludeObject::from_parameter)
        == Some(IncludeObject::None);
    let until = match format.query.get("until") {
        None => None,
        Some(text) => Some(until(api, text)?),
    };
    let newest = Span::newest(most);
    let span = Span {
        after: revision_of(format.query.get("after"), "after")?,
        until,
        max_bytes: newest.max_bytes.filter(|_| !bare),
        ..newest
    };
    let history = api.history(target.kind(), is_selected, span);
    let reported = history.changes.iter().filter(|_| !bare);
    let objects = reported.map(|(change, _)| change.object.clone()).collect();
    let mut objects = api.in_version_now(objects, target.served, Defaults::Filled)?.into_iter();
    let items: Vec<Value> = (history.changes.iter())
        .map(|(change, moment)| {
            let mut item = json!({
                "type": match change.kind {
                    ChangeKind::Added => "ADDED",
                    ChangeKind::Modified => "MODIFIED",
                    ChangeKind::Deleted => "DELETED",
                },
                "resourceVersion": change.revision.to_string(),
                "time": moment.map(time),
            });
            if let Some(object) = objects.next() {
                item["object"] = object.to_value();
            }
            item
        })
        .collect();
    let body = json!({"kind": "History", "apiVersion": format!("{GROUP}/{VERSION}"),
        "metadata": {"resourceVersion": history.revision.to_string()},
        // Every change after this revision is known.
        "after": history.after.to_string(), "begins": history.begins.map(time),
        "until": until.unwrap_or(history.revision).to_string(),
        "older": history.older, "newer": history.newer, "items": items});
    Ok(ShownRevision::up_to(history.revision, Responder::json(StatusCode::OK, &body)?))
}

/// Returns the revision of a point in time: given as a revision, or as a time.
fn until(api: &Api, text: &str) -> Result<Revision, ApiError> {
    if let Some(revision) = Revision::parse(text) {
        return Ok(revision);
    }
    let moment: Timestamp = text.parse().map_err(|_| {
        ApiError::BadRequest(format!("until: must be a revision or an RFC 3339 time: {}", quote(text)))
    })?;
    // A time before all known revisions is before the whole history.
    Ok(api.revision_at(moment).unwrap_or(Revision(0)))
}

fn revision_of(text: Option<&str>, name: &str) -> Result<Option<Revision>, ApiError> {
    let Some(text) = text else { return Ok(None) };
    let revision = Revision::parse(text);
    revision
        .map(Some)
        .ok_or_else(|| ApiError::BadRequest(format!("{name}: must be a revision: {}", quote(text))))
}
