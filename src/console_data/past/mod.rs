//! The cluster at an earlier time: the stores for that time, and the requests that fill them (CON-12, CON-19).
//!
//! There are two types of requests. The times of changes come from `podium.dev`'s history, which no other server has;
//! the state at one of these times is an exact list, which every Kubernetes serves ([`list`]). Only the state that is
//! shown is retained.
//!
//! Invariant: every request has a timeout, and every response is bounded: the history by the server's own limits, a
//! list by [`MAX_OBJECTS`] objects, or by [`MAX_COUNTED`] if all must be counted.

mod error;
mod history;
mod list;
mod multi_kind;
#[cfg(any(test, feature = "fixtures"))]
pub mod workload_server;

use std::cell::Cell;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;

use history::{HistoryRange, changes_of_all};

use super::catalogue::Catalogue;
use super::context::Context;
use super::links::Links;
use super::point_in_time::{PointInTime, TimeSelector, TimeTravel};
use super::resource::{Kind, ObjectRef};
use super::store::Stores;

pub use history::changes_with_objects;
pub use history::{HistoryEvent, Versions, versions};
pub use list::{object_at, stores_at, whole_stores_at};
pub use multi_kind::{Gap, MissingReason, travel_in_time};

/// The maximum number of objects of a past list; the user is informed of a cut.
pub(crate) const MAX_OBJECTS: usize = 5_000;

/// The maximum for a list that is counted, which is requested page by page.
pub(crate) const MAX_COUNTED: usize = 10 * MAX_OBJECTS;

/// The timeout for a response.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The API group of servers that retain a history.
const GROUP: &str = "podium.dev";

/// Returns the reason why there is no history; `None` if there may be one.
pub fn refused(catalogue: &Catalogue) -> Option<String> {
    let has = catalogue.kinds().iter().any(|kind| kind.resource.group == GROUP);
    (catalogue.discovered && !has)
        .then(|| "this server has no history: time travel needs the API group podium.dev".to_owned())
}

/// The objects of a request about the past: all of a kind, those of a namespace, or one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryScope {
    /// The kind.
    pub kind: Kind,
    /// The namespace; `None` for all.
    pub namespace: Option<String>,
    /// The name; `None` for all.
    pub name: Option<String>,
}

impl From<&ObjectRef> for HistoryScope {
    fn from(object: &ObjectRef) -> Self {
        let ObjectRef { kind, namespace, name, .. } = object.clone();
        Self { kind, namespace, name: Some(name) }
    }
}

impl HistoryScope {
    /// Returns the API path of the objects.
    fn path(&self, client: &Client) -> String {
        let api = self.kind.api(client.clone(), self.namespace.as_deref());
        match &self.name {
            Some(name) => format!("{}/{name}", api.resource_url()),
            None => api.resource_url().to_owned(),
        }
    }
}

/// The result of a step in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimePosition {
    /// A point in time.
    At(PointInTime),
    /// The first state that is retained; earlier ones are no longer known.
    Beginning(PointInTime),
    /// The present.
    Live,
}

impl TimePosition {
    /// Returns the point in time; `None` for the present.
    pub fn moment(self) -> Option<PointInTime> {
        match self {
            Self::At(moment) | Self::Beginning(moment) => Some(moment),
            Self::Live => None,
        }
    }
}

