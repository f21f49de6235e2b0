//! NetworkPolicy, decided: who may talk to whom, as a model that somebody else writes into the kernel (NET-8).
//!
//! ```text
//!  NetworkPolicies ─┐             ┌─► compile ─► Model: isolated pods, sets of addresses
//!  Pods ────────────┼─► World ────┤
//!  Namespaces ──────┘             └─► explain ─► who allows or refuses, in sentences
//!                     Index = World with what finds quickly whom a change concerns ─► Changes of the Model
//! ```
//!
//! The rules are those of the Kubernetes page "Network Policies" and of the fields' own documentation:
//!
//! - A pod that no policy of its namespace selects for a direction is open in that direction. One that some do is
//!   isolated: only what a rule of any of them allows gets through. Both ends must agree to a connection; answers come back by themselves.
//! - A pod cannot be cut off from itself, nor from the node that it runs on.
//! - Pods of the host's network have their node's address: selectors do not find them and policies do not isolate them.
//!   The same goes for pods that have ended or have no address.
//! - An `ipBlock` means addresses, whoever has them, pods' too. What is judged is what the packet has once a service's address
//!   has been replaced by an endpoint's.
//!
//! Architecture Invariant: nothing here does I/O, knows nftables or any order of events: an [`Index`] after
//! whatever changes has the [`Model`] that [`compile`] makes of the same [`World`].

mod changes;
mod explain;
mod index;
mod model;
mod peers;
mod port_range;
mod ports;
mod ranges;
mod rule;
#[cfg(test)]
mod tests;
mod world;

pub use changes::{Changes, SetChange};
pub use explain::{Always, End, Explanation, NoAddress, Question, RuleName, Ruling, explain};
pub use index::Index;
pub use model::{IsolatedPod, Isolation, Model, compile};
pub use peers::{Block, Member, Peers, SetId};
pub use port_range::{PortRange, Protocol};
pub use ports::Ports;
pub use ranges::Ranges;
pub use rule::{Direction, Policy, Unsupported};
pub use world::World;
