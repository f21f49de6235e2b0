//! The reverse proxy: serves HTTP at ports of the machine for Ingresses and Gateways.
//!
//! ```text
//! client ─► serve (limits, TLS) ─► forward (asks the port's Router, forwards) ─► upstream ─► endpoint
//! ```
//!
//! It knows neither Ingresses nor Gateways: the caller that opens a port brings a [`Router`], which routes each request
//! to a pool of a service's endpoints. All ports share the limits on connections and requests, and the connections to
//! endpoints. For both controllers, [`references`] follows the Services, Secrets and Nodes that their rules refer to.
//!
//! Architecture Invariant: this crate writes no objects, and it listens only at addresses that its callers open.

mod body;
pub mod certificates;
mod client;
mod forward;
pub mod header_edits;
mod headers;
mod host;
pub mod hosts;
pub mod options;
mod path;
pub mod pools;
pub mod references;
mod request_mirror;
pub mod serve;
mod upgrade;
mod upstream;
mod upstream_request;

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
use header_edits::HeaderEdits;
use object::Key;
use options::{Options, Protocol};
use pools::Pool;
use upstream::Upstreams;

pub use host::RequestHost;
pub use path::{RequestPath, escaped, prefixes};

/// Configuration of the proxy.
#[derive(Clone)]
pub struct ReverseProxyConfig {
    /// Maximum number of concurrent client connections, and of concurrent requests; each takes a file descriptor.
    /// Further connections wait, further requests are refused.
    pub connections: usize,
    /// The range of services' cluster IPs.
    pub services: Ipv4Net,
    /// The ranges of pods' addresses, one for each family, in a fabric network; empty in a loopback network.
    pub pods: Vec<IpNet>,
    /// Opens connections to endpoints.
    pub dialer: Dialer,
}

/// State shared by all ports.
pub struct ReverseProxy {
    config: ReverseProxyConfig,
    clock: Clock,
    /// The tasks of connections, which outlive the listener that accepted them.
    tasks: Tasks,
    upstreams: Arc<Upstreams>,
    connections: Arc<Semaphore>,
    requests: Arc<Semaphore>,
    /// The proxy's own listening addresses: a request forwarded to one of these would loop.
    own: RwLock<HashSet<SocketAddr>>,
}

impl ReverseProxy {
    /// Creates a proxy without ports; its connections end with `tasks`.
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

    /// Returns whether an address is one of the proxy's own ports.
    fn is_own(&self, address: SocketAddr) -> bool {
        let any: IpAddr =
            if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let own = self.own.read();
        own.contains(&address) || own.contains(&SocketAddr::new(any, address.port()))
    }

    /// Closes connections to endpoints that have been idle for a while.
    pub fn tidy(&self) {
        self.upstreams.tidy();
    }

    /// Returns tasks for a port, which end with the proxy's own.
    pub fn port_tasks(&self) -> Tasks {
        self.tasks.child()
    }

    /// Returns whether few connections are left.
    fn is_scarce(&self) -> bool {
        self.connections.available_permits() < self.config.connections / 4
    }
}

/// An open port, and the router for its requests.
pub struct Port {
    /// The proxy that the port belongs to.
    pub proxy: Arc<ReverseProxy>,
    /// The router for its requests.
    pub router: Arc<dyn Router>,
}

/// Routes the requests of a port.
pub trait Router: Send + Sync + 'static {
    /// Decides about a request without blocking.
    fn route(&self, head: &RequestHead<'_>) -> RouteDecision;
}

/// The parts of a request that routing depends on.
#[derive(Clone, Copy)]
pub struct RequestHead<'a> {
    /// The method.
    pub method: &'a Method,
    /// The target of the request line.
    pub uri: &'a Uri,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The host.
    pub host: &'a RequestHost,
    /// The path.
    pub path: &'a RequestPath,
    /// True if the connection uses TLS.
    pub is_tls: bool,
    /// The port that the client connected to.
    pub port: u16,
    /// The host that the client named in TLS (SNI).
    pub server_name: Option<&'a str>,
}

/// The decision about a request.
pub enum RouteDecision {
    /// Refuse it with this status.
    Refuse(StatusCode),
    /// Refuse it with this status and text.
    RefuseWithText(StatusCode, &'static str),
    /// Redirect the client to this location.
    Redirect(StatusCode, String),
    /// Forward it to an endpoint.
    Forward(Box<ForwardPlan>),
}

/// The plan for forwarding a request.
pub struct ForwardPlan {
    /// The object that the rule is from.
    pub rule: Key,
    /// The host that the endpoint gets.
    pub authority: String,
    /// The path and query that the endpoint gets.
    pub uri: String,
    /// The backend's endpoints; `None` if the backend does not exist.
    pub pool: Option<Pool>,
    /// The protocol, timeouts and limits.
    pub options: Arc<Options>,
    /// Modifications of the request's headers, applied in order.
    pub request_headers: Vec<Arc<HeaderEdits>>,
    /// Modifications of the response's headers, applied in order.
    pub response_headers: Vec<Arc<HeaderEdits>>,
    /// Backends that get a copy of the request.
    pub mirrors: Vec<(Pool, Protocol)>,
}
