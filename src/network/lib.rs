//! The cluster's network: the service proxy, and the names that pods find services by.
//!
//! Pods, nodes and services have addresses in 127.0.0.0/8 and share the machine's network stack (NET-1). What
//! kube-proxy and CoreDNS are elsewhere are two servers in the control plane here: [`proxy`] listens at the
//! addresses of services, and at pods' ports of their node, and hands connections on, [`dns`] answers for the cluster's
//! domain. Both follow Services and EndpointSlices through the shared caches; what they decide is pure.
//!
//! Architecture Invariant: nothing here writes any object but Events, and nothing listens beyond loopback.

pub mod dns;
pub mod egress;
pub mod follow;
pub(crate) mod machine;
pub mod policy;
pub mod proxy;
pub mod rules;
