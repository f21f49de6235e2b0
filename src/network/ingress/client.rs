//! One connection of a client: what is known of it, and how long it may say nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::Shared;

/// How long a client may take until its request's head is there; nginx's number.
pub(super) const IDLE: Duration = Duration::from_mins(1);
/// The same when there is not enough for all.
const IDLE_WHEN_SCARCE: Duration = Duration::from_secs(3);
/// How often that is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// One connection of a client.
pub(super) struct Client {
    pub(super) address: SocketAddr,
    /// The port it came to.
    pub(super) port: u16,
    pub(super) is_tls: bool,
    /// Fires when the client does not take what it asked for.
    pub(super) cut_off: CancellationToken,
    /// Requests under way, and since when there are so many.
    under_way: Mutex<(usize, Instant)>,
    _room: OwnedSemaphorePermit,
}

impl Client {
    /// One that has asked for nothing yet; `room` is given back when the last of its users is done.
    pub(super) fn new(address: SocketAddr, port: u16, is_tls: bool, room: OwnedSemaphorePermit) -> Arc<Self> {
        let (cut_off, under_way) = (CancellationToken::new(), Mutex::new((0, Instant::now())));
        Arc::new(Self { address, port, is_tls, cut_off, under_way, _room: room })
    }

    /// A request has come.
    pub(super) fn begins(self: &Arc<Self>) -> UnderWay {
        let mut under_way = self.under_way.lock();
        *under_way = (under_way.0 + 1, Instant::now());
        UnderWay(self.clone())
    }

    /// Waits until nothing has been asked for too long.
    pub(super) async fn idle(&self, shared: &Shared) {
        loop {
            sleep(LOOK).await;
            let patience = if shared.is_scarce() { IDLE_WHEN_SCARCE } else { IDLE };
            let (count, since) = *self.under_way.lock();
            if count == 0 && since.elapsed() >= patience {
                return;
            }
        }
    }
}

/// A request that is under way.
pub(super) struct UnderWay(Arc<Client>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut under_way = self.0.under_way.lock();
        *under_way = (under_way.0.saturating_sub(1), Instant::now());
    }
}
