//! How requests are passed on: the protocol, and how long everybody may take.

use std::time::Duration;

/// How long an endpoint may take to accept a connection; ingress-nginx's number.
const CONNECT: Duration = Duration::from_secs(5);
/// How long either side may say nothing while it is its turn; ingress-nginx's number.
const SILENCE: Duration = Duration::from_mins(1);
/// The longest that anything waits, however much is asked for.
pub(crate) const MOST: Duration = Duration::from_hours(24);

/// What is spoken with endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http,
    /// The same inside TLS, whoever signed the certificate.
    Https,
    /// HTTP/2 without TLS.
    Grpc,
    /// The same inside TLS.
    Grpcs,
}

/// How requests are passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) protocol: Protocol,
    /// How large a request's body may be, in bytes; none = as much as comes.
    pub(crate) body_bytes: Option<u64>,
    /// How long an endpoint may take to accept a connection.
    pub(crate) connect_timeout: Duration,
    /// Between two pieces of an answer.
    pub(crate) read_timeout: Duration,
    /// Between two pieces of a request.
    pub(crate) send_timeout: Duration,
    /// From the request's head to the end of its answer; none = without end.
    pub(crate) request_timeout: Option<Duration>,
    /// The same for one endpoint that is asked.
    pub(crate) backend_timeout: Option<Duration>,
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
