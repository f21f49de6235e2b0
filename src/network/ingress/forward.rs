//! One request: judged, passed on to an endpoint, and its answer on the way back.

use std::sync::Arc;

use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, LOCATION};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use hyper::body::{Body, Incoming};
use hyper::client::conn::TrySendError;
use hyper::upgrade::OnUpgrade;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep_until;

use super::Shared;
use super::annotations::{Options, Protocol};
use super::body::{Fault, Inward, Outward, Progress};
use super::client::Client;
use super::headers::{Origin, onward, strip, upgrade_of};
use super::table::{RequestHost, RequestPath, Route};
use super::upgraded;
use super::upstream::{Connection, Endpoint, Onward};

/// How many endpoints are asked before a request is given up: one more is tried.
const ENDPOINTS: usize = 2;
/// How many connections are tried in all: more than there are that wait, of which each may be closing just now.
const ATTEMPTS: usize = 40;

/// Answers a request.
pub(super) async fn answer(
    shared: &Arc<Shared>,
    client: &Arc<Client>,
    request: Request<Incoming>,
) -> Response<Outward> {
    let Ok(place) = shared.requests.clone().try_acquire_owned() else {
        return refusal(StatusCode::SERVICE_UNAVAILABLE);
    };
    match judge(shared, client, &request) {
        Ok(judged) => pass_on(shared, client, request, judged, place).await,
        Err(answer) => *answer,
    }
}

/// A request that is to be passed on.
struct Judged {
    host: RequestHost,
    route: Arc<Route>,
    uri: String,
}

fn judge(
    shared: &Shared,
    client: &Client,
    request: &Request<Incoming>,
) -> Result<Judged, Box<Response<Outward>>> {
    let refuse = |status| Err(Box::new(refusal(status)));
    if request.method() == Method::CONNECT {
        return refuse(StatusCode::METHOD_NOT_ALLOWED);
    }
    let host = RequestHost::of(request.uri(), request.headers());
    let path = RequestPath::read(request.uri().path());
    // RFC 9110, 9.3.7: `*` is about the server itself.
    let (Some(host), Some(path)) = (host, path) else { return refuse(StatusCode::BAD_REQUEST) };
    let current = shared.current();
    let Some(route) = current.table.find(&host.name, &path.decoded).cloned() else {
        return Err(Box::new(text(StatusCode::NOT_FOUND, "default backend - 404")));
    };
    let options = &route.options;
    let redirects = options.force_ssl_redirect || (options.ssl_redirect && current.table.has_tls(&host.name));
    if redirects && !client.is_tls {
        return Err(Box::new(to_https(shared, &host, request.uri())));
    }
    if let (Some(most), Some(length)) = (options.body_bytes, length(request))
        && length > most
    {
        // What comes now is the body, which nobody reads.
        return Err(Box::new(last_of_connection(request.version(), StatusCode::PAYLOAD_TOO_LARGE)));
    }
    let uri = route.onward(&path, request.uri().query());
    Ok(Judged { host, route, uri })
}

fn length(request: &Request<Incoming>) -> Option<u64> {
    request.headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn to_https(shared: &Shared, host: &RequestHost, uri: &Uri) -> Response<Outward> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let port = match shared.https_port() {
        443 => String::new(),
        port => format!(":{port}"),
    };
    let mut answer = refusal(StatusCode::PERMANENT_REDIRECT);
    match HeaderValue::try_from(format!("https://{}{port}{path}", host.name)) {
        Ok(location) => {
            answer.headers_mut().insert(LOCATION, location);
            answer
        }
        Err(_) => refusal(StatusCode::BAD_REQUEST),
    }
}

/// Why there is no answer of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// None is ready.
    NoEndpoint,
    /// It refused, or what it said was no answer.
    Bad,
    /// It did not answer in time.
    Late,
}

