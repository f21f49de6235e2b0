//! The forwarding headers that a pod behind the proxy subresource gets.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use http::header::AUTHORIZATION;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{Client, PODS, TOKEN};
use crate::connection::PeerAddress;

/// The header lines that a pod gets for a request from 10.9.8.7.
async fn forwarded_headers(extra: &[(&str, &str)]) -> Vec<String> {
    let client = Client::new().await;
    let listener = TcpListener::bind("127.0.0.3:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let pod = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    assert_eq!(client.post(PODS, &pod).await.code, 201);
    let status =
        json!({"status": {"phase": "Running", "podIP": "127.0.0.3", "podIPs": [{"ip": "127.0.0.3"}]}});
    let patched = client.patch(&format!("{PODS}/web/status"), super::MERGE, &status).await;
    assert_eq!(patched.code, 200, "{patched:?}");
    let mut request = Request::builder()
        .uri(format!("{PODS}/web:{port}/proxy/a%20page/?q=1"))
        .header(AUTHORIZATION, format!("Bearer {TOKEN}"));
    for (name, value) in extra {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Body::empty()).unwrap();
    request.extensions_mut().insert(PeerAddress("10.9.8.7".parse().unwrap()));
    let pod = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(socket.read_u8().await.unwrap());
        }
        let answer = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        socket.write_all(answer).await.unwrap();
        String::from_utf8(head).unwrap()
    };
    let both = async { tokio::join!(client.server.handle(request), pod) };
    let (answered, head) = tokio::time::timeout(Duration::from_mins(1), both).await.unwrap();
    assert_eq!(answered.status(), 400);
    head.lines().skip(1).map(str::to_string).collect()
}

#[tokio::test]
async fn a_pod_behind_the_proxy_learns_who_asks_and_where_it_is_api_3() {
    let lines =
        forwarded_headers(&[("x-forwarded-for", "10.1.2.3"), ("x-forwarded-uri", "/elsewhere")]).await;
    let forwarded: Vec<_> = lines.iter().filter(|line| line.starts_with("x-forwarded-")).cloned().collect();
    let uri = format!("x-forwarded-uri: {PODS}/web:");
    assert_eq!(forwarded.len(), 2, "{forwarded:?}");
    assert!(forwarded.contains(&"x-forwarded-for: 10.1.2.3, 10.9.8.7".into()), "{forwarded:?}");
    let is_forwarded = |line: &&String| line.starts_with(&uri) && line.ends_with("/proxy/a%20page/");
    assert_eq!(forwarded.iter().filter(is_forwarded).count(), 1, "{forwarded:?}");
}

/// A header named in `Connection` is not removed from those that the proxy adds.
#[tokio::test]
async fn a_client_cannot_hide_its_address_api_3() {
    let lines = forwarded_headers(&[
        ("connection", "x-forwarded-for, x-forwarded-uri"),
        ("x-forwarded-for", "10.1.2.3"),
    ])
    .await;
    assert!(lines.contains(&"x-forwarded-for: 10.9.8.7".into()), "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("x-forwarded-uri: ")).count(), 1, "{lines:?}");
}

#[tokio::test]
async fn a_connection_that_is_to_be_upgraded_tells_the_address_alone_api_3() {
    let lines = forwarded_headers(&[("connection", "Upgrade"), ("upgrade", "echo")]).await;
    let forwarded: Vec<_> = lines.iter().filter(|line| line.starts_with("x-forwarded-")).collect();
    assert_eq!(forwarded, ["x-forwarded-for: 10.9.8.7"]);
}
