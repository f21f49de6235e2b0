//! Definitions and their objects: defaulting and pruning are idempotent for every object that a schema accepts.

use http::Method;
use serde_json::{Value, json};

use super::http_server::HttpServer;

const JSON: &str = "application/json";
const THINGS: &str = "/apis/fuzz.test/v1/namespaces/default/things";

/// Input: a schema and up to three of its objects, as JSON, separated by NULs.
pub(super) fn check(bytes: &[u8]) {
    let mut parts =
        bytes.split(|byte| *byte == 0).take(4).map(|text| serde_json::from_slice::<Value>(text).ok());
    let Some(Some(schema)) = parts.next() else { return };
    let definition = json!({"metadata": {"name": "things.fuzz.test"}, "spec": {
        "group": "fuzz.test", "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    let face = HttpServer::new();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, defined) = face.send(Method::POST, definitions, JSON, definition.to_string().as_bytes());
    if code != 201 {
        return;
    }
    let spec =
        serde_json::from_value(defined["spec"].clone()).expect("the response is a CustomResourceDefinition");
    face.api.define(&spec).expect("a valid definition can be served");
    for mut thing in parts.flatten().filter(Value::is_object) {
        (thing["apiVersion"], thing["kind"]) = ("fuzz.test/v1".into(), "Thing".into());
        thing["metadata"] = json!({"name": "x", "namespace": "default"});
        let (code, made) = face.send(Method::POST, THINGS, JSON, thing.to_string().as_bytes());
        if code == 409 {
            let one = format!("{THINGS}/x");
            let (_, current) = face.send(Method::GET, &one, JSON, b"");
            thing["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"].clone();
            face.send(Method::PUT, &one, JSON, thing.to_string().as_bytes());
            continue;
        }
        if code != 201 {
            continue;
        }
        // Writing an accepted object again changes nothing, since its defaults are set and its unknown fields are
        // pruned.
        let one = format!("{THINGS}/x");
        let (code, put) = face.send(Method::PUT, &one, JSON, made.to_string().as_bytes());
        assert_eq!((code, &put), (200, &made), "{schema}");
        let (_, listed) = face.send(Method::GET, THINGS, JSON, b"");
        assert_eq!(listed["items"][0]["metadata"], made["metadata"]);
    }
}
