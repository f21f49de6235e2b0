//! State that all connections to the world share: permitted destinations, limits, and how connections are refused.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};

use super::pending_handshakes::{EgressPermit, Pair, PendingHandshakes};
use super::{Destinations, RefusalKind, RefusalRequest, RefuseFn};
use base::client_limiter::ClientLimiter;
use base::task::Tasks;

/// Timeout for connecting to a destination.
const CONNECT: Duration = Duration::from_secs(30);
/// Timeout for the kernel to put a refusal in force; after it, the pod's connection is accepted and reset.
const REFUSE_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) struct EgressContext {
    pub(super) destinations: Arc<Destinations>,
    pub(super) refuse: RefuseFn,
    pub(super) permits: Arc<Semaphore>,
    pub(super) shares: Arc<ClientLimiter>,
    pub(super) pending: PendingHandshakes,
    pub(super) tasks: Tasks,
}

impl EgressContext {
    /// Takes a permit for one more connection of a pod; `None` if the pod's share is used up or all permits are taken.
    pub(super) fn acquire(&self, pod: IpAddr) -> Option<EgressPermit> {
        Some((self.shares.take(pod)?, self.permits.clone().try_acquire_owned().ok()?))
    }

    /// Connects to a pod's destination; fails with `ConnectionRefused` if pods may not reach it.
    pub(super) async fn connect(&self, destination: SocketAddr) -> io::Result<TcpStream> {
        let to = self.destinations.resolve(destination).ok_or(io::ErrorKind::ConnectionRefused)?;
        tokio::time::timeout(CONNECT, TcpStream::connect(to)).await?
    }

    /// Makes the kernel refuse a connection, and waits until it does, for at most [`REFUSE_TIMEOUT`].
    pub(super) async fn refuse(&self, (from, to): Pair, how: RefusalKind) {
        let (in_force, is_in_force) = oneshot::channel();
        (self.refuse)(RefusalRequest { from: from.ip(), to, how, in_force });
        let _ = tokio::time::timeout(REFUSE_TIMEOUT, is_in_force).await;
    }
}
