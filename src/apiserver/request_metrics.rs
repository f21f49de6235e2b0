//! Request metrics: the labels of each request, and its duration.
//!
//! A request ends with the end of its response, or with the session that it opened.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use http::{Method, StatusCode};
use hyper::body::Body as _;
use prometheus::IntGauge;

use super::body;
use super::query::Query;
use super::request::{ResourceTarget, ReviewKind, Target};
use super::tapped_body::tapped;
use super::{component_statuses, controllers, verdicts};
use crate::audit::AuditContext;
use api::Api;
use api::metrics::{RequestLabels, answered_only};
use apimachinery::patch::PatchType;
use object::Subresource;

tokio::task_local! {
    static REQUEST: MeasuredRequest;
}

/// A measured request; a shared handle.
#[derive(Clone)]
pub(super) struct MeasuredRequest {
    inner: Arc<InFlightRequest>,
}

struct InFlightRequest {
    api: Api,
    labels: RequestLabels,
    gauge: IntGauge,
    /// On the monotonic clock.
    started_at: Duration,
    /// The status code of the response; 0 before the response.
    code: AtomicU16,
    /// The bytes of the response that the client has read.
    bytes: AtomicU64,
    /// The request's audit context, which ends with the request.
    audit_context: Option<AuditContext>,
}

/// Returns the current request: it counts as in flight while this handle is held.
pub(super) fn current() -> Option<MeasuredRequest> {
    REQUEST.try_with(Clone::clone).ok()
}

