//! Explains why a connection fails, by following its path step by step like an experienced administrator (NET-8).
//!
//! ```text
//!  objects ──► walk ──► Walk: name, port, endpoints, policies; the pods and connections to probe
//!  results of the probes ──► conclude ──► Report: listeners and connection as well, and the result
//! ```
//!
//! Architecture Invariant: nothing here does I/O. The caller collects objects as an API client with the user's
//! permissions, so that users do not learn anything that RBAC hides from them.

mod destination;
mod endpoints;
mod names;
mod policies;
mod report;
mod result;
mod services;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;

use object::Key;

pub use destination::{Destination, Port, UsageError};
pub use policies::{SelectingPolicies, meaning, selecting};
pub use report::{ConnectionResult, Finding, Report, State, WalkStep};
pub use walk::{Walk, outside_name, walk};

/// The connection to explain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionQuestion {
    /// The pod that opens the connection.
    pub source: Key,
    /// The destination.
    pub destination: Destination,
    /// The port; `None` means the only one.
    pub port: Option<Port>,
}

/// The state of the cluster, as far as the user may read it.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// All pods.
    pub pods: Vec<Pod>,
    /// All services.
    pub services: Vec<Service>,
    /// All EndpointSlices.
    pub slices: Vec<EndpointSlice>,
    /// All network policies.
    pub policies: Vec<NetworkPolicy>,
    /// All namespaces.
    pub namespaces: Vec<Namespace>,
    /// All nodes.
    pub nodes: Vec<Node>,
    /// Messages about objects that could not be read, with the reason.
    pub read_errors: Vec<String>,
    /// The kubelet's last message about a failed probe, by pod.
    pub probes: BTreeMap<Key, String>,
    /// Addresses that the machine's resolvers return for names outside the cluster; empty if the name does not exist.
    pub outside: BTreeMap<String, Vec<IpAddr>>,
    /// Search domains of the machine's resolv.conf.
    pub searches: Vec<String>,
    /// Pods are in a fabric network; otherwise they share the machine's network stack, and policies are not enforced.
    pub own_network: bool,
}

/// Results of probes on nodes.
#[derive(Clone, Debug, Default)]
pub struct ProbeResults {
    /// Listening addresses of pods' processes, for the connection's protocol; or the reason why they are unknown.
    pub listeners: BTreeMap<Key, Result<Vec<SocketAddr>, String>>,
    /// Results of test connections from the source's network.
    pub attempts: BTreeMap<SocketAddr, Outcome>,
}

/// The result of a test connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The connection was accepted.
    Connected,
    /// Refused, or reset at once.
    Refused,
    /// No response within the timeout.
    TimedOut,
    /// No route; with the kernel's error text.
    Unreachable(String),
    /// Not tried, with the reason.
    Untried(String),
}
