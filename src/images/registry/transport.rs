//! Requests and answers: connections, trust, proxies, redirects, retries, and bounded bodies.
//!
//! Redirects are followed here and not by the HTTP library, so that credentials go only to the origin that demanded
//! them, and no redirect leads to the machine's link-local network, where clouds serve credentials to any client.
//! (containerd follows such redirects.) Redirected content is checked by its digest, so that its host needs no trust.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::backoff::BackoffPolicy;
use base::clock::Clock;
use base::server_trust::{Trust, client_trusting, tls_error};
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, LOCATION, RANGE, RETRY_AFTER,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Method, Response, StatusCode, Url};
use tokio::time::timeout;

use super::config::{RegistryConfig, mirror_url};
use super::docker_config::read_bounded;
use super::error::{RegistryError, RequestFailure, shown_text, shown_url};

/// Go's limit, and thus containerd's.
const REDIRECTS: usize = 10;
/// The maximum size of a `Location` that is followed: signed URLs of object stores have about 2 KiB.
const LOCATION_BYTES: usize = 16 << 10;
/// The part of an error's body that is read.
const ERROR_BYTES: usize = 16 << 10;

/// The patience of the client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// For a connection, with TLS.
    pub(super) connect: Duration,
    /// For the next byte of an answer.
    pub(super) stall: Duration,
    /// For a whole document or token.
    pub(super) document: Duration,
    /// Attempts of one request.
    pub(super) attempts: u32,
    /// The time between them, unless the registry names one.
    pub(super) backoff: BackoffPolicy,
    /// The total time that a registry may make a request wait with `Retry-After`.
    pub(super) retry_after: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(15),
            stall: Duration::from_secs(30),
            document: Duration::from_mins(2),
            attempts: 4,
            backoff: BackoffPolicy { initial: Duration::from_millis(500), max: Duration::from_secs(5) },
            retry_after: Duration::from_mins(1),
        }
    }
}

/// The server certificates that are acceptable on behalf of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EndpointTrust {
    /// The system's authorities.
    System,
    /// The system's authorities and those of a file, named by the setting.
    File { setting: String, path: PathBuf },
    /// Any certificate.
    Insecure,
}

/// Sends requests to registries, token servers, and the servers that they redirect to.
pub(super) struct Transport {
    pub(super) patience: Patience,
    clock: Clock,
    /// The hosts that the user configured, by name: these may be in the link-local network.
    configured: Arc<BTreeSet<String>>,
    /// By trust, and whether proxies apply.
    clients: Mutex<BTreeMap<(EndpointTrust, bool), Client>>,
}

/// One request.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// Plain HTTP is tried if the server seems to speak no TLS: such a failure is not worth a second attempt.
    pub(super) may_be_plain: bool,
}

impl Call {
    pub(super) fn new(method: Method, url: Url) -> Self {
        Self { method, url, headers: HeaderMap::new(), body: Vec::new(), may_be_plain: false }
    }

    pub(super) fn get(url: Url) -> Self {
        Self::new(Method::GET, url)
    }

    pub(super) fn accept(mut self, types: &'static str) -> Self {
        self.headers.insert(ACCEPT, HeaderValue::from_static(types));
        self
    }

    /// Requests the content from an offset on.
    pub(super) fn from(mut self, offset: u64) -> Self {
        if offset > 0 {
            let range = HeaderValue::from_str(&format!("bytes={offset}-"));
            self.headers.insert(RANGE, range.expect("digits are a header's value"));
        }
        self
    }

    pub(super) fn with_body(mut self, media_type: HeaderValue, body: Vec<u8>) -> Self {
        self.headers.insert(CONTENT_TYPE, media_type);
        self.body = body;
        self
    }
}

/// The value of an `Authorization` header, and the origin that it is for.
#[derive(Clone)]
pub(super) struct Authorization {
    pub(super) value: HeaderValue,
    pub(super) origin: String,
}

impl Transport {
    pub(super) fn new(config: &RegistryConfig, clock: Clock, patience: Patience) -> Self {
        let hosts = config.hosts.keys().map(|host| host.split(':').next().unwrap_or(host).to_owned());
        let mirrors = config.hosts.values().flat_map(|settings| &settings.mirrors);
        let mirrors = mirrors.filter_map(|mirror| mirror_url(mirror).ok()?.host_str().map(str::to_owned));
        let configured = Arc::new(hosts.chain(mirrors).collect());
        Self { patience, clock, configured, clients: Mutex::default() }
    }

