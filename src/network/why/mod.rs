//! Why a connection does not come about: the way that it takes, step by step, as somebody would walk it who knows it well
//! (NET-8).
//!
//! ```text
//!  objects ──► walk ──► Walk: name, port, endpoints, policies; whom to ask and what to try
//!  what was found there ──► conclude ──► Report: the listeners and the connection as well, and a verdict
//! ```
//!
//! Architecture Invariant: nothing here does I/O. Who collects gives objects as a client of the API reads them, so that
//! nobody learns what roles hide from him.

mod destination;
mod endpoints;
mod names;
mod policies;
mod report;
mod services;
#[cfg(test)]
mod tests;
mod verdict;
mod walk;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;

use object::Key;

pub use destination::{Destination, Misuse, Port};
pub use policies::{Selected, meaning, selecting};
pub use report::{Finding, Report, State, Step, Verdict};
pub use walk::{Walk, outside_name, walk};

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The pod that would open the connection.
    pub source: Key,
    /// Whom it would connect to.
    pub destination: Destination,
    /// At which port; none = the only one that there is.
    pub port: Option<Port>,
}

/// The cluster, as far as the asker may see it.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// All pods.
    pub pods: Vec<Pod>,
    /// All services.
    pub services: Vec<Service>,
    /// All slices of endpoints.
    pub slices: Vec<EndpointSlice>,
    /// All policies.
    pub policies: Vec<NetworkPolicy>,
    /// All namespaces.
    pub namespaces: Vec<Namespace>,
    /// All nodes.
    pub nodes: Vec<Node>,
    /// What the asker may not read, or what could not be read, and why.
    pub unseen: Vec<String>,
    /// What the kubelet has last said of a probe that failed, by pod.
    pub probes: BTreeMap<Key, String>,
    /// What the machine's resolvers say about names that are not the cluster's; nothing = there is no such name.
    pub outside: BTreeMap<String, Vec<IpAddr>>,
    /// Ends that the machine's resolv.conf adds to names.
    pub searches: Vec<String>,
    /// Whether pods have networks of their own; else they share the machine's, and policies are not enforced.
    pub own_network: bool,
}

/// What was found out by asking nodes.
#[derive(Clone, Debug, Default)]
pub struct Probed {
    /// Where processes of pods listen, for what is talked on this way; why it is not known.
    pub listeners: BTreeMap<Key, Result<Vec<SocketAddr>, String>>,
    /// What became of connections from the source's network.
    pub attempts: BTreeMap<SocketAddr, Outcome>,
}

/// What became of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It came about.
    Connected,
    /// Refused, or reset at once.
    Refused,
    /// Nothing came back in time.
    TimedOut,
    /// No way there, as the kernel words it.
    Unreachable(String),
    /// It was not tried, and why.
    Untried(String),
}
