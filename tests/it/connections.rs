//! Connections of the API: no client holds one, or its memory, without using it, and a refusal does not break one. On
//! virtual time, over pipes.

use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::ConfigMap;
use podium::api::WriteOptions;
use podium::apiserver::{Limits, Protocol, serve_connection};
use podium::object::Object;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::http::InMemoryServer;

/// Bytes that one response may have in the buffers of its connection: a window and a chunk.
const MAX_BUFFERED_BYTES: usize = 96 << 10;

impl InMemoryServer {
    /// A connection to the server, through a pipe with this capacity.
    pub(crate) fn connect(&self, protocol: Protocol, bytes: usize) -> DuplexStream {
        let (near, far) = tokio::io::duplex(bytes);
        tokio::spawn(serve_connection(self.server.clone(), TokioIo::new(far), protocol));
        near
    }

    fn config_map(&self, name: &str, bytes: usize) {
        let data = [("filling".to_string(), "x".repeat(bytes))].into();
        let mut object = Object::new(ConfigMap { data: Some(data), ..ConfigMap::default() });
        (object.meta_mut().name, object.meta_mut().namespace) = (Some(name.into()), Some("default".into()));
        self.api.create(object, &WriteOptions::default()).unwrap();
    }
}

/// Reads until the server closes.
async fn read_rest(connection: &mut DuplexStream) -> String {
    let mut text = Vec::new();
    // A reset is an end as well.
    let _ = connection.read_to_end(&mut text).await;
    String::from_utf8_lossy(&text).into_owned()
}

