//! Port-forward over SPDY: a pair of streams for each connection.

use std::sync::Arc;
use std::time::Duration;

use base::task::JoinSet;
use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use super::failure;
use super::pairs::{Pair, PairResult, Pairs, Role, StreamType};
use crate::spdy::{self, IncomingStream, Reader, StreamClosed, Streams, Writer};
use api::node_access::PodPorts;
use base::clock::if_some;
use base::duplex::Duplex;

/// The time limit for a stream's counterpart to arrive.
const STREAM_CREATION: Duration = Duration::from_secs(30);

/// The buffer size of a connection.
const PIECE_BYTES: usize = 16 << 10;

type Stream = (Reader, Writer);

/// Forwards the streams that a client opens until it leaves.
pub(super) async fn forward<S>(socket: S, ports: Arc<dyn PodPorts>)
where
    S: AsyncRead + AsyncWrite + Send,
{
    let (streams, connection) = spdy::serve(socket);
    tokio::join!(connection, take(streams, ports));
}

async fn take(mut streams: Streams, ports: Arc<dyn PodPorts>) {
    let mut pairs = Pairs::new();
    // Dropping the set at the end closes every connection.
    let mut connections = JoinSet::new();
    loop {
        let due = pairs.oldest().map(|oldest| oldest + STREAM_CREATION);
        tokio::select! {
            offer = streams.next() => match offer {
                Some(offer) => {
                    if let Some(pair) = pair(&mut pairs, offer).await {
                        connections.spawn(relay(ports.clone(), pair));
                    }
                }
                None => return,
            },
            Some(_) = connections.join_next() => {}
            () = if_some(due.map(tokio::time::sleep_until)) => {
                for (of, (_, writer)) in pairs.take_older(Instant::now() - STREAM_CREATION) {
                    if of == StreamType::Error {
                        report_error(writer, "timed out waiting for streams").await;
                    } else {
                        writer.reset();
                    }
                }
            }
        }
    }
}

/// Accepts a stream that the client opens; returns the pair that it completes.
async fn pair(pairs: &mut Pairs<Stream>, offer: IncomingStream) -> Option<Pair<Stream>> {
    let role = match Role::of(&offer.headers, offer.id()) {
        Ok(role) => role,
        Err(why) => {
            // Dropping the offer refuses the stream.
            tracing::debug!("port-forward: {why}");
            return None;
        }
    };
    let stream = offer.accept()?;
    match pairs.add(role, stream, Instant::now()) {
        PairResult::Waits => None,
        PairResult::Complete(pair) => Some(pair),
        PairResult::Twice((_, writer), why) => {
            report_error(writer, &why).await;
            None
        }
    }
}

/// Reports an error, and ends the stream.
async fn report_error(mut error: Writer, reason: &str) {
    // If the client has left, the error has no reader.
    let _ = error.write(reason.to_string().into()).await;
}

/// Relays one connection to its end.
async fn relay(ports: Arc<dyn PodPorts>, pair: Pair<Stream>) {
    let Pair { data: (reader, writer), error: (_, error), port } = pair;
    match ports.connect(port).await {
        Ok(connection) => copy(connection, reader, writer, error).await,
        Err(why) => report_error(error, &failure(&*ports, port, &why.to_string())).await,
    }
}

/// Copies both directions. Each ends independently, so that a client may close its direction and still read
/// the response.
async fn copy(connection: Box<dyn Duplex>, mut reader: Reader, mut writer: Writer, error: Writer) {
    let (mut from_pod, mut to_pod) = tokio::io::split(connection);
    let upwards = async {
        while let Some(bytes) = reader.read().await? {
            if to_pod.write_all(&bytes).await.is_err() {
                // The pod reads no more; its output continues.
                break;
            }
        }
        let _ = to_pod.shutdown().await;
        Ok::<_, StreamClosed>(reader)
    };
    let downwards = async {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(PIECE_BYTES);
            match from_pod.read_buf(&mut buffer).await {
                // Clients wait for the end of the error stream before they close the connection.
                Ok(0) => {
                    drop((writer, error));
                    return Ok(());
                }
                Ok(_) => writer.write(buffer.split().freeze()).await?,
                // A connection that breaks must not look complete. It is no failure of the forwarding either,
                // at which kubectl would give up all other connections too.
                Err(_) => {
                    writer.reset();
                    return Err(StreamClosed);
                }
            }
        }
    };
    // The client's reset or departure ends both directions at once.
    let _ = tokio::try_join!(upwards, downwards);
}

#[cfg(test)]
mod tests;
