//! Signal masks and dispositions of the host, its forked children, and the programs that they execute.
#![expect(unsafe_code, reason = "masks and dispositions of signals have no safe wrappers")]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Blocks every signal and returns the previous mask.
pub(super) fn block_all() -> libc::sigset_t {
    // SAFETY: plain C structures, filled by the calls before they are read.
    unsafe {
        let mut all = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    }
}

/// Restores a mask.
pub(super) fn restore(before: &libc::sigset_t) {
    // SAFETY: the mask is one that the kernel gave us.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
}

/// Restores the default action of the signals that our parent process ignored: an ignored signal stays ignored across
/// exec. Only SIGPIPE stays as it is.
pub(super) fn restore_default_actions() {
    for signal in (1..=64).filter(|signal| *signal != libc::SIGPIPE) {
        // SAFETY: a plain C structure, filled by the call before it is read; SIG_DFL is valid for every signal.
        unsafe {
            let mut now: libc::sigaction = std::mem::zeroed();
            let known = libc::sigaction(signal, std::ptr::null(), &raw mut now) == 0;
            if known && now.sa_sigaction == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
}

/// Gives every signal its default action and unblocks all: a new program expects it. An exec resets the signals that
/// this process handles, and SIGPIPE is the only ignored one ([`restore_default_actions`]).
pub(super) fn reset() {
    // SAFETY: SIG_DFL is valid for the signal.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// From now on, and also after an exec, the kernel reaps this process's children.
pub(super) fn ignore_children() {
    // SAFETY: SIG_IGN is valid for SIGCHLD.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// A descriptor that is readable when a child has changed state. SIGCHLD must be blocked.
pub(super) fn of_children() -> io::Result<OwnedFd> {
    // SAFETY: the set is built here; the descriptor is new and has no other owner.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        let descriptor = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC);
        if descriptor < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(descriptor)) }
    }
}