/// Moves from a point in time, or from the present, to another, along the changes of these objects.
pub async fn step(
    client: &Client,
    scopes: &[HistoryScope],
    from: Option<PointInTime>,
    go: TimeTravel,
    now: Timestamp,
) -> Result<TimePosition, String> {
    let seek = match (go, from) {
        // The present is the end of the history.
        (TimeTravel::Live, _) | (TimeTravel::Forward, None) => return Ok(TimePosition::Live),
        (TimeTravel::Forward, Some(from)) => {
            let history = changes_of_all(client, scopes, HistoryRange::After(from.revision), 1).await?;
            return Ok(match history.items.first() {
                Some(next) if history.newer > 0 => TimePosition::At(next.moment),
                // The newest state is the present.
                _ => TimePosition::Live,
            });
        }
        (TimeTravel::Back, None) => {
            let history = changes_of_all(client, scopes, HistoryRange::All, 2).await?;
            return Ok(match history.items.as_slice() {
                [before, _] => TimePosition::At(before.moment),
                _ => TimePosition::Beginning(history.beginning()),
            });
        }
        (TimeTravel::Back, Some(from)) => {
            HistoryRange::Until(TimeSelector::revision(from.revision.saturating_sub(1)))
        }
        (TimeTravel::By(by), from) => {
            let Some(time) = from.map_or(Some(now), |from| from.time) else {
                return Err("the time of this state is unknown: step by changes, or enter a time".to_owned());
            };
            match time.checked_add(by) {
                Ok(at) if at < now => HistoryRange::Until(TimeSelector::Time(at)),
                _ => return Ok(TimePosition::Live),
            }
        }
        (TimeTravel::To(when), _) => HistoryRange::Until(when),
    };
    let history = changes_of_all(client, scopes, seek, 1).await?;
    let beginning = history.beginning();
    let up_to = history.until.max(beginning.revision);
    if let (TimeTravel::To(TimeSelector::Point(requested)), true) = (go, history.until > history.revision) {
        let requested = requested.revision;
        return Err(format!("revision {requested} does not exist yet; the last is {}", history.revision));
    }
    Ok(match (history.items.last(), seek) {
        (Some(last), HistoryRange::Until(TimeSelector::Point(_))) => TimePosition::At(last.moment),
        // For a requested time, the result has that time and the state that was in force.
        (Some(_), HistoryRange::Until(TimeSelector::Time(time))) => {
            TimePosition::At(PointInTime::new(up_to, Some(time)))
        }
        // The objects did not change between the start of the history and that time.
        (None, HistoryRange::Until(TimeSelector::Time(time))) if history.until > beginning.revision => {
            TimePosition::At(PointInTime::new(up_to, Some(time)))
        }
        (None, HistoryRange::Until(TimeSelector::Point(point)))
            if matches!(go, TimeTravel::To(_)) && point.revision > beginning.revision =>
        {
            TimePosition::At(point)
        }
        _ => TimePosition::Beginning(beginning),
    })
}

/// The past state that a view shows.
#[derive(Debug)]
pub struct PastView {
    /// The point in the past.
    pub moment: PointInTime,
    /// Earlier states are no longer retained.
    pub(crate) is_beginning: bool,
    /// The objects at that point.
    pub(crate) stores: Stores,
    /// The number of objects beyond the limit.
    pub(crate) cut: usize,
    /// The refusals at that time, if the state was requested kind by kind.
    links: Option<Links>,
    /// The kinds with an incomplete past state, if the view shows several kinds.
    gaps: Vec<Gap>,
    wake: Cell<Option<Timestamp>>,
}

impl PastView {
    /// Creates the state for a point in time; `None` for the present.
    pub fn new(place: TimePosition, stores: Stores, cut: usize) -> Option<Self> {
        Some(Self {
            moment: place.moment()?,
            is_beginning: matches!(place, TimePosition::Beginning(_)),
            stores,
            cut,
            links: None,
            gaps: Vec::new(),
            wake: Cell::new(None),
        })
    }

    /// Adds the kinds that the server refused.
    #[must_use]
    pub fn refused(self, links: Links) -> Self {
        Self { links: Some(links), ..self }
    }

    /// Adds the gaps in the state of several kinds to the refusals of the present.
    #[must_use]
    pub fn of_several(mut self, now: &Context<'_>, gaps: Vec<Gap>) -> Self {
        let mut links = now.links.refusals();
        for gap in &gaps {
            gap.report_gaps(&mut links, &mut self.stores, now.now);
        }
        self.cut += gaps.iter().map(Gap::cut).sum::<usize>();
        Self { gaps, ..self.refused(links) }
    }

    /// Returns the gaps in the state of several kinds.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// Returns a context with this state in place of the present. Ages are relative to that time, and do not advance; if
    /// it is unknown, there are none.
    pub fn context<'a>(&'a self, now: &Context<'a>) -> Context<'a> {
        Context {
            stores: &self.stores,
            links: self.links.as_ref().unwrap_or(now.links),
            now: self.moment.time.unwrap_or(now.now),
            is_time_known: self.moment.time.is_some(),
            redraw_at_time: &self.wake,
            ..*now
        }
    }

