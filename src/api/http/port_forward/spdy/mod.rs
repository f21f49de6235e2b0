//! Port-forward over SPDY: a pair of streams for each connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::failure;
use super::pairs::{Added, Pair, Pairs, Role, Use};
use crate::http::spdy::{self, Gone, Offer, Reader, Streams, Writer};
use crate::node_access::{Duplex, PodPorts};

/// How long a stream waits for its other half.
const STREAM_CREATION: Duration = Duration::from_secs(30);

/// How much of a connection is under way at once.
const PIECE_BYTES: usize = 16 << 10;

type Stream = (Reader, Writer);

/// Forwards what a client opens until it leaves.
pub(super) async fn forward<S>(socket: S, ports: Arc<dyn PodPorts>)
where
    S: AsyncRead + AsyncWrite + Send,
{
    let (streams, connection) = spdy::serve(socket);
    tokio::join!(connection, take(streams, ports));
}

async fn take(mut streams: Streams, ports: Arc<dyn PodPorts>) {
    let mut pairs = Pairs::new();
    // Dropped at the end, and with it every connection.
    let mut connections = JoinSet::new();
    loop {
        let due = pairs.oldest().map(|oldest| oldest + STREAM_CREATION);
        tokio::select! {
            offer = streams.next() => match offer {
                Some(offer) => {
                    if let Some(pair) = pair(&mut pairs, offer).await {
                        connections.spawn(carry(ports.clone(), pair));
                    }
                }
                None => return,
            },
            Some(_) = connections.join_next() => {}
            () = until(due) => {
                for (of, (_, writer)) in pairs.take_older(Instant::now() - STREAM_CREATION) {
                    if of == Use::Error {
                        say(writer, "timed out waiting for streams").await;
                    } else {
                        writer.reset();
                    }
                }
            }
        }
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Takes a stream the client opens; the pair, when it completes one.
async fn pair(pairs: &mut Pairs<Stream>, offer: Offer) -> Option<Pair<Stream>> {
    let role = match Role::of(&offer.headers, offer.id()) {
        Ok(role) => role,
        Err(why) => {
            // Dropped, and with that refused.
            tracing::debug!("port-forward: {why}");
            return None;
        }
    };
    let stream = offer.accept()?;
    match pairs.add(role, stream, Instant::now()) {
        Added::Waits => None,
        Added::Complete(pair) => Some(pair),
        Added::Twice((_, writer), why) => {
            say(writer, &why).await;
            None
        }
    }
}

/// Says what went wrong, and ends the stream.
async fn say(mut error: Writer, why: &str) {
    // If the client has left there is nobody to tell.
    let _ = error.write(why.to_string().into()).await;
}

/// Carries one connection to its end.
async fn carry(ports: Arc<dyn PodPorts>, pair: Pair<Stream>) {
    let Pair { data: (reader, writer), error: (_, error), port } = pair;
    match ports.connect(port).await {
        Ok(connection) => copy(connection, reader, writer, error).await,
        Err(why) => say(error, &failure(&*ports, port, &why.to_string())).await,
    }
}

/// Copies both ways. Each direction ends by itself, so that a client may say that it has said all and still
/// read the answer.
async fn copy(connection: Box<dyn Duplex>, mut reader: Reader, mut writer: Writer, error: Writer) {
    let (mut from_pod, mut to_pod) = tokio::io::split(connection);
    let upwards = async {
        while let Some(bytes) = reader.read().await? {
            if to_pod.write_all(&bytes).await.is_err() {
                // The pod reads no more; what it has still to say goes on.
                break;
            }
        }
        let _ = to_pod.shutdown().await;
        Ok::<_, Gone>(reader)
    };
    let downwards = async {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(PIECE_BYTES);
            match from_pod.read_buf(&mut buffer).await {
                // Clients wait for the end of the error stream before they hang up.
                Ok(0) => {
                    drop((writer, error));
                    return Ok(());
                }
                Ok(_) => writer.write(buffer.split().freeze()).await?,
                // A connection that breaks in the middle must not look complete. It is no failure of the
                // forwarding either, at which kubectl would give up all other connections too.
                Err(_) => {
                    writer.reset();
                    return Err(Gone);
                }
            }
        }
    };
    // The client's reset or departure ends both directions at once.
    let _ = tokio::try_join!(upwards, downwards);
}

#[cfg(test)]
mod tests;
