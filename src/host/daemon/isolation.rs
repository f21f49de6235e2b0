//! Finds out whether containers get namespaces here: tried once at the host's start, not guessed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::WaitOptions;
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use super::cgroup::Cgroups;
use super::os;
use super::rootfs::user_namespaces_work;
use base::removal::remove_tree;
use base::sort::CollectMap;
use base::subordinate_ids::keeps_owners;

/// The isolation of containers.
#[derive(Clone, Debug)]
pub(super) struct Isolation {
    /// Containers get PID, mount, host name and IPC namespaces.
    pub(super) namespaces: bool,
    /// This process may leave its namespaces and enter them again, because it is root and root owns them.
    pub(super) can_return: bool,
    /// The reason why pods cannot have user namespaces of their own, if they cannot.
    pub(super) pod_users: Result<(), String>,
    /// The isolation in the form of the Node's annotations.
    pub(super) facts: BTreeMap<String, String>,
}

impl Isolation {
    /// Tries in a child if containers can get namespaces, and enters a user namespace if that is necessary for it.
    /// `inside` means that this process is already in a user namespace with all rights.
    pub(super) fn choose(no_namespaces: bool, inside: bool, cgroups: &Cgroups) -> Self {
        let root = rustix::process::geteuid().is_root();
        let can_return = root && may_come_back();
        let user = if root || inside { User::Privileged } else { User::NeedsNamespace };
        let namespaces = !no_namespaces && works(user) && (can_return || enter_own_namespaces(user).is_ok());
        let kinds = if namespaces { "pid,mount,uts,ipc" } else { "none" };
        let how = match (namespaces, can_return) {
            (true, true) => "namespaces",
            (true, false) => "user-namespace",
            (false, _) => "processes",
        };
        let facts = [
            ("podium.dev/isolation", how.to_owned()),
            ("podium.dev/namespaces", kinds.to_owned()),
            ("podium.dev/limits", cgroups.facts()),
            // The users that programs of containers can become, and can give files to.
            ("podium.dev/users", if keeps_owners() { "all" } else { "one" }.to_owned()),
            // The files that containers of built-in images see.
            ("podium.dev/files", if namespaces { "image" } else { "machine" }.to_owned()),
        ];
        let facts = facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect_map();
        let pod_users = Err("containers have no namespaces on this node".to_owned());
        let mut chosen = Self { namespaces, can_return, pod_users, facts };
        chosen.record_pod_users();
        chosen
    }

    /// Tries whether pods can have user namespaces of their own, with files in these directories.
    pub(super) fn try_pod_users(&mut self, directories: &[&Path]) {
        if self.namespaces {
            let worked = user_namespaces_work(directories);
            self.pod_users = worked.map_err(|reason| {
                format!(
                    "pods cannot have user namespaces of their own (hostUsers: false) on this node: {reason}"
                )
            });
        }
        self.record_pod_users();
    }

    fn record_pod_users(&mut self) {
        let answer = if self.pod_users.is_ok() { "yes" } else { "no" };
        self.facts.insert("podium.dev/pod-users".to_owned(), answer.to_owned());
    }
}

/// The user namespace that this process needs to create namespaces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum User {
    /// None: the process has the rights, as root or in the user namespace that it is in.
    Privileged,
    /// The process needs a user namespace of its own.
    NeedsNamespace,
}

/// Returns true if containers can get namespaces in this process's user namespace, with all rights there; the process
/// must have one thread.
pub fn namespaces_work() -> bool {
    works(User::Privileged)
}

/// Performs in a child the steps of every container's start.
fn works(user: User) -> bool {
    match os::fork() {
        Ok(os::ForkResult::Child) => {
            let entered = user == User::Privileged || fabric::enter_user_namespace().is_ok();
            let flags =
                UnshareFlags::NEWPID | UnshareFlags::NEWNS | UnshareFlags::NEWUTS | UnshareFlags::NEWIPC;
            if !entered || os::unshare(flags).is_err() {
                os::exit_now(1);
            }
            // Only a process created in the new PID namespace may mount its /proc.
            match os::fork() {
                Ok(os::ForkResult::Child) => os::exit_now(i32::from(!mounts_work())),
                Ok(os::ForkResult::Parent(pid)) => os::exit_now(i32::from(!succeeded(pid))),
                Err(_) => os::exit_now(1),
            }
        }
        Ok(os::ForkResult::Parent(pid)) => succeeded(pid),
        Err(_) => false,
    }
}

fn mounts_work() -> bool {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).is_ok()
        && mount("proc", "/proc", "proc", MountFlags::empty(), None).is_ok()
        && mount("tmpfs", "/dev", "tmpfs", MountFlags::empty(), None).is_ok()
}

fn succeeded(pid: rustix::process::Pid) -> bool {
    let status = rustix::process::waitpid(Some(pid), WaitOptions::empty());
    matches!(status, Ok(Some((_, status))) if status.exit_status() == Some(0))
}

/// Returns true if root may return to this process's namespaces: not if it is root of a user namespace that does not
/// own them (`unshare --user --map-root-user`).
fn may_come_back() -> bool {
    let kinds = [
        ("uts", LinkNameSpaceType::HostNameAndNISDomainName),
        ("ipc", LinkNameSpaceType::InterProcessCommunication),
        ("pid", LinkNameSpaceType::ProcessID),
    ];
    kinds.into_iter().all(|(name, kind)| {
        let own = fs::File::open(format!("/proc/self/ns/{name}"));
        own.is_ok_and(|own| rustix::thread::move_into_link_name_space(own.as_fd(), Some(kind)).is_ok())
    })
}

/// Enters a user namespace, if this process needs one, and UTS and IPC namespaces that it owns: this process can only
/// return to namespaces that its user namespace owns.
fn enter_own_namespaces(user: User) -> std::io::Result<()> {
    if user == User::NeedsNamespace {
        fabric::enter_user_namespace()?;
    }
    os::unshare(UnshareFlags::NEWUTS | UnshareFlags::NEWIPC)
}

/// Mounts a file system in memory that only this host and its containers see, and that ends with them: a container's
/// start then needs no disk. If that is not possible, creates a plain directory.
pub(super) fn private_memory(place: &Path) -> io::Result<()> {
    let made = || {
        os::unshare(UnshareFlags::NEWNS)?;
        // Later mounts of the machine must still become visible; mounts made here must stay here.
        mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
        mount("tmpfs", place, "tmpfs", MountFlags::NOSUID, c"mode=700,size=20%")?;
        io::Result::Ok(())
    };
    remove_tree(place)?;
    fs::create_dir(place)?;
    if let Err(error) = made() {
        eprintln!("cannot mount tmpfs on {}: {error}; using the disk instead", place.display());
    }
    Ok(())
}