impl Failure {
    fn status(self) -> StatusCode {
        match self {
            Self::NoEndpoint => StatusCode::SERVICE_UNAVAILABLE,
            Self::Bad => StatusCode::BAD_GATEWAY,
            Self::Late => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}

async fn pass_on(
    shared: &Arc<Shared>,
    client: &Arc<Client>,
    mut request: Request<Incoming>,
    judged: Judged,
    place: OwnedSemaphorePermit,
) -> Response<Outward> {
    let Judged { host, route, uri } = judged;
    let options = route.options.clone();
    let upgrade = upgrade_of(request.headers());
    let client_side = upgrade.as_ref().map(|_| hyper::upgrade::on(&mut request));
    let progress = Progress::new();
    let Ok(onward) = rewritten(client, request, &host, &uri, &options, upgrade.as_ref(), &progress) else {
        return refusal(StatusCode::BAD_REQUEST);
    };
    match sent(shared, client, &route, onward, &progress).await {
        Ok((response, connection)) => {
            let way = Way { connection, place, client: client.clone() };
            homeward(shared, response, way, client_side, &options)
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

/// The request as an endpoint gets it.
fn rewritten(
    client: &Client,
    request: Request<Incoming>,
    host: &RequestHost,
    uri: &str,
    options: &Options,
    upgrade: Option<&HeaderValue>,
    progress: &Progress,
) -> Result<Onward, http::Error> {
    let (mut parts, body) = request.into_parts();
    let origin = Origin {
        client: client.address.ip(),
        host: &host.authority,
        port: client.port,
        is_tls: client.is_tls,
    };
    onward(&mut parts.headers, upgrade, origin);
    (parts.uri, parts.version) = match options.protocol {
        Protocol::Http | Protocol::Https => {
            parts.headers.insert(HOST, HeaderValue::try_from(&host.authority)?);
            (uri.parse::<Uri>()?, Version::HTTP_11)
        }
        Protocol::Grpc | Protocol::Grpcs => {
            // It stands in the target there.
            parts.headers.remove(HOST);
            let scheme = if options.protocol == Protocol::Grpcs { "https" } else { "http" };
            let uri = Uri::builder().scheme(scheme).authority(host.authority.as_str()).path_and_query(uri);
            (uri.build()?, Version::HTTP_2)
        }
    };
    parts.extensions.clear();
    let body = Inward::new(body, progress.clone(), options.body_bytes, options.send_timeout);
    Ok(Request::from_parts(parts, body))
}

/// Asks endpoints until one answers, as long as none can have seen the request.
async fn sent(
    shared: &Arc<Shared>,
    client: &Client,
    route: &Route,
    mut request: Onward,
    progress: &Progress,
) -> Result<(Response<Incoming>, Connection), Failure> {
    let options = &route.options;
    let (mut tried, mut last) = (Vec::new(), Failure::NoEndpoint);
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let mut head = (is_safe && request.body().is_end_stream()).then(|| head_of(&request));
    for _ in 0..ATTEMPTS {
        if tried.len() >= ENDPOINTS {
            break;
        }
        let Some(address) = shared.endpoint(route, client.address.ip(), &tried) else { return Err(last) };
        let endpoint = Endpoint { address, protocol: options.protocol };
        let mut connection = match shared.upstreams.obtain(endpoint, options.connect_timeout).await {
            Ok(connection) => connection,
            Err(error) => {
                tracing::debug!("endpoint {address} of ingress {}: {error}", route.ingress);
                last =
                    if error.kind() == std::io::ErrorKind::TimedOut { Failure::Late } else { Failure::Bad };
                tried.push(address);
                continue;
            }
        };
        let is_used = connection.is_used;
        let mut error = match awaited(&mut connection, request, options, progress).await {
            Ok(response) => return Ok((response, connection)),
            Err(None) => return Err(Failure::Late),
            Err(Some(error)) => error,
        };
        last = Failure::Bad;
        request = match error.take_message() {
            Some(request) => request,
            // An endpoint that closes a connection which was waiting has not looked at what came then. Asked twice, it
            // is no other question; but only once.
            None if is_used && head.is_some() => {
                let Some(head) = head.take() else { return Err(last) };
                head.map(|()| Inward::empty(progress.clone()))
            }
            None => {
                tracing::debug!("endpoint {address} of ingress {}: {}", route.ingress, error.into_error());
                return Err(last);
            }
        };
        if !is_used {
            tried.push(address);
        }
    }
    Err(last)
}

/// A request without its body.
fn head_of(request: &Onward) -> Request<()> {
    let mut head = Request::new(());
    *head.method_mut() = request.method().clone();
    *head.uri_mut() = request.uri().clone();
    *head.version_mut() = request.version();
    *head.headers_mut() = request.headers().clone();
    head
}

/// Waits for an answer as long as the request is still being sent, and then for `read_timeout`; none = in vain.
async fn awaited(
    connection: &mut Connection,
    request: Onward,
    options: &Options,
    progress: &Progress,
) -> Result<Response<Incoming>, Option<TrySendError<Onward>>> {
    let mut sending = std::pin::pin!(connection.send(request));
    loop {
        let until = progress.last() + options.read_timeout;
        tokio::select! {
            sent = &mut sending => return sent.map_err(Some),
            () = sleep_until(until) => if progress.last() + options.read_timeout <= until {
                return Err(None);
            },
        }
    }
}

/// What is held until an answer is through.
struct Way {
    connection: Connection,
    place: OwnedSemaphorePermit,
    client: Arc<Client>,
}

/// The answer as the client gets it.
fn homeward(
    shared: &Arc<Shared>,
    mut response: Response<Incoming>,
    way: Way,
    client_side: Option<OnUpgrade>,
    options: &Options,
) -> Response<Outward> {
    *response.version_mut() = Version::default();
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let agreed = upgrade_of(response.headers());
        let (Some(client_side), Some(agreed)) = (client_side, agreed) else {
            return refusal(StatusCode::BAD_GATEWAY);
        };
        let endpoint_side = hyper::upgrade::on(&mut response);
        strip(response.headers_mut(), Some(&agreed));
        shared.tasks.spawn("ingress upgrade", async move {
            upgraded::join(client_side, endpoint_side).await;
            drop(way);
        });
        return response.map(|_| Outward::text(""));
    }
    strip(response.headers_mut(), None);
    let (parts, body) = response.into_parts();
    let (body, carried) = Outward::piped(body, options.read_timeout, way.client.cut_off.clone());
    let upstreams = shared.upstreams.clone();
    shared.tasks.spawn("ingress answer", async move {
        let Way { connection, place, client } = way;
        let is_whole = carried.await;
        drop((place, client));
        if is_whole {
            connection.give_back(&upstreams).await;
        }
    });
    Response::from_parts(parts, body)
}

/// An answer of our own, with what its status says.
fn refusal(status: StatusCode) -> Response<Outward> {
    let reason = status.canonical_reason().unwrap_or_default();
    text(status, format!("{} {reason}\n", status.as_u16()))
}

/// A refusal after which nothing more is read.
fn last_of_connection(version: Version, status: StatusCode) -> Response<Outward> {
    let mut answer = refusal(status);
    if version < Version::HTTP_2 {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

fn text(status: StatusCode, text: impl Into<bytes::Bytes>) -> Response<Outward> {
    let mut response = Response::new(Outward::text(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