    /// Returns the client for a trust and a destination. Go's rule applies: proxies never apply to loopback addresses.
    fn client(&self, trust: &EndpointTrust, url: &Url) -> Result<Client, RegistryError> {
        let key = (trust.clone(), !is_loopback(url.host_str().unwrap_or_default()));
        if let Some(client) = self.clients.lock().get(&key) {
            return Ok(client.clone());
        }
        let setting = match trust {
            EndpointTrust::File { setting, .. } => setting.clone(),
            _ => "registry".to_owned(),
        };
        let unusable = |reason: String| RegistryError::Setting { setting: setting.clone(), reason };
        let pem = match trust {
            EndpointTrust::File { path, .. } => {
                read_bounded(path).map_err(|error| unusable(format!("{}: {error}", path.display())))?
            }
            _ => Vec::new(),
        };
        let trusted = match trust {
            EndpointTrust::Insecure => Trust::SkipVerify,
            EndpointTrust::System => Trust::SystemAndBundle(&[]),
            EndpointTrust::File { .. } => Trust::SystemAndBundle(&pem),
        };
        if matches!(trust, EndpointTrust::File { .. }) {
            // The file alone must be a trust, too: without a certificate it would have no effect.
            client_trusting(if pem.is_empty() { Trust::Bundle(b"-") } else { Trust::Bundle(&pem) })
                .map_err(|_| unusable("the file contains no certificate in PEM".into()))?;
        }
        let tls = client_trusting(trusted).map_err(unusable)?.with_no_client_auth();
        let builder = Client::builder()
            .tls_backend_preconfigured(tls)
            .dns_resolver(Resolver { configured: self.configured.clone() })
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .user_agent(concat!("podium/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(self.patience.connect)
            .pool_idle_timeout(Duration::from_secs(30))
            .pool_max_idle_per_host(4)
            .http1_only();
        let builder = if key.1 { builder } else { builder.no_proxy() };
        let client = builder.build().map_err(|error| unusable(error.to_string()))?;
        self.clients.lock().insert(key, client.clone());
        Ok(client)
    }

    /// Sends a request and follows redirects; the answer may have any other status.
    async fn exchange(
        &self,
        trust: &EndpointTrust,
        call: &Call,
        authorization: Option<&Authorization>,
    ) -> Result<Response, RegistryError> {
        let mut url = call.url.clone();
        for _ in 0..=REDIRECTS {
            self.check_destination(&url)?;
            let client = self.client(trust, &url)?;
            let mut headers = call.headers.clone();
            if let Some(authorization) = authorization.filter(|known| known.origin == origin(&url)) {
                headers.insert(AUTHORIZATION, authorization.value.clone());
            }
            let mut request = client.request(call.method.clone(), url.clone()).headers(headers);
            if !matches!(call.method, Method::GET | Method::HEAD) {
                request = request.body(call.body.clone());
            }
            let response = match timeout(self.patience.stall, request.send()).await {
                Ok(sent) => sent.map_err(|error| self.failure(&call.method, &url, &error))?,
                Err(_) => {
                    return Err(no_answer(&call.method, &url, RequestFailure::Timeout(self.patience.stall)));
                }
            };
            let is_redirect = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
            if !is_redirect || !matches!(call.method, Method::GET | Method::HEAD) {
                return Ok(response);
            }
            url = redirect_target(&url, response.headers())?;
        }
        Err(RegistryError::Redirect {
            url: shown_url(&call.url),
            reason: format!("stopped after {REDIRECTS} redirects"),
        })
    }

    /// Sends a request, again after failures that may pass. The answer has any status but a redirect or one that says
    /// to try again later.
    pub(super) async fn send(
        &self,
        trust: &EndpointTrust,
        call: &Call,
        authorization: Option<&Authorization>,
    ) -> Result<Response, RegistryError> {
        let mut waited = Duration::ZERO;
        let mut attempt = 1;
        loop {
            let failure = match self.exchange(trust, call, authorization).await {
                Ok(response) => {
                    let status = response.status();
                    let is_later =
                        status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE;
                    let named = is_later.then(|| self.retry_after(response.headers())).flatten();
                    let is_passing = status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED;
                    if !is_later && !is_passing {
                        return Ok(response);
                    }
                    if let Some(retry_after) = named {
                        if waited.saturating_add(retry_after) > self.patience.retry_after
                            || attempt >= self.patience.attempts
                        {
                            let detail = self.error_detail(response).await;
                            let url = shown_url(&call.url);
                            return Err(RegistryError::TooManyRequests { url, status, detail, retry_after });
                        }
                        waited += retry_after;
                        drop(response);
                        tokio::time::sleep(retry_after.max(self.patience.backoff.delay(attempt))).await;
                        attempt += 1;
                        continue;
                    }
                    if attempt >= self.patience.attempts {
                        return Err(self.status_error(call, response).await);
                    }
                    None
                }
                Err(error) => Some(error),
            };
            if let Some(error) = failure {
                // A server that is silent twice is silent for longer than users wait.
                let attempts = if error.is_timeout() { 2 } else { self.patience.attempts };
                let is_plain = call.may_be_plain && error.may_mean_no_tls(&call.url);
                if !error.is_transient() || attempt >= attempts || is_plain {
                    return Err(error);
                }
            }
            tokio::time::sleep(self.patience.backoff.delay(attempt)).await;
            attempt += 1;
        }
    }

    /// Sends one request whose body is a stream, which cannot be sent again. `is_stalled` ends when the upload makes no
    /// progress any more.
    pub(super) async fn upload(
        &self,
        trust: &EndpointTrust,
        call: &Call,
        authorization: Option<&Authorization>,
        body: reqwest::Body,
        size: u64,
        stall: impl Future<Output = ()>,
    ) -> Result<Response, RegistryError> {
        self.check_destination(&call.url)?;
        let client = self.client(trust, &call.url)?;
        let mut request = client.request(call.method.clone(), call.url.clone()).headers(call.headers.clone());
        if let Some(authorization) = authorization.filter(|known| known.origin == origin(&call.url)) {
            request = request.header(AUTHORIZATION, authorization.value.clone());
        }
        let request = request.header(CONTENT_LENGTH, size).body(body);
        tokio::select! {
            sent = request.send() => sent.map_err(|error| self.failure(&call.method, &call.url, &error)),
            () = stall => Err(no_answer(&call.method, &call.url, RequestFailure::Timeout(self.patience.stall))),
        }
    }

    /// Returns the next part of a body; `None` at its end.
    pub(super) async fn chunk(
        &self,
        url: &Url,
        response: &mut Response,
    ) -> Result<Option<bytes::Bytes>, RegistryError> {
        match timeout(self.patience.stall, response.chunk()).await {
            Ok(chunk) => chunk.map_err(|error| self.failure(&Method::GET, url, &error)),
            Err(_) => Err(no_answer(&Method::GET, url, RequestFailure::Timeout(self.patience.stall))),
        }
    }

    /// Reads a whole body up to a limit.
    pub(super) async fn body(
        &self,
        subject: &str,
        limit: usize,
        mut response: Response,
    ) -> Result<Vec<u8>, RegistryError> {
        let too_large = || RegistryError::TooLarge {
            subject: subject.to_owned(),
            reason: format!("it has more than {limit} bytes"),
        };
        if response.content_length().is_some_and(|length| length > limit as u64) {
            return Err(too_large());
        }
        let url = response.url().clone();
        let all = async {
            let mut body = Vec::new();
            while let Some(chunk) = self.chunk(&url, &mut response).await? {
                if body.len() + chunk.len() > limit {
                    return Err(too_large());
                }
                body.extend_from_slice(&chunk);
            }
            Ok(body)
        };
        match timeout(self.patience.document, all).await {
            Ok(body) => body,
            Err(_) => Err(no_answer(&Method::GET, &url, RequestFailure::Timeout(self.patience.document))),
        }
    }

    /// Describes an answer with a status that the protocol does not have there.
    pub(super) async fn status_error(&self, call: &Call, response: Response) -> RegistryError {
        let (method, url, status) = (call.method.clone(), shown_url(response.url()), response.status());
        RegistryError::Status { method, url, status, detail: self.error_detail(response).await }
    }

    /// Returns the registry's words about an error after a colon; empty if it has none.
    pub(super) async fn error_detail(&self, mut response: Response) -> String {
        let url = response.url().clone();
        let mut body = Vec::new();
        let read = async {
            while let Ok(Some(chunk)) = self.chunk(&url, &mut response).await {
                body.extend_from_slice(&chunk[..chunk.len().min(ERROR_BYTES - body.len())]);
                if body.len() == ERROR_BYTES {
                    break;
                }
            }
        };
        // A registry that is slow even with its errors is not waited for; the beginning may be enough.
        let _ = timeout(self.patience.stall.min(Duration::from_secs(5)), read).await;
        let words = error_words(&body);
        if words.is_empty() { words } else { format!(": {words}") }
    }

    /// Reads `Retry-After`: seconds, or a date.
    fn retry_after(&self, headers: &HeaderMap) -> Option<Duration> {
        let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
        }
        let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
        Some(Duration::try_from(date.duration_since(self.clock.now())).unwrap_or(Duration::ZERO))
    }

    /// Refuses destinations that no registry needs.
    fn check_destination(&self, url: &Url) -> Result<(), RegistryError> {
        let host = url.host_str().unwrap_or_default();
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>().ok();
        if address.is_some_and(is_link_local) && !self.configured.contains(host) {
            return Err(RegistryError::Redirect { url: shown_url(url), reason: LINK_LOCAL.into() });
        }
        Ok(())
    }

    /// Describes a failure of the HTTP library.
    fn failure(&self, method: &Method, url: &Url, error: &reqwest::Error) -> RegistryError {
        no_answer(method, url, classify(url, error, self.patience.connect))
    }
}

const LINK_LOCAL: &str =
    "the link-local network is not accessible for registries; name the host in registry.hosts if it is meant";

fn no_answer(method: &Method, url: &Url, failure: RequestFailure) -> RegistryError {
    let name = method.as_str();
    let method = name[..1].to_owned() + &name[1..].to_ascii_lowercase();
    RegistryError::Request { method, url: shown_url(url), failure }
}

fn redirect_target(from: &Url, headers: &HeaderMap) -> Result<Url, RegistryError> {
    let refused = |reason: &str| RegistryError::Redirect { url: shown_url(from), reason: reason.to_owned() };
    let location = headers.get(LOCATION).ok_or_else(|| refused("it has no Location"))?;
    let location = location.to_str().map_err(|_| refused("its Location is not ASCII"))?;
    if location.len() > LOCATION_BYTES {
        return Err(refused("its Location is too long"));
    }
    join(from, location).map_err(|reason| refused(&reason))
}

/// Resolves a `Location`, absolute or relative, without credentials.
pub(super) fn join(from: &Url, location: &str) -> Result<Url, String> {
    let mut url = from.join(location).map_err(|error| format!("its Location is not a URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(format!(
            "its Location has the scheme {}",
            base::quote::quote(&shown_text(url.scheme(), 20))
        ));
    }
    // Both have a host, and so neither fails.
    let _ = (url.set_username(""), url.set_password(None));
    url.set_fragment(None);
    Ok(url)
}

