//! One request: routed, forwarded to an endpoint, and its response on the way back.

use std::sync::Arc;

use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::body::{Body, Incoming};
use hyper::client::conn::TrySendError;
use hyper::upgrade::OnUpgrade;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};

use super::body::{BodyTimeouts, Fault, Progress, RequestBody, ResponseBody};
use super::client::Client;
use super::headers::{Origin, rewrite_request, strip, upgrade_of};
use super::options::Options;
use super::request_mirror;
use super::upgrade;
use super::upstream::{Connection, Endpoint, UpstreamRequest};
use super::upstream_request::{address, head_of};
use super::{ForwardPlan, Port, RequestHead, RequestHost, RequestPath, ReverseProxy, RouteDecision};

/// Maximum number of endpoints tried for a request: the first and one more.
const ENDPOINTS: usize = 2;
/// Maximum number of attempts: more than there can be idle connections, because each of these may just be closing.
const ATTEMPTS: usize = 40;

/// Answers a request.
pub(super) async fn handle_request(
    at: &Port,
    client: &Arc<Client>,
    request: Request<Incoming>,
) -> Response<ResponseBody> {
    let Ok(place) = at.proxy.requests.clone().try_acquire_owned() else {
        return refusal(StatusCode::SERVICE_UNAVAILABLE);
    };
    match route(at, client, &request) {
        Ok((host, plan)) => pass_on(&at.proxy, client, request, (host, *plan), place).await,
        Err(answer) => *answer,
    }
}

/// Routes a request; returns the plan for forwarding it, with the host that the client named.
fn route(
    at: &Port,
    client: &Client,
    request: &Request<Incoming>,
) -> Result<(RequestHost, Box<ForwardPlan>), Box<Response<ResponseBody>>> {
    let refuse = |status| Err(Box::new(refusal(status)));
    if request.method() == Method::CONNECT {
        return refuse(StatusCode::METHOD_NOT_ALLOWED);
    }
    let host = RequestHost::of(request.uri(), request.headers());
    let path = RequestPath::read(request.uri().path());
    // RFC 9110, 9.3.7: the target `*` refers to the server itself.
    let (Some(host), Some(path)) = (host, path) else { return refuse(StatusCode::BAD_REQUEST) };
    let head = RequestHead {
        method: request.method(),
        uri: request.uri(),
        headers: request.headers(),
        host: &host,
        path: &path,
        is_tls: client.is_tls,
        port: client.port,
        server_name: client.server_name.get().map(String::as_str),
    };
    let plan = match at.router.route(&head) {
        RouteDecision::Refuse(status) => return refuse(status),
        RouteDecision::RefuseWithText(status, words) => return Err(Box::new(text(status, words))),
        RouteDecision::Redirect(status, location) => return Err(Box::new(redirect(status, location))),
        RouteDecision::Forward(plan) => plan,
    };
    if let (Some(most), Some(length)) = (plan.options.body_bytes, length(request))
        && length > most
    {
        // The connection cannot be reused: the client now sends a body that is not read.
        return Err(Box::new(last_of_connection(request.version(), StatusCode::PAYLOAD_TOO_LARGE)));
    }
    Ok((host, plan))
}

fn length(request: &Request<Incoming>) -> Option<u64> {
    request.headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn redirect(status: StatusCode, location: String) -> Response<ResponseBody> {
    match HeaderValue::try_from(location) {
        Ok(location) => {
            let mut answer = refusal(status);
            answer.headers_mut().insert(LOCATION, location);
            answer
        }
        Err(_) => refusal(StatusCode::BAD_REQUEST),
    }
}

/// The reason why no endpoint has responded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ForwardError {
    /// No endpoint is ready.
    NoEndpoint,
    /// The endpoint refused the connection, or sent an invalid response.
    Bad,
    /// The endpoint did not respond in time.
    Late,
}

