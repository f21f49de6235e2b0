//! Delays the process below a subreaper until the host knows both: its program may stop or kill the subreaper.

use std::io;
use std::os::fd::OwnedFd;

use super::{os, pipe_end};

/// Holds the process below a subreaper back.
pub(super) struct Gate {
    wait: OwnedFd,
    open: OwnedFd,
}

impl Gate {
    pub(super) fn new() -> io::Result<Self> {
        let (wait, open) = pipe_end::pipe()?;
        Ok(Self { wait, open })
    }

    /// Waits in the process below the subreaper, and ends it if the subreaper has ended.
    pub(super) fn pass(self) {
        let Self { wait, open } = self;
        drop(open);
        if !matches!(rustix::io::read(&wait, &mut [0]), Ok(1)) {
            os::exit_now(128 + libc::SIGKILL);
        }
    }

    /// Lets the process below this one pass.
    pub(super) fn open(self) {
        // A process that was killed needs nothing.
        let _ = rustix::io::write(&self.open, &[0]);
    }
}