/// `SCHEME://HOST:PORT`.
pub(super) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Returns true for `localhost` and loopback addresses.
pub(super) fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => {
            // The metadata service of one cloud has a unique local address besides.
            let is_metadata = address.segments() == [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254];
            let mapped = address.to_ipv4_mapped().is_some_and(|address| address.is_link_local());
            address.is_unicast_link_local() || is_metadata || mapped
        }
    }
}

/// Resolves names with the system's resolver, without link-local addresses.
struct Resolver {
    configured: Arc<BTreeSet<String>>,
}

#[derive(Debug, thiserror::Error)]
#[error("lookup {host}: {detail}")]
struct LookupError {
    host: String,
    detail: String,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        let is_configured = self.configured.contains(&host);
        Box::pin(async move {
            let failed = |detail: String| LookupError { host: host.clone(), detail };
            let found = tokio::net::lookup_host((host.as_str(), 0)).await;
            let found = found.map_err(|error| failed(lookup_words(&error)))?;
            let (refused, usable): (Vec<SocketAddr>, Vec<SocketAddr>) =
                found.partition(|address| is_link_local(address.ip()) && !is_configured);
            if usable.is_empty() {
                let reason = if refused.is_empty() { "no such host" } else { LINK_LOCAL };
                return Err(failed(reason.to_owned()).into());
            }
            let addresses: Addrs = Box::new(usable.into_iter());
            Ok(addresses)
        })
    }
}

