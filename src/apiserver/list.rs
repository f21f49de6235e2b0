//! Lists: selection, pages of one snapshot, and the encodings of a collection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::list_options::{ListOptions, revision};
use super::query::Query;
use api::conversion::Source;
use api::{Api, ApiError, Selection, Snapshot};
use base::clock::Clock;
use base::mistakes::Mistake;
use object::{Key, Object, Revision, ServedKind};

/// The limit on lists that are being paged through; the oldest is dropped beyond it.
const OPEN_LISTS: usize = 64;
/// The time during which a list's pages can be requested, also repeatedly.
const PAGE_LIFE: Duration = Duration::from_mins(5);

/// A page of a list.
pub(super) struct Page {
    pub(super) revision: Revision,
    pub(super) objects: Vec<Arc<Object>>,
    pub(super) next: Option<String>,
    /// The number of objects on later pages. As in Kubernetes, unknown on the last page and for a selection.
    pub(super) remaining: Option<i64>,
}

/// The remaining pages of open lists: all pages of a list are from one snapshot.
#[derive(Default)]
pub(super) struct PagedLists {
    open: Mutex<VecDeque<OpenList>>,
}

/// A whole list, shared by its pages.
type Objects = Arc<Vec<Arc<Object>>>;

struct OpenList {
    id: u64,
    opened: Duration,
    /// The request for which the list's continue tokens are valid.
    request_identity: String,
    /// True if a client has read the last page; the list is retained for clients that request a page again.
    read: bool,
    revision: Revision,
    objects: Objects,
}

/// The content of a continue token.
#[derive(Clone, Serialize, Deserialize)]
struct Token {
    v: String,
    /// The revision of the list; 0 for the remainder of a list that is no longer held, at the latest revision.
    rv: u64,
    id: u64,
    start: usize,
    /// The last object of the pages before.
    namespace: String,
    name: String,
}

impl Token {
    fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).expect("a token can always be encoded"))
    }
}

impl PagedLists {
    /// Returns the page that a query requests, in the request's version. A selection by more than names
    /// requires converting the whole list, once; later pages are converted one by one.
    pub(super) async fn page(
        &self,
        api: &Api,
        served: ServedKind,
        namespace: Option<&str>,
        query: &Query,
    ) -> Result<Page, ApiError> {
        let selection = query.selection(&api.kinds(), served)?;
        let mut page = self.stored_page(api, served, namespace, query, &selection).await?;
        page.remaining = page.remaining.filter(|_| selection.is_everything());
        page.objects = api.in_version(page.objects, served, Source::Cached).await?;
        Ok(page)
    }

    async fn stored_page(
        &self,
        api: &Api,
        served: ServedKind,
        namespace: Option<&str>,
        query: &Query,
        selection: &Selection,
    ) -> Result<Page, ApiError> {
        let options = ListOptions::of_list(query)?;
        let question = request_identity(served, namespace, query);
        let token = options.continue_token.as_deref().map(read_token).transpose()?;
        if let Some(token) = token.as_ref().filter(|token| token.rv != 0) {
            let (revision, objects) = self.find(token, &question, api.server_clock())?;
            if Mistake::TearPages.is_enabled() {
                let Snapshot { revision, mut objects } = api.list(served.kind(), namespace);
                objects.retain(|object| selection.matches(object));
                return Ok(self.cut(revision, &Arc::new(objects), token.id, token.start, options.limit));
            }
            return Ok(self.cut(revision, &objects, token.id, token.start, options.limit));
        }
        let current = api.revision();
        if let Some(requested) = options.revision.filter(|requested| *requested > current) {
            return Err(ApiError::TooLargeRevision { requested, current });
        }
        let mut snapshot = match options.revision.filter(|_| options.exact) {
            Some(revision) => api.list_at(served.kind(), namespace, revision)?,
            None => api.list(served.kind(), namespace),
        };
        if let Some(Token { namespace, name, .. }) = &token {
            let last = (namespace.as_str(), name.as_str());
            snapshot.objects.retain(|object| (object.namespace(), object.name()) > last);
        }
        let (stored, shown) = if selection.is_everything() {
            (snapshot.objects, None)
        } else if selection.is_of_names() || !served.kind().is_custom() {
            (snapshot.objects.into_iter().filter(|object| selection.matches(object)).collect(), None)
        } else {
            let shown = api.in_version(snapshot.objects.clone(), served, Source::Cached).await?;
            let both = snapshot.objects.into_iter().zip(shown).filter(|(_, shown)| selection.matches(shown));
            let (stored, shown): (Vec<_>, Vec<_>) = both.unzip();
            (stored, Some(shown))
        };
        let mut page = if stored.len() <= options.limit {
            Page { revision: snapshot.revision, objects: stored, next: None, remaining: None }
        } else {
            // Later pages hold the store's own objects: converted ones would be a copy in every open list.
            let objects = Arc::new(stored);
            let id = self.open(api.server_clock(), question, snapshot.revision, objects.clone());
            self.cut(snapshot.revision, &objects, id, 0, options.limit)
        };
        if let Some(mut shown) = shown {
            shown.truncate(page.objects.len());
            page.objects = shown;
        }
        Ok(page)
    }

