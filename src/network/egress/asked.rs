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
    _taken: oneshot::Sender<()>,
}

/// Those that have begun; none = the world is being asked.
#[derive(Default)]
pub(super) struct Asked(Mutex<HashMap<Pair, Option<Made>>>);

/// How far the connection of a pair is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The world is being asked.
    Asking,
    /// It is there and waits for the pod's.
    Made,
}

impl Asked {
    /// How far a pair is; none where nobody has asked for it.
    pub(super) fn stage(&self, pair: Pair) -> Option<Stage> {
        self.0.lock().get(&pair).map(|made| if made.is_some() { Stage::Made } else { Stage::Asking })
    }

    /// The world is being asked from now on.
    pub(super) fn begin(&self, pair: Pair) {
        self.0.lock().insert(pair, None);
    }

    /// The world has accepted; what comes back resolves when the connection has been taken, or forgotten.
    pub(super) fn made(&self, pair: Pair, world: TcpStream, place: Place) -> oneshot::Receiver<()> {
        let (taken, is_taken) = oneshot::channel();
        self.0.lock().insert(pair, Some(Made { world, place, _taken: taken }));
        is_taken
    }

    /// Nobody waits for it any more.
    pub(super) fn forget(&self, pair: Pair) {
        self.0.lock().remove(&pair);
    }

    /// The connection that was made for a pod's.
    pub(super) fn take(&self, pair: Pair) -> Option<Made> {
        let mut all = self.0.lock();
        let made = all.get_mut(&pair)?.take()?;
        all.remove(&pair);
        Some(made)
    }
}
