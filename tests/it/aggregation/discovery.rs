//! Discovery of the resources of an extension server.

use serde_json::{Value, json};

use super::server::Reply;
use super::{GROUP, NAME, extension, register, serve_at, set_available, with_extension};
use crate::http::InMemoryServer;

const AGGREGATED: (&str, &str) =
    ("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");

/// The group in the aggregated document, with the names of those before it.
async fn found(face: &InMemoryServer) -> (Value, Vec<String>) {
    let apis = face.get("/apis", &[AGGREGATED]).await.json();
    let items = apis["items"].as_array().unwrap().clone();
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_string();
    let at = items.iter().position(|item| name(item) == "wardle.example.com").unwrap();
    (items[at]["versions"][0].clone(), items[..at].iter().map(name).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aggregated_group_is_listed_by_priority_with_its_resources_api_17() {
    let (face, extension) = with_extension(|_| Reply::Text(404, String::new())).await;
    let (version, before) = found(&face).await;
    let own = |kind: &str| json!({"group": "wardle.example.com", "version": "v1", "kind": kind});
    let expected = json!({"version": "v1", "freshness": "Current", "resources": [{"resource": "flunders",
        "responseKind": own("Flunder"), "scope": "Namespaced", "singularResource": "flunder",
        "verbs": ["get", "list", "watch"], "shortNames": ["fl"],
        "subresources": [{"subresource": "status", "responseKind": own("Flunder"), "verbs": ["get"]}]}]});
    assert_eq!(version, expected);
    let position = |name: &str| before.iter().position(|known| known == name);
    assert!(
        position("apps") < position("batch") && position("batch") < position("resource.k8s.io"),
        "{before:?}"
    );
    assert!(position("resource.k8s.io").is_some() && position("podium.dev").is_none(), "{before:?}");

    let groups = face.get("/apis", &[]).await.json();
    let group = json!({"name": "wardle.example.com",
        "versions": [{"groupVersion": "wardle.example.com/v1", "version": "v1"}],
        "preferredVersion": {"groupVersion": "wardle.example.com/v1", "version": "v1"}});
    assert!(groups["groups"].as_array().unwrap().contains(&group), "{groups}");
    let mut whole = group.clone();
    (whole["kind"], whole["apiVersion"]) = ("APIGroup".into(), "v1".into());
    assert_eq!(face.get("/apis/wardle.example.com", &[]).await.json(), whole);
    let root = face.get("/", &[]).await.json();
    assert!(root["paths"].as_array().unwrap().contains(&GROUP.into()), "{root}");

    // The list of the version itself is requested from the server, with the caller's identity.
    let list =
        face.get(GROUP, &[("impersonate-user", "jane"), ("impersonate-group", "system:masters")]).await;
    assert_eq!(list.json(), super::resources());
    let requests = extension.take_seen();
    assert_eq!((requests.len(), requests[0].header("x-remote-user")), (1, vec!["jane".to_string()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn schemas_of_the_server_are_listed_and_fetched_from_it_api_17() {
    let (face, extension) = with_extension(|request| {
        assert_eq!(request.uri, format!("/openapi/v3{GROUP}?hash=ABC"));
        Reply::Json(json!({"openapi": "3.0.0"}))
    })
    .await;
    let index = face.get("/openapi/v3", &[]).await;
    let url = index.json()["paths"]["apis/wardle.example.com/v1"]["serverRelativeURL"].clone();
    assert_eq!(url, format!("/openapi/v3{GROUP}?hash=ABC"));
    assert!(index.json()["paths"]["apis/apps/v1"].is_object());
    let schema = face.get(url.as_str().unwrap(), &[]).await;
    assert_eq!((schema.status.as_u16(), schema.json()), (200, json!({"openapi": "3.0.0"})));
    assert_eq!(extension.take_seen()[0].header("x-remote-user"), ["podium-admin"]);
    set_available(&face.api, false);
    let without = face.get("/openapi/v3", &[]).await;
    assert!(without.json()["paths"]["apis/wardle.example.com/v1"].is_null());
    assert!(without.header("etag") != index.header("etag"));
}

#[tokio::test(flavor = "multi_thread")]
async fn discovery_of_an_unreachable_server_is_marked_stale_api_17() {
    let (face, extension) = with_extension(|_| Reply::Text(404, String::new())).await;
    let resources = found(&face).await.0["resources"].clone();
    drop(extension);
    let why = face.api.probe_api_service(NAME).await.unwrap_err();
    assert!(why.starts_with("failing or missing response from https://127.0.0.1:"), "{why}");
    assert!(why.ends_with("connect: connection refused"), "{why}");
    let (version, _) = found(&face).await;
    assert_eq!((&version["freshness"], &version["resources"]), (&"Stale".into(), &resources));
}

/// Each server responds and is therefore available, but its invalid discovery documents are not used.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_what_it_must_not_serves_nothing_that_is_listed_api_17() {
    let mut huge = super::resources();
    let one = huge["resources"][0].clone();
    let many: Vec<Value> = (0..2_001)
        .map(|i| {
            let mut one = one.clone();
            one["name"] = format!("r{i}").into();
            one
        })
        .collect();
    huge["resources"] = many.into();
    let mut others = super::resources();
    others["groupVersion"] = "apps/v1".into();
    let mut long = super::resources();
    long["resources"][0]["kind"] = "x".repeat(254).into();
    for list in [
        "<html>".to_string(),
        "[".repeat(100_000),
        huge.to_string(),
        others.to_string(),
        long.to_string(),
        " ".repeat(1 << 20),
    ] {
        let face = InMemoryServer::new();
        let front_proxy = face.api.front_proxy().unwrap();
        let text = list.clone();
        let server =
            super::Extension::start("wardle.default.svc", front_proxy.certificate_pem(), move |_| {
                Reply::Text(200, text.clone())
            });
        serve_at(&face.api, server.address);
        register(&face.api, &server.authority);
        assert_eq!(face.api.probe_api_service(NAME).await, Ok(()));
        set_available(&face.api, true);
        let (version, _) = found(&face).await;
        assert_eq!(version, json!({"version": "v1", "freshness": "Stale", "resources": []}), "{list:.80}");
        assert!(face.get("/openapi/v3", &[]).await.json()["paths"]["apis/wardle.example.com/v1"].is_null());
    }
}

/// A definition's group and version yields to an APIService that names a server, and comes back when that is deleted.
#[tokio::test(flavor = "multi_thread")]
async fn a_local_group_version_yields_to_an_api_service_api_17() {
    let face = InMemoryServer::new();
    let path = "/apis/metrics.k8s.io/v1beta1/nodes";
    assert_eq!(face.get(path, &[]).await.json()["kind"], "NodeMetricsList");
    let extension = extension(&face.api, |_| Reply::Json(json!({"theirs": true})));
    serve_at(&face.api, extension.address);
    let metrics = json!({"metadata": {"name": "v1beta1.metrics.k8s.io"}, "spec": {"group": "metrics.k8s.io",
        "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": true,
        "service": {"namespace": "default", "name": "wardle"}}});
    super::create(&face.api, podium::object::Kind::APIService, metrics);
    assert_eq!(face.get(path, &[]).await.status, 503, "not before it is available");
    let key = podium::object::Key::new("", "v1beta1.metrics.k8s.io");
    let written = face.api.modify_status::<super::APIService>(&key, |service| {
        service.status =
            serde_json::from_value(json!({"conditions": [{"type": "Available", "status": "True"}]})).unwrap();
        Ok(())
    });
    written.unwrap();
    assert_eq!(face.get(path, &[]).await.json(), json!({"theirs": true}));
    face.api.delete(podium::object::Kind::APIService, &key, &podium::api::DeleteOptions::default()).unwrap();
    assert_eq!(face.get(path, &[]).await.json()["kind"], "NodeMetricsList");
}
