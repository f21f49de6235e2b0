//! Groups of the API that other servers serve: requests are judged here and passed on (API-17).

mod availability;
mod discovery;
mod hostile;
mod proxying;
mod server;

use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use podium::api::{Api, WriteOptions};
use podium::object::{Key, Kind, Object};
use serde_json::{Value, json};

use crate::http::InMemoryServer;
use server::{Extension, ReceivedRequest, Reply};

const GROUP: &str = "/apis/wardle.example.com/v1";
const NAME: &str = "v1.wardle.example.com";

/// The responses that every extension server must give about itself, and its OpenAPI documents; `None` for another
/// path.
fn discovery_reply(request: &ReceivedRequest) -> Option<Reply> {
    Some(match request.uri.split('?').next().unwrap() {
        GROUP => Reply::Json(resources()),
        "/openapi/v3" => Reply::Json(json!({"paths": {"apis/wardle.example.com/v1":
            {"serverRelativeURL": format!("/openapi/v3{GROUP}?hash=ABC")}}})),
        _ => return None,
    })
}

fn resources() -> Value {
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "wardle.example.com/v1", "resources": [
        {"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder",
            "verbs": ["get", "list", "watch"], "shortNames": ["fl"]},
        {"name": "flunders/status", "singularName": "", "namespaced": true, "kind": "Flunder", "verbs": ["get"]}]})
}

/// Starts an extension server of the group, which accepts only this API's front proxy.
fn extension(api: &Api, handler: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static) -> Extension {
    let front_proxy = api.front_proxy().unwrap();
    Extension::start("wardle.default.svc", front_proxy.certificate_pem(), move |request| {
        discovery_reply(request).unwrap_or_else(|| handler(request))
    })
}

fn create(api: &Api, kind: Kind, object: Value) {
    api.create(Object::from_value(kind, object).unwrap(), &WriteOptions::default()).unwrap();
}

/// The service `wardle` with this endpoint.
fn serve_at(api: &Api, address: SocketAddr) {
    let metadata = json!({"name": "wardle", "namespace": "default"});
    let ports = json!([{"port": 443, "targetPort": address.port()}]);
    create(api, Kind::Service, json!({"metadata": metadata, "spec": {"ports": ports}}));
    let subset = json!({"addresses": [{"ip": address.ip()}], "ports": [{"port": address.port()}]});
    create(api, Kind::Endpoints, json!({"metadata": metadata, "subsets": [subset]}));
}

/// The APIService of the group, which trusts this authority.
fn register(api: &Api, authority: &str) {
    let service = json!({"namespace": "default", "name": "wardle"});
    create(
        api,
        Kind::APIService,
        json!({"metadata": {"name": NAME}, "spec": {"group": "wardle.example.com", "version": "v1",
        "groupPriorityMinimum": 2000, "versionPriority": 15, "service": service, "caBundle": STANDARD.encode(authority)}}),
    );
}

/// Sets the availability in the status, as the controller does.
fn set_available(api: &Api, is_available: bool) {
    let condition = json!({"type": "Available", "status": if is_available { "True" } else { "False" }});
    let written = api.modify_status::<APIService>(&Key::new("", NAME), |service| {
        service.status = serde_json::from_value(json!({"conditions": [condition]})).unwrap();
        Ok(())
    });
    written.unwrap();
}

/// Returns a server with a group that an extension server serves; the extension is available and its resources are
/// known.
async fn with_extension(
    handler: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
) -> (InMemoryServer, Extension) {
    with_extension_on(InMemoryServer::new(), handler).await
}

async fn with_extension_on(
    face: InMemoryServer,
    handler: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
) -> (InMemoryServer, Extension) {
    let extension = extension(&face.api, handler);
    serve_at(&face.api, extension.address);
    register(&face.api, &extension.authority);
    face.api.probe_api_service(NAME).await.unwrap();
    set_available(&face.api, true);
    extension.take_seen();
    (face, extension)
}
