//! Options of forwarding: the protocol, timeouts and limits.

use std::time::Duration;

/// Default of `connect_timeout`; the same as in ingress-nginx.
const CONNECT: Duration = Duration::from_secs(5);
/// Default of `read_timeout` and `send_timeout`; the same as in ingress-nginx.
const SILENCE: Duration = Duration::from_mins(1);
/// Upper limit of all timeouts, also of configured ones.
pub const MAX_TIMEOUT: Duration = Duration::from_hours(24);

/// The protocol spoken with endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// HTTP/1.1 without TLS.
    #[default]
    Http,
    /// HTTP/1.1 over TLS, with any certificate.
    Https,
    /// HTTP/2 without TLS.
    Grpc,
    /// HTTP/2 over TLS, with any certificate.
    Grpcs,
}

/// Options of forwarding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The protocol spoken with endpoints.
    pub protocol: Protocol,
    /// Maximum size of a request's body in bytes; `None` means unlimited.
    pub body_bytes: Option<u64>,
    /// Timeout for an endpoint to accept a connection.
    pub connect_timeout: Duration,
    /// Timeout between two chunks of a response.
    pub read_timeout: Duration,
    /// Timeout between two chunks of a request.
    pub send_timeout: Duration,
    /// Timeout from the request's head to the end of its response; `None` means unlimited.
    pub request_timeout: Option<Duration>,
    /// Timeout of each attempt at an endpoint; `None` means unlimited.
    pub backend_timeout: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            protocol: Protocol::Http,
            body_bytes: None,
            connect_timeout: CONNECT,
            read_timeout: SILENCE,
            send_timeout: SILENCE,
            request_timeout: None,
            backend_timeout: None,
        }
    }
}
