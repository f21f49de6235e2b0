//! Pending handshakes: connections to the world that Podium has opened, or is opening, before it accepts the pod's
//! connection.

use std::collections::HashMap;
use std::net::SocketAddr;

use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use base::client_limiter::ClientPermit;

/// A pod's port and its destination.
pub(super) type Pair = (SocketAddr, SocketAddr);

/// The permits that one egress connection holds.
pub(super) type EgressPermit = (ClientPermit, OwnedSemaphorePermit);

/// A connection to the destination that waits for the pod's connection to be accepted.
pub(super) struct DestinationConnection {
    pub(super) world: TcpStream,
    pub(super) permit: EgressPermit,
    /// Dropped when the connection is taken, which resolves the receiver that [`PendingHandshakes::connected`]
    /// returned.
    _claimed: oneshot::Sender<()>,
}

/// Pending handshakes by pair; `None` while Podium still connects to the destination.
#[derive(Default)]
pub(super) struct PendingHandshakes(Mutex<HashMap<Pair, Option<DestinationConnection>>>);

/// The stage of a pair's handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandshakeStage {
    /// Podium is connecting to the destination.
    Connecting,
    /// The destination has accepted; the connection waits for the pod's.
    Connected,
}

impl PendingHandshakes {
    /// Returns the stage of a pair's handshake; `None` if there is no pending handshake.
    pub(super) fn stage(&self, pair: Pair) -> Option<HandshakeStage> {
        self.0
            .lock()
            .get(&pair)
            .map(|made| if made.is_some() { HandshakeStage::Connected } else { HandshakeStage::Connecting })
    }

    /// Records that Podium connects to the destination.
    pub(super) fn begin(&self, pair: Pair) {
        self.0.lock().insert(pair, None);
    }

    /// Stores the connection to the destination. The returned receiver resolves when the connection is taken or
    /// forgotten.
    pub(super) fn connected(
        &self,
        pair: Pair,
        world: TcpStream,
        permit: EgressPermit,
    ) -> oneshot::Receiver<()> {
        let (taken, is_taken) = oneshot::channel();
        self.0.lock().insert(pair, Some(DestinationConnection { world, permit, _claimed: taken }));
        is_taken
    }

    /// Drops a pair's handshake that is no longer needed.
    pub(super) fn forget(&self, pair: Pair) {
        self.0.lock().remove(&pair);
    }

    /// Takes the connection to the destination for the pod's connection that was just accepted.
    pub(super) fn take(&self, pair: Pair) -> Option<DestinationConnection> {
        let mut all = self.0.lock();
        let made = all.get_mut(&pair)?.take()?;
        all.remove(&pair);
        Some(made)
    }
}
