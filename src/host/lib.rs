//! The node host: the process that holds a node's containers (`podium node-host`), and its protocol.
//!
//! `daemon` is the program. Everything else is shared by it and the kubelet's client (`kubelet::runtime::process`): the
//! protocol with its messages, the journal, the paths of files.
//!
//! Architecture Invariant: nothing here knows Kubernetes' API; requests specify containers in full.

#[cfg(target_os = "linux")]
pub(crate) mod daemon;
mod descendants;
mod faults;
#[doc(hidden)] // for the programs in `fuzz/`; nothing of the product calls it
pub mod fuzz;
mod id_ranges;
mod image_users;
pub mod journal;
mod memory;
#[cfg(test)]
#[path = "../../tests/it/needs.rs"]
#[expect(
    dead_code,
    unused_macros,
    unused_imports,
    reason = "the library's tests need less of the machine than the others"
)]
mod needs;
mod process_tree;
#[expect(missing_docs, reason = "the names of messages and their fields say what they are")]
pub mod protocol;
mod record;
pub mod running_hosts;
pub mod seccomp;
mod spec;

#[cfg(target_os = "linux")]
pub use daemon::{accounts_of_system, bound_as_containers, namespaces_work, node_host_main};
pub use descendants::Descendants;
pub use faults::HostFaults;
pub use id_ranges::{id_ranges_of_pods, is_id_range_free};
pub use image_users::{ImageUsers, containers_of_image, pods_by_image};
pub use memory::Memory;
pub use record::after_all;
pub use record::{
    ContainerExit, ContainerRecord, ExecOutput, ProcessUser, RuntimeError, SandboxRecord, Usage, UsageByPod,
};
pub use spec::{
    ContainerId, ContainerSpec, DEFAULT_PATH, HostShares, IdRange, ImageFiles, MemoryVolume, Mount, PodUid,
    Program, ResourceLimits, SandboxSpec, Security,
};
