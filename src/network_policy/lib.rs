//! NetworkPolicy: decides which connections are allowed, as a model that `network::rules` writes into the kernel (NET-8).
//!
//! ```text
//!  NetworkPolicies ─┐                 ┌─► compile ─► Model: isolated pods, sets of addresses
//!  Pods ────────────┼─► PolicyInputs ─┤
//!  Namespaces ──────┘                 └─► explain ─► the policies that allow or refuse, in sentences
//!                     Index = PolicyInputs with indexes to find the pods that a change affects ─► Changes of the Model
//! ```
//!
//! The rules are those of the Kubernetes page "Network Policies" and of the fields' own documentation:
//!
//! - A pod is open in a direction unless a policy of its namespace selects it for that direction. Otherwise it is
//!   isolated: only connections that a rule of one of these policies allows are accepted. Both ends must allow a
//!   connection; replies need no rule.
//! - A pod cannot be isolated from itself, nor from the node that it runs on.
//! - Pods of the host's network have their node's address: selectors do not match them and policies do not isolate
//!   them. The same applies to pods that have ended or have no address.
//! - An `ipBlock` matches addresses, including those of pods. It is matched with the packet's address after a service's
//!   address has been replaced by an endpoint's.
//!
//! Architecture Invariant: nothing here does I/O, knows nftables or depends on the order of events: after any sequence
//! of changes, an [`Index`] has the [`Model`] that [`compile`] makes of the same [`PolicyInputs`].

mod changes;
mod explain;
mod index;
mod inputs;
mod model;
mod peers;
mod port_range;
mod ports;
mod ranges;
mod rule;
#[cfg(test)]
mod tests;

pub use changes::{Changes, SetChange};
pub use explain::{
    AddressError, ConnectionEnd, ConnectionQuery, Explanation, ImplicitAllow, RuleName, Ruling, explain,
};
pub use index::Index;
pub use inputs::PolicyInputs;
pub use model::{IsolatedPod, Isolation, Model, compile};
pub use peers::{Block, Member, Peers, SetId};
pub use port_range::{PortRange, Protocol};
pub use ports::Ports;
pub use ranges::Ranges;
pub use rule::{Direction, Policy};
