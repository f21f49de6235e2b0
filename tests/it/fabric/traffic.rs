//! Connections and datagrams between leaves, and nft's output of the rules.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use fabric::{SocketKind, SocketSpec};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::FabricProcess;
use crate::instance::wait_for;

/// Time to wait before concluding that nothing comes.
pub(super) const SILENCE_TIMEOUT: Duration = Duration::from_millis(300);
/// Time to wait for what must come: a lost packet is sent again after a second, and the machine may be busy.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

impl FabricProcess {
    /// Waits for a leaf's link: the kernel forwards nothing for a moment after it is up.
    pub(super) fn until_up(&self, leaf: &str) {
        wait_for(&format!("the link of {leaf}"), || {
            (self.refused(leaf, "10.244.0.1:9") == Some(ErrorKind::ConnectionRefused)).then_some(())
        });
    }

    /// The outcome of a connection for polls, and where nothing should come: soon a time-out.
    pub(super) fn outcome(&self, from: &str, to: &str) -> Result<TcpStream, ErrorKind> {
        self.outcome_within(from, to, SILENCE_TIMEOUT)
    }

    /// The outcome of a connection that must be accepted or refused.
    pub(super) fn answer(&self, from: &str, to: &str) -> Result<TcpStream, ErrorKind> {
        self.outcome_within(from, to, ANSWER_TIMEOUT)
    }

    /// The outcome of a connection, provided that its first packet is not lost, however busy the machine is: a lost one
    /// would be sent again after a second.
    pub(super) fn first_packet_of(&self, from: &str, to: &str) -> Result<TcpStream, ErrorKind> {
        self.outcome_within(from, to, Duration::from_millis(950))
    }

    fn outcome_within(&self, from: &str, to: &str, within: Duration) -> Result<TcpStream, ErrorKind> {
        let to: SocketAddr = to.parse().unwrap();
        let socket = self.fabric.socket(&SocketSpec::new(super::tcp(to)).in_leaf(from)).unwrap();
        match rustix::net::connect(&socket, &to) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(std::io::Error::from(error).kind()),
        }
        let within = Timespec::try_from(within).unwrap();
        if poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&within)).unwrap() == 0 {
            return Err(ErrorKind::TimedOut);
        }
        let stream = TcpStream::from(socket);
        match stream.take_error().unwrap() {
            Some(error) => Err(error.kind()),
            None => Ok(stream),
        }
    }

    /// The error of [`FabricProcess::outcome`]; `None` if the connection is accepted.
    pub(super) fn refused(&self, from: &str, to: &str) -> Option<ErrorKind> {
        self.outcome(from, to).err()
    }

    /// A socket for datagrams that waits for those that must come.
    pub(super) fn datagrams(&self, leaf: &str, bind: &str) -> UdpSocket {
        let spec = SocketSpec { bind: bind.parse().ok(), ..SocketSpec::new(SocketKind::UdpV4).in_leaf(leaf) };
        let socket = UdpSocket::from(self.fabric.socket(&spec).unwrap());
        socket.set_nonblocking(false).unwrap();
        socket.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
        socket
    }

    /// A socket for datagrams with a forged source address.
    pub(super) fn datagrams_as(&self, leaf: &str, address: &str) -> UdpSocket {
        let spec = SocketSpec::new(SocketKind::UdpV4).in_leaf(leaf);
        let spec = SocketSpec { transparent: true, bind: address.parse().ok(), ..spec };
        UdpSocket::from(self.fabric.socket(&spec).unwrap())
    }

    /// The tables inside, as nft prints them; `None` if nft is not installed, which is reported.
    pub(super) fn listing(&self) -> Option<String> {
        let process = self.process.id().to_string();
        let mut command = Command::new("nsenter");
        command.args(["-t", &process, "-n", "nft", "-nn", "list", "ruleset"]);
        match command.output() {
            Ok(output) if output.status.success() => Some(String::from_utf8(output.stdout).unwrap()),
            other => {
                eprintln!("not compared with nft: {other:?}");
                None
            }
        }
    }
}

/// Accepts all waiting connections of a listener and returns their number.
pub(super) fn accept_all(listener: &TcpListener) -> usize {
    listener.set_nonblocking(true).unwrap();
    let count = std::iter::from_fn(|| listener.accept().ok()).count();
    listener.set_nonblocking(false).unwrap();
    count
}
