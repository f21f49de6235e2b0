//! Requests that two parsers would split differently: each is refused or read in one way, and a request hidden in a
//! body is never answered (SEC-2, RFC 9112 section 11.2).

use super::raw_http::{RawResponses, TlsConnection, token};
use crate::instance::{DataDir, Instance};

/// A write hidden in a delayed request, which must not be executed.
const HIDDEN: &str = "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nTOKEN\
                      Content-Type: application/json\r\nContent-Length: 36\r\n\r\n{\"metadata\":{\"name\":\"was-smuggled\"}}";

/// A name, the headers that are wrong, and a body; `HIDDEN` is in the body.
const CASES: [(&str, &str, &str); 16] = [
    ("length and chunks", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\nHIDDEN"),
    ("chunks and length", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\nHIDDEN"),
    ("two lengths", "Content-Length: 0\r\nContent-Length: 5\r\n", "HIDDEN"),
    ("two lengths in one", "Content-Length: 0, 5\r\n", "HIDDEN"),
    ("a length with a sign", "Content-Length: +0\r\n", "HIDDEN"),
    ("a negative length", "Content-Length: -1\r\n", "HIDDEN"),
    ("a length beyond all numbers", "Content-Length: 18446744073709551616\r\n", "HIDDEN"),
    ("a hexadecimal length", "Content-Length: 0x0\r\n", "HIDDEN"),
    ("an unknown encoding", "Transfer-Encoding: xchunked\r\n", "0\r\n\r\nHIDDEN"),
    ("chunked is not the last", "Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\nHIDDEN"),
    ("a blank before the colon", "Transfer-Encoding : chunked\r\n", "0\r\n\r\nHIDDEN"),
    ("a folded header", "X-Folded: a\r\n Content-Length: 999\r\n", "HIDDEN"),
    ("a header without a name", ": chunked\r\n", "HIDDEN"),
    ("a NUL in a header", "X-Nul: a\0b\r\n", "HIDDEN"),
    ("a bare carriage return", "X-Return: a\rContent-Length: 999\r\n", "HIDDEN"),
    ("chunks beyond all numbers", "Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\nHIDDEN"),
];

/// Sends one request immediately followed by the rest, and reads this many responses; with `None`, until the server
/// closes.
async fn ask(instance: &Instance, request: &str, answers: Option<usize>) -> RawResponses {
    let mut wire = TlsConnection::open(instance).await;
    let bearer = format!("Authorization: Bearer {}\r\n", token(instance));
    let request = request.replace("HIDDEN", HIDDEN).replace("TOKEN", &bearer);
    wire.send(request.as_bytes()).await;
    wire.answers(answers).await
}

/// No request is parsed out of the body of another one.
#[tokio::test]
async fn no_request_is_read_out_of_anothers_body_sec_2() {
    let home = DataDir::new();
    let instance = home.start(&["--nodes", "0", "--ephemeral"]);
    let mut wrong = Vec::new();
    for (name, headers, body) in CASES {
        let request = format!(
            "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nTOKEN{headers}\r\n{body}"
        );
        let answers = ask(&instance, &request, None).await;
        let statuses = answers.statuses();
        // One refusal, and the end of the connection, because the start of the next request is unknown.
        let refused = matches!(statuses.as_slice(), [400 | 408 | 411 | 413 | 415 | 431 | 501]);
        if !refused || !answers.closed {
            wrong.push(format!("{name}: {answers:?}"));
        }
    }
    let client = instance.client().await;
    let api: kube::Api<k8s_openapi::api::core::v1::ConfigMap> = kube::Api::namespaced(client, "default");
    assert!(api.get_opt("was-smuggled").await.unwrap().is_none(), "a request was smuggled: {wrong:#?}");
    assert!(wrong.is_empty(), "{wrong:#?}");
    instance.stop();
}

/// The same request alone is valid, so the table tests the intended errors; and so is a pipelined one.
#[tokio::test]
async fn a_request_behind_another_is_answered_api_1() {
    let home = DataDir::new();
    let instance = home.start(&["--nodes", "0", "--ephemeral"]);
    let first = "GET /version HTTP/1.1\r\nHost: x\r\nTOKEN\r\n";
    assert_eq!(ask(&instance, first, Some(1)).await.statuses(), [200]);
    assert_eq!(ask(&instance, &format!("{first}HIDDEN"), Some(2)).await.statuses(), [200, 201]);
    instance.stop();
}

/// Excessive heads and invalid lines: refused without reading on, and others are served.
#[tokio::test]
async fn malformed_requests_are_rejected_while_others_are_served_sec_2() {
    let home = DataDir::new();
    let instance = home.start(&["--nodes", "0", "--ephemeral"]);
    let long = "a".repeat(600_000);
    let many = (0..2000).map(|n| format!("X-{n}: 1\r\n")).collect::<Vec<_>>().concat();
    for (name, request) in [
        ("no request line", "\x16\x03\x01\x02\x00\r\n\r\n".to_owned()),
        ("no version", "GET /version\r\n\r\n".to_owned()),
        ("another version", "GET /version HTTP/9.9\r\nHost: x\r\n\r\n".to_owned()),
        ("a long path", format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n")),
        ("a long header", format!("GET /version HTTP/1.1\r\nHost: x\r\nX: {long}\r\n\r\n")),
        ("many headers", format!("GET /version HTTP/1.1\r\nHost: x\r\n{many}\r\n")),
    ] {
        let mut wire = TlsConnection::open(&instance).await;
        wire.send(request.as_bytes()).await;
        let answers = wire.answers(None).await;
        let statuses = answers.statuses();
        assert!(matches!(statuses.as_slice(), [] | [400 | 414 | 431 | 505]), "{name}: {statuses:?}");
    }
    assert_eq!(
        ask(&instance, "GET /version HTTP/1.1\r\nHost: x\r\nTOKEN\r\n", Some(1)).await.statuses(),
        [200]
    );
    instance.stop();
}
