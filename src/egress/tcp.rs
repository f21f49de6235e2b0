//! TCP connections of pods to the world, each relayed over a connection from this machine.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};

use super::RefusalKind;
use super::context::EgressContext;
use super::pending_handshakes::DestinationConnection;
use base::tcp_relay::join;

/// TCP keepalive probes start after this much silence.
const ALIVE_AFTER: Duration = Duration::from_mins(1);
/// Interval between keepalive probes.
const ALIVE_EVERY: Duration = Duration::from_secs(15);
/// Number of unanswered probes after which a connection ends.
const ALIVE_TIMES: u32 = 4;

/// Accepts diverted connections, for ever.
pub(super) async fn accept(listener: TcpListener, relay: Arc<EgressContext>) {
    loop {
        match listener.accept().await {
            Ok((client, from)) => {
                // A transparent socket's local address is the destination that its client connected to.
                let Ok(destination) = client.local_addr() else { continue };
                let made = relay.pending.take((from, destination));
                let serve = {
                    let relay = relay.clone();
                    async move {
                        match made {
                            Some(DestinationConnection { world, permit: place, .. }) => {
                                copy_both_ways(client, world, destination).await;
                                drop(place);
                            }
                            None => serve(client, (from, destination), &relay).await,
                        }
                    }
                };
                relay.tasks.spawn("egress connection", serve);
            }
            // Most likely the process is out of descriptors, and other connections will close soon.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Serves a connection that was accepted before Podium connected to the destination: because no control plane was
/// running at that time, or because connecting first is not possible here.
async fn serve(client: TcpStream, (from, destination): (SocketAddr, SocketAddr), relay: &EgressContext) {
    let Some(_place) = relay.acquire(from.ip()) else {
        // The pod is over its limit, and the destination may be reachable: reset this connection without making the
        // kernel refuse the next one.
        let _ = client.set_zero_linger();
        return;
    };
    if let Ok(world) = relay.connect(destination).await {
        return copy_both_ways(client, world, destination).await;
    }
    relay.refuse((from, destination), RefusalKind::Reset).await;
    let _ = client.set_zero_linger();
}

/// Relays data in both directions until both sides have finished.
async fn copy_both_ways(client: TcpStream, world: TcpStream, destination: SocketAddr) {
    // Keepalive finds peers that vanished without closing; otherwise their connections would hold descriptors for ever.
    for side in [&client, &world] {
        if let Err(error) = keep_asking(side) {
            tracing::debug!(%error, %destination, "cannot enable keepalive; a lost peer may not be noticed");
        }
    }
    join(client, world).await;
}

fn keep_asking(socket: impl AsFd) -> rustix::io::Result<()> {
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, ALIVE_AFTER)?;
    sockopt::set_tcp_keepintvl(&socket, ALIVE_EVERY)?;
    sockopt::set_tcp_keepcnt(&socket, ALIVE_TIMES)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use parking_lot::Mutex;
    use tokio::io::AsyncReadExt;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::pending_handshakes::PendingHandshakes;
    use crate::{Destinations, HostPorts};
    use base::client_limiter::ClientLimiter;
    use base::task::Tasks;

    #[tokio::test]
    async fn a_pod_over_its_share_is_reset_but_its_destination_not_refused_net_7() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let door = listener.local_addr().unwrap();
        let refused = Arc::new(Mutex::new(Vec::new()));
        let recorded = refused.clone();
        let (shares, tasks) = (ClientLimiter::new(1), Tasks::new());
        let relay = EgressContext {
            destinations: Arc::new(Destinations { cluster: Vec::new(), host: HostPorts::All }),
            refuse: Arc::new(move |refused| recorded.lock().push((refused.from, refused.to))),
            permits: Arc::new(Semaphore::new(8)),
            shares: shares.clone(),
            pending: PendingHandshakes::default(),
            tasks: tasks.clone(),
        };
        tasks.spawn("test", accept(listener, Arc::new(relay)));
        let ends = async || {
            let mut client = TcpStream::connect(door).await.unwrap();
            client.read(&mut [0]).await.unwrap_err().kind()
        };
        let share = shares.take(door.ip()).unwrap();
        assert_eq!(ends().await, ErrorKind::ConnectionReset);
        assert!(refused.lock().is_empty());
        drop(share);
        // Pods may not reach the machine's own loopback: the kernel gets a request to refuse it.
        assert_eq!(ends().await, ErrorKind::ConnectionReset);
        assert_eq!(*refused.lock(), [(door.ip(), door)]);
        tasks.stop().await;
    }
}
