//! UDP to the world: each pair of a pod's port and a destination has one socket on the machine, and one inside the
//! fabric that sends the replies from the destination's address.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::SendFlags;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Destinations, OpenDatagrams};
use base::client_limiter::share_of;
use base::task::Tasks;
use fabric::datagrams;

/// The longest datagram in bytes.
const LONGEST: usize = 65_535;
/// A flow without datagrams ends after this time, which is longer than most resolvers keep trying.
const SILENCE: Duration = Duration::from_mins(1);

/// Number of datagrams that a flow relays before it yields to other tasks.
const YIELD_AFTER: usize = 64;

/// A pod's port and the destination of its datagrams.
type Pair = (SocketAddr, SocketAddr);

pub(super) struct FlowTable {
    destinations: Arc<Destinations>,
    open: OpenDatagrams,
    tasks: Tasks,
    max_flows: usize,
    flows: Mutex<HashMap<Pair, Arc<Flow>>>,
}

struct Flow {
    /// The socket on the machine, connected to the destination.
    world: UdpSocket,
    /// Time of the last datagram in either direction.
    used: Mutex<Instant>,
    /// Cancelled when the flow is evicted in favour of another flow, or when its socket has lost its route.
    ended: CancellationToken,
}

impl FlowTable {
    pub(super) fn new(
        destinations: Arc<Destinations>,
        open: OpenDatagrams,
        tasks: Tasks,
        max_flows: usize,
    ) -> Arc<Self> {
        Arc::new(Self { destinations, open, tasks, max_flows, flows: Mutex::default() })
    }

    /// Returns the flow of a pair, opening it for the first datagram; `None` if that fails, and the datagram is lost.
    async fn flow_of(self: &Arc<Self>, pair: Pair) -> Option<Arc<Flow>> {
        if let Some(known) = self.flows.lock().get(&pair) {
            return Some(known.clone());
        }
        let to = self.destinations.resolve(pair.1)?;
        let (open, destination) = (self.open.clone(), pair.1);
        let back = base::task::blocking(move || open(destination)).await.ok()?.ok()?;
        // From here on the connected socket receives the pod's datagrams directly, without the transparent socket.
        back.connect(pair.0).ok()?;
        back.set_nonblocking(true).ok()?;
        let back = UdpSocket::from_std(back).ok()?;
        let any: IpAddr =
            if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let world = UdpSocket::bind((any, 0)).await.ok()?;
        world.connect(to).await.ok()?;
        let flow =
            Arc::new(Flow { world, used: Mutex::new(Instant::now()), ended: CancellationToken::new() });
        {
            let mut known = self.flows.lock();
            evict(&mut known, pair.0.ip(), self.max_flows);
            known.insert(pair, flow.clone());
        }
        let (flows, own) = (self.clone(), flow.clone());
        self.tasks.spawn("egress flow", async move {
            relay(&back, &own).await;
            let mut known = flows.flows.lock();
            if known.get(&pair).is_some_and(|flow| Arc::ptr_eq(flow, &own)) {
                known.remove(&pair);
            }
        });
        Some(flow)
    }
}

/// Ends the least recently used flow of this pod if the pod has used up its share, or, if all flows are taken, of the
/// pod with most flows.
fn evict(known: &mut HashMap<Pair, Arc<Flow>>, pod: IpAddr, most: usize) {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    for (from, _) in known.keys() {
        *counts.entry(from.ip()).or_default() += 1;
    }
    let own = counts.get(&pod).copied().unwrap_or_default();
    let from = if own >= share_of(most) {
        Some(pod)
    } else if known.len() >= most {
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(pod, _)| pod)
    } else {
        None
    };
    let pod_flows = known.iter().filter(|((of, _), _)| Some(of.ip()) == from);
    let oldest = pod_flows.min_by_key(|(_, flow)| *flow.used.lock()).map(|(pair, _)| *pair);
    if let Some(flow) = oldest.and_then(|pair| known.remove(&pair)) {
        flow.ended.cancel();
    }
}

