//! Servers that close TLS connections without `close_notify`, as Python's `http.server` does.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::server::{allowed, server_config};
use super::{MAPS, MUTATING, configure, hook, map, post, status_and_message};
use crate::http::InMemoryServer;

/// The request's path and body.
fn request(stream: &mut impl Read) -> (String, Value) {
    let (mut received, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&received).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
            });
            if body.len() >= length.unwrap() {
                return (head.split(' ').nth(1).unwrap().to_string(), serde_json::from_str(body).unwrap());
            }
        }
        let count = stream.read(&mut chunk).unwrap();
        received.extend_from_slice(&chunk[..count]);
    }
}

/// Answers a review as HTTP/1.0 and closes the TCP connection without closing TLS; the path selects the kind of
/// response.
fn answer(mut tcp: TcpStream, config: Arc<rustls::ServerConfig>) {
    let mut tls = rustls::ServerConnection::new(config).unwrap();
    let mut stream = rustls::Stream::new(&mut tls, &mut tcp);
    let (path, review) = request(&mut stream);
    let body = allowed(&review).to_string();
    let length = if path.starts_with("/short") {
        format!("Content-Length: {}\r\n", body.len() + 1)
    } else {
        String::new()
    };
    let head = format!("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n{length}\r\n");
    stream.write_all((head + &body).as_bytes()).unwrap();
    stream.flush().unwrap();
    if path.starts_with("/cut") {
        // The first bytes of a record that never comes.
        tcp.write_all(&[23, 3, 3, 0, 50, 1, 2]).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_closes_without_close_notify_has_answered_api_16() {
    let (authority, config) = server_config(Ipv4Addr::LOCALHOST.into(), "localhost", None);
    let mut config = rustls::ServerConfig::clone(&config);
    config.alpn_protocols.clear();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // It ends with the tests' process.
    std::thread::spawn(move || {
        for tcp in listener.incoming().flatten() {
            let config = config.clone();
            std::thread::spawn(move || answer(tcp, config));
        }
    });
    let face = InMemoryServer::new();
    for (path, code) in [("whole", 201), ("short", 500), ("cut", 500)] {
        let config =
            json!({"url": format!("https://{address}/{path}"), "caBundle": STANDARD.encode(&authority)});
        configure(&face, MUTATING, "c", &[hook("w.made.test", &config, &json!({"timeoutSeconds": 20}))])
            .await;
        let (status, message) = status_and_message(&post(&face, MAPS, &map(path)).await);
        assert_eq!(status, code, "{path}: {message}");
    }
}
