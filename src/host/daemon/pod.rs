//! A pod's sandbox: its files, host name and IPC namespaces, and, when its containers share processes, their
//! init.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use jiff::Timestamp;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use super::container::Container;
use super::init::{Init, open_namespace};
use super::network::Network;
use super::user_namespace::{NamespaceMaker, PodUsers};
use super::{Host, memory_volumes, os, sysctls, terminals};
use crate::id_ranges::lock_id_range;
use crate::journal::{self, Entry, JournaledPod};
use crate::{IdRange, SandboxRecord, SandboxSpec};
use base::removal::remove_tree;

/// One pod of the node.
pub(super) struct Pod {
    pub(super) spec: SandboxSpec,
    pub(super) created_at: Timestamp,
    pub(super) ready: Cell<bool>,
    /// The directory of its files for containers: in memory if there are namespaces, else beside its volumes.
    pub(super) private: PathBuf,
    pub(super) containers: RefCell<Vec<Rc<Container>>>,
    /// The names and attempts of containers that are being created and are not among these yet.
    pub(super) launching: RefCell<BTreeSet<(String, u32)>>,
    /// Host name, IPC and network namespaces; none without namespaces, or for a dead sandbox.
    pub(super) namespaces: RefCell<Vec<(OwnedFd, LinkNameSpaceType)>>,
    /// Its user namespace, which owns these; none for a pod with the machine's users, or for a dead sandbox.
    pub(super) users: RefCell<Option<PodUsers>>,
    /// Keeps the ids of this namespace from pods of other clusters.
    id_lock: RefCell<Option<fs::File>>,
    /// The init process of a pod with a shared PID namespace.
    pub(super) init: RefCell<Option<Init>>,
}

impl Pod {
    /// Returns the directory of the pod's own terminals; `None` for a container that sees the machine's (`of_machine`).
    pub(super) fn terminals(&self, of_machine: bool) -> Option<PathBuf> {
        terminals::own(&self.private).filter(|_| !of_machine)
    }

    pub(super) fn create(host: &Host, spec: SandboxSpec) -> io::Result<Self> {
        if spec.users.is_some() {
            host.isolation.pod_users.clone().map_err(io::Error::other)?;
        }
        let id_lock = spec.users.map(lock_id_range).transpose()?;
        let mut users = None;
        let namespaces = if let Some(ids) = spec.users {
            let (made, of_pod) = namespaces_of_users(&spec, ids, host.network.as_ref())?;
            users = Some(of_pod);
            made
        } else {
            let mut namespaces =
                if host.isolation.namespaces { Host::make_namespaces(&spec)? } else { Vec::new() };
            if let Some(network) = &host.network {
                let leaf = network.leaf_of(&spec).map_err(io::Error::other)?;
                namespaces.extend(leaf.map(|leaf| (leaf, LinkNameSpaceType::Network)));
            }
            namespaces
        };
        // After everything that may be refused: a pod without a sandbox leaves no mount.
        let private = host.private(&spec.pod_uid);
        write_files(&private, &spec)?;
        if host.isolation.namespaces {
            memory_volumes::mount_shared_memory(&private)?;
            terminals::mount_own(&private, spec.users)?;
            memory_volumes::mount_all(&private, &spec.memory_volumes)?;
        }
        let init = if host.isolation.namespaces && spec.share_process_namespace && !spec.host.pid {
            let init = host.make_init(&namespaces, users.as_ref(), true)?;
            mount_shared_proc(host, &init, &private).inspect_err(|_| os::signal(init.pid, libc::SIGKILL))?;
            Some(init)
        } else {
            None
        };
        Ok(Self {
            spec,
            created_at: super::now(),
            ready: Cell::new(true),
            private,
            containers: RefCell::default(),
            launching: RefCell::default(),
            namespaces: RefCell::new(namespaces),
            users: RefCell::new(users),
            id_lock: RefCell::new(id_lock),
            init: RefCell::new(init),
        })
    }

