//! PID namespaces: their pid 1, and the creation of processes inside one.
//!
//! Pid 1 of every namespace that this process creates is [`pause`]. It dies with this process, and no program of a
//! container can prevent that, as it could prevent its own death by changing its user. The program of an image is pid 1
//! of a further namespace inside, so that it sees itself as in any other container runtime, and its end is the end of
//! all processes beside it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::process::Pid;
use rustix::thread::LinkNameSpaceType;

pub(super) use super::os::open_namespace;
use super::pause::PauseRequest;
use super::pipe_end::reported_pid;
use super::user_namespace::PodUsers;
use super::{Host, os, pause};

/// Pid 1 of a PID namespace.
pub(super) struct Init {
    pub(super) pid: Pid,
    pub(super) namespace: Rc<OwnedFd>,
    pub(super) end: tokio::sync::oneshot::Receiver<super::reaper::ProcessExit>,
}

impl Host {
    /// Creates a PID namespace of a pod, with its init. `joined` are the pod's namespaces, and `users` its user namespace.
    ///
    /// The pod's user namespace owns the PID namespace if `owned_by_pod`. That is impossible if an image's program is to be
    /// pid 1 of a further namespace inside: its creator would have to be in the pod's user namespace, and would then have
    /// no right to mount the machine's directories for the container any more.
    pub(super) fn make_init(
        &self,
        joined: &[(OwnedFd, LinkNameSpaceType)],
        users: Option<&PodUsers>,
        owned_by_pod: bool,
    ) -> io::Result<Init> {
        let Some(programs) = &self.programs else {
            return Err(io::Error::other("containers have no namespaces on this node"));
        };
        let pid = pause::start(&PauseRequest {
            program: &programs.pause,
            host: self.alive.as_ref(),
            directory: &self.dir,
            joined,
            users,
            owned_by_pod,
        })?;
        let end = self.reaper.expect(pid);
        Ok(Init { pid, namespace: Rc::new(open_namespace(pid, "pid")?), end })
    }

    /// Mounts the /proc of a PID namespace in this process's mounts. No program of a container may be in the namespace
    /// yet: it could control the process that mounts.
    pub(super) fn mount_proc(&self, namespace: &OwnedFd, place: &Path) -> io::Result<()> {
        let (read, write) = super::pipe_end::pipe()?;
        if let os::ForkResult::Child = self.fork_into(Some(namespace))? {
            let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
            let done = mount("proc", place, "proc", flags, None).map_or_else(Errno::raw_os_error, |()| 0);
            let sent = rustix::io::write(&write, &done.to_ne_bytes());
            os::exit_now(i32::from(sent.is_err()))
        }
        drop(write);
        let mut code = [0; 4];
        match rustix::io::read(&read, &mut code)? {
            4 if code == [0; 4] => Ok(()),
            4 => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(code))),
            _ => Err(io::Error::other("the helper process ended")),
        }
    }

    /// Forks with the child in a PID namespace, or in the host's own. No program of a container may be in the namespace
    /// yet (`inhabited`).
    pub(super) fn fork_into(&self, namespace: Option<&OwnedFd>) -> io::Result<os::ForkResult> {
        let kind = Some(LinkNameSpaceType::ProcessID);
        let Some(namespace) = namespace else { return os::fork() };
        if let Some(own) = &self.own_pid_namespace {
            rustix::thread::move_into_link_name_space(namespace.as_fd(), kind)?;
            let forked = os::fork();
            if !matches!(forked, Ok(os::ForkResult::Child)) {
                // Further children are created in the host's own PID namespace again.
                rustix::thread::move_into_link_name_space(own.as_fd(), kind)?;
            }
            return forked;
        }
        // In a user namespace this process could not return to the machine's PID namespace. So a helper process enters
        // the other PID namespace and creates the child as its sibling.
        let (read, write) = super::pipe_end::pipe()?;
        match os::fork()? {
            os::ForkResult::Child => {
                if rustix::thread::move_into_link_name_space(namespace.as_fd(), kind).is_err() {
                    os::exit_now(1);
                }
                match os::fork_sibling() {
                    Ok(os::ForkResult::Child) => Ok(os::ForkResult::Child),
                    Ok(os::ForkResult::Parent(pid)) => {
                        let number = pid.as_raw_nonzero().get().to_ne_bytes();
                        os::exit_now(i32::from(rustix::io::write(&write, &number).is_err()))
                    }
                    Err(_) => os::exit_now(1),
                }
            }
            os::ForkResult::Parent(_) => {
                drop(write);
                // The sibling holds the pipe too, so this waits for the number or for the exit of both.
                Ok(os::ForkResult::Parent(reported_pid(&read)?))
            }
        }
    }

    /// Forks with the child as pid 1 of a new PID namespace inside another one.
    pub(super) fn fork_first_inside(&self, outer: &OwnedFd) -> io::Result<os::ForkResult> {
        let (read, write) = super::pipe_end::pipe()?;
        match self.fork_into(Some(outer))? {
            // Only a process of the outer namespace may create one inside it.
            os::ForkResult::Child => match os::fork_init_sibling() {
                Ok(os::ForkResult::Child) => {
                    // The new process knows its number in its own namespaces only; /proc is still this process's.
                    let number = rustix::fs::readlink("/proc/self", Vec::new()).ok();
                    let number = number.and_then(|text| text.to_str().ok()?.parse::<i32>().ok());
                    let reported = number.is_some_and(|number| {
                        rustix::io::write(&write, &number.to_ne_bytes()).is_ok_and(|count| count == 4)
                    });
                    if reported { Ok(os::ForkResult::Child) } else { os::exit_now(1) }
                }
                Ok(os::ForkResult::Parent(_)) => os::exit_now(0),
                Err(_) => os::exit_now(1),
            },
            os::ForkResult::Parent(_) => {
                drop(write);
                Ok(os::ForkResult::Parent(reported_pid(&read)?))
            }
        }
    }
}
