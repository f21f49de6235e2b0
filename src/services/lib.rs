//! Services joined with their EndpointSlices, and the proxy that serves them from this process.
//!
//! [`Follower`] is the joined view that everything below a Service's address starts from: the proxy here, the kernel's
//! rules (`network::rules`), the cluster's DNS and the reverse proxy of Ingresses and Gateways. [`proxy`] listens at the
//! addresses of services, and at the ports that pods have on their node, and relays connections: in a loopback network,
//! where pods, nodes and services have addresses in 127.0.0.0/8 (NET-1), for all clients; in a fabric network, at the
//! mirrors (NET-7), for programs outside the fabric. Its decisions are pure functions ([`proxy::table`],
//! [`proxy::balance`]).
//!
//! Architecture Invariant: this crate writes no objects but Events, and it listens only at loopback addresses and in the
//! networks of nodes.

mod change_follower;
pub mod proxy;
mod service_follower;
mod topology;

pub use change_follower::ChangeFollower;
pub use service_follower::{Follower, ServiceEndpoints};
pub use topology::{NetworkTopology, NodeFacts};
