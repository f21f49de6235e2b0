//! Checks the peer of a Unix socket.

use std::fs;
use std::os::fd::AsFd;

use rustix::net::sockopt;

/// Returns true if the peer is trusted: it runs as the user of this process or as root, and is not in a PID namespace
/// of its own. The last condition matters because containers run as that user too, and may see the socket's file.
pub fn is_trusted(socket: impl AsFd) -> bool {
    let Ok(peer) = sockopt::socket_peercred(socket) else { return false };
    if !peer.uid.is_root() && peer.uid != rustix::process::getuid() {
        return false;
    }
    // `NSpid` has one number for each PID namespace of the process, from ours inwards. A process that is gone by now is
    // not trusted.
    fs::read_to_string(format!("/proc/{}/status", peer.pid.as_raw_nonzero())).is_ok_and(|status| {
        // A kernel without PID namespaces has no such line.
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
        assert!(is_trusted(&one) && is_trusted(&other));
    }
}
