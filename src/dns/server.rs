//! The DNS server's sockets: datagrams and connections, each question answered directly or forwarded.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::Name;
use parking_lot::RwLock;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;

use super::forward::{Forwarder, QueryTransport, Resolvers};
use super::framing::{read_framed, write_framed};
use super::index::Index;
use super::message::{PacketAction, encode, failure, handle_packet, question, rotate, udp_limit};
use base::client_limiter::ClientLimiter;
use base::clock::Clock;
use base::task::Tasks;
use reconcile::WorkLoop;

/// Largest question that is read, in bytes.
const QUESTION: usize = 4096;
/// Maximum number of concurrent connections; further ones wait. One client may have a quarter of them; its further
/// connections are closed.
const CONNECTIONS: usize = 128;
/// Maximum number of concurrent forwarded questions; further ones get SERVFAIL. One client may have a quarter of them.
const FORWARDED: usize = 512;
/// Timeout for a silent connection.
const SILENCE: Duration = Duration::from_secs(10);

/// A pair of open sockets on the same port.
pub struct Sockets {
    /// For questions over UDP.
    pub udp: UdpSocket,
    /// For questions over TCP.
    pub tcp: TcpListener,
}

/// Opens both sockets at an address in this process' network namespace, or neither.
pub fn bind(address: SocketAddr) -> io::Result<Sockets> {
    let udp = std::net::UdpSocket::bind(address)?;
    udp.set_nonblocking(true)?;
    let tcp = std::net::TcpListener::bind(address)?;
    tcp.set_nonblocking(true)?;
    Ok(Sockets { udp: UdpSocket::from_std(udp)?, tcp: TcpListener::from_std(tcp)? })
}

/// State shared by all questions.
pub(super) struct Server {
    index: Arc<RwLock<Index>>,
    forwarder: Forwarder,
    forwarded: Arc<Semaphore>,
    forwarded_of: Arc<ClientLimiter>,
    forward_loop: Arc<WorkLoop>,
}

impl Server {
    pub(super) fn new(
        index: Arc<RwLock<Index>>,
        resolvers: Resolvers,
        own: &[SocketAddr],
        clock: Clock,
        forward_loop: Arc<WorkLoop>,
    ) -> Self {
        let forwarder = Forwarder::new(resolvers, own.iter().map(SocketAddr::ip).collect(), clock);
        let (forwarded, forwarded_of) = (Arc::new(Semaphore::new(FORWARDED)), ClientLimiter::new(FORWARDED));
        Self { index, forwarder, forwarded, forwarded_of, forward_loop }
    }

    /// Starts serving these sockets.
    pub(super) fn serve(self: &Arc<Self>, sockets: Sockets, tasks: &Tasks) {
        let Sockets { udp, tcp } = sockets;
        let (udp, of_udp) = (Arc::new(udp), self.clone());
        let (server, inner) = (self.clone(), tasks.clone());
        tasks
            .spawn_restarting("dns datagrams", move || datagrams(of_udp.clone(), udp.clone(), inner.clone()));
        let (tcp, inner) = (Arc::new(tcp), tasks.clone());
        tasks.spawn_restarting("dns connections", move || {
            connections(server.clone(), tcp.clone(), inner.clone())
        });
    }

    fn react(&self, packet: &[u8]) -> PacketAction {
        let reaction = handle_packet(&self.index.read(), packet);
        match reaction {
            PacketAction::Reply(mut reply) => {
                rotate(&mut reply.answers, rand::random::<u32>() as usize);
                PacketAction::Reply(reply)
            }
            other => other,
        }
    }

    /// Answers a question that needs other servers.
    async fn pass_on(
        &self,
        reaction: PacketAction,
        packet: &[u8],
        (client, way): (IpAddr, QueryTransport),
    ) -> Option<ForwardedResponse> {
        let permit = self.forwarded_of.take(client).zip(self.forwarded.try_acquire().ok());
        match reaction {
            PacketAction::Forward { request } => {
                let name = request.queries.first().map(|query| query.name().to_string());
                let round = self.forward_loop.begin(name.unwrap_or_default());
                let answer =
                    if permit.is_some() { self.forwarder.forward(&request, packet, way).await } else { None };
                round.ends(match (&answer, &permit) {
                    (Some(_), _) => Ok(()),
                    (None, Some(_)) => Err("none of the machine's resolvers answers"),
                    (None, None) => Err("too many DNS queries are already waiting for an answer"),
                });
                Some(
                    answer.map_or_else(
                        || ForwardedResponse::Message(failure(&request)),
                        ForwardedResponse::Packet,
                    ),
                )
            }
            PacketAction::Follow { mut reply, target } => {
                if permit.is_none() || !self.follow(&mut reply, target, way).await {
                    reply.metadata.response_code = ResponseCode::ServFail;
                }
                Some(ForwardedResponse::Message(reply))
            }
            PacketAction::Ignore | PacketAction::Reply(_) => None,
        }
    }