    /// Describes the bounds of the state, for the user.
    pub fn bounds(&self) -> Option<String> {
        match (self.is_beginning, self.cut) {
            (true, _) => Some("the server has no earlier states".to_owned()),
            (false, 0) => None,
            (false, cut) => Some(format!("{cut} more are not shown")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use jiff::SignedDuration;
    use k8s_openapi::api::core::v1::Pod;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;
    use crate::builtin_kinds;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    /// Returns a server that retains the changes of revisions 10, 20 and 30, each at the second of its number, after
    /// revision 5 at second 4.
    fn server() -> Client {
        let service = tower::service_fn(|request: http::Request<Body>| async move {
            let path = request.uri().path().to_owned();
            let query: std::collections::HashMap<String, String> =
                (request.uri().query().unwrap_or_default())
                    .split('&')
                    .filter_map(|pair| pair.split_once('='))
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .collect();
            let answer = respond(&path, &query);
            let code = answer["code"].as_u64().unwrap_or(200) as u16;
            let body = Body::from(answer.to_string().into_bytes());
            Ok::<_, Infallible>(http::Response::builder().status(code).body(body).unwrap())
        });
        Client::new(service, "default")
    }

    fn respond(path: &str, query: &std::collections::HashMap<String, String>) -> Value {
        let status = |code: u16, message: &str| {
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": message, "reason": "Expired", "code": code})
        };
        if path == "/apis/podium.dev/v1alpha1/history/api/v1/pods" {
            let limit: usize = query["limit"].parse().unwrap();
            let until = query.get("until").map_or(30, |text| {
                text.parse().unwrap_or_else(|_| {
                    let second = text.parse::<Timestamp>().unwrap().as_second() - 1_000_000;
                    if second < 4 { 0 } else { (second as u64).min(30) }
                })
            });
            let after = query.get("after").map(|text| text.parse::<u64>().unwrap());
            let all: Vec<u64> = [10, 20, 30]
                .into_iter()
                .filter(|revision| *revision <= until && *revision > after.unwrap_or(0))
                .collect();
            let page = if after.is_some() {
                &all[..all.len().min(limit)]
            } else {
                &all[all.len().saturating_sub(limit)..]
            };
            let items: Vec<Value> = page
                .iter()
                .map(|revision| {
                    json!({"type": "MODIFIED", "resourceVersion": revision.to_string(), "time": at(*revision as i64)})
                })
                .collect();
            let rest = all.len() - page.len();
            let (older, newer) = if after.is_some() { (0, rest) } else { (rest, 0) };
            return json!({"metadata": {"resourceVersion": "30"}, "after": "5", "begins": at(4),
                "until": until.to_string(), "older": older, "newer": newer, "items": items});
        }
        if path == "/api/v1/pods" {
            assert_eq!(query["resourceVersionMatch"], "Exact");
            if query["resourceVersion"] == "3" {
                return status(410, "too old");
            }
            return json!({"kind": "PodList", "metadata": {"resourceVersion": query["resourceVersion"],
                "continue": "x", "remainingItemCount": 7}, "items": [{"metadata": {"name": "a", "uid": "u",
                "managedFields": [{"manager": "m"}]}, "spec": {"containers": []}}]});
        }
        status(404, "the server could not find the requested resource")
    }

    fn scope() -> HistoryScope {
        HistoryScope { kind: builtin_kinds::kind::<Pod>(), namespace: None, name: None }
    }

    #[tokio::test]
    async fn steps_lead_from_change_to_change_and_from_time_to_time_con_19() {
        let client = server();
        let moment = |revision: u64| PointInTime::new(revision, Some(at(revision as i64)));
        let timed = |revision: u64, second: i64| PointInTime::new(revision, Some(at(second)));
        let beginning = TimePosition::Beginning(PointInTime { is_earliest: true, ..timed(5, 4) });
        let seconds = SignedDuration::from_secs;
        for (from, go, expected) in [
            (None, TimeTravel::Back, TimePosition::At(moment(20))),
            (Some(moment(20)), TimeTravel::Back, TimePosition::At(moment(10))),
            (Some(moment(10)), TimeTravel::Back, beginning),
            (Some(timed(5, 4)), TimeTravel::Back, beginning),
            (Some(timed(5, 4)), TimeTravel::Forward, TimePosition::At(moment(10))),
            (Some(moment(10)), TimeTravel::Forward, TimePosition::At(moment(20))),
            // The state after the newest change is the present.
            (Some(moment(20)), TimeTravel::Forward, TimePosition::Live),
            (None, TimeTravel::Forward, TimePosition::Live),
            (None, TimeTravel::By(seconds(-15)), TimePosition::At(timed(25, 25))),
            (Some(timed(25, 25)), TimeTravel::By(seconds(-10)), TimePosition::At(timed(15, 15))),
            (Some(timed(15, 15)), TimeTravel::By(seconds(-10)), beginning),
            (Some(timed(35, 35)), TimeTravel::By(seconds(10)), TimePosition::Live),
            (None, TimeTravel::To(TimeSelector::Time(at(7))), TimePosition::At(timed(7, 7))),
            (None, TimeTravel::To(TimeSelector::Time(at(1))), beginning),
            (None, TimeTravel::To(TimeSelector::revision(22)), TimePosition::At(moment(20))),
            (None, TimeTravel::To(TimeSelector::revision(7)), TimePosition::At(PointInTime::new(7, None))),
            (
                None,
                TimeTravel::To(TimeSelector::Point(timed(7, 7))),
                TimePosition::At(PointInTime::new(7, Some(at(7)))),
            ),
            (None, TimeTravel::To(TimeSelector::revision(2)), beginning),
            (Some(moment(10)), TimeTravel::Live, TimePosition::Live),
        ] {
            let led = step(&client, &[scope()], from, go, at(40)).await;
            assert_eq!(led, Ok(expected), "{from:?} {go:?}");
        }
        let yet = step(&client, &[scope()], None, TimeTravel::To(TimeSelector::revision(31)), at(40)).await;
        assert_eq!(yet, Err("revision 31 does not exist yet; the last is 30".to_owned()));
    }

    #[tokio::test]
    async fn a_past_list_is_slim_and_reports_omitted_objects_con_19() {
        let client = server();
        let lists = [(scope(), String::new())];
        let (stores, cut) = stores_at(&client, &lists, 20).await.unwrap();
        let (_, pod) = stores.pods().iter().next().unwrap();
        assert_eq!((pod.metadata.name.as_deref(), cut), (Some("a"), 7));
        assert_eq!(pod.metadata.managed_fields, None);
        let past = PastView::new(TimePosition::At(PointInTime::new(20, None)), stores, cut).unwrap();
        assert_eq!(past.bounds().as_deref(), Some("7 more are not shown"));
        let expired = stores_at(&client, &lists, 3).await.unwrap_err();
        assert_eq!(expired, "that is no longer available: too old");
        let other = HistoryScope { namespace: Some("a".into()), ..scope() };
        let error = step(&client, &[other], None, TimeTravel::Back, at(40)).await.unwrap_err();
        assert!(error.starts_with("cannot read the history of Pods: the server could not find"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_history_request_without_a_response_times_out_con_19() {
        let service = tower::service_fn(|_: http::Request<Body>| async {
            std::future::pending::<Result<http::Response<Body>, Infallible>>().await
        });
        let client = Client::new(service, "default");
        let error = step(&client, &[scope()], None, TimeTravel::Back, at(40)).await.unwrap_err();
        assert!(error.ends_with("no answer about the past within 15 s"), "{error}");
    }

    #[test]
    fn a_server_without_history_says_so_con_19() {
        assert_eq!(refused(&Catalogue::default()), None, "not known yet");
        let reason = refused(&Catalogue::of(builtin_kinds::kinds())).unwrap();
        assert!(reason.starts_with("this server has no history"), "{reason}");
    }
}
