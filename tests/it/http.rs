//! Tests the API's HTTP server directly: authentication, request parsing, and response formats.

use axum::body::Body;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use podium::api::{Api, ApiConfig};
use podium::apiserver::{Credentials, Limits, Server, ServerConfig};
use podium::base::clock::Clock;
use podium::object::config::Timings;
use podium::store::Store;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// An in-memory server with the namespace `default`.
pub(crate) struct InMemoryServer {
    pub(crate) api: Api,
    pub(crate) server: Server,
}

pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl InMemoryServer {
    pub(crate) fn new() -> Self {
        Self::with_token("secret")
    }

    pub(crate) fn with_token(token: &str) -> Self {
        Self::configured(token, ServerConfig::default(), Timings::default())
    }

    /// A server with lower limits.
    pub(crate) fn limited(limits: Limits) -> Self {
        let config = ServerConfig { limits, ..ServerConfig::default() };
        Self::configured("secret", config, Timings::default())
    }

    /// A server with other time-outs.
    pub(crate) fn with_timings(timings: Timings) -> Self {
        Self::configured("secret", ServerConfig::default(), timings)
    }

    fn configured(token: &str, config: ServerConfig, timings: Timings) -> Self {
        Self::build(token, config, ApiConfig { timings, ..ApiConfig::default() })
    }

    /// A server of an API with this configuration.
    pub(crate) fn of(api_config: ApiConfig) -> Self {
        Self::build("secret", ServerConfig::default(), api_config)
    }

    fn build(token: &str, config: ServerConfig, api_config: ApiConfig) -> Self {
        let api = Api::new(Store::ephemeral(), Clock::machine(), api_config);
        let server = Server::new(api.clone(), Credentials::new(token), CancellationToken::new(), config);
        let namespace = serde_json::json!({"metadata": {"name": "default"}});
        let namespace: k8s_openapi::api::core::v1::Namespace = serde_json::from_value(namespace).unwrap();
        api.create(podium::object::Object::new(namespace), &podium::api::WriteOptions::default()).unwrap();
        Self { api, server }
    }

    /// Sends a request with exactly these headers.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.server.handle(request.body(Body::from(body.to_string())).unwrap()).await;
        let (parts, body) = response.into_parts();
        let body = String::from_utf8_lossy(&body.collect().await.unwrap().to_bytes()).into_owned();
        Response { status: parts.status, headers: parts.headers, body }
    }

    /// Reads as the owner.
    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        let headers: Vec<_> = [OWNER].iter().chain(headers).copied().collect();
        self.ask(Method::GET, path, &headers, "").await
    }
}

/// The owner's credential.
pub(crate) const OWNER: (&str, &str) = ("authorization", "Bearer secret");

#[tokio::test]
async fn a_request_acts_only_as_the_user_of_its_token_api_1() {
    let face = InMemoryServer::new();
    let codes = async |headers: &[(&str, &str)]| {
        face.ask(Method::GET, "/api/v1/namespaces", headers, "").await.status.as_u16()
    };
    assert_eq!(codes(&[OWNER]).await, 200);
    assert_eq!(codes(&[("authorization", "bearer secret")]).await, 200);
    assert_eq!(codes(&[("authorization", "Bearer ")]).await, 401);
    assert_eq!(codes(&[("authorization", "Bearer wrong")]).await, 401);
    assert_eq!(codes(&[]).await, 401);
    let refused = face.get("/api/v1/namespaces", &[("impersonate-user", "stranger")]).await;
    assert_eq!(refused.status, 403, "{}", refused.body);
    assert_eq!(refused.json()["reason"], "Forbidden");
    let message = "namespaces is forbidden: User \"stranger\" cannot list resource \"namespaces\" in API group \"\" at the \
                   cluster scope";
    assert_eq!(refused.json()["message"], message);
    // An unauthenticated client does not learn of the permission.
    assert_eq!(codes(&[("impersonate-user", "stranger")]).await, 401);

    let blank = InMemoryServer::with_token("");
    for header in ["Bearer ", "Bearer", "Bearer  "] {
        let response = blank.ask(Method::GET, "/api/v1/namespaces", &[("authorization", header)], "").await;
        assert_eq!(response.status, 401, "{header:?}");
    }
}