    fn open(&self, clock: &Clock, question: String, revision: Revision, objects: Objects) -> u64 {
        let now = clock.monotonic();
        let mut open = self.open.lock();
        open.retain(|list| now.saturating_sub(list.opened) < PAGE_LIFE);
        if open.len() >= OPEN_LISTS {
            // A list that was read to its end is missed only by a client that requests a page again.
            let read = open.iter().position(|list| list.read).unwrap_or(0);
            open.remove(read);
        }
        let id: u64 = base::random::random();
        open.push_back(OpenList {
            id,
            opened: now,
            request_identity: question,
            read: false,
            revision,
            objects,
        });
        id
    }

    fn find(&self, token: &Token, question: &str, clock: &Clock) -> Result<(Revision, Objects), ApiError> {
        let now = clock.monotonic();
        let open = self.open.lock();
        let lives = |list: &OpenList| now.saturating_sub(list.opened) < PAGE_LIFE;
        let list = open.iter().find(|l| l.id == token.id && l.revision.0 == token.rv && lives(l));
        let list = list.ok_or_else(|| ApiError::ExpiredPage {
            continue_token: Token { rv: 0, ..token.clone() }.encode(),
        })?;
        if list.request_identity != question {
            return Err(ApiError::BadRequest(
                "invalid continue token: it belongs to another list; the path, version, namespace and selectors must \
                 be the same for every page"
                    .into(),
            ));
        }
        Ok((list.revision, list.objects.clone()))
    }

    fn cut(&self, revision: Revision, objects: &[Arc<Object>], id: u64, start: usize, limit: usize) -> Page {
        let start = start.min(objects.len());
        let end = start.saturating_add(limit).min(objects.len());
        let remaining = objects.len() - end;
        if remaining == 0
            && let Some(list) = self.open.lock().iter_mut().find(|list| list.id == id)
        {
            list.read = true;
        }
        let next = objects[..end].last().filter(|_| remaining > 0).map(|last| {
            let Key { namespace, name } = last.key();
            Token { v: "meta.k8s.io/v1".into(), rv: revision.0, id, start: end, namespace, name }.encode()
        });
        let remaining = next.is_some().then_some(remaining as i64);
        Page { revision, objects: objects[start..end].to_vec(), next, remaining }
    }
}

/// Returns the identity of a list's request: the same for all of its pages.
fn request_identity(served: ServedKind, namespace: Option<&str>, query: &Query) -> String {
    let selector = |name| query.get(name).unwrap_or_default();
    // Only the last part can contain a newline: selectors with one would not have parsed.
    format!(
        "{}\n{}\n{}\n{}\n{}",
        served.kind().info().qualified_plural(),
        // The selection applies to objects in this version.
        served.api_version(),
        namespace.unwrap_or_default(),
        selector("fieldSelector"),
        selector("labelSelector"),
    )
}

fn read_token(text: &str) -> Result<Token, ApiError> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok();
    bytes.and_then(|b| base::json::from_slice(&b).ok()).ok_or_else(|| {
        ApiError::BadRequest(
            "invalid continue token: continue key is not valid: it was not issued by this server".into(),
        )
    })
}

/// Refuses a read at or after a revision that does not exist yet. A lagging cache would wait for the
/// revision; reads here see every write, so the wait might never end.
pub(super) fn not_older_than(api: &Api, query: &Query) -> Result<Option<Revision>, ApiError> {
    let (requested, current) = (revision(query)?, api.revision());
    match requested {
        Some(requested) if requested > current => Err(ApiError::TooLargeRevision { requested, current }),
        requested => Ok(requested),
    }
}