impl ForwardError {
    fn status(self) -> StatusCode {
        match self {
            Self::NoEndpoint => StatusCode::SERVICE_UNAVAILABLE,
            Self::Bad => StatusCode::BAD_GATEWAY,
            Self::Late => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}

async fn pass_on(
    proxy: &Arc<ReverseProxy>,
    client: &Arc<Client>,
    mut request: Request<Incoming>,
    (host, plan): (RequestHost, ForwardPlan),
    permit: OwnedSemaphorePermit,
) -> Response<ResponseBody> {
    let whole = plan.options.request_timeout.map(|limit| Instant::now() + limit);
    let upgrade = upgrade_of(request.headers());
    let client_side = upgrade.as_ref().map(|_| hyper::upgrade::on(&mut request));
    let progress = Progress::new();
    let Ok(mut onward) = rewritten(client, request, &host, &plan, upgrade.as_ref(), &progress) else {
        return refusal(StatusCode::BAD_REQUEST);
    };
    request_mirror::send(proxy, client, &plan, &mut onward);
    match send_upstream(proxy, client, &plan, onward, &progress, whole).await {
        Ok((response, connection, until)) => {
            let lease = UpstreamLease { connection, permit, client: client.clone() };
            rewrite_response(proxy, response, lease, client_side, &plan, until)
        }
        Err(failure) => {
            let status = match progress.fault() {
                Some(Fault::TooLarge) => StatusCode::PAYLOAD_TOO_LARGE,
                Some(Fault::Stalled) => StatusCode::REQUEST_TIMEOUT,
                Some(Fault::Broken) | None => failure.status(),
            };
            refusal(status)
        }
    }
}

/// Rewrites a request for an endpoint.
fn rewritten(
    client: &Client,
    request: Request<Incoming>,
    host: &RequestHost,
    plan: &ForwardPlan,
    upgrade: Option<&HeaderValue>,
    progress: &Progress,
) -> Result<UpstreamRequest, http::Error> {
    let (mut parts, body) = request.into_parts();
    let origin = Origin {
        client: client.address.ip(),
        host: &host.authority,
        port: client.port,
        is_tls: client.is_tls,
    };
    rewrite_request(&mut parts.headers, upgrade, origin);
    for edits in &plan.request_headers {
        edits.apply(&mut parts.headers);
    }
    let options = &plan.options;
    address(&mut parts, options.protocol, &plan.authority, &plan.uri)?;
    parts.extensions.clear();
    let body = RequestBody::new(body, progress.clone(), options.body_bytes, options.send_timeout);
    Ok(Request::from_parts(parts, body))
}

/// Sends the request to endpoints until one responds, as long as no endpoint can have seen it before. The response
/// comes with the time by which it must be complete.
async fn send_upstream(
    proxy: &Arc<ReverseProxy>,
    client: &Client,
    plan: &ForwardPlan,
    mut request: UpstreamRequest,
    progress: &Progress,
    whole: Option<Instant>,
) -> Result<(Response<Incoming>, Connection, Option<Instant>), ForwardError> {
    let options = &plan.options;
    let (mut tried, mut last) = (Vec::new(), ForwardError::NoEndpoint);
    let Some(pool) = &plan.pool else { return Err(last) };
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let mut head = (is_safe && request.body().is_end_stream()).then(|| head_of(&request));
    for _ in 0..ATTEMPTS {
        if tried.len() >= ENDPOINTS {
            break;
        }
        let now = Instant::now();
        if whole.is_some_and(|whole| whole <= now) {
            return Err(ForwardError::Late);
        }
        let until = [whole, options.backend_timeout.map(|limit| now + limit)].into_iter().flatten().min();
        let Some(address) = pool.pick(proxy, client.address.ip(), &tried) else { return Err(last) };
        let endpoint = Endpoint { address, protocol: options.protocol };
        let left = until.map_or(options.connect_timeout, |until| (until - now).min(options.connect_timeout));
        let mut connection = match proxy.upstreams.obtain(endpoint, left).await {
            Ok(connection) => connection,
            Err(error) => {
                tracing::debug!("endpoint {address} of {}: {error}", plan.rule);
                last = if error.kind() == std::io::ErrorKind::TimedOut {
                    ForwardError::Late
                } else {
                    ForwardError::Bad
                };
                tried.push(address);
                continue;
            }
        };
        let is_used = connection.is_used;
        let mut error = match awaited(&mut connection, request, options, progress, until).await {
            Ok(response) => return Ok((response, connection, until)),
            Err(None) => return Err(ForwardError::Late),
            Err(Some(error)) => error,
        };
        last = ForwardError::Bad;
        request = match error.take_message() {
            Some(request) => request,
            // An endpoint that closes an idle connection has not processed a request which arrives at that moment.
            // Repeating a safe request has no further effect; but it is repeated only once.
            None if is_used && head.is_some() => {
                let Some(head) = head.take() else { return Err(last) };
                head.map(|()| RequestBody::empty(progress.clone()))
            }
            None => {
                tracing::debug!("endpoint {address} of {}: {}", plan.rule, error.into_error());
                return Err(last);
            }
        };
        if !is_used {
            tried.push(address);
        }
    }
    Err(last)
}

/// Waits for a response while the request is being sent, and then for `read_timeout`, but not beyond `limit`;
/// `Err(None)` is a timeout.
async fn awaited(
    connection: &mut Connection,
    request: UpstreamRequest,
    options: &Options,
    progress: &Progress,
    limit: Option<Instant>,
) -> Result<Response<Incoming>, Option<TrySendError<UpstreamRequest>>> {
    let mut sending = std::pin::pin!(connection.send(request));
    loop {
        let until = progress.last() + options.read_timeout;
        let until = limit.map_or(until, |limit| limit.min(until));
        tokio::select! {
            sent = &mut sending => return sent.map_err(Some),
            () = sleep_until(until) => {
                let is_over = limit.is_some_and(|limit| limit <= until);
                if is_over || progress.last() + options.read_timeout <= until {
                    return Err(None);
                }
            }
        }
    }
}

/// Resources that are held until a response is complete.
struct UpstreamLease {
    connection: Connection,
    permit: OwnedSemaphorePermit,
    client: Arc<Client>,
}

/// Rewrites a response for the client.
fn rewrite_response(
    proxy: &Arc<ReverseProxy>,
    mut response: Response<Incoming>,
    lease: UpstreamLease,
    client_side: Option<OnUpgrade>,
    plan: &ForwardPlan,
    until: Option<Instant>,
) -> Response<ResponseBody> {
    *response.version_mut() = Version::default();
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let agreed = upgrade_of(response.headers());
        let (Some(client_side), Some(agreed)) = (client_side, agreed) else {
            return refusal(StatusCode::BAD_GATEWAY);
        };
        let endpoint_side = hyper::upgrade::on(&mut response);
        strip(response.headers_mut(), Some(&agreed));
        edit(response.headers_mut(), plan);
        proxy.tasks.spawn("reverse proxy upgrade", async move {
            upgrade::join(client_side, endpoint_side).await;
            drop(lease);
        });
        return response.map(|_| ResponseBody::text(""));
    }
    strip(response.headers_mut(), None);
    edit(response.headers_mut(), plan);
    let (parts, body) = response.into_parts();
    let timeouts = BodyTimeouts { silence: plan.options.read_timeout, until };
    let (body, carried) = ResponseBody::piped(body, timeouts, lease.client.cut_off.clone());
    let upstreams = proxy.upstreams.clone();
    proxy.tasks.spawn("reverse proxy answer", async move {
        let UpstreamLease { connection, permit: place, client } = lease;
        let is_whole = carried.await;
        drop((place, client));
        if is_whole {
            connection.release(&upstreams).await;
        }
    });
    Response::from_parts(parts, body)
}

fn edit(headers: &mut HeaderMap, plan: &ForwardPlan) {
    for edits in &plan.response_headers {
        edits.apply(headers);
    }
}

/// Returns a response from the proxy itself with the reason phrase of its status.
fn refusal(status: StatusCode) -> Response<ResponseBody> {
    let reason = status.canonical_reason().unwrap_or_default();
    text(status, format!("{} {reason}\n", status.as_u16()))
}

/// Returns a refusal after which the connection is closed.
fn last_of_connection(version: Version, status: StatusCode) -> Response<ResponseBody> {
    let mut answer = refusal(status);
    if version < Version::HTTP_2 {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

fn text(status: StatusCode, text: impl Into<bytes::Bytes>) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::text(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