    /// Creates the pod of an earlier host: a dead sandbox with ended containers.
    pub(super) fn dead(journaled: JournaledPod, private: PathBuf, host_dir: &Path) -> Self {
        let uid = &journaled.spec.pod_uid;
        let containers = journaled.containers.into_iter();
        let containers =
            containers.map(|journaled| Rc::new(Container::dead(uid, journaled, &private, host_dir)));
        Self {
            containers: RefCell::new(containers.collect()),
            launching: RefCell::default(),
            spec: journaled.spec,
            created_at: journaled.created_at,
            ready: Cell::new(false),
            private,
            namespaces: RefCell::default(),
            users: RefCell::default(),
            id_lock: RefCell::default(),
            init: RefCell::new(None),
        }
    }

    /// Returns the pod's complete journal entry.
    pub(super) fn entry(&self) -> Entry<'_> {
        Entry::Sandbox { spec: Cow::Borrowed(&self.spec), created_at: self.created_at }
    }

    /// Waits until followers of the containers' logs have had time to open files that are only just there: the first
    /// lines of a container may also be its last.
    pub(super) async fn wait_for_log_readers(&self) {
        let at = self.containers.borrow().iter().filter_map(|c| c.streams.log_may_be_removed_at()).max();
        if let Some(at) = at {
            tokio::time::sleep_until(at).await;
        }
    }

    /// Removes the files of the pod and of its containers.
    pub(super) fn remove_files(&self, host: &Host) -> io::Result<()> {
        for container in self.containers.borrow().iter() {
            container.remove_files()?;
        }
        if host.isolation.namespaces {
            memory_volumes::unmount_all(&self.private, &self.spec.memory_volumes)?;
            terminals::unmount_own(&self.private)?;
            if self.spec.share_process_namespace {
                unmount_shared_proc(&self.private)?;
            }
        }
        remove_tree(&self.private)?;
        remove_tree(&journal::pod_dir(&host.dir, &self.spec.pod_uid))
    }

    pub(super) fn record(&self) -> SandboxRecord {
        let containers = self.containers.borrow();
        let shown = containers.iter().filter(|container| !container.starting.get());
        SandboxRecord {
            spec: self.spec.clone(),
            created_at: self.created_at,
            ready: self.ready.get(),
            containers: shown.map(|container| container.record.borrow().clone()).collect(),
        }
    }

    /// Writes the hosts file in place: containers have the file itself mounted. It is at no moment shorter than the
    /// common prefix of both texts, which is everything but the services.
    pub(super) fn write_hosts(&self, text: &str) -> io::Result<()> {
        let mut file = fs::File::options().write(true).open(self.private.join("hosts"))?;
        file.write_all(text.as_bytes())?;
        file.set_len(text.len() as u64)
    }

    /// Kills every process of the pod and waits until all have exited.
    pub(super) async fn stop(&self, host: &Host) {
        let was_ready = self.ready.replace(false);
        let containers = self.containers.borrow().clone();
        let ran = was_ready || containers.iter().any(|container| container.is_running());
        for container in &containers {
            container.kill();
        }
        for container in &containers {
            container.wait_exited().await;
        }
        let init = self.init.borrow_mut().take();
        if let Some(init) = init {
            os::signal(init.pid, libc::SIGKILL);
            // The kernel reports the end of pid 1 only after every process in its namespace has exited.
            let _ = init.end.await;
        }
        // An ended pod may stay for long, and would occupy descriptors of this process.
        self.namespaces.take();
        self.users.take();
        self.id_lock.take();
        host.cgroups.remove_pod(&self.spec.pod_uid);
        if ran {
            host.pod_changed(&self.spec.pod_uid);
        }
    }
}

/// The directory of the /proc of a shared PID namespace, below the pod's private directory. A container's start mounts it
/// from there: to mount another, it would have to be in the namespace with rights over the machine.
pub(super) const SHARED_PROC: &str = "proc";

fn mount_shared_proc(host: &Host, init: &Init, private: &Path) -> io::Result<()> {
    // A sandbox that is created again has another PID namespace.
    unmount_shared_proc(private)?;
    let place = private.join(SHARED_PROC);
    fs::create_dir_all(&place)?;
    host.mount_proc(&init.namespace, &place)
}

