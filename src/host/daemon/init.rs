//! PID namespaces: their pid 1, and the creation of processes inside one.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use rustix::process::Pid;
use rustix::thread::LinkNameSpaceType;

pub(super) use super::child::open_namespace;
use super::{Host, child, os, pause};

/// Pid 1 of a PID namespace.
pub(super) struct Init {
    pub(super) pid: Pid,
    pub(super) namespace: Rc<OwnedFd>,
    pub(super) end: tokio::sync::oneshot::Receiver<super::reaper::ProcessExit>,
}

impl Host {
    /// Creates a PID namespace with its init.
    pub(super) fn make_init(&self) -> io::Result<Init> {
        let alive = self.alive.as_ref();
        let started = self.pause.as_ref().and_then(|program| pause::start(program, alive).ok());
        let pid = match started {
            Some(pid) => pid,
            None => match os::fork_init()? {
                os::ForkResult::Child => child::be_init(alive),
                os::ForkResult::Parent(pid) => pid,
            },
        };
        let end = self.reaper.expect(pid);
        Ok(Init { pid, namespace: Rc::new(open_namespace(pid, "pid")?), end })
    }

    /// Forks with the child in a PID namespace, or in the host's own.
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
                let mut number = [0; 4];
                // The sibling holds the pipe too, so this waits for the number or for the exit of both.
                let count = rustix::io::read(&read, &mut number)?;
                let pid = Pid::from_raw(i32::from_ne_bytes(number)).filter(|_| count == 4);
                pid.map(os::ForkResult::Parent)
                    .ok_or_else(|| io::Error::other("cannot start the first process of the PID namespace"))
            }
        }
    }
}
