//! A pod's sandbox: its files, host name and IPC namespaces, and, when its containers share processes, their
//! init.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use jiff::Timestamp;
use rustix::process::Pid;
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use super::child;
use super::container::Container;
use super::{Host, memory_volumes, os, pause};
use crate::host::journal::{self, Entry, JournaledPod};
use crate::host::{SandboxRecord, SandboxSpec};

/// One pod of the node.
pub(super) struct Pod {
    pub(super) spec: SandboxSpec,
    pub(super) created_at: Timestamp,
    pub(super) ready: Cell<bool>,
    /// Where its files for containers lie: in memory where there are namespaces, else beside its volumes.
    pub(super) private: PathBuf,
    pub(super) containers: RefCell<Vec<Rc<Container>>>,
    /// Host name and IPC namespaces; none without namespaces, or when the sandbox is a dead one.
    pub(super) namespaces: RefCell<Vec<(OwnedFd, LinkNameSpaceType)>>,
    /// The init of a pod whose containers share processes.
    pub(super) init: RefCell<Option<Init>>,
}

/// Pid 1 of a PID namespace.
pub(super) struct Init {
    pub(super) pid: Pid,
    pub(super) namespace: Rc<OwnedFd>,
    pub(super) end: tokio::sync::oneshot::Receiver<super::reaper::Ended>,
}

impl Pod {
    /// Makes the sandbox.
    pub(super) fn create(host: &Host, spec: SandboxSpec) -> io::Result<Self> {
        let private = host.private(&spec.pod_uid);
        write_files(&private, &spec)?;
        if host.isolation.namespaces {
            memory_volumes::mount_shared_memory(&private)?;
            memory_volumes::mount_all(&private, &spec.memory_volumes)?;
        }
        let namespaces = if host.isolation.namespaces { Host::make_namespaces(&spec)? } else { Vec::new() };
        let init = if host.isolation.namespaces && spec.share_process_namespace && !spec.host.pid {
            Some(host.make_init()?)
        } else {
            None
        };
        Ok(Self {
            spec,
            created_at: super::now(),
            ready: Cell::new(true),
            private,
            containers: RefCell::default(),
            namespaces: RefCell::new(namespaces),
            init: RefCell::new(init),
        })
    }

    /// What a host before this one left: a dead sandbox with ended containers.
    pub(super) fn dead(kept: JournaledPod, private: PathBuf, host_dir: &Path) -> Self {
        let uid = &kept.spec.pod_uid;
        let containers = kept.containers.into_iter();
        let containers = containers.map(|kept| Rc::new(Container::dead(uid, kept, &private, host_dir)));
        Self {
            containers: RefCell::new(containers.collect()),
            spec: kept.spec,
            created_at: kept.created_at,
            ready: Cell::new(false),
            private,
            namespaces: RefCell::default(),
            init: RefCell::new(None),
        }
    }

    /// All that is to be written down of it.
    pub(super) fn entry(&self) -> Entry<'_> {
        Entry::Sandbox { spec: Cow::Borrowed(&self.spec), created_at: self.created_at }
    }

    /// Removes what it and its containers have in files.
    pub(super) fn remove_files(&self, host: &Host) -> io::Result<()> {
        for container in self.containers.borrow().iter() {
            container.remove_files()?;
        }
        if host.isolation.namespaces {
            memory_volumes::unmount_all(&self.private, &self.spec.memory_volumes)?;
        }
        remove_directory(&self.private)?;
        remove_directory(&journal::pod_dir(&host.dir, &self.spec.pod_uid))
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

    /// Writes the hosts file in place: containers have the file itself mounted. It is never shorter for a moment
    /// than both texts have in common, which is all but the services.
    pub(super) fn write_hosts(&self, text: &str) -> io::Result<()> {
        let mut file = fs::File::options().write(true).open(self.private.join("hosts"))?;
        file.write_all(text.as_bytes())?;
        file.set_len(text.len() as u64)
    }

    /// Kills every process of the pod and waits until all are gone.
    pub(super) async fn stop(&self, host: &Host) {
        let was_ready = self.ready.replace(false);
        let containers = self.containers.borrow().clone();
        let ran = was_ready || containers.iter().any(|container| container.is_running());
        for container in &containers {
            container.kill();
        }
        for container in &containers {
            container.wait_gone().await;
        }
        let init = self.init.borrow_mut().take();
        if let Some(init) = init {
            os::signal(init.pid, libc::SIGKILL);
            // The kernel reports its end only after everything in its namespace is gone.
            let _ = init.end.await;
        }
        // Ended pods may be kept for long, and each would hold descriptors of this process.
        self.namespaces.take();
        host.cgroups.remove_pod(&self.spec.pod_uid);
        if ran {
            host.pod_changed(&self.spec.pod_uid);
        }
    }
}

