//! Who is at the other end of a Unix socket.

use std::fs;
use std::os::fd::AsFd;

use rustix::net::sockopt;

/// Whether it is somebody of ours who has connected: the user who runs this process, or root, and no process of a PID
/// namespace of its own. Containers run as that user, too, and may see the file that a socket is.
pub fn is_ours(socket: impl AsFd) -> bool {
    let Ok(peer) = sockopt::socket_peercred(socket) else { return false };
    if !peer.uid.is_root() && peer.uid != rustix::process::getuid() {
        return false;
    }
    // A number in each PID namespace that it is in, from ours inwards. Who is gone by now is not one of ours.
    fs::read_to_string(format!("/proc/{}/status", peer.pid.as_raw_nonzero())).is_ok_and(|status| {
        // A kernel that has no such namespaces tells nothing of them.
        let inside = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        inside.is_none_or(|numbers| numbers.split_whitespace().count() == 1)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn we_are_ours_sec_2() {
        let (one, other) = UnixStream::pair().unwrap();
        assert!(is_ours(&one) && is_ours(&other));
    }
}
