//! The delay box at a detour's end: it holds each packet for its delay and sends it back.
//!
//! It runs in a thread of its own that waits only for packets and for the times at which packets are due. The held
//! packets are bounded in number and in bytes: further ones are dropped and counted, as a queueing discipline does at
//! its limit. With jitter packets overtake each other.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use tokio::time::Instant;

use crate::detour::ABOUT;
use crate::leaf::FABRIC_MAC;

/// The maximum size of the held packets, in bytes.
const BYTES: usize = 16 << 20;
/// The maximum number of held packets.
const PACKETS: usize = 16_384;
/// The longest packet with its header.
const LONGEST: usize = ABOUT + 14 + 65_536;
/// The maximum number of packets received before due ones are sent.
const AT_ONCE: usize = 64;

/// The delay of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// The delay of each packet.
    pub delay: Duration,
    /// The maximum of the random delay added to it.
    pub jitter: Duration,
}

/// Counts of delayed and dropped packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayCounts {
    /// The packets sent back after their delay.
    pub delayed: u64,
    /// The packets dropped, because the queue was full or the kernel refused them.
    pub dropped: u64,
}

#[derive(Debug, Default)]
struct Counters {
    delayed: AtomicU64,
    dropped: AtomicU64,
}

/// A running delay box; it ends when this is dropped, and the packets it holds are lost.
#[derive(Debug)]
pub struct DelayBox {
    stop: Arc<OwnedFd>,
    counters: Arc<Counters>,
}

impl DelayBox {
    /// Starts a delay box at a detour's socket ([`crate::Fabric::detour`]). `ended` is called on a fatal error, but not
    /// when the box is dropped.
    pub fn start(
        socket: OwnedFd,
        delay: Delay,
        seed: u64,
        ended: impl FnOnce(io::Error) + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?);
        let counters = Arc::new(Counters::default());
        let this = Self { stop: stop.clone(), counters: counters.clone() };
        std::thread::Builder::new().name("delay-box".into()).spawn(move || {
            let queue = Queue::new(delay, seed);
            if let Err(error) = serve(&socket, &stop, queue, &counters) {
                ended(error);
            }
        })?;
        Ok(this)
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> DelayCounts {
        let Counters { delayed, dropped } = &*self.counters;
        DelayCounts { delayed: delayed.load(Ordering::Relaxed), dropped: dropped.load(Ordering::Relaxed) }
    }
}

impl Drop for DelayBox {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
    }
}

