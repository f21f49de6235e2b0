//! Replaces standard output and error once their reader is gone.
//!
//! Otherwise a write by a library would panic, or kill the process, long after the terminal was closed.

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Replaces standard streams without a reader by /dev/null.
pub fn replace_dead() {
    let Ok(nothing) = std::fs::File::options().write(true).open("/dev/null") else { return };
    if is_dead(rustix::stdio::stdout()) {
        let _ = rustix::stdio::dup2_stdout(&nothing);
    }
    if is_dead(rustix::stdio::stderr()) {
        let _ = rustix::stdio::dup2_stderr(&nothing);
    }
}

fn is_dead(stream: impl AsFd) -> bool {
    let mut polled = [PollFd::new(&stream, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let ready = poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0);
    ready && polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_without_a_reader_is_dead_and_one_with_a_reader_is_not() {
        let (reader, writer) = std::io::pipe().unwrap();
        assert!(!is_dead(&writer));
        drop(reader);
        assert!(is_dead(&writer));
    }
}