/// Receives the first datagrams of flows, for ever.
pub(super) async fn receive(socket: UdpSocket, flows: Arc<FlowTable>) {
    let mut buffer = vec![0; LONGEST];
    loop {
        let received =
            socket.async_io(Interest::READABLE, || datagrams::receive(socket.as_fd(), &mut buffer)).await;
        match received {
            Ok(datagrams::ReceivedDatagram { length, from, to: Some(to) }) => {
                if let Some(flow) = flows.flow_of((from, to)).await {
                    // A datagram may be lost as on any network; other flows must not wait for it.
                    if send(&flow.world, &buffer[..length]).is_err_and(is_unroutable) {
                        flow.ended.cancel();
                    }
                }
            }
            Ok(_) => {}
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Relays a flow's datagrams until it has been silent for [`SILENCE`] in both directions, or was evicted.
async fn relay(pod: &UdpSocket, flow: &Flow) {
    let mut silent = Instant::now() + SILENCE;
    loop {
        let moved = tokio::select! {
            ready = pod.readable() => {
                let passed = if ready.is_ok() { pass_on(pod, &flow.world) } else { Ok(false) };
                // The socket has lost its route. The next datagram opens a new flow, from the address that the machine
                // has by then.
                let Ok(moved) = passed else { return };
                moved
            }
            ready = flow.world.readable() => ready.is_ok() && pass_on(&flow.world, pod).unwrap_or(false),
            () = tokio::time::sleep_until(silent) => return,
            () = flow.ended.cancelled() => return,
        };
        if moved {
            let now = Instant::now();
            (silent, *flow.used.lock()) = (now + SILENCE, now);
        } else if Instant::now() >= silent {
            return;
        }
    }
}

/// Relays the datagrams that are available and returns whether there were any; an error means that the receiving socket
/// has no route any more. If the destination's port is closed, the socket reports an error, which is dropped: the pod
/// gets no reply, as on any network that drops ICMP.
fn pass_on(from: &UdpSocket, to: &UdpSocket) -> rustix::io::Result<bool> {
    thread_local! {
        /// One buffer for each thread, not for each flow: no task is suspended while it uses the buffer.
        static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; LONGEST]);
    }
    BUFFER.with_borrow_mut(|buffer| {
        let mut moved = false;
        for _ in 0..YIELD_AFTER {
            match from.try_recv(buffer) {
                Ok(length) => match send(to, &buffer[..length]) {
                    Err(error) if is_unroutable(error) => return Err(error),
                    sent => moved |= sent.is_ok(),
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {}
            }
        }
        Ok(moved)
    })
}

/// Returns whether a send error means that the machine's socket lost its route: a connected socket keeps its source
/// address even after the machine has lost that address.
fn is_unroutable(error: Errno) -> bool {
    matches!(
        error,
        Errno::INVAL
            | Errno::ADDRNOTAVAIL
            | Errno::NETUNREACH
            | Errno::HOSTUNREACH
            | Errno::NETDOWN
            | Errno::NODEV
    )
}

/// Sends a datagram without blocking, or drops it if the buffer is full. It works before the runtime knows whether a
/// new socket is writable.
fn send(to: &UdpSocket, datagram: &[u8]) -> rustix::io::Result<usize> {
    rustix::net::send(to, datagram, SendFlags::DONTWAIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HOST_ADDRESS, HostPorts};

    /// Sends a pod's datagrams to each of these ports.
    async fn begin(flows: &Arc<FlowTable>, pod: &str, ports: impl IntoIterator<Item = u16>) {
        let pod = SocketAddr::new(pod.parse().unwrap(), 9);
        for port in ports {
            flows.flow_of((pod, SocketAddr::new(HOST_ADDRESS.into(), port))).await.expect("a flow");
        }
    }

    #[tokio::test]
    async fn a_pod_takes_no_more_than_its_share_of_flows_net_7() {
        let tasks = Tasks::new();
        let destinations = Arc::new(Destinations { cluster: Vec::new(), host: HostPorts::All });
        let open: OpenDatagrams = Arc::new(|_| std::net::UdpSocket::bind("127.0.0.1:0"));
        let flows = FlowTable::new(destinations, open, tasks.clone(), 8);
        let count = |pod: &str| {
            let pod: IpAddr = pod.parse().unwrap();
            flows.flows.lock().keys().filter(|(from, _)| from.ip() == pod).count()
        };
        begin(&flows, "127.0.0.3", [53]).await;
        begin(&flows, "127.0.0.2", 1000..1100).await;
        assert_eq!((count("127.0.0.2"), count("127.0.0.3")), (2, 1));
        let ports: Vec<u16> = flows.flows.lock().keys().map(|(_, to)| to.port()).collect();
        assert!(ports.contains(&1098) && ports.contains(&1099), "its last ones: {ports:?}");
        // Once all flows are taken, the pods with most flows lose theirs.
        for pod in ["127.0.0.4", "127.0.0.5", "127.0.0.6", "127.0.0.7"] {
            begin(&flows, pod, [1, 2, 3]).await;
        }
        assert_eq!(flows.flows.lock().len(), 8);
        assert_eq!(count("127.0.0.3"), 1);
        assert_eq!(count("127.0.0.7"), 2);
        tasks.stop().await;
    }
}