/// Serves until it is stopped.
fn serve(socket: &OwnedFd, stop: &OwnedFd, mut queue: Queue, counters: &Counters) -> io::Result<()> {
    let mut buffer = vec![0; LONGEST];
    loop {
        let now = Instant::now();
        while let Some(packet) = queue.due(now) {
            let sent = rustix::net::send(socket, &packet, SendFlags::DONTWAIT);
            match sent {
                Ok(_) => counters.delayed.fetch_add(1, Ordering::Relaxed),
                Err(error) if is_over(error) => return Err(error.into()),
                // The kernel's buffer is full, or it refuses the packet.
                Err(_) => counters.dropped.fetch_add(1, Ordering::Relaxed),
            };
        }
        let pause = queue.next().map(|at| {
            let pause = at.saturating_duration_since(Instant::now());
            Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: pause.subsec_nanos().into() }
        });
        let mut poll_fds = [PollFd::new(socket, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        match rustix::event::poll(&mut poll_fds, pause.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !poll_fds[1].revents().is_empty() {
            return Ok(());
        }
        for _ in 0..AT_ONCE {
            let length = match rustix::net::recv(socket.as_fd(), &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((length, _)) => length,
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(error) if is_over(error) => return Err(error.into()),
                // The kernel reports that it dropped packets for lack of buffer space.
                Err(_) => break,
            };
            let packet = &buffer[..length];
            if is_detoured(packet) && !queue.keep(Instant::now(), packet) {
                counters.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Returns true if the error means that the link was deleted: no packet comes any more.
fn is_over(error: Errno) -> bool {
    matches!(error, Errno::NETDOWN | Errno::NXIO | Errno::NODEV | Errno::BADF)
}

/// Returns true if a packet took the detour; others are the kernel's own, about the link itself.
fn is_detoured(packet: &[u8]) -> bool {
    let ethernet = packet.get(ABOUT..ABOUT + 14);
    ethernet.is_some_and(|ethernet| {
        ethernet[..6] == FABRIC_MAC && matches!(ethernet[12..14], [0x08, 0x00] | [0x86, 0xdd])
    })
}

/// Packets by the time at which they are due.
struct Queue {
    delay: Delay,
    /// The packets by their due time, and those of the same time in the order of arrival.
    packets: BTreeMap<(Instant, u64), Box<[u8]>>,
    bytes: usize,
    /// Counts the received packets.
    sequence: u64,
    chance: u64,
}

impl Queue {
    fn new(delay: Delay, seed: u64) -> Self {
        Self { delay, packets: BTreeMap::new(), bytes: 0, sequence: 0, chance: seed }
    }

    /// Holds a packet that arrived now; returns false if the queue is full.
    fn keep(&mut self, now: Instant, packet: &[u8]) -> bool {
        if self.packets.len() >= PACKETS || self.bytes + packet.len() > BYTES {
            return false;
        }
        let jitter = u64::try_from(self.delay.jitter.as_nanos()).unwrap_or(u64::MAX);
        let more = if jitter == 0 { 0 } else { self.chance() % jitter.saturating_add(1) };
        self.sequence += 1;
        self.bytes += packet.len();
        let at = now + self.delay.delay + Duration::from_nanos(more);
        self.packets.insert((at, self.sequence), packet.into());
        true
    }

    /// Removes and returns a packet that is due.
    fn due(&mut self, now: Instant) -> Option<Box<[u8]>> {
        let first = self.packets.first_entry().filter(|first| first.key().0 <= now)?;
        let packet = first.remove();
        self.bytes -= packet.len();
        Some(packet)
    }

    /// Returns the time at which the next packet is due.
    fn next(&self) -> Option<Instant> {
        self.packets.first_key_value().map(|((at, _), _)| *at)
    }

    /// Returns the next random number, by the SplitMix64 algorithm.
    fn chance(&mut self) -> u64 {
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.chance;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn delay(delay: u64, jitter: u64) -> Delay {
        Delay { delay: Duration::from_millis(delay), jitter: Duration::from_millis(jitter) }
    }

    #[test]
    fn packets_leave_after_their_time_in_their_order_net_10() {
        let (mut queue, start) = (Queue::new(delay(20, 0), 1), Instant::now());
        let after = |millis| start + Duration::from_millis(millis);
        assert!(queue.keep(after(0), &[1]) && queue.keep(after(0), &[2]) && queue.keep(after(5), &[3]));
        assert_eq!(queue.next(), Some(after(20)));
        assert_eq!(queue.due(after(19)), None);
        assert_eq!(queue.due(after(20)).as_deref(), Some(&[1][..]));
        assert_eq!(queue.due(after(20)).as_deref(), Some(&[2][..]));
        assert_eq!(queue.due(after(20)), None);
        assert_eq!(queue.due(after(25)).as_deref(), Some(&[3][..]));
        assert_eq!((queue.next(), queue.bytes), (None, 0));
    }

    #[test]
    fn jitter_comes_on_top_and_is_bounded_net_10() {
        let (mut queue, start) = (Queue::new(delay(20, 10), 7), Instant::now());
        (0..1000).for_each(|_| assert!(queue.keep(start, &[0])));
        let times: Vec<Duration> = queue.packets.keys().map(|(at, _)| *at - start).collect();
        let (first, last) = (times.first().unwrap(), times.last().unwrap());
        assert!(*first >= Duration::from_millis(20) && *last <= Duration::from_millis(30));
        assert!(last.saturating_sub(*first) > Duration::from_millis(8), "{first:?} to {last:?}");
    }

    #[test]
    fn packets_beyond_the_queue_capacity_are_dropped_net_10() {
        let (mut queue, start) = (Queue::new(delay(20, 0), 1), Instant::now());
        let accepted = (0..PACKETS + 5).filter(|_| queue.keep(start, &[0])).count();
        assert_eq!(accepted, PACKETS);
        let (mut queue, packet) = (Queue::new(delay(20, 0), 1), vec![0; 65_536]);
        let accepted = (0..PACKETS).filter(|_| queue.keep(start, &packet)).count();
        assert_eq!(accepted, BYTES / 65_536);
        // The queue accepts another packet once one has left it.
        queue.due(start + Duration::from_secs(1)).unwrap();
        assert!(queue.keep(start, &packet) && !queue.keep(start, &packet));
    }

    #[test]
    fn only_what_took_the_detour_is_sent_back_net_10() {
        let frame = |to: [u8; 6], kind: [u8; 2]| [&[0; ABOUT][..], &to, &[0; 6], &kind, &[0; 20]].concat();
        assert!(
            is_detoured(&frame(FABRIC_MAC, [0x08, 0x00])) && is_detoured(&frame(FABRIC_MAC, [0x86, 0xdd]))
        );
        // A neighbour solicitation, an unsupported protocol, and truncated frames.
        assert!(!is_detoured(&frame([0x33, 0x33, 0, 0, 0, 1], [0x86, 0xdd])));
        assert!(!is_detoured(&frame(FABRIC_MAC, [0x08, 0x06])));
        assert!(!is_detoured(&frame(FABRIC_MAC, [0x08, 0x00])[..20]) && !is_detoured(&[]));
    }
}
