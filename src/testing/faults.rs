//! Requests that fail on purpose (FAULT-1): refused, delayed, or executed with the response lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use parking_lot::Mutex;
use serde_json::json;

use apiserver::{Interceptor, Next, RequestAttributes};

use super::requests::Requests;
use super::status::status;
use super::watches::Watches;

/// The failure of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// 409: another client has changed the object first.
    Conflict,
    /// 404, although the object may exist.
    NotFound,
    /// 403 with this reason.
    Forbidden(String),
    /// 429: retry after this number of seconds.
    TooManyRequests(u32),
    /// 500 with this message.
    Internal(String),
    /// 503: the server is temporarily unavailable.
    Unavailable,
    /// 504 without executing the request.
    Timeout,
    /// 504 after executing the request: the client cannot know that it was executed.
    AnswerLost,
    /// The normal response, after a delay on the cluster's clock before the request is executed.
    Delay(Duration),
    /// The normal response, after a delay on the cluster's clock between executing the request and responding: a test
    /// can kill the client in between.
    AnswerDelayed(Duration),
}

/// A rule: the requests that fail, and the number of failures that remain.
#[derive(Debug)]
struct Rule {
    requests: Requests,
    failure: Failure,
    /// The number of failures that remain; `None` means no limit.
    remaining: Mutex<Option<u32>>,
    hits: AtomicU32,
}

impl Rule {
    /// Returns true if this request must fail, and then counts the failure.
    fn take(&self, attributes: &RequestAttributes) -> bool {
        if !self.requests.matches(attributes) {
            return false;
        }
        let mut left = self.remaining.lock();
        match left.as_mut() {
            Some(0) => return false,
            Some(left) => *left -= 1,
            None => {}
        }
        self.hits.fetch_add(1, Ordering::Relaxed);
        true
    }
}

/// An injected failure. It remains in force when this is dropped.
#[derive(Clone, Debug)]
pub struct InjectedFailure(Arc<Rule>);

impl InjectedFailure {
    /// Returns the number of requests that this failure has hit.
    pub fn hits(&self) -> u32 {
        self.0.hits.load(Ordering::Relaxed)
    }

    /// Ends the failure: it affects no further requests.
    pub fn heal(&self) {
        *self.0.remaining.lock() = Some(0);
    }
}

/// Watches that deliver no events as long as this exists.
#[must_use = "the watches resume when this is dropped"]
pub struct PausedWatches {
    faults: Arc<Faults>,
    rule: u64,
}

impl PausedWatches {
    pub(super) fn new(faults: Arc<Faults>, requests: Requests) -> Self {
        let rule = faults.watches.hold(requests);
        Self { faults, rule }
    }

    /// Lets the watches continue.
    pub fn release(self) {
        drop(self);
    }
}

impl Drop for PausedWatches {
    fn drop(&mut self) {
        self.faults.watches.release(self.rule);
    }
}

/// The interceptor between the clients and the server.
#[derive(Default)]
pub(super) struct Faults {
    // Locked for one search per request, never across an await.
    rules: Mutex<Vec<Arc<Rule>>>,
    watches: Arc<Watches>,
}

impl Faults {
    /// Makes these requests fail from now on: the next `times` of them, or all.
    pub(super) fn inject(&self, requests: Requests, failure: Failure, times: Option<u32>) -> InjectedFailure {
        let rule = Rule { requests, failure, remaining: Mutex::new(times), hits: AtomicU32::new(0) };
        let rule = Arc::new(rule);
        let mut rules = self.rules.lock();
        rules.retain(|rule| *rule.remaining.lock() != Some(0));
        rules.push(rule.clone());
        InjectedFailure(rule)
    }

    /// Returns the watches that clients have open.
    pub(super) fn watches(&self) -> &Watches {
        &self.watches
    }

    fn failure(&self, attributes: &RequestAttributes) -> Option<Failure> {
        self.rules.lock().iter().find(|rule| rule.take(attributes)).map(|rule| rule.failure.clone())
    }
}

impl Interceptor for Faults {
    fn intercept(
        &self,
        attributes: RequestAttributes,
        request: Request,
        next: Next,
    ) -> BoxFuture<'static, Response> {
        let failure = self.failure(&attributes);
        let watches = self.watches.clone();
        async move {
            match &failure {
                None => {}
                Some(Failure::Delay(delay)) => tokio::time::sleep(*delay).await,
                Some(Failure::AnswerDelayed(delay)) => {
                    let answer = next.run(request).await;
                    tokio::time::sleep(*delay).await;
                    return answer;
                }
                Some(Failure::AnswerLost) => {
                    next.run(request).await;
                    return refusal(&Failure::Timeout, &attributes);
                }
                Some(failure) => return refusal(failure, &attributes),
            }
            let response = next.run(request).await;
            if attributes.verb == "watch" { watches.follow(attributes, response) } else { response }
        }
        .boxed()
    }
}

/// Returns the response of a request that fails, as Kubernetes words it.
fn refusal(failure: &Failure, attributes: &RequestAttributes) -> Response {
    let resource = match attributes.group.as_str() {
        "" => attributes.resource.clone(),
        group => format!("{}.{group}", attributes.resource),
    };
    let name = &attributes.name;
    let (code, reason, message) = match failure {
        Failure::Conflict => {
            let cause =
                "the object has been modified; please apply your changes to the latest version and try again";
            (409, "Conflict", format!("Operation cannot be fulfilled on {resource} \"{name}\": {cause}"))
        }
        Failure::NotFound => (404, "NotFound", format!("{resource} \"{name}\" not found")),
        Failure::Forbidden(why) => (403, "Forbidden", format!("{resource} \"{name}\" is forbidden: {why}")),
        Failure::TooManyRequests(_) => (
            429,
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later".into(),
        ),
        Failure::Internal(why) => (500, "InternalError", format!("Internal error occurred: {why}")),
        Failure::Unavailable => {
            (503, "ServiceUnavailable", "the server is currently unable to handle the request".into())
        }
        Failure::Timeout | Failure::AnswerLost | Failure::Delay(_) | Failure::AnswerDelayed(_) => {
            let cause = "request did not complete within requested timeout - context deadline exceeded";
            (504, "Timeout", format!("Timeout: {cause}"))
        }
    };
    let mut details = json!({"name": name, "group": attributes.group, "kind": attributes.resource});
    let mut retry_after = None;
    if let Failure::TooManyRequests(seconds) = failure {
        details["retryAfterSeconds"] = (*seconds).into();
        retry_after = Some(HeaderValue::from(*seconds));
    }
    let status = status(code, reason, &message, &details);
    let mut response = Response::new(Body::from(status.to_string()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds);
    }
    response
}
