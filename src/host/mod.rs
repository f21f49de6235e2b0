//! The node host: the process that holds a node's containers (`podium node-host`), and what it speaks.
//!
//! `daemon` is the program. Everything else is what both it and the kubelet's client of it
//! (`kubelet::runtime::process`) know: the protocol with its messages, the journal, the places of files.
//!
//! Architecture Invariant: nothing here knows Kubernetes' API; what runs is told in full.

#[cfg(target_os = "linux")]
pub(crate) mod daemon;
mod descendants;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod image_users;
pub(crate) mod journal;
mod memory;
mod process_tree;
pub(crate) mod protocol;
mod record;
pub mod running;
mod socket;
mod spec;

#[cfg(target_os = "linux")]
pub use daemon::node_host_main;
pub(crate) use descendants::Descendants;
pub use image_users::containers_with_root;
pub use memory::Memory;
pub(crate) use record::after_all;
pub use record::{
    ContainerExit, ContainerRecord, ExecOutput, RuntimeError, SandboxRecord, Usage, UsageByPod,
};
pub(crate) use socket::reachable;
pub use spec::{
    ContainerId, ContainerSpec, DEFAULT_PATH, HostShares, MemoryVolume, Mount, PodUid, Program,
    ResourceLimits, SandboxSpec, Security,
};
