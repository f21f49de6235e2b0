//! The network inside a fabric: the kernel's rules for packets, and faults that break it on purpose.
//!
//! [`rules`] writes services, the decisions of NetworkPolicies ([`network_policy`]), the way to the egress ([`egress`]) and
//! faults into the kernel's packet filter. [`faults`] turns Fault objects into such rules.
//!
//! Architecture Invariant: this crate writes no objects but Events and the status of Faults. It needs a fabric: in a
//! loopback network, [`services::proxy`] serves services, policies are not enforced, and faults of the network are
//! refused.

pub mod faults;
pub mod rules;
