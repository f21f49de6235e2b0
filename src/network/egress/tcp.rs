//! Connections to the world, joined with one from this machine.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};

use super::Refusal;
use super::asked::Made;
use super::relay::Relay;
use crate::proxy::tcp::join;

/// After so much silence the other side is asked whether it is there,
const ALIVE_AFTER: Duration = Duration::from_mins(1);
/// as often as this,
const ALIVE_EVERY: Duration = Duration::from_secs(15);
/// until so many questions were in vain.
const ALIVE_TIMES: u32 = 4;

/// Accepts for ever.
pub(super) async fn accept(listener: TcpListener, relay: Arc<Relay>) {
    loop {
        match listener.accept().await {
            Ok((client, from)) => {
                // A transparent socket's own address is where its client wanted to go.
                let Ok(asked) = client.local_addr() else { continue };
                let made = relay.asked.take((from, asked));
                let serve = {
                    let relay = relay.clone();
                    async move {
                        match made {
                            Some(Made { world, place, .. }) => {
                                carry(client, world, asked).await;
                                drop(place);
                            }
                            None => serve(client, (from, asked), &relay).await,
                        }
                    }
                };
                relay.tasks.spawn("egress connection", serve);
            }
            // Out of descriptors, most likely: others are about to be closed.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Serves a connection that was accepted before anybody asked the world: while no control plane was there, or where
/// connections are not asked for.
async fn serve(client: TcpStream, (from, asked): (SocketAddr, SocketAddr), relay: &Relay) {
    let Some(_place) = relay.place(from.ip()) else {
        // Nothing is wrong with where it wants to go: that is not refused.
        let _ = client.set_zero_linger();
        return;
    };
    if let Ok(world) = relay.connect(asked).await {
        return carry(client, world, asked).await;
    }
    relay.refuse((from, asked), Refusal::Reset).await;
    let _ = client.set_zero_linger();
}

/// Passes on what both say, until they have ended.
async fn carry(client: TcpStream, world: TcpStream, asked: SocketAddr) {
    // Who is gone without a word holds nothing for ever.
    for side in [&client, &world] {
        if let Err(error) = keep_asking(side) {
            tracing::debug!(%error, %asked, "a side that is gone may not be noticed");
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
    use crate::egress::asked::Asked;
    use crate::egress::{Destinations, HostPorts};
    use crate::share::Shares;
    use base::task::Tasks;

    #[tokio::test]
    async fn a_pod_over_its_share_is_reset_and_where_it_wanted_to_go_is_not_refused_net_7() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let door = listener.local_addr().unwrap();
        let refused = Arc::new(Mutex::new(Vec::new()));
        let told = refused.clone();
        let (shares, tasks) = (Shares::new(1), Tasks::new());
        let relay = Relay {
            destinations: Arc::new(Destinations { cluster: Vec::new(), host: HostPorts::All }),
            refuse: Arc::new(move |refused| told.lock().push((refused.from, refused.to))),
            room: Arc::new(Semaphore::new(8)),
            shares: shares.clone(),
            asked: Asked::default(),
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
        // The machine's own loopback is nobody's: that is told.
        assert_eq!(ends().await, ErrorKind::ConnectionReset);
        assert_eq!(*refused.lock(), [(door.ip(), door)]);
        tasks.stop().await;
    }
}
