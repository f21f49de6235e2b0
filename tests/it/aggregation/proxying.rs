//! Requests as an extension server receives them, and its responses as clients receive them.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt;
use podium::api::DeleteOptions;
use podium::apiserver::Protocol;
use podium::object::{Key, Kind};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use super::server::Reply;
use super::{GROUP, register, serve_at, set_available, with_extension};
use crate::http::{InMemoryServer, OWNER};

/// The client's own identity headers and its credential are not forwarded.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_passed_on_with_the_word_of_the_api_on_who_asks_api_17() {
    let (face, extension) = with_extension(|_| Reply::Json(json!({"kind": "FlunderList"}))).await;
    let headers = [
        OWNER,
        ("impersonate-user", "jane"),
        ("impersonate-group", "system:masters"),
        ("impersonate-group", "a"),
        ("impersonate-extra-example.com%2fscope", "read"),
        ("impersonate-uid", "7"),
        ("x-remote-user", "root"),
        ("x-remote-group", "root"),
        ("x_remote_user", "root"),
        ("x-remote-extra-scope", "all"),
        ("accept", "application/json;as=Table;g=meta.k8s.io;v=v1"),
        ("connection", "x-mine"),
        ("x-mine", "1"),
        ("x-forwarded-for", "10.1.2.3"),
        ("x-forwarded-host", "client.example"),
        ("x-forwarded-uri", "/elsewhere"),
    ];
    let path = format!("{GROUP}/namespaces/default/flunders?labelSelector=a%3Db&limit=5");
    let answer = face.ask(Method::POST, &path, &headers, "{\"a\": 1}").await;
    assert_eq!((answer.status.as_u16(), answer.body.as_str()), (200, "{\"kind\":\"FlunderList\"}"));
    let seen = extension.take_seen();
    let [request] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!((&request.method, &request.uri, request.body_bytes), (&Method::POST, &path, 8));
    for (name, expected) in [
        ("x-remote-user", &["jane"][..]),
        ("x-remote-uid", &["7"]),
        ("x-remote-group", &["system:masters", "a", "system:authenticated"]),
        ("x-remote-extra-example.com%2fscope", &["read"]),
        ("x-remote-extra-scope", &[]),
        ("x_remote_user", &[]),
        ("authorization", &[]),
        ("impersonate-user", &[]),
        ("impersonate-group", &[]),
        ("x-mine", &[]),
        ("accept", &["application/json;as=Table;g=meta.k8s.io;v=v1"]),
        ("host", &[&*extension.address.to_string()]),
        ("x-forwarded-for", &["10.1.2.3"]),
        ("x-forwarded-host", &[&*extension.address.to_string()]),
        ("x-forwarded-proto", &["https"]),
        ("x-forwarded-uri", &[&format!("{GROUP}/namespaces/default/flunders")]),
    ] {
        assert_eq!(request.header(name), expected, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forbidden_requests_are_not_proxied_and_the_authorized_path_is_the_proxied_one_api_17() {
    let (face, extension) = with_extension(|_| Reply::Json(json!({}))).await;
    let jane = [OWNER, ("impersonate-user", "jane")];
    let refused = face.ask(Method::GET, &format!("{GROUP}/flunders"), &jane, "").await;
    assert_eq!(refused.status, 403, "{}", refused.body);
    let message = "flunders.wardle.example.com is forbidden: User \"jane\" cannot list resource \"flunders\" in API \
                   group \"wardle.example.com\" at the cluster scope";
    assert_eq!(refused.json()["message"], message);
    let stranger = face.ask(Method::GET, &format!("{GROUP}/flunders"), &[], "").await;
    assert_eq!(stranger.status, 401);
    // A role for one namespace does not reach another by another spelling.
    let role = json!({"metadata": {"name": "r", "namespace": "default"}, "rules":
        [{"apiGroups": ["wardle.example.com"], "resources": ["flunders"], "verbs": ["*"]}]});
    super::create(&face.api, Kind::Role, role);
    let binding = json!({"metadata": {"name": "r", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]});
    super::create(&face.api, Kind::RoleBinding, binding);
    for (below, status) in [
        ("/namespaces/default/flunders/x", 200),
        ("/namespaces/default/flunders/../../other/flunders/x", 403),
        ("/namespaces/default/flunders/%2e%2e/%2e%2e/other/flunders/x", 403),
        ("/namespaces/default%2Fflunders%2Fx", 200),
        ("/namespaces/default/../other/flunders", 403),
        ("/namespaces/other/flunders/x", 403),
    ] {
        let answer = face.ask(Method::GET, &format!("{GROUP}{below}"), &jane, "").await;
        assert_eq!(answer.status, status, "{below}: {}", answer.body);
    }
    // Even users with all rights may not.
    for below in ["/namespaces/default/flunders/../x", "/namespaces/default/flunders/%2e%2e/x", "/./flunders"]
    {
        let answer = face.get(&format!("{GROUP}{below}"), &[]).await;
        assert_eq!(answer.status, 400, "{below}: {}", answer.body);
    }
    let uris: Vec<_> = extension.take_seen().into_iter().map(|request| request.uri).collect();
    assert_eq!(uris, vec![format!("{GROUP}/namespaces/default/flunders/x"); 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_aggregated_server_gives_the_errors_of_kubernetes_api_17() {
    let (face, extension) = with_extension(|request| {
        if request.uri.ends_with("/moved") {
            Reply::Moved("https://elsewhere.example.com/")
        } else if request.uri.ends_with("/broken") {
            Reply::Text(500, "oops".into())
        } else {
            Reply::Json(json!({}))
        }
    })
    .await;
    let reply_of = async |face: &InMemoryServer, name: &str| {
        let answer = face.get(&format!("{GROUP}/flunders/{name}"), &[]).await;
        (answer.status.as_u16(), answer.body)
    };
    let moved = "the backend attempted to redirect this request, which is not permitted";
    assert_eq!(reply_of(&face, "moved").await, (502, moved.into()));
    assert_eq!(reply_of(&face, "broken").await, (500, "oops".into()));
    let unavailable = (503, "service unavailable\n".to_string());
    set_available(&face.api, false);
    assert_eq!(reply_of(&face, "x").await, unavailable);
    set_available(&face.api, true);
    assert_eq!(reply_of(&face, "x").await.0, 200);
    let service = Key::new("default", "wardle");
    for kind in [Kind::Endpoints, Kind::Service] {
        face.api.delete(kind, &service, &DeleteOptions::default()).unwrap();
        assert_eq!(reply_of(&face, "x").await, unavailable);
    }
    // No server listens.
    let gone = extension.address;
    drop(extension);
    serve_at(&face.api, gone);
    let refused = format!("error trying to reach service: dial tcp {gone}: connect: connection refused\n");
    assert_eq!(reply_of(&face, "x").await, (503, refused));
}

/// A different server at the same address, and a server that accepts any client.
#[tokio::test(flavor = "multi_thread")]
async fn both_sides_show_who_they_are_api_17() {
    let (face, other) = (InMemoryServer::new(), InMemoryServer::new());
    let extension = super::extension(&other.api, |_| Reply::Json(json!({})));
    serve_at(&face.api, extension.address);
    register(&face.api, &extension.authority);
    // The extension accepts only the front proxy of the other API.
    let refused = face.api.probe_api_service(super::NAME).await.unwrap_err();
    assert!(
        refused.starts_with(&format!("failing or missing response from https://{}", extension.address)),
        "{refused}"
    );
    let extension = super::extension(&face.api, |_| Reply::Json(json!({})));
    let service = Key::new("default", "wardle");
    for kind in [Kind::Endpoints, Kind::Service] {
        face.api.delete(kind, &service, &DeleteOptions::default()).unwrap();
    }
    serve_at(&face.api, extension.address);
    set_available(&face.api, true);
    let unknown = face.get(&format!("{GROUP}/flunders"), &[]).await;
    let why = "error trying to reach service: tls: failed to verify certificate: x509: certificate signed by unknown \
               authority\n";
    assert_eq!((unknown.status.as_u16(), unknown.body.as_str()), (503, why));
    assert!(extension.take_seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_streams_and_ends_with_its_client_api_17() {
    let (sender, pieces) = mpsc::channel(1);
    let pieces = std::sync::Mutex::new(Some(pieces));
    let (face, _extension) =
        with_extension(move |_| Reply::Stream(pieces.lock().unwrap().take().unwrap())).await;
    let request = Request::get(format!("{GROUP}/flunders?watch=1")).header(OWNER.0, OWNER.1);
    let answer = face.server.handle(request.body(axum::body::Body::empty()).unwrap()).await;
    assert_eq!(answer.status(), 200);
    let mut body = answer.into_body();
    for event in ["{\"type\": \"ADDED\"}\n", "{\"type\": \"DELETED\"}\n"] {
        sender.send(Ok(Bytes::from_static(event.as_bytes()))).await.unwrap();
        // Each event arrives before the next one is sent.
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.data_ref().unwrap(), event);
    }
    drop(body);
    // The server sends no further data: it learns of the client's end when the connection closes.
    sender.closed().await;
}

/// The bodies are larger than any buffer, in both directions.
#[tokio::test(flavor = "multi_thread")]
async fn long_bodies_pass_in_pieces_api_17() {
    const LONG: usize = 24 << 20;
    let (face, extension) = with_extension(|_| Reply::Text(200, "x".repeat(LONG))).await;
    let piece = Bytes::from(vec![b'y'; 64 << 10]);
    let pieces = futures::stream::iter(vec![Ok::<_, std::convert::Infallible>(piece); LONG / (64 << 10)]);
    let request = Request::post(format!("{GROUP}/flunders")).header(OWNER.0, OWNER.1);
    let answer = face.server.handle(request.body(axum::body::Body::from_stream(pieces)).unwrap()).await;
    assert_eq!(answer.status(), 200);
    let (mut length, mut body) = (0, answer.into_body());
    while let Some(frame) = body.frame().await {
        let frame = frame.unwrap();
        let piece = frame.data_ref().map_or(0, Bytes::len);
        assert!(piece <= 256 << 10, "{piece} bytes at once");
        length += piece;
    }
    assert_eq!((length, extension.take_seen()[0].body_bytes), (LONG, LONG));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_upgraded_is_carried_to_its_end_api_17() {
    let (face, extension) = with_extension(|_| Reply::Echoes).await;
    let mut connection = face.connect(Protocol::Http1, 1 << 16);
    let request = format!(
        "POST {GROUP}/namespaces/default/flunders/x/exec HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n\
         Connection: Upgrade\r\nUpgrade: echo\r\n\
         Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.YWJj, v5.channel.k8s.io\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(connection.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101 ") && head.contains("upgrade: echo\r\n"), "{head}");
    let mut back = [0; 5];
    connection.write_all(b"hello").await.unwrap();
    connection.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"hello");
    // The client has sent everything: the other side closes, and so does the connection.
    connection.shutdown().await.unwrap();
    assert_eq!(connection.read(&mut back).await.unwrap(), 0);
    assert_eq!(extension.take_seen()[0].header("sec-websocket-protocol"), ["v5.channel.k8s.io"]);
}