/// Go's words for a failed lookup.
fn lookup_words(error: &io::Error) -> String {
    let text = error.to_string();
    let reason = text.rsplit("failed to lookup address information: ").next().unwrap_or(&text);
    if reason.contains("Name or service not known") || reason.contains("No address associated") {
        "no such host".into()
    } else {
        reason.to_owned()
    }
}

/// Finds the reason below the errors of several libraries.
fn classify(url: &Url, error: &reqwest::Error, connect_timeout: Duration) -> RequestFailure {
    let port = url.port_or_known_default().unwrap_or_default();
    let address = format!("{}:{port}", url.host_str().unwrap_or_default());
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    let mut last = error.to_string();
    let mut is_tunnel = false;
    while let Some(current) = cause {
        last = current.to_string();
        if let Some(lookup) = current.downcast_ref::<LookupError>() {
            return RequestFailure::Lookup { host: lookup.host.clone(), detail: lookup.detail.clone() };
        }
        is_tunnel |= last.starts_with("tunnel error") || last.contains("proxy authorization");
        if let Some(io) = current.downcast_ref::<io::Error>() {
            let io = innermost(io);
            match io.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
                Some(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)) => {
                    return RequestFailure::PlainHttp;
                }
                Some(_) => return RequestFailure::Tls(tls_error(io)),
                None => {}
            }
            if error.is_connect() && io.kind() != io::ErrorKind::TimedOut && io.raw_os_error().is_some() {
                let detail = base::dial_error::dial_error(io);
                return match proxy_of(url) {
                    Some(proxy) => RequestFailure::Proxy(format!("dial tcp {proxy}: {detail}")),
                    None => RequestFailure::Dial { address, detail },
                };
            }
        }
        cause = current.source();
    }
    let last = shown_text(&last, 200);
    if is_tunnel {
        RequestFailure::Proxy(last)
    } else if error.is_timeout() {
        RequestFailure::Timeout(connect_timeout)
    } else {
        RequestFailure::Broken(last)
    }
}