/// An unknown type of patch is refused for every object.
#[tokio::test]
async fn unknown_patches_are_refused_before_the_object_is_looked_for_api_2() {
    let face = InMemoryServer::new();
    let object = r#"{"metadata": {"name": "there"}}"#;
    let made = face.ask(Method::POST, "/api/v1/namespaces/default/configmaps", &[OWNER], object).await;
    assert_eq!(made.status, 201, "{}", made.body);
    for path in [
        "/api/v1/namespaces/default/configmaps/missing",
        "/api/v1/namespaces/default/configmaps/there",
        "/api/v1/namespaces/missing/pods/missing/status",
        "/api/v1/namespaces/missing/pods/missing/ephemeralcontainers",
        "/api/v1/namespaces/missing/pods/missing/resize",
        "/apis/apps/v1/namespaces/missing/deployments/missing/scale",
        "/api/v1/nodes/missing",
    ] {
        for media in ["application/apply-patch+cbor", "text/plain"] {
            let headers = [OWNER, ("content-type", media)];
            let uri = format!("{path}?fieldManager=test");
            let response = face.ask(Method::PATCH, &uri, &headers, "metadata: {}").await;
            assert_eq!((response.status.as_u16(), media), (415, media), "{path}: {}", response.body);
            assert_eq!(response.json()["reason"], "UnsupportedMediaType");
            assert_eq!(
                response.json()["message"],
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, \
                 application/strategic-merge-patch+json, application/apply-patch+yaml"
            );
        }
    }
}

/// The conformance test "Servers with support for Table transformation" expects a 406 for a form that is not served.
#[tokio::test]
async fn responses_have_the_requested_format_api_6() {
    let face = InMemoryServer::new();
    let list = "/api/v1/namespaces";
    let yaml = face.get(list, &[("accept", "application/yaml")]).await;
    assert_eq!(yaml.header("content-type"), "application/yaml");
    assert!(
        yaml.body.starts_with("apiVersion: v1\n") && yaml.body.contains("\nkind: NamespaceList\n"),
        "{}",
        yaml.body
    );
    let refused = face.get(list, &[("accept", "text/html")]).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["reason"]), (406, &"NotAcceptable".into()));
    let missing = face.get("/api/v1/namespaces/missing", &[("accept", "application/yaml")]).await;
    assert!(missing.status == 404 && missing.body.contains("reason: NotFound\n"), "{}", missing.body);

    assert!(!face.get(list, &[]).await.body.contains('\n'));
    for (path, agent) in [("?pretty=true", "x"), ("?pretty=1", "x"), ("", "curl/8.0")] {
        let pretty = face.get(&format!("{list}{path}"), &[("user-agent", agent)]).await;
        assert!(pretty.body.starts_with("{\n  \"kind\": \"NamespaceList\",\n"), "{}", pretty.body);
    }
    for (version, api_version) in [("v1", "meta.k8s.io/v1"), ("v1beta1", "meta.k8s.io/v1beta1")] {
        let accept = format!("application/json;as=Table;v={version};g=meta.k8s.io");
        let table = face.get(list, &[("accept", &accept)]).await.json();
        assert_eq!((&table["kind"], &table["apiVersion"]), (&"Table".into(), &api_version.into()));
        assert_eq!(table["rows"][0]["object"]["apiVersion"], api_version);
        assert_eq!(table["rows"][0]["cells"][0], "default");
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let reviewed = face.ask(Method::POST, path, &[OWNER, ("accept", &accept)], "{}").await;
        assert_eq!(reviewed.status, 406, "{version}");
    }
    let partial =
        face.get(list, &[("accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")]);
    let partial = partial.await.json();
    assert_eq!(partial["kind"], "PartialObjectMetadataList");
    assert_eq!(partial["items"][0]["metadata"]["name"], "default");

    let (one, other) = (face.get(list, &[]).await, face.get(list, &[]).await);
    assert!(one.header("audit-id").len() == 36 && one.header("audit-id") != other.header("audit-id"));
    assert_eq!(one.header("cache-control"), "no-cache, private");
}

