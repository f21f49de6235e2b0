//! What all connections to the world share: where they may go, how many there may be, and how they are refused.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};

use super::asked::{Asked, Pair, Place};
use super::{Destinations, Refusal, Refuse, Refused};
use crate::share::Shares;
use base::task::Tasks;

/// How long the world may take to accept.
const CONNECT: Duration = Duration::from_secs(30);
/// How long the kernel may take to refuse; then the pod's connection is accepted and reset.
const REFUSED_WITHIN: Duration = Duration::from_secs(1);

/// What all connections share.
pub(super) struct Relay {
    pub(super) destinations: Arc<Destinations>,
    pub(super) refuse: Refuse,
    pub(super) room: Arc<Semaphore>,
    pub(super) shares: Arc<Shares>,
    pub(super) asked: Asked,
    pub(super) tasks: Tasks,
}

impl Relay {
    /// A place for one more connection of a pod; none where it has its share, or all are taken.
    pub(super) fn place(&self, pod: IpAddr) -> Option<Place> {
        Some((self.shares.take(pod)?, self.room.clone().try_acquire_owned().ok()?))
    }

    /// Connects to where a pod wants to go; where it may not, that is refused.
    pub(super) async fn connect(&self, asked: SocketAddr) -> io::Result<TcpStream> {
        let to = self.destinations.resolve(asked).ok_or(io::ErrorKind::ConnectionRefused)?;
        tokio::time::timeout(CONNECT, TcpStream::connect(to)).await?
    }

    /// Has the kernel refuse a connection, and waits until it does, but not for long.
    pub(super) async fn refuse(&self, (from, to): Pair, how: Refusal) {
        let (in_force, is_in_force) = oneshot::channel();
        (self.refuse)(Refused { from: from.ip(), to, how, in_force });
        let _ = tokio::time::timeout(REFUSED_WITHIN, is_in_force).await;
    }
}