fn unmount_shared_proc(private: &Path) -> io::Result<()> {
    match unmount(private.join(SHARED_PROC), UnmountFlags::DETACH) {
        // It was not mounted, or has no directory.
        Err(Errno::INVAL | Errno::NOENT) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Writes the files that all containers of the pod see: names, resolvers, and shared memory.
fn write_files(private: &Path, spec: &SandboxSpec) -> io::Result<()> {
    let shared_memory = private.join("shm");
    fs::create_dir_all(&shared_memory)?;
    fs::set_permissions(&shared_memory, fs::Permissions::from_mode(0o1777))?;
    for (name, text) in [("resolv.conf", &spec.resolv_conf), ("hosts", &spec.hosts)] {
        if let Some(text) = text {
            fs::write(private.join(name), text)?;
        }
    }
    fs::write(private.join("hostname"), format!("{}\n", spec.hostname))
}

/// Creates the namespaces of a pod with a user namespace of its own, which owns all of them.
fn namespaces_of_users(
    spec: &SandboxSpec,
    ids: IdRange,
    network: Option<&Network>,
) -> io::Result<(Vec<(OwnedFd, LinkNameSpaceType)>, PodUsers)> {
    let mut kinds = vec![
        ("uts", LinkNameSpaceType::HostNameAndNISDomainName, UnshareFlags::NEWUTS),
        ("ipc", LinkNameSpaceType::InterProcessCommunication, UnshareFlags::NEWIPC),
    ];
    if network.is_some() {
        kinds.push(("net", LinkNameSpaceType::Network, UnshareFlags::NEWNET));
    }
    let flags = kinds.iter().fold(UnshareFlags::empty(), |all, (.., flag)| all | *flag);
    let maker = NamespaceMaker::start(
        ids,
        || {
            os::unshare(flags)?;
            rustix::system::sethostname(spec.hostname.as_bytes())?;
            sysctls::set(sysctls::of_ipc(&spec.sysctls))
        },
        // By root of the pod: the kernel reads ids in settings of a network as the writer's.
        || {
            if network.is_some() {
                sysctls::set(sysctls::of_pod_network(&spec.sysctls).iter())
            } else {
                Ok(())
            }
        },
    )?;
    let users = maker.users();
    let mut namespaces = Vec::new();
    for (name, kind, _) in kinds {
        namespaces.push((maker.namespace(name)?, kind));
    }
    let own = namespaces.iter().find(|(_, kind)| *kind == LinkNameSpaceType::Network);
    if let (Some(network), Some((leaf, _))) = (network, own) {
        network.join_leaf(spec, leaf).map_err(io::Error::other)?;
    }
    maker.finish()?;
    Ok((namespaces, users))
}

impl Host {
    /// Creates the pod's namespaces: this process enters new ones for a moment and retains descriptors of them.
    fn make_namespaces(spec: &SandboxSpec) -> io::Result<Vec<(OwnedFd, LinkNameSpaceType)>> {
        let own = rustix::process::getpid();
        let mut kinds = vec![("uts", LinkNameSpaceType::HostNameAndNISDomainName, UnshareFlags::NEWUTS)];
        if !spec.host.ipc {
            kinds.push(("ipc", LinkNameSpaceType::InterProcessCommunication, UnshareFlags::NEWIPC));
        }
        let here = || kinds.iter().map(|(name, kind, ..)| Ok((open_namespace(own, name)?, *kind)));
        let before = here().collect::<io::Result<Vec<_>>>()?;
        os::unshare(kinds.iter().fold(UnshareFlags::empty(), |all, (.., flag)| all | *flag))?;
        let named = rustix::system::sethostname(spec.hostname.as_bytes());
        let set = if spec.host.ipc { Ok(()) } else { sysctls::set(sysctls::of_ipc(&spec.sysctls)) };
        let made = here().collect();
        for (namespace, kind) in before {
            rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(kind))?;
        }
        named?;
        set?;
        made
    }
}