    /// Adds the records of an alias' target; returns false if no resolver answers.
    async fn follow(&self, reply: &mut Message, target: Name, transport: QueryTransport) -> bool {
        let Some(query) = reply.queries.first() else { return false };
        let message = question(target, query);
        let Ok(packet) = message.to_vec() else { return false };
        let Some(answer) = self.forwarder.forward(&message, &packet, transport).await else { return false };
        let Ok(answer) = Message::from_vec(&answer) else { return false };
        reply.answers.extend(answer.answers);
        reply.metadata.response_code = answer.metadata.response_code;
        reply.metadata.truncation = answer.metadata.truncation;
        true
    }
}

/// A response that another server contributed to.
enum ForwardedResponse {
    /// Another server's response, unchanged.
    Packet(Vec<u8>),
    /// A response built here.
    Message(Message),
}

impl ForwardedResponse {
    fn packet(self, limit: usize) -> Option<Vec<u8>> {
        match self {
            Self::Packet(packet) => Some(packet),
            Self::Message(message) => encode(&message, limit),
        }
    }
}

async fn datagrams(server: Arc<Server>, socket: Arc<UdpSocket>, tasks: Tasks) {
    let mut buffer = vec![0; QUESTION];
    loop {
        // Errors here report responses to clients that are gone.
        let Ok((length, client)) = socket.recv_from(&mut buffer).await else { continue };
        let packet = &buffer[..length];
        match server.react(packet) {
            PacketAction::Ignore => {}
            PacketAction::Reply(reply) => {
                let limit = Message::from_vec(packet).map_or(512, |request| udp_limit(&request));
                if let Some(answer) = encode(&reply, limit) {
                    // If the socket's buffer is full, the response is lost and the client asks again.
                    let _ = socket.try_send_to(&answer, client);
                }
            }
            reaction => {
                let (server, socket, packet) = (server.clone(), socket.clone(), packet.to_vec());
                tasks.spawn("dns question", async move {
                    let limit = Message::from_vec(&packet).map_or(512, |request| udp_limit(&request));
                    let passed =
                        server.pass_on(reaction, &packet, (client.ip(), QueryTransport::Datagram)).await;
                    if let Some(answer) = passed.and_then(|passed| passed.packet(limit)) {
                        let _ = socket.send_to(&answer, client).await;
                    }
                });
            }
        }
    }
}

async fn connections(server: Arc<Server>, listener: Arc<TcpListener>, tasks: Tasks) {
    let (room, shares) = (Arc::new(Semaphore::new(CONNECTIONS)), ClientLimiter::new(CONNECTIONS));
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, client)) => {
                let Some(share) = shares.take(client.ip()) else { continue };
                let server = server.clone();
                tasks.spawn("dns connection", async move {
                    // A client that closes the connection has no use for an error.
                    let _ = converse(&server, stream, client.ip()).await;
                    drop((share, permit));
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Answers the questions of one connection in order, until it is closed or silent.
async fn converse(server: &Server, mut stream: TcpStream, client: IpAddr) -> io::Result<()> {
    loop {
        let packet = tokio::time::timeout(SILENCE, read_framed(&mut stream)).await??;
        let answer = match server.react(&packet) {
            PacketAction::Ignore => return Ok(()),
            PacketAction::Reply(reply) => encode(&reply, usize::from(u16::MAX)),
            reaction => server
                .pass_on(reaction, &packet, (client, QueryTransport::Connection))
                .await
                .and_then(|passed| passed.packet(usize::from(u16::MAX))),
        };
        let Some(answer) = answer else { return Ok(()) };
        tokio::time::timeout(SILENCE, write_framed(&mut stream, &answer)).await??;
    }
}
