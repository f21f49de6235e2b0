//! Forwards questions about names outside the cluster to the machine's own resolvers.
//!
//! The list of resolvers is read again for each question, because a laptop changes networks. A resolver that did not
//! answer is skipped for a while, so that a question without a network costs milliseconds and not seconds.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use hickory_proto::op::{Message, MessageType};
use parking_lot::Mutex;
use tokio::net::{TcpStream, UdpSocket};

use super::framing::{read_framed, write_framed};
use base::clock::Clock;
use base::optional_file::read_optional;
use base::resolv_conf::ResolvConf;

/// Timeout for one resolver.
const RESOLVER_TIMEOUT: Duration = Duration::from_millis(1500);
/// For this long after a timeout, a resolver is skipped if there is another, and otherwise gets only [`SHORT_TIMEOUT`].
const SKIP_TIME: Duration = Duration::from_secs(10);
/// Timeout for a recently silent resolver that is the only choice.
const SHORT_TIMEOUT: Duration = Duration::from_millis(300);
/// Maximum number of resolvers, the same as in libc.
const SERVERS: usize = 3;

/// The resolvers for names outside the cluster.
#[derive(Clone, Debug)]
pub enum Resolvers {
    /// The resolvers in a file in resolv.conf's format.
    File(PathBuf),
    /// These addresses.
    Fixed(Vec<SocketAddr>),
}

/// The transport of a forwarded question: the same as the client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueryTransport {
    Datagram,
    Connection,
}

/// Forwards questions, and remembers the resolvers that did not answer.
pub(super) struct Forwarder {
    resolvers: Resolvers,
    /// This server's own addresses: forwarding to them would loop.
    own: Vec<IpAddr>,
    clock: Clock,
    resting: Mutex<HashMap<SocketAddr, Duration>>,
}

impl Forwarder {
    pub(super) fn new(resolvers: Resolvers, own: Vec<IpAddr>, clock: Clock) -> Self {
        Self { resolvers, own, clock, resting: Mutex::default() }
    }

    /// Returns the first response that any resolver gives, with the question's own id.
    pub(super) async fn forward(
        &self,
        request: &Message,
        packet: &[u8],
        transport: QueryTransport,
    ) -> Option<Vec<u8>> {
        let now = self.clock.monotonic();
        let servers = self.servers();
        let (resting, awake): (Vec<_>, Vec<_>) = {
            let known = self.resting.lock();
            servers.into_iter().partition(|server| known.get(server).is_some_and(|until| *until > now))
        };
        let attempts = awake
            .into_iter()
            .map(|s| (s, RESOLVER_TIMEOUT))
            .chain(resting.into_iter().map(|s| (s, SHORT_TIMEOUT)));
        for (server, patience) in attempts {
            let answer = tokio::time::timeout(patience, exchange(server, request, packet, transport)).await;
            if let Ok(Ok(answer)) = answer {
                self.resting.lock().remove(&server);
                return Some(answer);
            }
            let until = self.clock.monotonic() + SKIP_TIME;
            self.resting.lock().insert(server, until);
        }
        None
    }

    fn servers(&self) -> Vec<SocketAddr> {
        let all = match &self.resolvers {
            Resolvers::Fixed(servers) => servers.clone(),
            Resolvers::File(path) => {
                let text = read_optional(path);
                ResolvConf::parse(&text).servers().map(|ip| SocketAddr::new(ip, 53)).collect()
            }
        };
        all.into_iter().filter(|server| !self.own.contains(&server.ip())).take(SERVERS).collect()
    }
}

async fn exchange(
    server: SocketAddr,
    request: &Message,
    packet: &[u8],
    transport: QueryTransport,
) -> io::Result<Vec<u8>> {
    // A random id and a new socket for each question: an attacker cannot forge the response without guessing both.
    let id: u16 = rand::random();
    let mut question = packet.to_vec();
    question.get_mut(..2).ok_or(io::ErrorKind::InvalidData)?.copy_from_slice(&id.to_be_bytes());
    let mut answer = match transport {
        QueryTransport::Datagram => by_datagram(server, request, &question, id).await?,
        QueryTransport::Connection => {
            let mut stream = TcpStream::connect(server).await?;
            write_framed(&mut stream, &question).await?;
            let answer = read_framed(&mut stream).await?;
            if !is_response(&answer, id, request) {
                return Err(io::ErrorKind::InvalidData.into());
            }
            answer
        }
    };
    answer[..2].copy_from_slice(&request.metadata.id.to_be_bytes());
    Ok(answer)
}

async fn by_datagram(server: SocketAddr, request: &Message, question: &[u8], id: u16) -> io::Result<Vec<u8>> {
    let any: IpAddr = match server.ip() {
        IpAddr::V4(ip) if ip.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut buffer = vec![0; usize::from(u16::MAX)];
    loop {
        let length = socket.recv(&mut buffer).await?;
        // Ignore everything else; the caller's timeout ends the wait.
        if is_response(&buffer[..length], id, request) {
            buffer.truncate(length);
            return Ok(buffer);
        }
    }
}

/// Returns whether a packet is the response to this question.
fn is_response(packet: &[u8], id: u16, request: &Message) -> bool {
    Message::from_vec(packet).is_ok_and(|answer| {
        answer.metadata.id == id
            && answer.metadata.message_type == MessageType::Response
            && (answer.queries == request.queries || answer.queries.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_go_to_the_machines_servers_but_never_to_podium_itself_net_3() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("resolv.conf");
        let forwarder = Forwarder::new(
            Resolvers::File(file.clone()),
            vec!["192.0.2.1".parse().unwrap()],
            Clock::machine(),
        );
        assert_eq!(forwarder.servers(), []);
        std::fs::write(&file, "nameserver 192.0.2.1\nnameserver 2001:db8::1\nnameserver no\n").unwrap();
        assert_eq!(forwarder.servers(), ["[2001:db8::1]:53".parse().unwrap()]);
    }
}
