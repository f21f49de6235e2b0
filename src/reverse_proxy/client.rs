//! One client connection: its properties, and its idle timeout.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::ReverseProxy;

/// Timeout for an idle connection until the next request's head is complete; nginx's default.
pub(super) const IDLE: Duration = Duration::from_mins(1);
/// Timeout for an idle connection when few connections are left.
const IDLE_WHEN_SCARCE: Duration = Duration::from_secs(3);
/// Interval of the check for idle connections.
const LOOK: Duration = Duration::from_secs(1);

pub(super) struct Client {
    pub(super) address: SocketAddr,
    /// The port it connected to.
    pub(super) port: u16,
    pub(super) is_tls: bool,
    /// The host that the client named in TLS (SNI), once the handshake is done.
    pub(super) server_name: OnceLock<String>,
    /// Cancelled when the client does not read its response.
    pub(super) cut_off: CancellationToken,
    /// Number of requests under way, and the time of its last change.
    in_flight: Mutex<(usize, Instant)>,
    _permit: OwnedSemaphorePermit,
}

impl Client {
    /// Creates a connection without requests; `permit` is released when the last user of the connection is done.
    pub(super) fn new(
        address: SocketAddr,
        port: u16,
        is_tls: bool,
        permit: OwnedSemaphorePermit,
    ) -> Arc<Self> {
        let (cut_off, under_way) = (CancellationToken::new(), Mutex::new((0, Instant::now())));
        Arc::new(Self {
            address,
            port,
            is_tls,
            server_name: OnceLock::new(),
            cut_off,
            in_flight: under_way,
            _permit: permit,
        })
    }

    /// Counts a new request until the guard is dropped.
    pub(super) fn begins(self: &Arc<Self>) -> RequestGuard {
        let mut in_flight = self.in_flight.lock();
        *in_flight = (in_flight.0 + 1, Instant::now());
        RequestGuard(self.clone())
    }

    /// Waits until the connection has been idle for too long.
    pub(super) async fn idle(&self, proxy: &ReverseProxy) {
        loop {
            sleep(LOOK).await;
            let idle_timeout = if proxy.is_scarce() { IDLE_WHEN_SCARCE } else { IDLE };
            let (count, since) = *self.in_flight.lock();
            if count == 0 && since.elapsed() >= idle_timeout {
                return;
            }
        }
    }
}

/// Counts a request that is under way; uncounted on drop.
pub(super) struct RequestGuard(Arc<Client>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut in_flight = self.0.in_flight.lock();
        *in_flight = (in_flight.0.saturating_sub(1), Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReverseProxyConfig;
    use base::clock::Clock;
    use base::dial::{Dialer, LocalDialer};
    use base::task::Tasks;

    #[tokio::test(start_paused = true)]
    async fn idle_connections_are_closed_net_9_sec_2() {
        let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
        let dialer: Dialer = Arc::new(LocalDialer);
        let services = "10.96.0.0/16".parse().unwrap();
        let config = ReverseProxyConfig { connections: 8, services, pods: Vec::new(), dialer };
        let proxy = ReverseProxy::new(clock, &Tasks::new(), config);
        let permit = || proxy.connections.clone().try_acquire_owned().unwrap();
        let client = Client::new(([127, 0, 0, 1], 1).into(), 80, false, permit());
        let ends_within =
            async |limit: Duration| tokio::time::timeout(limit, client.idle(&proxy)).await.is_ok();
        assert!(
            !ends_within(IDLE.saturating_sub(LOOK)).await && ends_within(3 * LOOK).await,
            "nothing was asked"
        );
        let request = client.begins();
        assert!(!ends_within(Duration::from_hours(1)).await, "its answer may take its time");
        drop(request);
        assert!(
            !ends_within(IDLE.saturating_sub(LOOK)).await && ends_within(3 * LOOK).await,
            "nothing more was asked"
        );
        drop(client.begins());
        let others: Vec<_> = (0..6).map(|_| permit()).collect();
        assert!(ends_within(IDLE_WHEN_SCARCE + 2 * LOOK).await, "others wait");
        drop((others, client));
        assert_eq!(proxy.connections.available_permits(), 8);
    }
}
