//! A node's host process: the parent of all its containers (`podium node-host`).
//!
//! It outlives the control plane and records every exit that happens meanwhile. It has a single thread, so that forking
//! is sound, and it decides nothing: it starts, watches and kills on request, and when it dies all its processes die
//! with it.
//!
//! Architecture Invariant: nothing here blocks for longer than a system call on a local file takes, and nothing here
//! starts a thread.

mod account;
mod arguments;
mod builtin_programs;
mod capabilities;
mod cgroup;
mod child;
mod container;
mod container_mounts;
mod environment;
mod error;
mod exec;
mod faults;
mod gate;
mod inhabited;
mod init;
mod io;
mod isolation;
mod launch;
mod listeners;
mod log_writer;
mod memory_volumes;
mod mount_table;
mod network;
mod os;
mod outbox;
mod own_directories;
mod pause;
mod pipe_end;
mod pod;
mod polled_memory_limit;
mod program;
mod reaper;
mod resize;
mod rootfs;
mod seccomp;
mod server;
mod session;
mod signals;
mod spawn;
mod start;
mod subreaper;
mod sysctls;
mod system_files;
mod terminals;
mod unclaimed;
mod user;
mod user_namespace;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use rustix::process::Rlimit;
use tokio::sync::{Notify, watch};

use crate::journal::{self, Entry, Journal};
use crate::{ContainerId, PodUid, RuntimeError};
pub use capabilities::bound_as_containers;
use cgroup::Cgroups;
use container::Container;
use faults::Faults;
use isolation::Isolation;
pub use isolation::namespaces_work;
use mount_table::MountTable;
use network::Network;
use outbox::Outbox;
use pod::Pod;
use programs::pause::NamespacePrograms;
use reaper::Reaper;
use rootfs::MaskedDirectory;
pub use start::node_host_main;
use system_files::SystemFiles;
pub use system_files::accounts_of_system;

/// The interval at which memory limits are checked.
const SAMPLE_PERIOD: Duration = Duration::from_millis(200);

/// The host of one node.
struct Host {
    dir: PathBuf,
    /// The directory of private roots and pods' files, if there are namespaces.
    memory: Option<PathBuf>,
    /// A directory hidden from containers that have mounts of their own.
    hidden: Option<MaskedDirectory>,
    /// True if overlays take the containers' writes to the machine's files.
    overlays: bool,
    /// The machine's mounts.
    mount_table: RefCell<MountTable>,
    /// The present lower layer of built-in images' roots.
    system_files: RefCell<Option<Rc<SystemFiles>>>,
    /// The number of such layers so far.
    system_copies: Cell<u64>,
    isolation: Isolation,
    /// The node's network, if pods have networks of their own.
    network: Option<Network>,
    /// This binary, for programs inside it; stays valid after the file was replaced.
    own_program: OwnedFd,
    /// The programs beside containers in PID namespaces; none without namespaces.
    programs: Option<NamespacePrograms>,
    /// Readable once this process has died: children that were just created notice it by this.
    alive: Option<OwnedFd>,
    /// The host's PID namespace; `None` if the host could not enter it again, because it is in a user namespace.
    own_pid_namespace: Option<OwnedFd>,
    open_files_limit: Rlimit,
    cgroups: Cgroups,
    /// The maximum number of processes in a pod, if the kernel limits it.
    pod_pids_limit: Option<u64>,
    /// Injected faults.
    faults: Faults,
    /// Notified when a container with watched memory starts.
    watching: Notify,
    /// The prefix of all container ids of this host: identifies the remains of a dead host.
    id_prefix: String,
    reaper: Reaper,
    /// The record for the next host.
    journal: RefCell<Journal>,
    pods: RefCell<BTreeMap<PodUid, Rc<Pod>>>,
    /// The frames for each connected control plane.
    outboxes: RefCell<Vec<Rc<Outbox>>>,
    ended: watch::Sender<bool>,
    /// The number of connected control planes.
    claims: watch::Sender<usize>,
}

impl Host {
    fn pod(&self, uid: &PodUid) -> Option<Rc<Pod>> {
        self.pods.borrow().get(uid).cloned()
    }

    fn container(&self, id: &ContainerId) -> Result<Rc<Container>, RuntimeError> {
        let pods = self.pods.borrow();
        let find = |pod: &Rc<Pod>| pod.containers.borrow().iter().find(|known| known.id == *id).cloned();
        pods.values().find_map(find).ok_or_else(|| RuntimeError::NotFound(format!("container {}", id.0)))
    }

    /// The directory of a pod's files for containers.
    fn private(&self, pod: &PodUid) -> PathBuf {
        self.memory.as_ref().map_or_else(|| journal::pod_dir(&self.dir, pod), |memory| memory.join(pod))
    }

    /// Records an event. The event must already be in effect, so that a rewritten journal has it too.
    fn append_journal(&self, entry: &Entry<'_>) {
        if self.journal.borrow_mut().append(entry) {
            return;
        }
        let pods: Vec<Rc<Pod>> = self.pods.borrow().values().cloned().collect();
        match write_journal(&self.dir, &pods) {
            Ok(journal) => *self.journal.borrow_mut() = journal,
            // The next entry tries again.
            Err(error) => eprintln!("journal: {error}"),
        }
    }

    fn pod_changed(&self, uid: &PodUid) {
        self.outboxes.borrow().iter().for_each(|outbox| outbox.pod_changed(uid));
    }

    fn new_id(&self) -> ContainerId {
        let rest: [u128; 2] = rand::random();
        ContainerId(format!("{}{:032x}{:016x}", self.id_prefix, rest[0], rest[1] as u64))
    }

    async fn sample(self: Rc<Self>) {
        let mut ticks = tokio::time::interval(SAMPLE_PERIOD);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            // The count holds no reference to a pod during the wait, because a pod may be removed meanwhile.
            let watched = self.pods.borrow().values().filter(|pod| pod.watch_memory()).count();
            if watched == 0 {
                self.watching.notified().await;
            }
            ticks.tick().await;
        }
    }
}

/// Writes the state of these pods into a new journal.
fn write_journal(dir: &Path, pods: &[Rc<Pod>]) -> std::io::Result<Journal> {
    let containers: Vec<Rc<Container>> =
        pods.iter().flat_map(|pod| pod.containers.borrow().clone()).collect();
    let started = containers.iter().filter(|container| !container.starting.get());
    let entries = pods.iter().map(|pod| pod.entry()).chain(started.map(|container| container.entry()));
    Journal::write(dir, entries)
}

/// The wall clock. The host is a process of its own, beside the control plane and its clock.
#[expect(clippy::disallowed_methods, reason = "real processes live in real time")]
fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
