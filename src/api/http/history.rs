//! podium.dev: what happened to an object or to the objects of a kind, as far back as watch history reaches (SAFE-8).
//!
//! `/apis/podium.dev/v1alpha1/history` before any path of the API: `…/history/apis/apps/v1/namespaces/a/deployments/web`. Who
//! may read what the path names may read its past. Read only.

use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::Server;
use super::request::ResourceTarget;
use super::respond::Answer;
use super::response_format::ResponseFormat;
use super::shown::Shown;
use super::verdicts::{GROUP, VERSION};
use crate::ApiError;
use crate::kinds::Defaults;
use base::clock::time;
use object::Object;
use store::ChangeKind;

/// An answer holds no more changes, whatever is asked for.
const MOST: usize = 500;

/// Answers with what happened.
pub(super) fn answer(
    server: &Server,
    target: &ResourceTarget,
    method: &Method,
    wanted: &ResponseFormat,
) -> Result<Response, ApiError> {
    wanted.only_reads(method)?;
    let most = wanted.query.number::<usize>("limit")?.filter(|most| *most > 0).unwrap_or(MOST).min(MOST);
    let api = server.api();
    let is_wanted = |object: &Object| {
        target.namespace.as_ref().is_none_or(|namespace| namespace == object.namespace())
            && target.name.as_ref().is_none_or(|name| name == object.name())
    };
    let history = api.history(target.kind(), is_wanted, most);
    let objects = history.changes.iter().map(|(change, _)| change.object.clone()).collect();
    let objects = api.in_version_now(objects, target.served, Defaults::Filled)?;
    let items: Vec<Value> = (history.changes.iter().zip(&objects))
        .map(|((change, moment), object)| {
            json!({
                "type": match change.kind {
                    ChangeKind::Added => "ADDED",
                    ChangeKind::Modified => "MODIFIED",
                    ChangeKind::Deleted => "DELETED",
                },
                "resourceVersion": change.revision.to_string(),
                "time": moment.map(time),
                "object": object.to_value(),
            })
        })
        .collect();
    let body = json!({"kind": "History", "apiVersion": format!("{GROUP}/{VERSION}"),
        "metadata": {"resourceVersion": history.revision.to_string()},
        // Every change after this one is known.
        "after": history.after.to_string(), "older": history.older, "items": items});
    Ok(Shown::up_to(history.revision, Answer::json(StatusCode::OK, &body)?))
}
