//! Hostile extension servers, and invalid APIServices.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt;
use podium::apimachinery::certificates::CertificateAuthority;
use podium::apiserver::{serve_tls, tls_config};
use podium::base::task::Tasks;
use podium::object::ClusterDomain;
use podium::object::config::{Seconds, Timings};
use serde_json::json;
use tokio::sync::mpsc;

use super::server::{ReceivedRequest, Reply};
use super::{GROUP, NAME, serve_at, set_available, with_extension, with_extension_on};
use crate::http::{InMemoryServer, OWNER};

/// A client sees that a response broke off; a partial response is never taken for a complete one.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_breaks_off_is_no_answer_api_17() {
    let (sender, pieces) = mpsc::channel(1);
    let pieces = std::sync::Mutex::new(Some(pieces));
    let (face, _extension) =
        with_extension(move |_| Reply::Stream(pieces.lock().unwrap().take().unwrap())).await;
    let request = Request::get(format!("{GROUP}/flunders")).header(OWNER.0, OWNER.1);
    let answer = face.server.handle(request.body(Body::empty()).unwrap()).await;
    let mut body = answer.into_body();
    sender.send(Ok(Bytes::from_static(b"{\"items\": ["))).await.unwrap();
    body.frame().await.unwrap().unwrap();
    sender.send(Err(std::io::Error::other("broken"))).await.unwrap();
    assert!(body.collect().await.is_err());
}

/// A response that never ends, and is not a watch, is cut off, and the client sees that.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_does_not_end_in_time_is_cut_off_api_17() {
    let (sender, pieces) = mpsc::channel(1);
    let pieces = std::sync::Mutex::new(Some(pieces));
    let face = InMemoryServer::with_timings(Timings {
        http_request_timeout: Seconds(Duration::from_secs(1)),
        ..Timings::default()
    });
    let handler = move |request: &ReceivedRequest| {
        if request.uri.ends_with("/hangs") {
            Reply::Hangs
        } else {
            Reply::Stream(pieces.lock().unwrap().take().unwrap())
        }
    };
    let (face, _extension) = with_extension_on(face, handler).await;
    let request = Request::get(format!("{GROUP}/flunders")).header(OWNER.0, OWNER.1);
    let answer = face.server.handle(request.body(Body::empty()).unwrap()).await;
    sender.send(Ok(Bytes::from_static(b"{\"items\": ["))).await.unwrap();
    assert!(answer.into_body().collect().await.is_err());
    // The timeout applies regardless of the upgrade that the request names.
    let upgrades = [("connection", "keep-alive, Upgrade"), ("upgrade", "x")];
    for headers in [&[][..], &[("connection", "close"), ("upgrade", "x")], &upgrades] {
        let late = face.get(&format!("{GROUP}/flunders/hangs"), headers).await;
        assert_eq!((late.status.as_u16(), &late.json()["reason"]), (504, &"Timeout".into()), "{}", late.body);
    }
}

/// A client that waits disconnects, and the server is free again.
#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_aggregated_server_is_released_when_its_client_disconnects_api_17() {
    let (face, extension) = with_extension(|_| Reply::Hangs).await;
    let path = format!("{GROUP}/flunders");
    let asking = face.get(&path, &[]);
    tokio::select! {
        answer = asking => panic!("{}", answer.status),
        () = async {
            while extension.take_seen().is_empty() {
                tokio::task::yield_now().await;
            }
        } => {}
    }
    assert_eq!(face.get("/api/v1/namespaces/default", &[]).await.status, 200);
}

/// An APIService with a service that leads back to this API: the API does not trust its own front proxy, so that there
/// is no loop.
#[tokio::test(flavor = "multi_thread")]
async fn an_api_service_that_leads_back_here_ends_at_the_door_api_17() {
    let face = InMemoryServer::new();
    let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let authority = CertificateAuthority::generate().unwrap();
    let listener = tokio::net::TcpListener::bind((ip, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let tasks = Tasks::new();
    serve_tls(
        face.server.clone(),
        listener,
        tls_config(&authority, &[ip], &ClusterDomain::default()).unwrap(),
        &tasks,
    );
    serve_at(&face.api, address);
    let service = json!({"namespace": "default", "name": "wardle"});
    let api_service = json!({"metadata": {"name": NAME}, "spec": {"group": "wardle.example.com", "version": "v1",
        "groupPriorityMinimum": 1, "versionPriority": 1, "service": service, "insecureSkipTLSVerify": true}});
    super::create(&face.api, podium::object::Kind::APIService, api_service);
    let url = format!("https://{address}{GROUP}");
    let why = format!("failing or missing response from {url}: bad status from {url}: 401");
    assert_eq!(face.api.probe_api_service(NAME).await, Err(why));
    set_available(&face.api, true);
    let answer = face.get(&format!("{GROUP}/flunders"), &[]).await;
    assert_eq!(answer.status, 401, "{}", answer.body);
    tasks.stop().await;
}

/// Kubernetes would forward even built-in groups, on which the whole cluster depends.
#[tokio::test]
async fn built_in_groups_cannot_be_served_by_an_aggregated_server_api_17() {
    let face = InMemoryServer::new();
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    for (group, version, code) in [("apps", "v1", 422), ("", "v1", 422), ("apps", "v9", 201)] {
        let object = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": format!("{version}.{group}")}, "spec": {"group": group, "version": version,
                "groupPriorityMinimum": 1, "versionPriority": 1, "service": {"namespace": "default", "name": "x"}}});
        let made = face.ask(Method::POST, path, &[OWNER], &object.to_string()).await;
        assert_eq!((made.status.as_u16(), made.header("warning")), (code, ""), "{}", made.body);
        if code == 422 {
            let why = "spec.service: Forbidden: this group and version is built in; its requests are not forwarded to \
                       a service";
            assert!(made.body.contains(why), "{}", made.body);
        }
    }
    assert_eq!(face.get("/apis/apps/v1/deployments", &[]).await.status, 200);
}