/// `kubectl explain` loads a schema once.
#[tokio::test]
async fn schemas_are_cacheable_under_their_hash_api_6() {
    let face = InMemoryServer::new();
    let index = face.get("/openapi/v3", &[]).await.json();
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap();
    let first = face.get(url, &[("accept-encoding", "gzip")]).await;
    assert_eq!((first.status.as_u16(), first.header("content-encoding")), (200, "gzip"));
    assert_eq!(first.header("cache-control"), "public, immutable");
    assert!(first.header("expires").ends_with(" GMT"), "{:?}", first.headers);
    let etag = first.header("etag");
    assert!(url.ends_with(&format!("?hash={}", etag.trim_matches('"'))), "{etag}");
    let again = face.get(url, &[("if-none-match", etag)]).await;
    assert_eq!((again.status.as_u16(), again.body.as_str()), (304, ""));
    let stale = face.get("/openapi/v3/apis/apps/v1?hash=OLD", &[]).await;
    assert_eq!((stale.status.as_u16(), stale.header("location")), (301, url));
    let plain = face.get("/openapi/v3/apis/apps/v1", &[]).await;
    assert_eq!((plain.header("etag"), plain.header("cache-control")), (etag, "no-cache, private"));
    assert!(!face.get("/openapi/v2", &[]).await.header("etag").is_empty());
}

/// client-go asks again with the tag of the discovery that it has on its disk.
#[tokio::test]
async fn aggregated_discovery_is_cacheable_api_6() {
    let face = InMemoryServer::new();
    let aggregated = ("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    for path in ["/api", "/apis"] {
        let first = face.get(path, &[aggregated]).await;
        assert_eq!((first.status.as_u16(), first.header("vary")), (200, "Accept"), "{path}");
        let again = face.get(path, &[aggregated, ("if-none-match", first.header("etag"))]).await;
        assert_eq!((again.status.as_u16(), again.body.as_str()), (304, ""), "{path}");
        let other = face.get(path, &[aggregated, ("if-none-match", "\"0\"")]).await;
        assert_eq!((other.status.as_u16(), &other.body), (200, &first.body), "{path}");
        let plain = face.get(path, &[]).await;
        assert_eq!((plain.status.as_u16(), plain.header("etag")), (200, ""), "{path}");
    }
}

#[tokio::test]
async fn the_server_tells_of_itself_as_kubernetes_does_api_1_api_6() {
    let face = InMemoryServer::new();
    let stranger = async |path: &str| face.ask(Method::GET, path, &[], "").await;
    for path in ["/healthz", "/livez", "/readyz"] {
        let response = stranger(path).await;
        assert_eq!((response.status.as_u16(), response.body.as_str()), (200, "ok"), "{path}");
        let refused = face.ask(Method::GET, path, &[("authorization", "Bearer wrong")], "").await;
        assert_eq!(refused.status, 401, "{path}");
    }
    assert_eq!(stranger("/version").await.json()["major"], "1");
    for path in ["/", "/api", "/livez/ping", "/statusz", "/openapi/v2", "/.well-known/openid-configuration"] {
        assert_eq!(stranger(path).await.status, 401, "{path}");
    }
    let verbose = face.get("/livez?verbose", &[]).await.body;
    assert_eq!(verbose, "[+]ping ok\nlivez check passed\n");
    let excluded = face.get("/readyz?verbose&exclude=etcd&exclude=nonsense", &[]).await.body;
    assert_eq!(
        excluded,
        "[+]ping ok\n[+]etcd excluded: ok\n[+]shutdown ok\nwarn: some health checks cannot be excluded: no \
         matches for \"nonsense\"\nreadyz check passed\n"
    );
    for path in ["/livez/ping", "/readyz/etcd", "/readyz/shutdown", "/healthz/ping"] {
        assert_eq!(face.get(path, &[]).await.body, "ok", "{path}");
    }
    assert_eq!(face.get("/readyz/nonsense", &[]).await.status, 404);
    assert!(face.get("/statusz", &[]).await.body.contains("Up: 0 hr 00 min "));
    assert!(face.get("/flagz", &[]).await.body.contains("\nrequest-timeout=1m0s\n"));
    let paths = face.get("/", &[]).await.json()["paths"].clone();
    let paths: Vec<&str> = paths.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for path in paths {
        assert_eq!(face.get(path, &[]).await.status, 200, "{path}");
        for method in [Method::POST, Method::DELETE, Method::PUT] {
            let response = face.ask(method.clone(), path, &[OWNER], "").await;
            assert_eq!(
                (response.status.as_u16(), response.header("allow")),
                (405, "GET, HEAD"),
                "{method} {path}"
            );
        }
    }
    let keys = face.get("/.well-known/openid-configuration", &[("host", "evil.example")]).await.json();
    assert_eq!(keys["jwks_uri"], "https://kubernetes.default.svc:443/openid/v1/jwks");
    let roots = face.get("/api", &[("host", "evil.example")]).await.body;
    assert!(!roots.contains("evil"), "{roots}");
}
