//! What makes sure that nothing survives a host that was killed.
//!
//! With namespaces the kernel does it: each init dies with the host. Without, a small process of its own
//! waits for the host's end and then kills whatever carries its containers' marker.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags};
use rustix::process::Pid;

use super::{os, process_tree};

/// Kills every process that containers of this state directory left, until there is none.
pub(super) fn bury_leftovers(id_prefix: &str) {
    loop {
        let marked = process_tree::marked(&process_tree::all(), id_prefix);
        if marked.is_empty() {
            return;
        }
        for pid in marked.into_iter().filter_map(Pid::from_raw) {
            os::signal(pid, libc::SIGKILL);
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Starts the process that outlives the host for the moment it takes to kill its containers.
pub(super) fn keep(id_prefix: &str, host: Option<&OwnedFd>) -> std::io::Result<Option<Pid>> {
    let Some(host) = host else { return Ok(None) };
    let forked = os::fork()?;
    if let os::Forked::Child = forked {
        // Blocked signals keep it from dying with the terminal; only SIGKILL, or its task's end, do.
        let _ = rustix::process::setsid();
        let _ = rustix::process::chdir("/");
        let _ = rustix::thread::set_name(c"podium-keeper");
        if let Ok(nothing) = super::wire::nothing() {
            // What the host's starter waits on must not stay open here.
            let _ = rustix::stdio::dup2_stdin(&nothing);
            let _ = rustix::stdio::dup2_stdout(&nothing);
            let _ = rustix::stdio::dup2_stderr(&nothing);
        }
        let mut wait = [PollFd::new(host, PollFlags::IN)];
        while !matches!(rustix::event::poll(&mut wait, None), Ok(1)) {}
        bury_leftovers(id_prefix);
        os::exit_now(0);
    }
    match forked {
        os::Forked::Parent(pid) => Ok(Some(pid)),
        os::Forked::Child => Ok(None),
    }
}