/// Returns the list's own metadata.
pub(super) fn metadata(page: &Page) -> serde_json::Value {
    let mut metadata = serde_json::json!({"resourceVersion": page.revision.to_string()});
    if let Some(next) = &page.next {
        metadata["continue"] = next.clone().into();
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    metadata
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use api::ApiConfig;
    use object::Kind;
    use store::Store;

    fn cluster() -> Api {
        let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
        let api = Api::new(Store::ephemeral(), clock, ApiConfig::default());
        for namespace in ["a", "b"] {
            let manifest = json!({"metadata": {"name": namespace}});
            api.create_as::<k8s_openapi::api::core::v1::Namespace>(serde_json::from_value(manifest).unwrap())
                .unwrap();
            for name in ["1", "2", "3", "4", "5"] {
                let manifest =
                    json!({"metadata": {"name": name, "namespace": namespace, "labels": {"x": "y"}}});
                api.create_as::<ConfigMap>(serde_json::from_value(manifest).unwrap()).unwrap();
            }
        }
        api
    }

    async fn fetch_page(
        pages: &PagedLists,
        api: &Api,
        kind: Kind,
        namespace: Option<&str>,
        query: &str,
    ) -> Result<Page, ApiError> {
        pages.page(api, kind.into(), namespace, &Query::parse(query)).await
    }

    fn names(page: &Page) -> String {
        page.objects.iter().map(|o| o.name()).collect::<Vec<_>>().join(" ")
    }

    /// Regression: a token from a list of ConfigMaps, used on another namespace's Secrets, returned the
    /// ConfigMaps.
    #[tokio::test(start_paused = true)]
    async fn a_continue_token_is_of_its_list_alone_api_2() {
        let (api, pages) = (cluster(), PagedLists::default());
        let first = fetch_page(&pages, &api, Kind::ConfigMap, Some("a"), "limit=2&labelSelector=x%3Dy")
            .await
            .unwrap();
        let token = first.next.unwrap();
        for (kind, namespace, selector) in [
            (Kind::Secret, Some("a"), "&labelSelector=x%3Dy"),
            (Kind::ConfigMap, Some("b"), "&labelSelector=x%3Dy"),
            (Kind::ConfigMap, None, "&labelSelector=x%3Dy"),
            (Kind::ConfigMap, Some("a"), ""),
            (Kind::ConfigMap, Some("a"), "&labelSelector=x%3Dz"),
            (Kind::ConfigMap, Some("a"), "&labelSelector=x%3Dy&fieldSelector=metadata.name%3D1"),
        ] {
            let query = format!("limit=2&continue={token}{selector}");
            let refused = fetch_page(&pages, &api, kind, namespace, &query).await.map(|page| names(&page));
            assert!(
                matches!(refused, Err(ApiError::BadRequest(_))),
                "{kind} {namespace:?} {selector}: {refused:?}"
            );
        }
        let query = format!("limit=2&labelSelector=x%3Dy&continue={token}");
        assert_eq!(
            names(&fetch_page(&pages, &api, Kind::ConfigMap, Some("a"), &query).await.unwrap()),
            "3 4"
        );
    }

    /// Regression: a list selected by fields of another version was retained in converted form for five
    /// minutes.
    #[tokio::test(start_paused = true)]
    async fn an_open_list_shares_the_stored_objects_api_2_api_14() {
        let (api, pages) = (cluster(), PagedLists::default());
        let version = |name: &str| {
            json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
        };
        let spec = json!({"group": "list.test", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "conversion": {"strategy": "None"}, "versions": [version("v1"), version("v2")]});
        let kind = api.define(&serde_json::from_value(spec).unwrap()).unwrap();
        for name in ["1", "2", "3"] {
            let thing = json!({"apiVersion": "list.test/v1", "kind": "Thing",
                "metadata": {"name": name, "namespace": "a", "labels": {"x": "y"}}});
            api.create(Object::from_value(kind, thing).unwrap(), &api::WriteOptions::default()).unwrap();
        }
        let served = api.kinds().version_named(kind, "list.test/v2").unwrap();
        let fetch =
            async |query: String| pages.page(&api, served, Some("a"), &Query::parse(&query)).await.unwrap();
        let versions = |page: &Page| -> Vec<String> {
            page.objects.iter().map(|object| object.api_version().into_owned()).collect()
        };
        let query = "limit=2&labelSelector=x%3Dy".to_string();
        let first = fetch(query.clone()).await;
        assert_eq!((names(&first).as_str(), versions(&first)), ("1 2", vec!["list.test/v2".to_string(); 2]));
        let stored = api.list(kind, Some("a")).objects;
        let cached = pages.open.lock()[0].objects.clone();
        assert!(
            cached.len() == 3
                && cached.iter().zip(&stored).all(|(cached, stored)| Arc::ptr_eq(cached, stored))
        );
        let last = fetch(format!("{query}&continue={}", first.next.unwrap())).await;
        assert_eq!((names(&last).as_str(), versions(&last)), ("3", vec!["list.test/v2".to_string()]));
    }

    /// Regression: once a list had been read to its end, a repeated request for a page got 410.
    #[tokio::test(start_paused = true)]
    async fn a_page_can_be_requested_again_for_five_minutes_api_2() {
        let (api, pages) = (cluster(), PagedLists::default());
        let next = async |token: &str| {
            fetch_page(&pages, &api, Kind::ConfigMap, Some("a"), &format!("limit=2&continue={token}")).await
        };
        let second =
            fetch_page(&pages, &api, Kind::ConfigMap, Some("a"), "limit=2").await.unwrap().next.unwrap();
        let last = next(&second).await.unwrap().next.unwrap();
        for _ in 0..2 {
            assert_eq!(names(&next(&last).await.unwrap()), "5");
            assert_eq!(names(&next(&second).await.unwrap()), "3 4");
        }
        // Lists that were read completely are dropped first.
        let open =
            fetch_page(&pages, &api, Kind::ConfigMap, Some("b"), "limit=2").await.unwrap().next.unwrap();
        for _ in 0..OPEN_LISTS + 5 {
            let token =
                fetch_page(&pages, &api, Kind::ConfigMap, Some("a"), "limit=4").await.unwrap().next.unwrap();
            next(&token).await.unwrap();
        }
        let query = format!("limit=3&continue={open}");
        assert_eq!(
            names(&fetch_page(&pages, &api, Kind::ConfigMap, Some("b"), &query).await.unwrap()),
            "3 4 5"
        );
        tokio::time::sleep(PAGE_LIFE).await;
        assert!(matches!(next(&second).await, Err(ApiError::ExpiredPage { .. })));
    }

    /// Regression: the count was that of the selected objects, which Kubernetes does not count.
    #[tokio::test(start_paused = true)]
    async fn the_remainder_of_a_selection_is_not_counted_api_2() {
        let (api, pages) = (cluster(), PagedLists::default());
        for (query, remaining) in [
            ("limit=2", Some(3)),
            ("limit=2&labelSelector=&fieldSelector=", Some(3)),
            ("limit=2&labelSelector=x%3Dy", None),
            ("limit=2&fieldSelector=metadata.name%21%3D1", None),
            ("limit=5", None),
        ] {
            let page = fetch_page(&pages, &api, Kind::ConfigMap, Some("a"), query).await.unwrap();
            assert_eq!(page.remaining, remaining, "{query}");
            assert_eq!(metadata(&page)["remainingItemCount"].as_i64(), remaining, "{query}");
        }
    }

    /// The remainder of a list that is no longer held is read at the latest revision.
    #[tokio::test(start_paused = true)]
    async fn an_expired_list_is_continued_after_its_last_object_api_2() {
        let (api, pages) = (cluster(), PagedLists::default());
        let next = async |token: &str| {
            fetch_page(&pages, &api, Kind::ConfigMap, Some("a"), &format!("limit=2&continue={token}")).await
        };
        let first = fetch_page(&pages, &api, Kind::ConfigMap, Some("a"), "limit=2").await.unwrap();
        tokio::time::sleep(PAGE_LIFE).await;
        for name in ["0", "22"] {
            let manifest = json!({"metadata": {"name": name, "namespace": "a"}});
            api.create_as::<ConfigMap>(serde_json::from_value(manifest).unwrap()).unwrap();
        }
        let error = next(&first.next.unwrap()).await.map(|page| names(&page)).unwrap_err();
        assert_eq!((error.code(), error.reason()), (410, "Expired"));
        let continued = next(&error.to_status().metadata.continue_.unwrap()).await.unwrap();
        assert_eq!((names(&continued).as_str(), continued.remaining), ("22 3", Some(2)));
        assert!(continued.revision > first.revision);
        assert_eq!(names(&next(&continued.next.unwrap()).await.unwrap()), "4 5");
    }
}
