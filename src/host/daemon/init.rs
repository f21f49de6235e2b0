//! PID namespaces: their pid 1, and the creation of processes inside one.
//!
//! Pid 1 of every namespace that this process creates is `pause`. It dies with this process, and no program of a
//! container can prevent that, as it could prevent its own death by changing its user. The program of an image is pid 1
//! of a further namespace inside, so that it sees itself as in any other container runtime, and its end is the end of
//! all processes beside it.

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

/// Reads the number of a process that another process created.
fn reported_pid(pipe: &OwnedFd) -> io::Result<Pid> {
    let mut number = [0; 4];
    let count = rustix::io::read(pipe, &mut number)?;
    Pid::from_raw(i32::from_ne_bytes(number))
        .filter(|_| count == 4)
        .ok_or_else(|| io::Error::other("cannot start the first process of the PID namespace"))
}
