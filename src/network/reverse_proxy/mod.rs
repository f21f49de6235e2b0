//! The reverse proxy: what serves HTTP at ports of the machine for Ingresses and Gateways.
//!
//! ```text
//! client ─► serve (limits, TLS) ─► forward (asks the port's Judge, passes on) ─► upstream ─► endpoint
//! ```
//!
//! It knows no object of the API that says what is served: whoever opens a port brings a [`Judge`] that decides what
//! becomes of each request. Connections, requests under way and connections to endpoints are counted and kept for all
//! ports together.

mod body;
pub(crate) mod certificates;
mod client;
mod copies;
pub(crate) mod edits;
pub(crate) mod following;
mod forward;
mod headers;
mod host;
mod onward;
pub(crate) mod options;
mod path;
pub(crate) mod pools;
pub(crate) mod serve;
mod upgraded;
mod upstream;

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode, Uri};
use ipnet::{IpNet, Ipv4Net};
use parking_lot::RwLock;
use tokio::sync::Semaphore;

use base::clock::Clock;
use base::dial::Dialer;
use base::task::Tasks;
use edits::HeaderEdits;
use object::Key;
use options::{Options, Protocol};
use pools::Pool;
use upstream::Upstreams;

pub(crate) use host::{RequestHost, parent};
pub(crate) use path::{RequestPath, escaped};

/// How the proxy is set up.
#[derive(Clone)]
pub struct ReverseProxyConfig {
    /// Connections of clients at once, and requests under way; each takes a descriptor of this process. More
    /// connections wait, more requests are refused.
    pub connections: usize,
    /// Where services have their addresses.
    pub services: Ipv4Net,
    /// Where pods have theirs when these are of a network of their own, of each family.
    pub pods: Vec<IpNet>,
    /// Opens connections to endpoints.
    pub dialer: Dialer,
}

/// What all ports share.
pub struct ReverseProxy {
    config: ReverseProxyConfig,
    clock: Clock,
    /// Connections live here: longer than the listener they came through.
    tasks: Tasks,
    upstreams: Arc<Upstreams>,
    connections: Arc<Semaphore>,
    requests: Arc<Semaphore>,
    /// Where it listens: passed on to itself a request would go round.
    own: RwLock<HashSet<SocketAddr>>,
}

impl ReverseProxy {
    /// A proxy that serves nothing yet; its connections end with `tasks`.
    #[must_use]
    pub fn new(clock: Clock, tasks: &Tasks, config: ReverseProxyConfig) -> Arc<Self> {
        Arc::new(Self {
            clock,
            tasks: tasks.clone(),
            upstreams: Upstreams::new(config.dialer.clone(), tasks),
            connections: Arc::new(Semaphore::new(config.connections)),
            requests: Arc::new(Semaphore::new(config.connections)),
            own: RwLock::default(),
            config,
        })
    }

    /// Whether this is one of its own ports.
    fn is_own(&self, address: SocketAddr) -> bool {
        let any: IpAddr =
            if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let own = self.own.read();
        own.contains(&address) || own.contains(&SocketAddr::new(any, address.port()))
    }

    /// Closes the connections to endpoints that nobody has used for a while.
    pub(crate) fn tidy(&self) {
        self.upstreams.tidy();
    }

    /// Tasks of a port: they end with the proxy's own.
    pub(crate) fn port_tasks(&self) -> Tasks {
        self.tasks.child()
    }

    /// Whether few connections are left.
    fn is_scarce(&self) -> bool {
        self.connections.available_permits() < self.config.connections / 4
    }
}

/// An open port: who serves at it, and who judges what comes.
pub(crate) struct Port {
    pub(crate) proxy: Arc<ReverseProxy>,
    pub(crate) judge: Arc<dyn Judge>,
}

/// Decides what becomes of the requests at a port.
pub(crate) trait Judge: Send + Sync + 'static {
    /// What becomes of a request; never waits.
    fn judge(&self, asked: &Asked<'_>) -> Verdict;
}

/// A request as it is judged.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a Method,
    pub(crate) uri: &'a Uri,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) host: &'a RequestHost,
    pub(crate) path: &'a RequestPath,
    /// Whether it came through TLS.
    pub(crate) is_tls: bool,
    /// The port it came to.
    pub(crate) port: u16,
    /// The host that TLS was begun for.
    pub(crate) server_name: Option<&'a str>,
}

/// What becomes of a request.
pub(crate) enum Verdict {
    /// It is refused.
    Refuse(StatusCode),
    /// It is refused in these words.
    Say(StatusCode, &'static str),
    /// Its client is sent elsewhere.
    Redirect(StatusCode, String),
    /// An endpoint answers it.
    PassOn(Box<Passage>),
}

/// How a request is passed on.
pub(crate) struct Passage {
    /// The object that says so.
    pub(crate) rule: Key,
    /// The host as the endpoint is told it.
    pub(crate) authority: String,
    /// The path and query that it is asked for.
    pub(crate) uri: String,
    /// Whom it goes to; none = nobody is there.
    pub(crate) pool: Option<Pool>,
    pub(crate) options: Arc<Options>,
    /// What is changed of the request's headers, one after the other.
    pub(crate) request_headers: Vec<Arc<HeaderEdits>>,
    /// The same of the answer's.
    pub(crate) response_headers: Vec<Arc<HeaderEdits>>,
    /// Who gets a copy of it.
    pub(crate) mirrors: Vec<(Pool, Protocol)>,
}
