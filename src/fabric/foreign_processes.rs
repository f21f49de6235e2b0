//! Finds and ends processes in the network that its owner did not start: shells that were opened inside, and their
//! remaining children.
//!
//! A namespace exists for as long as a process is in it, so the network is gone only once these processes have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::time::Duration;

use netlink_packet_core::parse_i32;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::netlink::Netlink;
use crate::netlink::message::{self, find, messages, u32_ne};
use crate::{Fabric, FabricError, SocketKind, SocketSpec};
use base::clock::Clock;

/// Timeout for the exit of killed processes.
const TO_DIE: Duration = Duration::from_secs(2);
/// The interval at which their exit is checked.
const LOOK: Duration = Duration::from_millis(20);
// From linux/net_namespace.h.
const NETNSA_NSID: u16 = 1;
const NETNSA_FD: u16 = 3;

/// A process inside the network that its owner did not start.
#[derive(Debug)]
struct ForeignProcess {
    pid: i32,
    /// The pidfd, which stays valid if the pid is reused.
    handle: OwnedFd,
}

impl Fabric {
    /// Ends every process of this user that is in a leaf: writes `notice` on its terminal, as a line, hangs up as a
    /// closed terminal does, and kills the remaining processes after `grace`. Returns their number. An error means that
    /// some do not exit.
    ///
    /// Call it only when the network must be empty: processes of pods and of nodes are in leaves too.
    pub fn end_occupants(&self, notice: &str, grace: Duration) -> Result<usize, FabricError> {
        let route = self.socket(&SocketSpec::new(SocketKind::Route))?;
        let route = Netlink::from_descriptor(route);
        let mut all = BTreeSet::new();
        let clock = Clock::machine();
        let hung_up = clock.monotonic();
        let mut terminals = BTreeSet::new();
        loop {
            let there = occupants(&route).map_err(FabricError::at("processes in the network"))?;
            let passed = clock.monotonic().saturating_sub(hung_up);
            if there.is_empty() {
                return Ok(all.len());
            }
            if passed > grace + TO_DIE {
                let left = io::Error::other(format!("{} processes did not exit after SIGKILL", there.len()));
                return Err(FabricError::new("processes in the network", left));
            }
            for occupant in &there {
                if all.insert(occupant.pid) {
                    notify_terminal(occupant.pid, notice, &mut terminals);
                    // A stopped process receives the signal only when it continues.
                    occupant.signal(&[Signal::HUP, Signal::CONT]);
                }
                if passed >= grace {
                    occupant.signal(&[Signal::KILL]);
                }
            }
            wait(&there, LOOK);
        }
    }
}

impl ForeignProcess {
    fn signal(&self, signals: &[Signal]) {
        for signal in signals {
            // The process may have ended just now.
            let _ = pidfd_send_signal(&self.handle, *signal);
        }
    }
}

/// Waits until one of the processes ends, or until the timeout, which must be below one second.
fn wait(occupants: &[ForeignProcess], timeout: Duration) {
    let handles = occupants.iter().map(|occupant| PollFd::new(&occupant.handle, PollFlags::IN));
    let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().into() };
    // It does not matter if a signal interrupts the wait: the caller checks the processes again.
    let _ = poll(&mut handles.collect::<Vec<_>>(), Some(&timeout));
}

/// Returns the processes in leaves of the fabric in which this socket was opened, as far as they are visible to this
/// user.
fn occupants(route: &Netlink) -> io::Result<Vec<ForeignProcess>> {
    let mut known = BTreeMap::new();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Some(Ok(handle)) = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
            continue;
        };
        // Processes of other users and ended ones are not readable.
        let Ok(namespace) = File::open(format!("/proc/{pid}/ns/net")) else { continue };
        let number = namespace.metadata()?.ino();
        let is_leaf = match known.get(&number) {
            Some(is_leaf) => *is_leaf,
            None => *known.entry(number).or_insert(is_leaf(route, &namespace)?),
        };
        if is_leaf {
            found.push(ForeignProcess { pid, handle });
        }
    }
    Ok(found)
}

/// Returns true if a network namespace has a link into the fabric: the kernel has then assigned it an id there.
fn is_leaf(route: &Netlink, namespace: &impl AsFd) -> io::Result<bool> {
    // `struct rtgenmsg` of linux/rtnetlink.h, with padding.
    const FIXED: [u8; 4] = [libc::AF_UNSPEC as u8, 0, 0, 0];
    let descriptor = u32_ne(NETNSA_FD, namespace.as_fd().as_raw_fd().cast_unsigned());
    let answer = route.request(&message::request(libc::RTM_GETNSID, 0, 0, &FIXED, &[descriptor]))?;
    let answer = messages(&answer).next().ok_or(io::ErrorKind::InvalidData)?;
    let number = find(answer.attributes(FIXED.len()), NETNSA_NSID).and_then(|number| parse_i32(number).ok());
    Ok(answer.kind == libc::RTM_NEWNSID && number.is_some_and(|number| number >= 0))
}

/// Writes a line on the terminal that a process has open, once for each terminal.
fn notify_terminal(pid: i32, notice: &str, reported: &mut BTreeSet<u64>) {
    for number in 0..3 {
        let mut options = OpenOptions::new();
        // Never blocks: a terminal may be stopped.
        options.write(true).custom_flags((OFlags::NOCTTY | OFlags::NONBLOCK).bits().cast_signed());
        let Ok(mut terminal) = options.open(format!("/proc/{pid}/fd/{number}")) else { continue };
        let Ok(about) = terminal.metadata() else { continue };
        if rustix::termios::isatty(&terminal) && reported.insert(about.rdev()) {
            // The user may have left.
            let _ = terminal.write_all(format!("\r\n{notice}\r\n").as_bytes());
        }
    }
}
