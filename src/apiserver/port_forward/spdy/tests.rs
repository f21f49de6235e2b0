//! Port-forward over SPDY, with a client that uses the same codec.

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::*;
use crate::spdy::client::Client;
use api::node_access::UnreachableError;

/// A pod that listens on port 80 and hands its ends of connections to the test.
struct Pod {
    accepted: mpsc::UnboundedSender<DuplexStream>,
}

impl PodPorts for Pod {
    fn sandbox(&self) -> &'static str {
        "sandbox-1"
    }

    fn connect(&self, port: u16) -> BoxFuture<'_, Result<Box<dyn Duplex>, UnreachableError>> {
        async move {
            if port != 80 {
                return Err(UnreachableError("connection refused".into()));
            }
            let (near, far) = tokio::io::duplex(4096);
            self.accepted.send(far).unwrap();
            Ok(Box::new(near) as Box<dyn Duplex>)
        }
        .boxed()
    }
}

fn start() -> (Client, mpsc::UnboundedReceiver<DuplexStream>, JoinHandle<()>) {
    let (near, far) = tokio::io::duplex(4096);
    let (accepted, connections) = mpsc::unbounded_channel();
    let server = tokio::spawn(forward(far, Arc::new(Pod { accepted })));
    (Client::new(near), connections, server)
}

/// The error and data streams of a connection.
fn open(client: &mut Client, request: usize, port: &str) -> (u32, u32) {
    let mut one = |kind: &str| {
        client.open([("streamType", kind), ("port", port), ("requestID", request.to_string().as_str())])
    };
    (one("error"), one("data"))
}

/// Responds with its input, once that is complete.
async fn echo(mut connection: DuplexStream) {
    let mut all = Vec::new();
    connection.read_to_end(&mut all).await.unwrap();
    connection.write_all(&all).await.unwrap();
}

#[tokio::test]
async fn many_connections_at_once_each_with_its_own_end_api_3() {
    let (mut client, mut connections, server) = start();
    tokio::spawn(async move {
        while let Some(connection) = connections.recv().await {
            tokio::spawn(echo(connection));
        }
    });
    let all: Vec<(u32, u32)> = (0..100).map(|request| open(&mut client, request, "80")).collect();
    for (_, data) in &all {
        client.send(*data, Bytes::from(data.to_string().repeat(3000))).await;
    }
    // Each closes its direction, and still reads the response.
    for (_, data) in &all {
        client.finish(*data);
    }
    client
        .until("the answers", |c| all.iter().all(|(e, d)| c.content(*d).finished && c.content(*e).finished))
        .await;
    for (error, data) in all {
        assert!(client.content(data).data == data.to_string().repeat(3000).as_bytes());
        assert_eq!(client.content(error).data, b"");
    }
    drop(client);
    server.await.unwrap();
}

#[tokio::test]
async fn an_unreachable_port_is_reported_and_other_streams_continue_api_3() {
    let (mut client, mut connections, _server) = start();
    let (error, data) = open(&mut client, 0, "81");
    client.until("the error", |c| c.content(error).finished && c.content(data).finished).await;
    let message = String::from_utf8_lossy(&client.content(error).data).into_owned();
    assert_eq!(message, "error forwarding port 81 to pod sandbox-1, uid : connection refused");
    let (_, data) = open(&mut client, 1, "80");
    client.send(data, "hello".into()).await;
    let mut connection = connections.recv().await.unwrap();
    let mut read = [0; 5];
    connection.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"hello");
}

#[tokio::test]
async fn the_pods_end_ends_the_error_stream_api_3() {
    let (mut client, mut connections, _server) = start();
    let (error, data) = open(&mut client, 0, "80");
    client.until("both are accepted", |c| c.content(data).accepted).await;
    drop(connections.recv().await.unwrap());
    // kubectl closes the connection only then.
    client.until("the end", |c| c.content(error).finished && c.content(data).finished).await;
    assert_eq!(client.content(error).data, b"");
}

#[tokio::test]
async fn a_reset_hangs_up_on_the_pod_api_3() {
    let (mut client, mut connections, _server) = start();
    let (_, data) = open(&mut client, 0, "80");
    client.send(data, "x".into()).await;
    let mut connection = connections.recv().await.unwrap();
    client.reset(data);
    let (other, _) = open(&mut client, 1, "81");
    client.until("it is sent", |c| c.content(other).finished).await;
    let mut all = Vec::new();
    connection.read_to_end(&mut all).await.unwrap();
    assert_eq!(all, b"x");
}

#[tokio::test]
async fn a_client_that_leaves_hangs_up_on_the_pod_api_3() {
    let (mut client, mut connections, server) = start();
    let (_, data) = open(&mut client, 0, "80");
    client.send(data, "x".into()).await;
    let mut connection = connections.recv().await.unwrap();
    drop(client);
    let mut all = Vec::new();
    connection.read_to_end(&mut all).await.unwrap();
    server.await.unwrap();
}

#[tokio::test]
async fn a_slow_reader_does_not_stop_the_others_api_3() {
    let (mut client, mut connections, _server) = start();
    let (_, slow) = open(&mut client, 0, "80");
    tokio::spawn(async move {
        let _unread = connections.recv().await.unwrap();
        echo(connections.recv().await.unwrap()).await;
        // The first stays open as long as the test.
        std::future::pending::<()>().await;
    });
    // More than fits into pipes, without a reader.
    client.send(slow, Bytes::from(vec![1; 200_000])).await;
    let (error, quick) = open(&mut client, 1, "80");
    client.send(quick, "quick".into()).await;
    client.finish(quick);
    client.until("the answer", |c| c.content(error).finished).await;
    assert_eq!(client.content(quick).data, b"quick");
}

#[tokio::test(start_paused = true)]
async fn a_lone_stream_is_given_up_sec_2() {
    let (mut client, _connections, _server) = start();
    let error = client.open([("streamType", "error"), ("port", "80"), ("requestID", "1")]);
    let data = client.open([("streamType", "data"), ("port", "80"), ("requestID", "2")]);
    let twice = client.open([("streamType", "data"), ("port", "80"), ("requestID", "2")]);
    let refused = client.open([("streamType", "data"), ("port", "0"), ("requestID", "3")]);
    client
        .until("the ends", |c| {
            c.content(error).finished && c.content(data).closed && c.content(refused).closed
        })
        .await;
    assert_eq!(client.content(error).data, b"timed out waiting for streams");
    let message = "error processing stream for request 2: data stream already assigned";
    assert_eq!(String::from_utf8_lossy(&client.content(twice).data), message);
}
