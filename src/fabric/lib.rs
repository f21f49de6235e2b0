//! The pods' network: namespaces of their own, joined by a router, without root privileges.
//!
//! A cluster has one *fabric*: a network namespace that forwards. Each pod, each node and the control plane is a
//! *leaf*: a network namespace with one pair of links into the fabric, routed, without a bridge. Services, policies and
//! faults are nftables of the fabric. All of this is configured through netlink; no program of the machine is run.
//!
//! For an ordinary user the fabric lies in a user namespace. A process inside cannot leave it again, and a process with
//! several threads cannot enter it: [`fabric_main`] is the small process that is inside and hands out sockets
//! ([`Fabric`]), including those that configure the fabric. It outlives the control plane, and its namespaces outlive
//! it: the kernel retains a namespace for as long as any process has a descriptor of it, and the nodes' hosts have one.
//!
//! Architecture Invariant: nothing here knows of Kubernetes.

#![cfg(target_os = "linux")]

mod client;
pub mod conntrack;
mod daemon;
pub mod datagrams;
mod delay;
pub mod descriptors;
mod detour;
mod error;
mod foreign_processes;
mod leaf;
mod namespaces;
mod netlink;
pub mod nft;
pub mod preflight;
mod protocol;
mod router;
mod sockets;
mod sysctl;

pub use client::Fabric;
pub use daemon::fabric_main;
pub use delay::{Delay, DelayBox, DelayCounts};
pub use detour::{ABOUT as ABOUT_PACKET, DETOUR_LINK, DETOUR_MARK, DETOURS, SYN_DETOUR_SLOT};
pub use error::FabricError;
pub use leaf::{GATEWAY_V4, GATEWAY_V6, LeafSpec, RouterHandle};
pub use namespaces::{Namespaces, enter_network, enter_private_mounts, enter_user_namespace};
pub use protocol::{SocketKind, SocketSpec};
pub use router::{RouterConfig, set_up};
pub use sockets::{open_in, open_sockets};
pub use sysctl::has_ipv6;