impl MeasuredRequest {
    /// Starts the measurement of a request.
    pub(super) fn begin(
        api: &Api,
        request: &Request,
        query: &Query,
        target: Option<&Target>,
        trail: Option<AuditContext>,
    ) -> Self {
        let labels = labels(request, query, target);
        let gauge = api.metrics().requests.in_flight(&labels);
        gauge.inc();
        let inner = InFlightRequest {
            api: api.clone(),
            labels,
            gauge,
            started_at: api.server_clock().monotonic(),
            code: AtomicU16::new(0),
            bytes: AtomicU64::new(0),
            audit_context: trail,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Runs `answer` as the current request.
    pub(super) async fn scope<T>(&self, answer: impl Future<Output = T>) -> T {
        REQUEST.scope(self.clone(), answer).await
    }

    /// Takes the response; the request is recorded once the response ends.
    pub(super) fn answered(self, response: Response) -> Response {
        self.inner.code.store(response.status().as_u16(), Ordering::Relaxed);
        let is_recorded = self.inner.audit_context.as_ref().is_some_and(AuditContext::records_response);
        if let Some(bytes) = response.body().size_hint().exact()
            && !is_recorded
        {
            self.inner.bytes.store(bytes, Ordering::Relaxed);
            return response;
        }
        response.map(|body| {
            tapped(body, move |piece| {
                self.inner.bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
            })
        })
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.gauge.dec();
        if let Some(trail) = &self.audit_context {
            trail.response_completed();
        }
        let code = self.code.load(Ordering::Relaxed);
        // No code if the client left before the response.
        if let Ok(code) = StatusCode::from_u16(code) {
            let seconds = self.api.server_clock().monotonic().saturating_sub(self.started_at).as_secs_f64();
            let bytes = self.bytes.load(Ordering::Relaxed);
            self.api.metrics().requests.answered(&self.labels, code, seconds, bytes);
        }
    }
}

/// Returns the labels of a request: none contains a client's own text.
fn labels(request: &Request, query: &Query, target: Option<&Target>) -> RequestLabels {
    let method = request.method();
    let verb = match *method {
        Method::GET | Method::HEAD => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "OTHER",
    };
    let plain = RequestLabels { verb, dry_run: dry_run(query), ..RequestLabels::default() };
    let answered = |resource: &str, is_collection: bool| {
        let (group, version, resource) = answered_only(resource);
        let scope = if is_collection { "cluster" } else { "resource" };
        let verb = if is_collection && verb == "GET" { "LIST" } else { verb };
        RequestLabels { verb, group, version, resource, scope, ..plain }
    };
    match target {
        None | Some(Target::Aggregated(_)) => plain,
        Some(Target::Document) => RequestLabels { subresource: document(request.uri().path()), ..plain },
        Some(Target::Resource(target)) => of_resource(request, query, target, plain),
        Some(Target::Bindings { .. }) => answered("bindings", false),
        Some(Target::Review(review)) => answered(
            match review {
                ReviewKind::Access => "selfsubjectaccessreviews",
                ReviewKind::Subject => "subjectaccessreviews",
                ReviewKind::LocalSubject { .. } => "localsubjectaccessreviews",
                ReviewKind::Rules => "selfsubjectrulesreviews",
                ReviewKind::Identity => "selfsubjectreviews",
                ReviewKind::Token => "tokenreviews",
            },
            false,
        ),
        Some(Target::Components(target)) => answered(component_statuses::PLURAL, target.is_collection()),
        Some(Target::Metrics(target)) => answered(target.plural(), target.is_collection()),
        Some(Target::History(target)) => answered("history", target.name.is_none()),
        Some(Target::Controllers(target)) => {
            let is_step = matches!(target, controllers::ControllerTarget::Step(_));
            let subresource = if is_step { controllers::STEP } else { "" };
            let labels = answered(controllers::PLURAL, target.is_collection());
            let verb = match target.is_watch(method, query) {
                true if query.flag("sendInitialEvents") => "WATCHLIST",
                true => "WATCH",
                false => labels.verb,
            };
            RequestLabels { verb, subresource, ..labels }
        }
        Some(Target::Verdicts(target)) => answered(verdicts::PLURAL, target.is_collection()),
    }
}

fn of_resource(
    request: &Request,
    query: &Query,
    target: &ResourceTarget,
    plain: RequestLabels,
) -> RequestLabels {
    use Subresource::{Attach, Exec, PortForward, Proxy};
    let is_one = target.name.is_some();
    let verb = match (plain.verb, target.subresource) {
        (_, Some(Exec | Attach | PortForward | Proxy)) => "CONNECT",
        ("GET", None) if target.is_watch(request.method(), query) => {
            if query.flag("sendInitialEvents") {
                "WATCHLIST"
            } else {
                "WATCH"
            }
        }
        ("GET", None) if !is_one => "LIST",
        ("DELETE", None) if !is_one => "DELETECOLLECTION",
        ("PATCH", _) if is_apply(request) => "APPLY",
        (verb, _) => verb,
    };
    let scope = match &target.namespace {
        _ if is_one || verb == "POST" => "resource",
        Some(_) => "namespace",
        None => "cluster",
    };
    RequestLabels {
        verb,
        group: target.served.group(),
        version: target.served.version(),
        resource: target.kind().info().plural,
        subresource: target.subresource.map_or("", Subresource::path),
        scope,
        ..plain
    }
}

fn is_apply(request: &Request) -> bool {
    PatchType::from_content_type(&body::media_type(request)) == Some(PatchType::Apply)
}

/// Returns the label of a path of the server itself; empty for other paths, of which clients could invent any
/// number.
fn document(path: &str) -> &'static str {
    const PARTS: [&str; 12] = [
        "/.well-known/openid-configuration", "/api", "/apis", "/flagz", "/healthz", "/livez", "/metrics",
        "/openapi", "/openid/v1/jwks", "/readyz", "/statusz", "/version",
    ];
    let is_part =
        |part: &&str| path.strip_prefix(*part).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    PARTS.into_iter().find(is_part).unwrap_or_default()
}

fn dry_run(query: &Query) -> &'static str {
    match query.all("dryRun").as_slice() {
        [] => "",
        stages if stages.iter().all(|stage| stage == "All") => "All",
        _ => "invalid",
    }
}
