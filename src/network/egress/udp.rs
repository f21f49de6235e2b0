//! Datagrams to the world: each pair of a pod's port and an address of the world has a socket on the machine, and one
//! inside from which the answers come as if from there.

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
use crate::share::share_of;
use base::task::Tasks;
use fabric::datagrams;

/// The longest datagram.
const LONGEST: usize = 65_535;
/// How long a flow without datagrams is kept: longer than most resolvers try.
const SILENCE: Duration = Duration::from_mins(1);

/// Datagrams that are passed on one after the other before others have their turn.
const TURN: usize = 64;

/// A pod's port and the address that it sends to.
type Pair = (SocketAddr, SocketAddr);

/// All flows.
pub(super) struct Flows {
    destinations: Arc<Destinations>,
    open: OpenDatagrams,
    tasks: Tasks,
    most: usize,
    known: Mutex<HashMap<Pair, Arc<Flow>>>,
}

/// One of them.
struct Flow {
    /// Its socket on the machine.
    world: UdpSocket,
    /// When a datagram last came or went.
    used: Mutex<Instant>,
    /// Another flow of its pod has its place now.
    ended: CancellationToken,
}

impl Flows {
    pub(super) fn new(
        destinations: Arc<Destinations>,
        open: OpenDatagrams,
        tasks: Tasks,
        most: usize,
    ) -> Arc<Self> {
        Arc::new(Self { destinations, open, tasks, most, known: Mutex::default() })
    }

    /// The flow of a pair; made for the first datagram. None = this one is lost.
    async fn towards(self: &Arc<Self>, pair: Pair) -> Option<Arc<Flow>> {
        if let Some(known) = self.known.lock().get(&pair) {
            return Some(known.clone());
        }
        let to = self.destinations.resolve(pair.1)?;
        let (open, asked) = (self.open.clone(), pair.1);
        let back = tokio::task::spawn_blocking(move || open(asked)).await.ok()?.ok()?;
        // From now on it hears what its pod sends by itself.
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
            let mut known = self.known.lock();
            make_room(&mut known, pair.0.ip(), self.most);
            known.insert(pair, flow.clone());
        }
        let (flows, own) = (self.clone(), flow.clone());
        self.tasks.spawn("egress flow", async move {
            relay(&back, &own).await;
            let mut known = flows.known.lock();
            if known.get(&pair).is_some_and(|flow| Arc::ptr_eq(flow, &own)) {
                known.remove(&pair);
            }
        });
        Some(flow)
    }
}

/// Ends the flow that has been silent for longest, of a pod with more than its share, or, where all are taken, of the pod
/// that has most.
fn make_room(known: &mut HashMap<Pair, Arc<Flow>>, pod: IpAddr, most: usize) {
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
    let theirs = known.iter().filter(|((of, _), _)| Some(of.ip()) == from);
    let eldest = theirs.min_by_key(|(_, flow)| *flow.used.lock()).map(|(pair, _)| *pair);
    if let Some(flow) = eldest.and_then(|pair| known.remove(&pair)) {
        flow.ended.cancel();
    }
}

/// Takes the first datagrams of flows for ever.
pub(super) async fn receive(socket: UdpSocket, flows: Arc<Flows>) {
    let mut buffer = vec![0; LONGEST];
    loop {
        let received =
            socket.async_io(Interest::READABLE, || datagrams::receive(socket.as_fd(), &mut buffer)).await;
        match received {
            Ok(datagrams::Received { length, from, to: Some(to) }) => {
                if let Some(flow) = flows.towards((from, to)).await {
                    // As lost as any datagram may be, and no reason for others to wait.
                    if send(&flow.world, &buffer[..length]).is_err_and(has_no_way) {
                        flow.ended.cancel();
                    }
                }
            }
            Ok(_) => {}
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Until both have been silent for so long, or the flow's place is another's.
async fn relay(pod: &UdpSocket, flow: &Flow) {
    let mut silent = Instant::now() + SILENCE;
    loop {
        let moved = tokio::select! {
            ready = pod.readable() => {
                let passed = if ready.is_ok() { pass_on(pod, &flow.world) } else { Ok(false) };
                // The next datagram begins another flow, from the address that the machine has then.
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

/// Passes on what is there, and says whether that was anything; an error is that the socket it is passed on to has no way any
/// more. That nobody listens in the world is told by an error of
/// the socket: whoever sent waits in vain, as in any network that keeps silent.
fn pass_on(from: &UdpSocket, to: &UdpSocket) -> rustix::io::Result<bool> {
    thread_local! {
        /// One of each thread, not of each flow: nothing waits while it is used.
        static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; LONGEST]);
    }
    BUFFER.with_borrow_mut(|buffer| {
        let mut moved = false;
        for _ in 0..TURN {
            match from.try_recv(buffer) {
                Ok(length) => match send(to, &buffer[..length]) {
                    Err(error) if has_no_way(error) => return Err(error),
                    sent => moved |= sent.is_ok(),
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {}
            }
        }
        Ok(moved)
    })
}

/// Whether a socket of the machine has lost the way that it had: a connected one keeps the address that it sends from, also
/// when the machine has it no longer.
fn has_no_way(error: Errno) -> bool {
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

/// Sends a datagram, or loses it where there is no room: at once, also before the runtime knows of a new socket.
fn send(to: &UdpSocket, datagram: &[u8]) -> rustix::io::Result<usize> {
    rustix::net::send(to, datagram, SendFlags::DONTWAIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::{HOST_ADDRESS, HostPorts};

    /// A pod's datagrams to so many ports.
    async fn begin(flows: &Arc<Flows>, pod: &str, ports: impl IntoIterator<Item = u16>) {
        let pod = SocketAddr::new(pod.parse().unwrap(), 9);
        for port in ports {
            flows.towards((pod, SocketAddr::new(HOST_ADDRESS.into(), port))).await.expect("a flow");
        }
    }

    #[tokio::test]
    async fn a_pod_takes_no_more_than_its_share_of_flows_net_7() {
        let tasks = Tasks::new();
        let destinations = Arc::new(Destinations { cluster: Vec::new(), host: HostPorts::All });
        let open: OpenDatagrams = Arc::new(|_| std::net::UdpSocket::bind("127.0.0.1:0"));
        let flows = Flows::new(destinations, open, tasks.clone(), 8);
        let count = |pod: &str| {
            let pod: IpAddr = pod.parse().unwrap();
            flows.known.lock().keys().filter(|(from, _)| from.ip() == pod).count()
        };
        begin(&flows, "127.0.0.3", [53]).await;
        begin(&flows, "127.0.0.2", 1000..1100).await;
        assert_eq!((count("127.0.0.2"), count("127.0.0.3")), (2, 1));
        let ports: Vec<u16> = flows.known.lock().keys().map(|(_, to)| to.port()).collect();
        assert!(ports.contains(&1098) && ports.contains(&1099), "its last ones: {ports:?}");
        // When all are taken those with most give way.
        for pod in ["127.0.0.4", "127.0.0.5", "127.0.0.6", "127.0.0.7"] {
            begin(&flows, pod, [1, 2, 3]).await;
        }
        assert_eq!(flows.known.lock().len(), 8);
        assert_eq!(count("127.0.0.3"), 1);
        assert_eq!(count("127.0.0.7"), 2);
        tasks.stop().await;
    }
}
