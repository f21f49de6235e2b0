//! Starts pid 1 of a pod's PID namespace, which is a program of its own ([`programs::pause`]). It reaps no children: it
//! ignores SIGCHLD, so that the kernel reaps them.
//!
//! Pid 1 is in the host's own mounts and network, and runs as the host's user, as containers do if that is an ordinary
//! user: a process of the pod that could trace pid 1 would escape from the pod. So only a fully privileged process may
//! trace it. Pid 1 may not read its own program, and the kernel protects such a process from its exec on: against
//! tracing, and against access through `/proc/1/root` and the like.
//!
//! If there is no such program for the machine, or it may not run, pid 1 is a copy of the host that has given up all
//! the rights it can (`child::be_init`).
#![expect(unsafe_code, reason = "a child that shares memory until it becomes the program")]

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::Pid;
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

use super::{child, os, signals};

/// The input of a child, and its error if it could not become the program.
struct PauseStart<'a> {
    program: &'a OwnedFd,
    host: Option<&'a OwnedFd>,
    error: Option<io::Error>,
}

/// Starts the program as pid 1 of a new PID namespace. The host waits for the exec, which takes no longer than the
/// system calls in [`become_it`].
pub(super) fn start(program: &OwnedFd, host: Option<&OwnedFd>) -> io::Result<Pid> {
    let mut birth = PauseStart { program, host, error: None };
    let flags = libc::CLONE_NEWPID | libc::CLONE_VM | libc::CLONE_VFORK;
    // SAFETY: the child shares the memory of this process, which sleeps until the child has another; it has a stack
    // of its own, `birth` outlives it, and it neither returns nor unwinds into frames of this one.
    let started = unsafe { os::clone_beside(flags, become_it, (&raw mut birth).cast::<c_void>()) };
    match (started, birth.error) {
        // The child has ended, and is reaped like any other.
        (Ok(_), Some(error)) => Err(error),
        (started, _) => started,
    }
}

extern "C" fn become_it(birth: *mut c_void) -> c_int {
    // SAFETY: `start` passed it and sleeps, so that no other code uses it.
    let birth = unsafe { &mut *birth.cast::<PauseStart<'_>>() };
    child::die_with_host(birth.host);
    // Pid 1 must not get the signals of a terminal, and not hold descriptors open.
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir("/");
    os::close_on_exec_from(0);
    signals::ignore_children();
    // A process that may read every file could read the program's file.
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    // Executing the program as root would restore the capabilities; this prevents it.
    let _ = rustix::thread::set_capabilities_secure_bits(CapabilitiesSecureBits::NO_ROOT);
    let _ = rustix::thread::set_capabilities(None, none);
    let argv = [c"pause".as_ptr(), std::ptr::null()];
    birth.error = Some(os::exec_bare(birth.program.as_fd(), &argv));
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NODE-7: the program runs, has the name `pause`, and has no file open.
    #[test]
    fn the_program_waits_until_it_is_killed() {
        let program = programs::pause::program();
        if crate::needs::lacks(crate::needs::Need::ProgramInMemory, program.is_some()) {
            return;
        }
        let program = program.expect("it is there");
        let mut birth = PauseStart { program: &program, host: None, error: None };
        let flags = libc::CLONE_VM | libc::CLONE_VFORK;
        // SAFETY: as in `start`; only this thread sleeps, and the child touches what is this thread's alone.
        let pid = unsafe { os::clone_beside(flags, become_it, (&raw mut birth).cast::<c_void>()) }.unwrap();
        assert!(birth.error.is_none(), "{:?}", birth.error);
        let about = format!("/proc/{}", pid.as_raw_nonzero());
        let soon = std::iter::repeat_with(|| std::fs::read_to_string(format!("{about}/comm")).unwrap());
        assert!(soon.take(1_000_000).any(|name| name == "pause\n"), "it tells its name first");
        assert_eq!(std::fs::read(format!("{about}/cmdline")).unwrap(), b"pause\0");
        match std::fs::read_dir(format!("{about}/fd")) {
            Ok(open) => assert_eq!(open.count(), 0),
            // This user owns the process, and still may not read its descriptors.
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied),
        }
        os::signal(pid, libc::SIGTERM);
        os::signal(pid, libc::SIGKILL);
        let end =
            rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(end.1.terminating_signal(), Some(libc::SIGKILL), "SIGTERM is nothing to it");
    }
}