/// The error inside errors that libraries wrap into their own.
fn innermost(error: &io::Error) -> &io::Error {
    let mut error = error;
    while let Some(inner) = error.get_ref().and_then(|inner| inner.downcast_ref::<io::Error>()) {
        error = inner;
    }
    error
}

/// The proxy that the environment has for a URL, without credentials.
fn proxy_of(url: &Url) -> Option<String> {
    if is_loopback(url.host_str()?) {
        return None;
    }
    let destination: http::Uri = url.as_str().parse().ok()?;
    let proxy = hyper_util::client::proxy::matcher::Matcher::from_env().intercept(&destination)?;
    let port = proxy.uri().port_u16().map_or(String::new(), |port| format!(":{port}"));
    Some(format!("{}{port}", proxy.uri().host()?))
}

/// The registry's words in the body of an error: the JSON of the protocol, or a line of text.
fn error_words(body: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Errors {
        errors: Vec<ErrorEntry>,
    }
    #[derive(serde::Deserialize)]
    #[serde(default)]
    #[derive(Default)]
    struct ErrorEntry {
        code: String,
        message: String,
    }
    /// Token servers answer like this.
    #[derive(serde::Deserialize)]
    struct Details {
        #[serde(alias = "message", alias = "error_description", alias = "error")]
        details: String,
    }
    let words = if let Ok(Errors { errors }) = serde_json::from_slice(body) {
        let words = errors.iter().take(3).map(|error| match (error.code.as_str(), error.message.as_str()) {
            ("", message) => message.to_owned(),
            (code, "") => code.to_owned(),
            (code, message) => format!("{code}: {message}"),
        });
        words.collect::<Vec<_>>().join("; ")
    } else if let Ok(Details { details }) = serde_json::from_slice(body) {
        details
    } else {
        let text = String::from_utf8_lossy(body);
        let begin = text.trim_start();
        if begin.starts_with(['{', '[']) || body.contains(&0) {
            String::new()
        } else if begin.starts_with('<') {
            "(an HTML page)".to_owned()
        } else {
            text.lines().next().unwrap_or_default().to_owned()
        }
    };
    shown_text(&words, 300)
}

/// The offset at which a partial answer begins: of `bytes 100-199/200`.
pub(super) fn range_begin(headers: &HeaderMap) -> Option<u64> {
    let range = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    range.strip_prefix("bytes ")?.split('-').next()?.trim().parse().ok()
}

/// A header as text; empty if it is absent or not ASCII.
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
