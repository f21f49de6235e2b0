//! The cluster's network: the service proxy, the names that pods find services by, and the way in from outside.
//!
//! Where pods have networks of their own, [`rules`] writes services and policies into the kernel and [`egress`] carries
//! connections to the outside. Where they share the machine's network stack, pods, nodes and services have addresses in 127.0.0.0/8
//! (NET-1), and [`proxy`] listens at the addresses of services, and at pods' ports of their node, and hands connections on. In both,
//! [`dns`] answers for the cluster's domain. [`ingress`] is what an ingress controller is elsewhere, [`gateway`] a controller of the Gateway API: what
//! Ingresses and HTTPRoutes say is served by one [`reverse_proxy`] at ports of the machine. All follow Services and EndpointSlices through the shared caches; what they decide is pure.
//!
//! [`faults`] breaks it on purpose.
//!
//! Architecture Invariant: nothing here writes any object but Events, the status of what is served and what became of Faults, and
//! nothing listens beyond loopback unless whoever starts the cluster says so.

pub mod dns;
pub mod egress;
pub mod faults;
pub mod follow;
pub mod gateway;
pub mod ingress;
pub(crate) mod machine;
pub mod policy;
pub mod proxy;
pub mod reverse_proxy;
pub mod rules;
pub(crate) mod share;
pub mod why;
