//! Starts pid 1 of a PID namespace, which is a program of its own ([`programs::pause`]). It reaps no children: it ignores
//! SIGCHLD, so that the kernel reaps them.
//!
//! A container with the capability SYS_PTRACE in the namespace controls pid 1, and reaches everything that it has through
//! `/proc/1`. So it has nothing: its root is an empty directory in memory, its other namespaces and its users are those
//! of the pod, it has no capabilities, no descriptors, and no system calls but those that it needs. Pid 1 may not read
//! its own program, either: the kernel then protects it from every process without SYS_PTRACE over the machine.
//!
//! All of this is done before a program of a container is in the namespace.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
use rustix::process::Pid;
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use super::program::os_text;
use super::user_namespace::PodUsers;
use super::{capabilities, child, os, pipe_end, seccomp, signals};

/// The system calls of the program, of its exec, and of the report that the exec failed.
const SYSTEM_CALLS: &[libc::c_long] = &[
    libc::SYS_execveat,
    libc::SYS_exit_group,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_pause,
    libc::SYS_ppoll,
    libc::SYS_prctl,
    libc::SYS_restart_syscall,
    libc::SYS_write,
];

/// The parameters of a process that is pid 1 of a new PID namespace.
pub(super) struct PauseRequest<'a> {
    pub(super) program: &'a OwnedFd,
    /// Becomes readable when the host dies.
    pub(super) host: Option<&'a OwnedFd>,
    /// A directory of the machine, over which the process mounts its empty root.
    pub(super) directory: &'a Path,
    /// The pod's namespaces.
    pub(super) joined: &'a [(OwnedFd, LinkNameSpaceType)],
    /// The pod's user namespace, if it has its own.
    pub(super) users: Option<&'a PodUsers>,
    /// The user namespace of the pod owns the new PID namespace, and not that of the host.
    pub(super) owned_by_pod: bool,
}

/// Starts the program as pid 1 of a new PID namespace. The host waits for the exec, which takes no longer than the system
/// calls until then.
pub(super) fn start(request: &PauseRequest<'_>) -> io::Result<Pid> {
    let (read, write) = pipe_end::pipe()?;
    let pid = match request.users.filter(|_| request.owned_by_pod) {
        None => match os::fork_init()? {
            os::ForkResult::Child => {
                let entered = prepare(request).and_then(|()| enter_users(request));
                become_program(request, entered, &write)
            }
            os::ForkResult::Parent(pid) => pid,
        },
        Some(_) => start_inside(request, &write)?,
    };
    drop(write);
    let mut reason = String::new();
    File::from(read).read_to_string(&mut reason)?;
    if reason.is_empty() { Ok(pid) } else { Err(io::Error::other(reason)) }
}

/// Starts it by a process that has entered the pod's user namespace.
fn start_inside(request: &PauseRequest<'_>, report: &OwnedFd) -> io::Result<Pid> {
    let (read, write) = pipe_end::pipe()?;
    if let os::ForkResult::Child = os::fork()? {
        let entered = prepare(request).and_then(|()| enter_users(request));
        if let Err(error) = &entered {
            send_reason(report, error);
            os::exit_now(1);
        }
        match os::fork_init_sibling() {
            Ok(os::ForkResult::Child) => become_program(request, Ok(()), report),
            Ok(os::ForkResult::Parent(pid)) => {
                let sent = rustix::io::write(&write, &pid.as_raw_nonzero().get().to_ne_bytes());
                os::exit_now(i32::from(sent.is_err()))
            }
            Err(error) => {
                send_reason(report, &error);
                os::exit_now(1)
            }
        }
    }
    drop(write);
    pipe_end::reported_pid(&read)
}

/// Leaves the machine's namespaces, except that of users: they are the pod's, and the root is empty.
fn prepare(request: &PauseRequest<'_>) -> io::Result<()> {
    for (namespace, kind) in request.joined {
        rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(*kind))?;
    }
    os::unshare(UnshareFlags::NEWNS)?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    mount("tmpfs", request.directory, "tmpfs", flags, c"mode=555")?;
    rustix::process::chdir(request.directory)?;
    rustix::process::pivot_root(".", ".")?;
    // The machine's root covers the new one at `.`.
    unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    Ok(())
}

fn enter_users(request: &PauseRequest<'_>) -> io::Result<()> {
    request.users.map_or(Ok(()), PodUsers::enter)
}

/// Executes the program, or reports the reason why that is not possible.
fn become_program(request: &PauseRequest<'_>, prepared: io::Result<()>, report: &OwnedFd) -> ! {
    let done: io::Result<()> = prepared.and_then(|()| {
        // After the change of users, which clears the parent-death signal.
        child::die_with_host(request.host);
        // Pid 1 must not get the signals of a terminal, and not hold descriptors open.
        let _ = rustix::process::setsid();
        os::close_on_exec_from(0);
        signals::ignore_children();
        capabilities::drop_all()?;
        let arguments = os::ExecArguments::new(vec![c"pause".to_owned()], Vec::new());
        seccomp::allow_only(SYSTEM_CALLS)?;
        Err(os::exec_descriptor(request.program.as_fd(), &arguments))
    });
    if let Err(error) = done {
        send_reason(report, &error);
    }
    os::exit_now(1)
}

fn send_reason(report: &OwnedFd, error: &io::Error) {
    // Nothing can be reported if this fails too.
    let _ = rustix::io::write(report, os_text(error).as_bytes());
}
