//! Conversion by webhook as its users see it (API-14): a definition with versions of different fields, and an external
//! server that converts objects between them.

mod answers;
mod cache;
mod command;
mod entry_points;
mod owners;
mod params;
mod storage;

use http::Method;
use podium::object::{Key, Kind, Object};
use serde_json::{Value, json};

use crate::http::{InMemoryServer, OWNER};
use crate::webhooks::server::{Reply, Webhook};

const V1: &str = "/apis/conv.test/v1/namespaces/default/sites";
const V2: &str = "/apis/conv.test/v2/namespaces/default/sites";
const V3: &str = "/apis/conv.test/v3/namespaces/default/sites";

/// Sites, which v1 has as `hostPort`, v2 as `host` and `port`, and v3 as v2 with an alias.
fn sites(conversion: &Value, storage: &str) -> Value {
    let status = json!({"type": "object", "properties": {"replicas": {"type": "integer"}}});
    let schema = |spec: Value| {
        json!({"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": spec}, "status": status}}})
    };
    let text = json!({"type": "string"});
    let version = |name: &str, spec: Value, more: Value| {
        let mut version = json!({"name": name, "served": true, "storage": name == storage, "schema": schema(spec),
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas"}}});
        version.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        version
    };
    let columns = json!({"additionalPrinterColumns": [{"name": "Port", "type": "string", "jsonPath": ".spec.port"}],
        "selectableFields": [{"jsonPath": ".spec.port"}]});
    json!({"group": "conv.test", "scope": "Namespaced", "names": {"plural": "sites", "kind": "Site"},
    "conversion": conversion,
    "versions": [
        version("v1", json!({"hostPort": text, "replicas": {"type": "integer"}}), json!({})),
        version("v2", json!({"host": text, "port": {"type": "string", "default": "80"},
            "replicas": {"type": "integer"}}), columns),
        version("v3", json!({"host": text, "port": text, "alias": text, "replicas": {"type": "integer"}}), json!({})),
    ]})
}

fn sites_converted_by(webhook: &Webhook, storage: &str) -> Value {
    let client = webhook.client_config("/convert");
    sites(
        &json!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}),
        storage,
    )
}

fn define(face: &InMemoryServer, spec: &Value) -> Kind {
    face.api.define(&serde_json::from_value(spec.clone()).unwrap()).unwrap()
}

/// Converts the object to the desired version.
fn converted(object: &Value, desired: &str) -> Value {
    let mut object = object.clone();
    let of_v1 = object["apiVersion"] == "conv.test/v1";
    let to_v1 = desired == "conv.test/v1";
    object["apiVersion"] = desired.into();
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return object };
    if of_v1
        && !to_v1
        && let Some(Value::String(both)) = spec.remove("hostPort")
    {
        let (host, port) = both.split_once(':').unwrap_or((&both, "80"));
        spec.extend([("host".to_string(), json!(host)), ("port".into(), json!(port))]);
    }
    if to_v1 && !of_v1 {
        let text =
            |value: Option<Value>| value.and_then(|v| v.as_str().map(String::from)).unwrap_or_default();
        let (host, port) = (text(spec.remove("host")), text(spec.remove("port")));
        spec.remove("alias");
        spec.insert("hostPort".into(), json!(format!("{host}:{port}")));
    }
    object
}

/// A response with these objects.
fn answer(review: &Value, objects: &[Value]) -> Value {
    json!({"kind": "ConversionReview", "apiVersion": review["apiVersion"],
        "response": {"uid": review["request"]["uid"], "result": {"status": "Success"}, "convertedObjects": objects}})
}

fn correct_answer(review: &Value) -> Value {
    let desired = review["request"]["desiredAPIVersion"].as_str().unwrap();
    let objects: Vec<Value> =
        review["request"]["objects"].as_array().unwrap().iter().map(|o| converted(o, desired)).collect();
    answer(review, &objects)
}

/// A server that converts as it should.
fn converter() -> Webhook {
    Webhook::start(|_, review| Reply::Json(correct_answer(review)))
}

fn site(version: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": format!("conv.test/{version}"), "kind": "Site", "metadata": {"name": name}, "spec": spec})
}

/// Returns the number of objects in each call.
fn calls(webhook: &Webhook) -> Vec<usize> {
    webhook.take_seen().iter().map(|request| request["objects"].as_array().map_or(0, Vec::len)).collect()
}

async fn ask(face: &InMemoryServer, method: Method, path: &str, type_: &str, body: &Value) -> (u16, Value) {
    let headers = [OWNER, ("content-type", type_)];
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = face.ask(method, path, &headers, &body).await;
    (answer.status.as_u16(), answer.json())
}

async fn post(face: &InMemoryServer, path: &str, body: &Value) -> (u16, Value) {
    ask(face, Method::POST, path, "application/json", body).await
}

async fn merge(face: &InMemoryServer, path: &str, body: &Value) -> (u16, Value) {
    ask(face, Method::PATCH, path, "application/merge-patch+json", body).await
}

async fn get(face: &InMemoryServer, path: &str) -> (u16, Value) {
    ask(face, Method::GET, path, "application/json", &Value::Null).await
}

/// Returns an object as it is stored.
fn stored(face: &InMemoryServer, kind: Kind, name: &str) -> Value {
    let object: std::sync::Arc<Object> = face.api.get(kind, &Key::new("default", name)).unwrap();
    let mut value = object.to_value();
    value["metadata"].as_object_mut().unwrap().remove("managedFields");
    value
}
