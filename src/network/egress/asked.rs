//! Connections to the world that have begun and that pods' are not accepted for yet.

use std::collections::HashMap;
use std::net::SocketAddr;

use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::share::Taken;

/// A pod's port and where it connects to.
pub(super) type Pair = (SocketAddr, SocketAddr);

/// What one connection at the way out takes.
pub(super) type Place = (Taken, OwnedSemaphorePermit);

/// A connection to the world for one of a pod that has not been accepted yet.
pub(super) struct Made {
    pub(super) world: TcpStream,
    pub(super) place: Place,
    /// Whoever waits for it to be taken sees that it is.
    pub(super) _taken: oneshot::Sender<()>,
}

/// Those that have begun; none = the world is being asked.
#[derive(Default)]
pub(super) struct Asked(pub(super) Mutex<HashMap<Pair, Option<Made>>>);

impl Asked {
    /// The connection that was made for a pod's.
    pub(super) fn take(&self, pair: Pair) -> Option<Made> {
        let mut all = self.0.lock();
        let made = all.get_mut(&pair)?.take()?;
        all.remove(&pair);
        Some(made)
    }
}