/// What all containers of the pod see: names, resolvers, and shared memory.
fn write_files(private: &Path, spec: &SandboxSpec) -> io::Result<()> {
    let shared_memory = private.join("shm");
    fs::create_dir_all(&shared_memory)?;
    fs::set_permissions(&shared_memory, fs::Permissions::from_mode(0o1777))?;
    for (name, text) in [("resolv.conf", &spec.resolv_conf), ("hosts", &spec.hosts)] {
        if let Some(text) = text {
            fs::write(private.join(name), text)?;
        }
    }
    if !spec.host.network {
        fs::write(private.join("hostname"), format!("{}\n", spec.hostname))?;
    }
    Ok(())
}

impl Host {
    /// Namespaces are made by stepping into new ones for a moment and keeping a descriptor of them.
    fn make_namespaces(spec: &SandboxSpec) -> io::Result<Vec<(OwnedFd, LinkNameSpaceType)>> {
        let own = rustix::process::getpid();
        let kinds = [
            ("uts", LinkNameSpaceType::HostNameAndNISDomainName, UnshareFlags::NEWUTS, spec.host.network),
            ("ipc", LinkNameSpaceType::InterProcessCommunication, UnshareFlags::NEWIPC, spec.host.ipc),
        ];
        let kinds: Vec<_> = kinds.into_iter().filter(|(.., of_machine)| !of_machine).collect();
        let here = || kinds.iter().map(|(name, kind, ..)| Ok((child::open_namespace(own, name)?, *kind)));
        let before = here().collect::<io::Result<Vec<_>>>()?;
        os::unshare(kinds.iter().fold(UnshareFlags::empty(), |all, (_, _, flag, _)| all | *flag))?;
        let named =
            if spec.host.network { Ok(()) } else { rustix::system::sethostname(spec.hostname.as_bytes()) };
        let made = here().collect();
        for (namespace, kind) in before {
            rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(kind))?;
        }
        named?;
        made
    }

    /// Makes a PID namespace with its init.
    pub(super) fn make_init(&self) -> io::Result<Init> {
        let alive = self.alive.as_ref();
        let started = self.pause.as_ref().and_then(|program| pause::start(program, alive).ok());
        let pid = match started {
            Some(pid) => pid,
            None => match os::fork_init()? {
                os::Forked::Child => child::be_init(alive),
                os::Forked::Parent(pid) => pid,
            },
        };
        let end = self.reaper.expect(pid);
        Ok(Init { pid, namespace: Rc::new(child::open_namespace(pid, "pid")?), end })
    }

    /// Forks with the child in a PID namespace, or in the host's own.
    pub(super) fn fork_into(&self, namespace: Option<&OwnedFd>) -> io::Result<os::Forked> {
        let kind = Some(LinkNameSpaceType::ProcessID);
        let Some(namespace) = namespace else { return os::fork() };
        if let Some(own) = &self.own_pid_namespace {
            rustix::thread::move_into_link_name_space(namespace.as_fd(), kind)?;
            let forked = os::fork();
            if !matches!(forked, Ok(os::Forked::Child)) {
                // Children are born in the host's own PID namespace again.
                rustix::thread::move_into_link_name_space(own.as_fd(), kind)?;
            }
            return forked;
        }
        // In a user namespace there is no way back into the machine's PID namespace: a helper goes and
        // makes us a child from there.
        let (read, write) = super::wire::pipe()?;
        match os::fork()? {
            os::Forked::Child => {
                if rustix::thread::move_into_link_name_space(namespace.as_fd(), kind).is_err() {
                    os::exit_now(1);
                }
                match os::fork_sibling() {
                    Ok(os::Forked::Child) => Ok(os::Forked::Child),
                    Ok(os::Forked::Parent(pid)) => {
                        let number = pid.as_raw_nonzero().get().to_ne_bytes();
                        os::exit_now(i32::from(rustix::io::write(&write, &number).is_err()))
                    }
                    Err(_) => os::exit_now(1),
                }
            }
            os::Forked::Parent(_) => {
                drop(write);
                let mut number = [0; 4];
                // The sibling holds the pipe too, so this waits for the number or for both to be gone.
                let count = rustix::io::read(&read, &mut number)?;
                let pid = Pid::from_raw(i32::from_ne_bytes(number)).filter(|_| count == 4);
                pid.map(os::Forked::Parent).ok_or_else(|| io::Error::other("no process in its PID namespace"))
            }
        }
    }
}

/// Removes a directory with everything in it; layers leave directories behind that not even their owner
/// may list.
pub(super) fn remove_directory(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        result => return result,
    }
    let mut next = vec![path.to_path_buf()];
    while let Some(directory) = next.pop() {
        let _ = fs::set_permissions(&directory, fs::Permissions::from_mode(0o700));
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                next.push(entry.path());
            }
        }
    }
    fs::remove_dir_all(path)
}
