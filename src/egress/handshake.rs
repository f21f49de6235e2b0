//! The handshake of connections to the world (NET-7): Podium connects to the destination before it accepts the pod's
//! connection.
//!
//! A connection's SYN takes a detour and waits here while this machine connects to the destination. Then Podium sends
//! the SYN on. If the destination has accepted, the fabric accepts the pod's connection, and Podium joins it with the
//! connection to the destination. If the destination has refused, the kernel refuses the pod's connection in the same
//! way. If the destination does not answer, Podium does not answer the pod either.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::RefusalKind;
use super::context::EgressContext;
use super::pending_handshakes::{HandshakeStage, Pair};
use base::backoff::BackoffPolicy;
use fabric::{ABOUT_PACKET, FabricError};

/// Timeout for the pod's connection to be accepted after the destination has accepted. Only faults lose packets on the
/// way.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of a frame with a SYN, which has no data or a few bytes (TCP fast open).
const LONGEST: usize = ABOUT_PACKET + 14 + 65_536;
/// Back-off for reopening a detour that has ended.
const REOPEN_BACKOFF: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_millis(10), max: Duration::from_secs(10) };

/// Opens the detour in place of the current one and returns its socket ([`fabric::Fabric::detour`]); it may block for
/// some milliseconds.
pub type OpenDetourFn = Arc<dyn Fn() -> Result<OwnedFd, FabricError> + Send + Sync>;

/// Returns the connection's endpoints if the frame is a TCP SYN.
fn syn_endpoints(frame: &[u8]) -> Option<Pair> {
    let packet = SlicedPacket::from_ethernet(frame.get(ABOUT_PACKET..)?).ok()?;
    let (from, to): (IpAddr, IpAddr) = match packet.net? {
        NetSlice::Ipv4(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
        NetSlice::Ipv6(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
        NetSlice::Arp(_) => return None,
    };
    let Some(TransportSlice::Tcp(tcp)) = packet.transport else { return None };
    let begins = tcp.syn() && !tcp.ack() && !tcp.rst() && !tcp.fin();
    begins.then(|| (SocketAddr::new(from, tcp.source_port()), SocketAddr::new(to, tcp.destination_port())))
}

/// Receives SYNs and sends them on, for ever; `first` is the socket of a detour that is open already.
pub(super) async fn serve(first: OwnedFd, open: OpenDetourFn, relay: Arc<EgressContext>) {
    let (mut socket, mut failures) = (Some(first), 0);
    loop {
        let opened = if let Some(socket) = socket.take() {
            Ok(socket)
        } else {
            let open = open.clone();
            let opened = base::task::blocking(move || open()).await;
            opened.map_err(io::Error::other).and_then(|opened| opened.map_err(io::Error::other))
        };
        let error = match opened.and_then(registered) {
            Ok(detour) => {
                failures = 0;
                receive(Arc::new(detour), &relay).await
            }
            Err(error) => error,
        };
        failures += 1;
        tracing::warn!(%error, "cannot receive pods' connections to the outside; retrying");
        tokio::time::sleep(REOPEN_BACKOFF.delay(failures)).await;
    }
}

#[expect(unsafe_code, reason = "tokio requires a promise that the descriptor is owned")]
fn registered(socket: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an owned descriptor is open, and has no other owner, until it is dropped.
    unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }.map_err(Into::into)
}

/// Handles frames until receiving fails because the detour's link is gone.
async fn receive(detour: Arc<AsyncFd<OwnedFd>>, relay: &Arc<EgressContext>) -> io::Error {
    let mut buffer = vec![0; LONGEST];
    loop {
        let received = detour.async_io(Interest::READABLE, |socket| {
            Ok(rustix::net::recv(socket, &mut buffer[..], RecvFlags::DONTWAIT)?)
        });
        let length = match received.await {
            Ok((length, _)) => length,
            Err(error) => match Errno::from_io_error(&error) {
                // The kernel dropped frames for lack of memory; their senders retransmit them.
                Some(Errno::NOBUFS | Errno::NOMEM | Errno::INTR) => continue,
                _ => return error,
            },
        };
        let frame = &buffer[..length];
        match syn_endpoints(frame) {
            Some(pair) => connect(pair, frame.into(), &detour, relay),
            // The packet belongs to a connection that is closed; the fabric answers it.
            None => send_on(&detour, frame),
        }
    }
}

/// Sends a frame back to the fabric; if the buffer is full, the frame is lost and its sender retransmits it.
fn send_on(detour: &AsyncFd<OwnedFd>, frame: &[u8]) {
    if let Err(error) = rustix::net::send(detour.get_ref(), frame, SendFlags::DONTWAIT) {
        tracing::debug!(%error, "cannot pass on a connection's first packet; the pod sends it again");
    }
}

/// Connects to the destination of a SYN, unless that is already under way.
fn connect(pair: Pair, frame: Box<[u8]>, detour: &Arc<AsyncFd<OwnedFd>>, relay: &Arc<EgressContext>) {
    let (from, to) = pair;
    match relay.pending.stage(pair) {
        None => {}
        Some(HandshakeStage::Connecting) => return,
        // The SYN or its SYN-ACK was lost and the pod retransmits.
        Some(HandshakeStage::Connected) => return send_on(detour, &frame),
    }
    let place = relay.acquire(from.ip());
    let (detour, relay, tasks) = (detour.clone(), relay.clone(), relay.tasks.clone());
    let Some(place) = place else {
        tasks.spawn("egress refusal", async move {
            relay.refuse(pair, RefusalKind::Reset).await;
            send_on(&detour, &frame);
        });
        return;
    };
    relay.pending.begin(pair);
    tasks.spawn("egress connection begins", async move {
        // However this task ends, the pair is removed.
        let mut ends = HandshakeGuard { pair, relay: &relay, is_claimed: false };
        match relay.connect(to).await {
            Ok(world) => {
                let is_taken = relay.pending.connected(pair, world, place);
                send_on(&detour, &frame);
                ends.is_claimed = tokio::time::timeout(ACCEPT_TIMEOUT, is_taken).await.is_ok();
            }
            Err(error) => {
                drop(place);
                if let Some(how) = refusal(&error) {
                    relay.refuse(pair, how).await;
                    send_on(&detour, &frame);
                }
            }
        }
    });
}

/// Removes a pair's pending handshake on drop, unless its connection was taken.
struct HandshakeGuard<'a> {
    pair: Pair,
    relay: &'a EgressContext,
    /// The pod's connection has taken the connection to the destination. The pair's entry must then stay, because it
    /// may belong to a newer connection.
    is_claimed: bool,
}

