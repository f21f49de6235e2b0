//! Lists: selection, pages of one snapshot, and the encodings of a collection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::request::Query;
use crate::api::{Api, ApiError};
use crate::base::clock::Clock;
use crate::object::{Object, Revision, ServedKind};

/// Lists that are being paged through at once; the oldest is forgotten beyond that.
const OPEN_LISTS: usize = 64;
/// How long a list's next page can be asked for.
const PAGE_LIFE: Duration = Duration::from_mins(5);

/// One answer to a list request.
pub(super) struct Page {
    pub(super) revision: Revision,
    pub(super) objects: Vec<Arc<Object>>,
    pub(super) next: Option<String>,
    pub(super) remaining: usize,
}

/// The rest of lists that are being paged through: all pages of a list are of one snapshot.
#[derive(Default)]
pub(super) struct Pages {
    open: Mutex<VecDeque<OpenList>>,
}

/// A whole list, shared by its pages.
type Objects = Arc<Vec<Arc<Object>>>;

struct OpenList {
    id: u64,
    opened: Duration,
    revision: Revision,
    objects: Arc<Vec<Arc<Object>>>,
}

/// What a continue token holds.
#[derive(Serialize, Deserialize)]
struct Token {
    v: String,
    rv: u64,
    id: u64,
    start: usize,
}

impl Pages {
    /// The page a query asks for.
    pub(super) fn page(
        &self,
        api: &Api,
        served: ServedKind,
        namespace: Option<&str>,
        query: &Query,
    ) -> Result<Page, ApiError> {
        let limit = query.number::<usize>("limit")?.filter(|l| *l > 0).unwrap_or(usize::MAX);
        if let Some(token) = query.get("continue") {
            let token = read_token(token)?;
            let list = self.find(&token, api.clock())?;
            return Ok(self.cut(list.0, &list.1, token.id, token.start, limit));
        }
        check_revision(api, query)?;
        let selection = query.selection(served)?;
        let snapshot = api.list(served.kind(), namespace);
        let objects: Vec<_> = if selection.is_everything() {
            snapshot.objects
        } else {
            snapshot.objects.into_iter().filter(|o| selection.matches(o)).collect()
        };
        if objects.len() <= limit {
            return Ok(Page { revision: snapshot.revision, objects, next: None, remaining: 0 });
        }
        let objects = Arc::new(objects);
        let id = self.open(api.clock(), snapshot.revision, objects.clone());
        Ok(self.cut(snapshot.revision, &objects, id, 0, limit))
    }

    fn open(&self, clock: &Clock, revision: Revision, objects: Arc<Vec<Arc<Object>>>) -> u64 {
        let now = clock.monotonic();
        let mut open = self.open.lock();
        open.retain(|list| now.saturating_sub(list.opened) < PAGE_LIFE);
        if open.len() >= OPEN_LISTS {
            open.pop_front();
        }
        let id: u64 = rand::random();
        open.push_back(OpenList { id, opened: now, revision, objects });
        id
    }

    fn find(&self, token: &Token, clock: &Clock) -> Result<(Revision, Objects), ApiError> {
        let now = clock.monotonic();
        let open = self.open.lock();
        open.iter()
            .find(|l| l.id == token.id && l.revision.0 == token.rv && now.saturating_sub(l.opened) < PAGE_LIFE)
            .map(|l| (l.revision, l.objects.clone()))
            .ok_or_else(|| {
                ApiError::Expired(
                    "The provided continue parameter is too old to display a consistent list result. You must \
                     start a new list without the continue parameter."
                        .into(),
                )
            })
    }

    fn cut(&self, revision: Revision, objects: &[Arc<Object>], id: u64, start: usize, limit: usize) -> Page {
        let start = start.min(objects.len());
        let end = start.saturating_add(limit).min(objects.len());
        let remaining = objects.len() - end;
        if remaining == 0 {
            self.open.lock().retain(|list| list.id != id);
        }
        let token = Token { v: "meta.k8s.io/v1".into(), rv: revision.0, id, start: end };
        let next = (remaining > 0)
            .then(|| URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).expect("a token is plain data")));
        Page { revision, objects: objects[start..end].to_vec(), next, remaining }
    }
}

fn read_token(text: &str) -> Result<Token, ApiError> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok();
    bytes.and_then(|b| serde_json::from_slice(&b).ok()).ok_or_else(|| {
        ApiError::BadRequest(
            "invalid continue token: continue key is not valid: it is not one of this server's".into(),
        )
    })
}

/// The revision that a read may not be older than. One that lies ahead cannot be had: reads see every write, so
/// waiting for it, as a cache does that lags behind, would be in vain.
pub(super) fn not_older_than(api: &Api, query: &Query) -> Result<Option<Revision>, ApiError> {
    let asked = query.number::<u64>("resourceVersion")?.filter(|rv| *rv > 0).map(Revision);
    let current = api.revision();
    match asked {
        Some(asked) if asked > current => Err(ApiError::TooLargeRevision { asked, current }),
        asked => Ok(asked),
    }
}

/// A list answers the newest state: an exact revision that is past cannot be had.
fn check_revision(api: &Api, query: &Query) -> Result<(), ApiError> {
    let Some(asked) = not_older_than(api, query)? else { return Ok(()) };
    if query.get("resourceVersionMatch") == Some("Exact") && asked != api.revision() {
        return Err(ApiError::Expired(format!(
            "The resourceVersion for the provided list is too old: {asked}"
        )));
    }
    Ok(())
}

/// The list's own metadata.
pub(super) fn metadata(page: &Page) -> serde_json::Value {
    let mut metadata = serde_json::json!({"resourceVersion": page.revision.to_string()});
    if let Some(next) = &page.next {
        metadata["continue"] = next.clone().into();
        metadata["remainingItemCount"] = page.remaining.into();
    }
    metadata
}
