//! Sockets of a node's network, opened in advance.

use std::os::fd::OwnedFd;

use fabric::SocketKind;
use tokio::sync::watch;

/// Unused sockets of the node's network.
#[derive(Default)]
pub(super) struct ReadySockets {
    sockets: Vec<(SocketKind, OwnedFd)>,
    /// Counts the hosts: a new one has a new network.
    pub(super) generation: watch::Sender<u64>,
}

impl ReadySockets {
    pub(super) fn take(&mut self, kind: SocketKind) -> Option<OwnedFd> {
        let place = self.sockets.iter().position(|(known, _)| *known == kind)?;
        Some(self.sockets.swap_remove(place).1)
    }

    pub(super) fn insert(&mut self, generation: u64, kind: SocketKind, sockets: Vec<OwnedFd>) {
        if generation == *self.generation.borrow() && !self.sockets.iter().any(|(known, _)| *known == kind) {
            self.sockets.extend(sockets.into_iter().map(|socket| (kind, socket)));
        }
    }

    /// Drops the sockets, which may belong to the network of an earlier host.
    pub(super) fn forget(&mut self) {
        self.sockets.clear();
        self.generation.send_modify(|generation| *generation += 1);
    }
}
