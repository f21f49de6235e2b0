//! Relays data between two TCP connections.
//!
//! Data is relayed as fast as the receiver takes it, with buffers of fixed size. When one direction ends, that end is
//! passed on and the other direction continues. A reset is passed on as a reset, so that no client takes a truncated
//! response for a complete one.

use std::io;

use tokio::io::{AsyncWriteExt, BufReader, Interest};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

/// Buffer size for each direction in bytes.
const BUFFER: usize = 64 * 1024;

/// Relays data between two connections until both directions have ended or one connection was reset.
pub async fn join(mut client: TcpStream, mut backend: TcpStream) {
    // Small responses must not wait for more data; a failure only costs time.
    let _ = client.set_nodelay(true);
    let _ = backend.set_nodelay(true);
    if pass_both(&mut client, &mut backend).await.is_err() {
        let _ = client.set_zero_linger();
        let _ = backend.set_zero_linger();
    }
}

/// Relays both directions. After a side has ended its direction, it is still watched for a reset: a client that is gone
/// needs no response.
async fn pass_both(client: &mut TcpStream, backend: &mut TcpStream) -> io::Result<()> {
    let (client, to_client) = client.split();
    let (backend, to_backend) = backend.split();
    let (up, down) = (pass(client, to_backend), pass(backend, to_client));
    tokio::pin!(up, down);
    tokio::select! {
        ended = &mut up => {
            let client = ended?;
            tokio::select! {
                ended = down => ended.map(drop),
                reset = reset(client) => Err(reset),
            }
        }
        ended = &mut down => {
            let backend = ended?;
            tokio::select! {
                ended = up => ended.map(drop),
                reset = reset(backend) => Err(reset),
            }
        }
    }
}

/// Relays data from `from` until it ends, and passes on the end.
async fn pass<'a>(mut from: ReadHalf<'a>, mut to: WriteHalf<'_>) -> io::Result<ReadHalf<'a>> {
    tokio::io::copy_buf(&mut BufReader::with_capacity(BUFFER, &mut from), &mut to).await?;
    to.shutdown().await?;
    Ok(from)
}

/// Waits until a half-closed connection is reset, by its peer or because the peer no longer responds.
async fn reset(ended: ReadHalf<'_>) -> io::Error {
    match ended.ready(Interest::ERROR).await {
        Ok(_) => io::ErrorKind::ConnectionReset.into(),
        Err(error) => error,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;
    use tokio::task::JoinHandle;

    use super::*;

    /// Two ends, joined by [`join`].
    async fn joined() -> (TcpStream, TcpStream, JoinHandle<()>) {
        let pair = async || {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            (near, listener.accept().await.unwrap().0)
        };
        let ((client, ours), (backend, theirs)) = (pair().await, pair().await);
        (client, backend, tokio::spawn(join(ours, theirs)))
    }

    #[tokio::test]
    async fn the_end_of_one_direction_leaves_the_other_net_2() {
        let (mut client, mut backend, join) = joined().await;
        client.write_all(b"asked").await.unwrap();
        client.shutdown().await.unwrap();
        let mut request = String::new();
        backend.read_to_string(&mut request).await.unwrap();
        assert_eq!(request, "asked");
        let long = vec![7; 4 * BUFFER];
        let answer = async {
            backend.write_all(&long).await.unwrap();
            drop(backend);
        };
        let mut answered = Vec::new();
        let ((), read) = tokio::join!(answer, client.read_to_end(&mut answered));
        read.unwrap();
        assert_eq!(answered, long);
        join.await.unwrap();
    }

    /// A client that has sent its request, closed its direction and gone holds no connection at the proxy.
    #[tokio::test]
    async fn a_client_that_half_closed_and_left_holds_no_connection_net_7() {
        for backend_ends_first in [false, true] {
            let (mut client, mut backend, join) = joined().await;
            if backend_ends_first {
                std::mem::swap(&mut client, &mut backend);
            }
            client.shutdown().await.unwrap();
            assert_eq!(backend.read(&mut [0]).await.unwrap(), 0);
            client.set_zero_linger().unwrap();
            drop(client);
            join.await.unwrap();
            let error = backend.read(&mut [0]).await;
            assert!(error.is_err() || error.is_ok_and(|read| read == 0));
        }
    }
}
