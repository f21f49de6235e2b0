//! UDP flows: a client's datagrams go to one endpoint for as long as both exist.
//!
//! Each flow has its own socket towards its endpoint, so that replies find their client. A flow ends when it is idle,
//! when its endpoint may no longer be used, or when it is evicted because there are too many flows.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{ProxyState, SharedBalancer};
use base::dial::{Dial, LocalDialer};

/// A flow without datagrams ends after this time.
const IDLE: Duration = Duration::from_mins(1);
/// Maximum number of flows of one bind address.
const FLOWS: usize = 1024;
/// Timeout for opening a flow's socket, during which other datagrams wait.
const CONNECT: Duration = Duration::from_secs(1);
/// Size of a buffer that holds any datagram.
const DATAGRAM: usize = 65_536;

pub(super) fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = std::net::UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

/// A client's flow; dropping it ends the flow.
struct Flow {
    backend: SocketAddr,
    towards: Arc<UdpSocket>,
    last_used: Arc<AtomicU64>,
    over: CancellationToken,
    _end: DropGuard,
}

/// Forwards datagrams until the task is stopped.
pub(super) async fn forward(socket: UdpSocket, balancer: SharedBalancer, shared: Arc<ProxyState>) {
    let socket = Arc::new(socket);
    let mut flows: HashMap<SocketAddr, Flow> = HashMap::new();
    let mut datagram = vec![0; DATAGRAM];
    loop {
        // Errors here report replies that no longer reached their client; there is nothing to do about them.
        let Ok((length, client)) = socket.recv_from(&mut datagram).await else { continue };
        let node = node_of(&balancer, &shared, client.ip());
        let known = flows.get(&client).filter(|flow| {
            !flow.over.is_cancelled() && balancer.lock().is_usable(flow.backend, node.as_deref())
        });
        if known.is_none() {
            flows.remove(&client);
            evict(&mut flows);
            let now = shared.clock.monotonic();
            let pick = balancer.lock().pick(client.ip(), node.as_deref(), &[], now);
            let Some(backend) = pick else { continue };
            // The process is out of descriptors or over its limit: datagrams may get lost.
            let Ok(flow) = open(backend, client, &socket, &shared).await else { continue };
            flows.insert(client, flow);
        }
        if let Some(flow) = flows.get(&client) {
            flow.last_used.store(millis(&shared), Ordering::Relaxed);
            // If the socket's buffer is full, the datagram is lost, as on a busy network.
            let _ = flow.towards.try_send(&datagram[..length]);
        }
    }
}

/// Returns the client's node if the choice of an endpoint depends on it.
fn node_of(balancer: &SharedBalancer, shared: &ProxyState, client: IpAddr) -> Option<String> {
    let machine = balancer.lock().is_topology_aware().then(|| shared.machine())?;
    machine.node_of(client).map(str::to_owned)
}

/// Removes flows that have ended, and, if there are still too many, the least recently used quarter.
fn evict(flows: &mut HashMap<SocketAddr, Flow>) {
    if flows.len() < FLOWS {
        return;
    }
    flows.retain(|_, flow| !flow.over.is_cancelled());
    if flows.len() >= FLOWS {
        let mut used: Vec<u64> = flows.values().map(|flow| flow.last_used.load(Ordering::Relaxed)).collect();
        let (_, limit, _) = used.select_nth_unstable(FLOWS / 4);
        let limit = *limit;
        flows.retain(|_, flow| flow.last_used.load(Ordering::Relaxed) > limit);
    }
}

fn millis(shared: &ProxyState) -> u64 {
    shared.clock.monotonic().as_millis() as u64
}

async fn open(
    backend: SocketAddr,
    client: SocketAddr,
    back: &Arc<UdpSocket>,
    shared: &Arc<ProxyState>,
) -> io::Result<Flow> {
    let permit = shared.permits.clone().try_acquire_owned().map_err(io::Error::other)?;
    let connect = match &shared.inside {
        Some(inside) => inside.dialer.udp(backend),
        None => LocalDialer.udp(backend),
    };
    let towards = Arc::new(tokio::time::timeout(CONNECT, connect).await??);
    let last_used = Arc::new(AtomicU64::new(millis(shared)));
    let over = CancellationToken::new();
    let answers = ReplyRelay {
        towards: towards.clone(),
        back: Arc::downgrade(back),
        client,
        last_used: last_used.clone(),
        shared: shared.clone(),
    };
    let ended = over.clone();
    shared.connections.spawn("service flow", async move {
        tokio::select! {
            () = ended.cancelled() => {}
            () = answers.pass_on() => ended.cancel(),
        }
        drop(permit);
    });
    Ok(Flow { backend, towards, last_used, over: over.clone(), _end: over.drop_guard() })
}

/// Relays the replies of one flow.
struct ReplyRelay {
    towards: Arc<UdpSocket>,
    /// Weak, so that the address is free as soon as the listener closes.
    back: Weak<UdpSocket>,
    client: SocketAddr,
    last_used: Arc<AtomicU64>,
    shared: Arc<ProxyState>,
}

impl ReplyRelay {
    /// Relays until the flow is idle or the endpoint's port is closed.
    async fn pass_on(&self) {
        loop {
            let idle = millis(&self.shared).saturating_sub(self.last_used.load(Ordering::Relaxed));
            let Some(left) = IDLE.checked_sub(Duration::from_millis(idle)).filter(|left| !left.is_zero())
            else {
                return;
            };
            match tokio::time::timeout(left, self.towards.readable()).await {
                // The client may have used the flow in the meantime.
                Err(_) => {}
                Ok(Err(_)) => return,
                Ok(Ok(())) => {
                    if !self.pass_one() {
                        return;
                    }
                }
            }
        }
    }

    /// Relays one reply; returns false if the flow is over. The buffer is allocated only for the read, because
    /// thousands of flows wait and few read.
    fn pass_one(&self) -> bool {
        let mut datagram = vec![0; DATAGRAM];
        match self.towards.try_recv(&mut datagram) {
            Ok(length) => {
                self.last_used.store(millis(&self.shared), Ordering::Relaxed);
                let back = self.back.upgrade();
                back.is_some_and(|back| {
                    let _ = back.try_send_to(&datagram[..length], self.client);
                    true
                })
            }
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}