impl Drop for HandshakeGuard<'_> {
    fn drop(&mut self) {
        if !self.is_claimed {
            self.relay.pending.forget(self.pair);
        }
    }
}

/// Translates a connect error into the refusal for the pod; `None` if the destination did not answer.
fn refusal(error: &io::Error) -> Option<RefusalKind> {
    match error.kind() {
        io::ErrorKind::TimedOut => None,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable | io::ErrorKind::NetworkDown => {
            Some(RefusalKind::Unreachable)
        }
        _ => Some(RefusalKind::Reset),
    }
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;

    use super::*;

    /// Builds a frame as a detour's socket delivers it.
    fn frame(flags: &[&str], data: &[u8], v6: bool) -> Vec<u8> {
        let ethernet = PacketBuilder::ethernet2([0xee; 6], [0xee; 6]);
        let ip = if v6 {
            let ([from, to], hops) =
                (["fd00::1", "fd00::2"].map(|ip| ip.parse::<std::net::Ipv6Addr>().unwrap()), 63);
            ethernet.ipv6(from.octets(), to.octets(), hops)
        } else {
            ethernet.ipv4([10, 244, 1, 2], [203, 0, 113, 7], 63)
        };
        let mut tcp = ip.tcp(40_000, 443, 1, 1000);
        for flag in flags {
            tcp = match *flag {
                "syn" => tcp.syn(),
                "ack" => tcp.ack(1),
                "rst" => tcp.rst(),
                _ => tcp.fin(),
            };
        }
        let mut bytes = vec![0; ABOUT_PACKET];
        tcp.write(&mut bytes, data).unwrap();
        bytes
    }

    #[test]
    fn a_first_packet_is_known_by_its_flags_net_7() {
        let v4 = ("10.244.1.2:40000".parse().unwrap(), "203.0.113.7:443".parse().unwrap());
        let v6 = ("[fd00::1]:40000".parse().unwrap(), "[fd00::2]:443".parse().unwrap());
        assert_eq!(syn_endpoints(&frame(&["syn"], b"", false)), Some(v4));
        assert_eq!(syn_endpoints(&frame(&["syn"], b"fast open", false)), Some(v4));
        assert_eq!(syn_endpoints(&frame(&["syn"], b"", true)), Some(v6));
        for other in [&["ack"][..], &["syn", "ack"], &["rst"], &["fin", "ack"], &["syn", "fin"], &[]] {
            assert_eq!(syn_endpoints(&frame(other, b"", false)), None, "{other:?}");
        }
        let whole = frame(&["syn"], b"", false);
        for length in 0..whole.len() {
            assert_eq!(syn_endpoints(&whole[..length]), None, "cut off after {length} bytes");
        }
        let datagram =
            PacketBuilder::ethernet2([0; 6], [0; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9).udp(1, 2);
        let mut bytes = vec![0; ABOUT_PACKET];
        datagram.write(&mut bytes, b"hello").unwrap();
        assert_eq!(syn_endpoints(&bytes), None);
    }

    #[test]
    fn a_pod_gets_the_connection_error_of_the_destination_net_7() {
        for (kind, how) in [
            (io::ErrorKind::ConnectionRefused, Some(RefusalKind::Reset)),
            (io::ErrorKind::PermissionDenied, Some(RefusalKind::Reset)),
            (io::ErrorKind::HostUnreachable, Some(RefusalKind::Unreachable)),
            (io::ErrorKind::NetworkUnreachable, Some(RefusalKind::Unreachable)),
            (io::ErrorKind::TimedOut, None),
        ] {
            assert_eq!(refusal(&kind.into()), how, "{kind:?}");
        }
    }
}
