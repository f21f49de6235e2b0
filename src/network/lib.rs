//! The cluster's network: service proxy, cluster DNS, egress, network policies, Ingress and Gateway API.
//!
//! In a fabric network, [`rules`] writes services and policies into the kernel's packet filter, [`egress`] relays pods'
//! connections to the outside, and [`services::proxy`] listens at the mirrors (NET-7) for programs outside the fabric. In a
//! loopback network, pods, nodes and services have addresses in 127.0.0.0/8 (NET-1), and [`services::proxy`] listens at the
//! addresses of services, and at the ports that pods have on their node, and relays connections. In both, [`dns`]
//! answers for the cluster's domain. [`ingress`] is an ingress controller and [`gateway`] a controller of the Gateway
//! API: one [`reverse_proxy`] serves their Ingresses and HTTPRoutes at ports of the machine. All of them follow
//! Services and EndpointSlices through the shared caches; their decisions are pure functions.
//!
//! [`faults`] breaks the network on purpose.
//!
//! Architecture Invariant: this crate writes no objects but Events, the status of what it serves, the status of Faults,
//! and one GatewayClass; and it listens beyond loopback only if the user who starts the cluster says so.

pub mod faults;
pub mod rules;
