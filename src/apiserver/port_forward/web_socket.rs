//! Port-forward over the channels of a WebSocket: one connection for each requested port, with one channel
//! for its data and the next for its error. The first message on each channel is the port, two bytes in
//! little-endian order.

use bytes::{Bytes, BytesMut};
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use super::{failure, parse_port};
use crate::channels::Framing;
use crate::upgrade::{self, WebSocket};
use api::ApiError;
use api::node_access::PodPorts;

/// The maximum number of ports: one byte names a channel, and each port has two channels.
const MAX_PORTS: usize = 127;

/// The limit on a client's messages that wait for a port, and on messages of all ports that wait for the
/// client.
const MAX_IN_FLIGHT: usize = 8;

const PIECE_BYTES: usize = 16 << 10;

/// Returns the ports of a query, repeated or separated by commas.
pub(super) fn requested_ports(given: &[String]) -> Result<Vec<u16>, ApiError> {
    if given.is_empty() {
        return Err(ApiError::BadRequest("query parameter \"ports\" is required".into()));
    }
    let mut ports = Vec::new();
    for text in given {
        if text.is_empty() {
            return Err(ApiError::BadRequest("query parameter \"ports\" cannot be empty".into()));
        }
        for port in text.split(',') {
            ports.push(parse_port(port).map_err(ApiError::BadRequest)?);
        }
    }
    if ports.len() > MAX_PORTS {
        return Err(ApiError::BadRequest(format!("at most {MAX_PORTS} ports can be forwarded at once")));
    }
    Ok(ports)
}

/// Relays a connection to each port until all have ended or the client leaves.
pub(super) async fn forward(socket: WebSocket, protocol: &str, requested: &[u16], ports: &dyn PodPorts) {
    let framing = Framing::of(protocol);
    let (mut sink, mut stream) = socket.split();
    let (messages, mut outbox) = mpsc::channel::<Message>(MAX_IN_FLIGHT);
    let mut inboxes = Vec::new();
    let mut connections = Vec::new();
    for (index, port) in requested.iter().enumerate() {
        let (to_port, inbox) = mpsc::channel(MAX_IN_FLIGHT);
        inboxes.push(to_port);
        let channel = Channel { framing, number: (2 * index) as u8, messages: messages.clone() };
        connections.push(relay(ports, *port, channel, inbox));
    }
    drop(messages);
    let inbound = async {
        while let Some(Ok(message)) = stream.next().await {
            if matches!(message, Message::Close(_)) {
                return;
            }
            // Data for a port that has ended is dropped; the other ports continue.
            if let Some((channel, data)) = framing.content(message)
                && channel % 2 == 0
                && let Some(inbox) = inboxes.get(usize::from(channel / 2))
            {
                let _ = inbox.send(data).await;
            }
        }
    };
    let outbound = async {
        while let Some(message) = outbox.recv().await {
            if sink.send(message).await.is_err() {
                return;
            }
        }
        let _ = sink.send(upgrade::normal_close()).await;
    };
    let all = async { tokio::join!(futures::future::join_all(connections), outbound) };
    tokio::select! {
        () = inbound => {}
        _ = all => {}
    }
}

/// The outgoing direction of a connection.
struct Channel {
    framing: Framing,
    number: u8,
    messages: mpsc::Sender<Message>,
}

impl Channel {
    async fn data(&self, bytes: &[u8]) -> bool {
        self.messages.send(self.framing.message(self.number, bytes)).await.is_ok()
    }

    async fn error(&self, bytes: &[u8]) -> bool {
        self.messages.send(self.framing.message(self.number + 1, bytes)).await.is_ok()
    }
}

async fn relay(ports: &dyn PodPorts, port: u16, channel: Channel, mut inbox: mpsc::Receiver<Bytes>) {
    let announced = port.to_le_bytes();
    if !(channel.data(&announced).await && channel.error(&announced).await) {
        return;
    }
    let connection = match ports.connect(port).await {
        Ok(connection) => connection,
        Err(why) => {
            channel.error(failure(ports, port, &why.to_string()).as_bytes()).await;
            return;
        }
    };
    let (mut from_pod, mut to_pod) = tokio::io::split(connection);
    let upwards = async {
        while let Some(bytes) = inbox.recv().await {
            if to_pod.write_all(&bytes).await.is_err() {
                break;
            }
        }
        // The pod reads no more; its output continues.
        std::future::pending::<()>().await;
    };
    let downwards = async {
        let mut buffer = BytesMut::with_capacity(PIECE_BYTES);
        loop {
            match from_pod.read_buf(&mut buffer).await {
                Ok(0) => return,
                Ok(_) => {
                    if !channel.data(&buffer).await {
                        return;
                    }
                    buffer.clear();
                }
                Err(error) => {
                    channel.error(failure(ports, port, &error.to_string()).as_bytes()).await;
                    return;
                }
            }
        }
    };
    tokio::select! {
        () = upwards => {}
        () = downwards => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_from_the_query_api_3() {
        let check = |given: &[&str], expected: Result<&[u16], &str>| {
            let given: Vec<String> = given.iter().map(ToString::to_string).collect();
            let read = requested_ports(&given).map_err(|error| error.to_string());
            assert_eq!(read.as_deref().map_err(String::as_str), expected, "{given:?}");
        };
        check(&["80"], Ok(&[80]));
        check(&["80,443", "80"], Ok(&[80, 443, 80]));
        check(&[], Err("query parameter \"ports\" is required"));
        check(&[""], Err("query parameter \"ports\" cannot be empty"));
        check(&["80,"], Err("unable to parse \"\" as a port"));
        check(&["0"], Err("port \"0\" must be > 0"));
        check(&[&["1"; 128].join(",")], Err("at most 127 ports can be forwarded at once"));
    }
}
