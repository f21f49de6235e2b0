//! Field ownership with owners that name fields in different versions.

use http::Method;
use serde_json::{Value, json};

use super::{V1, V2, V3, ask, converter, define, get, merge, post, site, sites_converted_by};
use crate::http::InMemoryServer;

async fn apply(face: &InMemoryServer, path: &str, manager: &str, config: &Value) -> (u16, Value) {
    let path = format!("{path}/a?fieldManager={manager}");
    ask(face, Method::PATCH, &path, "application/apply-patch+yaml", config).await
}

fn owners(object: &Value) -> Vec<(String, String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let entry = |entry: &Value| {
        (text(&entry["manager"]), text(&entry["apiVersion"]), entry["fieldsV1"]["f:spec"].clone())
    };
    entries.iter().map(entry).collect()
}

fn owner(manager: &str, version: &str, fields: &Value) -> (String, String, Value) {
    (manager.into(), format!("conv.test/{version}"), fields.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_name_fields_in_their_own_version_api_13_api_14() {
    let (webhook, face) = (converter(), InMemoryServer::new());
    define(&face, &sites_converted_by(&webhook, "v1"));
    let (status, made) = apply(&face, V1, "one", &site("v1", "a", &json!({"hostPort": "h:1"}))).await;
    assert_eq!(status, 201, "{made}");
    let (status, refused) =
        apply(&face, V2, "two", &site("v2", "a", &json!({"host": "h", "port": "2"}))).await;
    assert_eq!(status, 409, "{refused}");
    assert_eq!(
        refused["message"], "Apply failed with 1 conflict: conflict with \"one\": .spec.hostPort",
        "the changed field is part of a field that the other manager owns in its version"
    );
    let (status, shared) =
        apply(&face, V2, "two", &site("v2", "a", &json!({"host": "h", "port": "1"}))).await;
    assert_eq!(status, 200, "{shared}");
    let both = json!({"f:host": {}, "f:port": {}});
    assert_eq!(owners(&shared), [owner("one", "v1", &json!({"f:hostPort": {}})), owner("two", "v2", &both),]);
    // An update in one version takes the changed fields from owners in every other.
    let path = format!("{V2}/a?fieldManager=three");
    let (status, updated) = merge(&face, &path, &json!({"spec": {"port": "9"}})).await;
    assert_eq!(status, 200, "{updated}");
    assert_eq!(
        owners(&updated),
        [owner("two", "v2", &json!({"f:host": {}})), owner("three", "v2", &json!({"f:port": {}})),]
    );
}

/// An applier that switches to another version gives up the fields that it applied in the previous one.
#[tokio::test(flavor = "multi_thread")]
async fn an_applier_changes_versions_and_drops_fields_api_13_api_14() {
    let (webhook, face) = (converter(), InMemoryServer::new());
    define(&face, &sites_converted_by(&webhook, "v3"));
    let spec = json!({"host": "h", "port": "1", "alias": "x"});
    assert_eq!(apply(&face, V3, "one", &site("v3", "a", &spec)).await.0, 201);
    let (status, applied) =
        apply(&face, V2, "one", &site("v2", "a", &json!({"host": "h", "port": "2"}))).await;
    assert_eq!(status, 200, "{applied}");
    assert_eq!(owners(&applied), [owner("one", "v2", &json!({"f:host": {}, "f:port": {}}))]);
    let (_, shown) = get(&face, &format!("{V3}/a")).await;
    assert_eq!(shown["spec"]["port"], "2");
    let (status, applied) = apply(&face, V3, "one", &site("v3", "a", &json!({"host": "h"}))).await;
    assert_eq!((status, &applied["spec"]), (200, &json!({"host": "h"})), "{applied}");

    // Fields created in one version keep their owner when others write in another.
    let path = format!("{V1}?fieldManager=maker");
    let (_, made) = post(&face, &path, &site("v1", "b", &json!({"hostPort": "h:1", "replicas": 1}))).await;
    assert_eq!(owners(&made), [owner("maker", "v1", &json!({"f:hostPort": {}, "f:replicas": {}, ".": {}}))]);
    let (_, scaled) =
        merge(&face, &format!("{V2}/b?fieldManager=other"), &json!({"spec": {"replicas": 2}})).await;
    assert_eq!(
        owners(&scaled),
        [
            owner("maker", "v1", &json!({"f:hostPort": {}, ".": {}})),
            owner("other", "v2", &json!({"f:replicas": {}})),
        ]
    );
}