/// Reads the head of a response with a `Content-Length`, and skips its body.
async fn answer(connection: &mut DuplexStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(connection.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    connection.read_exact(&mut body).await.unwrap();
    head
}

async fn seconds_until_closed(connection: &mut DuplexStream) -> u64 {
    let start = tokio::time::Instant::now();
    read_rest(connection).await;
    start.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_request_is_closed_api_1() {
    let face = InMemoryServer::new();
    let beginnings: [(Protocol, &[u8]); 5] = [
        (Protocol::Http1, b""),
        (Protocol::Http1, b"GET /healthz HTTP/1.1\r\nHo"),
        (Protocol::Http2, b""),
        (Protocol::Http2, b"PRI * HTTP/2.0"),
        (Protocol::Http2, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"),
    ];
    for (protocol, beginning) in beginnings {
        let mut connection = face.connect(protocol, 1 << 16);
        connection.write_all(beginning).await.unwrap();
        let seconds = seconds_until_closed(&mut connection).await;
        assert!((32..=40).contains(&seconds), "{protocol:?} {beginning:?}: {seconds}");
    }
    let mut connection = face.connect(Protocol::Http1, 1 << 16);
    connection.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    assert!(answer(&mut connection).await.starts_with("http/1.1 200"));
    let seconds = seconds_until_closed(&mut connection).await;
    assert!((90..=95).contains(&seconds), "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_or_is_too_large_is_not_waited_for_api_1() {
    let face = InMemoryServer::new();
    let post =
        "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer secret\r\n";
    let mut connection = face.connect(Protocol::Http1, 1 << 16);
    connection.write_all(format!("{post}Content-Length: 100\r\n\r\n{{").as_bytes()).await.unwrap();
    let start = tokio::time::Instant::now();
    let head = answer(&mut connection).await;
    assert!(head.starts_with("http/1.1 504"), "{head}");
    assert_eq!(start.elapsed().as_secs(), 60);
    read_rest(&mut connection).await;

    let mut connection = face.connect(Protocol::Http1, 1 << 16);
    let start = tokio::time::Instant::now();
    connection
        .write_all(format!("{post}Content-Length: 1000000000000000000\r\n\r\n{{").as_bytes())
        .await
        .unwrap();
    let head = answer(&mut connection).await;
    assert!(head.starts_with("http/1.1 413") && head.contains("connection: close"), "{head}");
    assert_eq!(start.elapsed().as_secs(), 0, "it is refused at once");
    read_rest(&mut connection).await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_with_a_body_leaves_its_connection_usable_api_1() {
    let face = InMemoryServer::new();
    let owner = "Authorization: Bearer secret\r\n";
    for (first, authorization, code) in [
        ("POST /api/v1/namespaces/default/configmaps", "", "401"),
        ("POST /api/v1/nonsense", owner, "404"),
        ("POST /version", owner, "405"),
        ("PUT /api/v1/namespaces", owner, "405"),
        ("PATCH /api/v1/namespaces/default", owner, "415"),
    ] {
        let mut connection = face.connect(Protocol::Http1, 1 << 10);
        let body = "x".repeat(100_000);
        let request = format!(
            "{first} HTTP/1.1\r\nHost: a\r\n{authorization}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        connection.write_all(request.as_bytes()).await.unwrap();
        let head = answer(&mut connection).await;
        assert!(head.starts_with(&format!("http/1.1 {code}")), "{first}: {head}");
        connection.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        assert!(answer(&mut connection).await.starts_with("http/1.1 200"), "{first}");
    }
    // A client that waits for `100 Continue` is informed that the connection ends.
    let mut connection = face.connect(Protocol::Http1, 1 << 16);
    let request =
        "POST /api/v1/nonsense HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n";
    connection.write_all(request.as_bytes()).await.unwrap();
    assert!(answer(&mut connection).await.contains("connection: close"));
}

#[tokio::test(start_paused = true)]
async fn many_unread_streams_use_little_memory_and_are_cut_off() {
    let face = InMemoryServer::new();
    for n in 0..30 {
        face.config_map(&n.to_string(), 100_000);
    }
    let pipe = TokioIo::new(face.connect(Protocol::Http2, 1 << 16));
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let handshake = builder.initial_stream_window_size(1).handshake::<_, Empty<Bytes>>(pipe);
    let (sender, connection) = handshake.await.unwrap();
    let ended = tokio::spawn(connection);
    let request = || {
        Request::get("https://a/api/v1/configmaps")
            .header("authorization", "Bearer secret")
            .body(Empty::new())
            .unwrap()
    };
    let mut answers: FuturesUnordered<_> = (0..150).map(|_| sender.clone().send_request(request())).collect();
    let mut unread = Vec::new();
    while let Ok(Some(answer)) = tokio::time::timeout(Duration::from_secs(1), answers.next()).await {
        unread.push(answer.unwrap());
    }
    assert_eq!(unread.len(), 100, "no more requests at once");
    let held = face.server.unread_bytes();
    assert!(held > 0 && held <= 100 * MAX_BUFFERED_BYTES, "{held}");
    let start = tokio::time::Instant::now();
    let _ = ended.await;
    assert!((55..70).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    drop((unread, answers, sender));
    until_no_bytes_held(&face).await;
}

/// Waits until no bytes are held.
async fn until_no_bytes_held(face: &InMemoryServer) {
    let all = async {
        while face.server.unread_bytes() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(
        tokio::time::timeout(Duration::from_secs(200), all).await.is_ok(),
        "{}",
        face.server.unread_bytes()
    );
}

#[tokio::test(start_paused = true)]
async fn watchers_that_do_not_read_hold_little_and_are_cut_off() {
    let face = InMemoryServer::new();
    let mut watchers = Vec::new();
    for _ in 0..20 {
        let mut connection = face.connect(Protocol::Http1, 1 << 10);
        let request =
            "GET /api/v1/configmaps?watch HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer secret\r\n\r\n";
        connection.write_all(request.as_bytes()).await.unwrap();
        watchers.push(connection);
    }
    // One of the events is larger than the share of any connection.
    face.config_map("large", 1_000_000);
    for n in 0..250 {
        face.config_map(&n.to_string(), 20_000);
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let held = face.server.unread_bytes();
    assert!(held > 0 && held <= 20 * MAX_BUFFERED_BYTES, "{held}");
    until_no_bytes_held(&face).await;
    for mut connection in watchers {
        assert!(read_rest(&mut connection).await.len() < 1_000_000, "it was cut off");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_reads_sees_every_event() {
    const EVENT: &[u8] = b"\"ADDED\",\"";
    let face = InMemoryServer::new();
    let mut connection = face.connect(Protocol::Http1, 1 << 10);
    let request = "GET /api/v1/configmaps?watch HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer secret\r\n\r\n";
    connection.write_all(request.as_bytes()).await.unwrap();
    face.config_map("large", 500_000);
    for n in 0..100 {
        face.config_map(&n.to_string(), 20_000);
    }
    // Idle for longer than a client with unread data may be; then all data is read.
    tokio::time::sleep(Duration::from_secs(30)).await;
    let (mut added, mut some, mut last) = (0, vec![0; 1 << 16], Vec::<u8>::new());
    while added < 101 {
        let length = connection.read(&mut some).await.unwrap();
        assert!(length > 0, "the watch ended");
        // An event may begin in one part and end in the next.
        last.extend(&some[..length]);
        added += last.windows(EVENT.len()).filter(|window| *window == EVENT).count();
        last.drain(..last.len().saturating_sub(EVENT.len() - 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_gets_its_list_even_when_others_take_all_there_is() {
    let limits = Limits { unread_bytes: 256 << 10, ..Limits::default() };
    let face = InMemoryServer::limited(limits);
    for n in 0..5 {
        face.config_map(&n.to_string(), 100_000);
    }
    let ask = async |path: &str| {
        let mut connection = face.connect(Protocol::Http1, 1 << 10);
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer secret\r\nConnection: close\r\n\r\n"
        );
        connection.write_all(request.as_bytes()).await.unwrap();
        connection
    };
    let mut unread = Vec::new();
    for _ in 0..10 {
        unread.push(ask("/api/v1/configmaps").await);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let held = face.server.unread_bytes();
    assert!((256 << 10..=(256 << 10) + 10 * MAX_BUFFERED_BYTES).contains(&held), "{held}");
    let mut connection = ask("/api/v1/configmaps").await;
    let mut text = Vec::new();
    loop {
        let mut some = vec![0; 1 << 10];
        let length = connection.read(&mut some).await.unwrap();
        if length == 0 {
            break;
        }
        text.extend(&some[..length]);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let text = String::from_utf8(text).unwrap();
    assert!(text.len() > 500_000 && text.ends_with("]}"), "{}", text.len());
    drop(unread);
    until_no_bytes_held(&face).await;
}

#[tokio::test(start_paused = true)]
async fn a_list_says_how_long_it_is_and_is_whole_in_both_protocols_api_3() {
    let face = InMemoryServer::new();
    for n in 0..3 {
        face.config_map(&n.to_string(), 40_000);
    }
    let mut connection = face.connect(Protocol::Http1, 1 << 16);
    let request = "GET /api/v1/configmaps HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer secret\r\n\r\n";
    connection.write_all(request.as_bytes()).await.unwrap();
    assert!(answer(&mut connection).await.contains("content-length: 12"));

    let pipe = TokioIo::new(face.connect(Protocol::Http2, 1 << 16));
    let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (mut sender, connection) = builder.handshake::<_, Empty<Bytes>>(pipe).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get("https://a/api/v1/configmaps")
        .header("authorization", "bearer secret")
        .body(Empty::new())
        .unwrap();
    let body = sender.send_request(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();
    let list: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(3));
}

#[tokio::test(start_paused = true)]
async fn a_head_request_gets_the_headers_of_a_get_and_no_body_api_2() {
    let face = InMemoryServer::new();
    let mut connection = face.connect(Protocol::Http1, 1 << 16);
    let request = b"HEAD /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    connection.write_all(request).await.unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).await.unwrap();
    assert!(text.contains("content-length: 2\r\n") && text.ends_with("\r\n\r\n"), "{text}");

    let pipe = TokioIo::new(face.connect(Protocol::Http2, 1 << 16));
    let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (mut sender, connection) = builder.handshake::<_, Empty<Bytes>>(pipe).await.unwrap();
    tokio::spawn(connection);
    for (path, code) in [("/healthz", 200), ("/version", 200), ("/api/v1/namespaces/default/pods", 405)] {
        let request = Request::head(format!("https://a{path}")).header("authorization", "bearer secret");
        let answer = sender.send_request(request.body(Empty::new()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), code, "{path}");
        let length = answer.headers().get("content-length").cloned();
        assert!(length.is_some_and(|length| length != "0"), "{path}");
        // A body would be an error of the stream.
        assert!(answer.into_body().collect().await.unwrap().to_bytes().is_empty(), "{path}");
    }
}
