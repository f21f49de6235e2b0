//! Datagrams to the world: each pair of a pod's port and an address of the world has a socket on the machine, and one
//! inside from which the answers come as if from there.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::time::Instant;

use super::{Destinations, OpenDatagrams};
use base::task::Tasks;
use fabric::datagrams;

/// The longest datagram.
const LONGEST: usize = 65_535;
/// How long a flow without datagrams is kept: longer than most resolvers try.
const SILENCE: Duration = Duration::from_mins(1);

/// A pod's port and the address that it sends to.
type Pair = (SocketAddr, SocketAddr);

/// All flows.
pub(super) struct Flows {
    destinations: Arc<Destinations>,
    open: OpenDatagrams,
    tasks: Tasks,
    most: usize,
    known: Mutex<HashMap<Pair, Arc<UdpSocket>>>,
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

    /// The socket on the machine of a pair; made for the first datagram. None = this one is lost.
    async fn towards(self: &Arc<Self>, pair: Pair) -> Option<Arc<UdpSocket>> {
        if let Some(known) = self.known.lock().get(&pair) {
            return Some(known.clone());
        }
        let to = self.destinations.resolve(pair.1)?;
        if self.known.lock().len() >= self.most {
            return None;
        }
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
        let world = Arc::new(world);
        self.known.lock().insert(pair, world.clone());
        let (flows, socket) = (self.clone(), world.clone());
        self.tasks.spawn("egress flow", async move {
            relay(&back, &socket).await;
            flows.known.lock().remove(&pair);
        });
        Some(world)
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
                if let Some(world) = flows.towards((from, to)).await {
                    // As lost as any datagram may be.
                    let _ = world.send(&buffer[..length]).await;
                }
            }
            Ok(_) => {}
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Until both have been silent for so long.
async fn relay(pod: &UdpSocket, world: &UdpSocket) {
    let mut from_pod = vec![0; LONGEST];
    let mut from_world = vec![0; LONGEST];
    let mut silent = Instant::now() + SILENCE;
    loop {
        let moved: io::Result<usize> = tokio::select! {
            got = pod.recv(&mut from_pod) => match got {
                Ok(length) => world.send(&from_pod[..length]).await,
                Err(error) => Err(error),
            },
            got = world.recv(&mut from_world) => match got {
                Ok(length) => pod.send(&from_world[..length]).await,
                // Nobody is there: whoever sent it waits in vain, as in any network that keeps silent.
                Err(error) => Err(error),
            },
            () = tokio::time::sleep_until(silent) => return,
        };
        if moved.is_ok() {
            silent = Instant::now() + SILENCE;
        } else if Instant::now() >= silent {
            return;
        }
    }
}
