//! Requests that only older clients make, and unreadable definitions.

use super::*;

#[tokio::test(start_paused = true)]
async fn component_statuses_are_listed_and_read_api_18() {
    let client = Client::new().await;
    let listed = client.get("/api/v1/componentstatuses").await;
    assert_eq!((listed.code, &listed.body["kind"]), (200, &json!("ComponentStatusList")));
    let names: Vec<_> = listed.body["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].clone())
        .collect();
    assert_eq!(names, ["controller-manager", "etcd-0", "scheduler"]);
    assert!(
        listed.warnings[0].contains("v1 ComponentStatus is deprecated in v1.19+"),
        "{:?}",
        listed.warnings
    );
    let one = client.get("/api/v1/componentstatuses/etcd-0").await;
    assert_eq!(one.body["conditions"][0], json!({"type": "Healthy", "status": "True", "message": "ok"}));
    let selected = client.get("/api/v1/componentstatuses?fieldSelector=metadata.name%3Dscheduler").await;
    assert_eq!(selected.body["items"].as_array().map(Vec::len), Some(1));
    let missing = client.get("/api/v1/componentstatuses/none").await;
    assert_eq!(missing.code, 404);
    assert_eq!(missing.body["message"], "componentstatuses \"none\" not found");
    assert_eq!(missing.body["details"], json!({"name": "none", "kind": "componentstatuses"}));
    assert_eq!(client.delete("/api/v1/componentstatuses/etcd-0", &json!({})).await.code, 405);
    let discovered = client.get("/api/v1").await;
    let resources = discovered.body["resources"].as_array().unwrap();
    let resource = resources.iter().find(|resource| resource["name"] == "componentstatuses").unwrap();
    assert_eq!((&resource["shortNames"], &resource["verbs"]), (&json!(["cs"]), &json!(["get", "list"])));
}

/// Clients that only read are warned, too.
#[tokio::test(start_paused = true)]
async fn every_request_for_endpoints_is_answered_with_their_deprecation_api_18() {
    let client = Client::new().await;
    let all = "/api/v1/namespaces/default/endpoints";
    let made = client.post(all, &json!({"metadata": {"name": "e"}})).await;
    for answer in [made, client.get(all).await, client.get(&format!("{all}/e")).await] {
        let [warning] = &answer.warnings[..] else { panic!("{:?}", answer.warnings) };
        assert!(
            warning.contains("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn ephemeral_containers_are_replaced_by_their_old_kind_api_18() {
    let client = Client::new().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"automountServiceAccountToken": false,
        "containers": [{"name": "a", "image": "x"}]}});
    let made = client.post(PODS, &pod).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let given = |name: &str, version: &str| {
        json!({"apiVersion": "v1", "kind": "EphemeralContainers", "metadata": {"name": name, "resourceVersion": version},
            "ephemeralContainers": [{"name": "debug", "image": "busybox"}]})
    };
    let path = format!("{PODS}/p/ephemeralcontainers");
    for (refused, code) in [(given("q", ""), 400), (given("p", "1"), 409)] {
        assert_eq!(client.put(&path, &refused).await.code, code, "{refused}");
    }
    let answered = client.put(&path, &given("p", "")).await;
    assert_eq!(
        (answered.code, &answered.body["kind"]),
        (200, &json!("EphemeralContainers")),
        "{}",
        answered.body
    );
    assert_eq!(answered.body["ephemeralContainers"][0]["name"], "debug");
    let stored = client.get(&format!("{PODS}/p")).await;
    assert_eq!(stored.body["spec"]["ephemeralContainers"][0]["image"], "busybox");
    assert_eq!(answered.body["metadata"]["resourceVersion"], stored.body["metadata"]["resourceVersion"]);
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(schema: &Value) -> Value {
    json!({"metadata": {"name": "things.old.test"}, "spec": {"group": "old.test", "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

/// No message comes from the decoder itself.
#[tokio::test(start_paused = true)]
async fn a_definition_that_cannot_be_read_is_refused_in_kubernetes_words_api_8() {
    let client = Client::new().await;
    let at = "spec.validation.openAPIV3Schema";
    for (schema, code, expected) in [
        (
            json!({"type": "object", "properties": {"x": null}}),
            422,
            format!("{at}.properties[x].type: Required value: must not be empty for specified object fields"),
        ),
        (
            json!({"type": "object", "properties": {"l": {"type": "array",
                "items": {"type": "object", "properties": {"x": null}}}}}),
            422,
            format!("{at}.properties[l].items.properties[x].type: Required value: must not be empty"),
        ),
        (
            json!({"type": "object", "additionalProperties": 5}),
            400,
            "json: cannot unmarshal number into Go struct field JSONSchemaProps".into(),
        ),
        (
            json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": 5}}}}),
            400,
            "json: cannot unmarshal number into Go struct field JSONSchemaProps".into(),
        ),
        (
            json!({"type": "object", "required": "x"}),
            400,
            "json: cannot unmarshal string into Go struct field JSONSchemaProps".into(),
        ),
    ] {
        let answered = client.post(DEFINITIONS, &definition(&schema)).await;
        assert_eq!(answered.code, code, "{schema}: {}", answered.message());
        assert!(answered.message().contains(&expected), "{schema}: {}", answered.message());
    }
}

/// Differences between two pods are shown with plain spaces.
#[tokio::test(start_paused = true)]
async fn messages_have_no_escapes_for_spaces_api_8() {
    let client = Client::new().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"automountServiceAccountToken": false,
        "containers": [{"name": "a", "image": "x"}]}});
    assert_eq!(client.post(PODS, &pod).await.code, 201);
    let patch = json!({"spec": {"terminationGracePeriodSeconds": 3}});
    let answered = client.patch(&format!("{PODS}/p"), MERGE, &patch).await;
    assert!(answered.code == 422 && answered.message().contains("TerminationGracePeriodSeconds"));
    assert!(
        !answered.message().contains("\\u00a0") && !answered.message().contains('\u{a0}'),
        "{}",
        answered.message()
    );
}

/// Version 2 describes union types and fields that preserve unknown fields as Kubernetes does.
#[tokio::test(start_paused = true)]
async fn version_2_of_openapi_has_kubernetes_unions_and_definitions_api_6() {
    let client = Client::new().await;
    let preserving = json!({"type": "object", "properties": {
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}},
        "status": {"type": "object", "properties": {"b": {"type": "string"}}}}});
    let spec = definition(&preserving)["spec"].clone();
    client.server.api().define(&serde_json::from_value(spec).unwrap()).unwrap();
    let document = client.get("/openapi/v2").await.body;
    let definitions = &document["definitions"];
    for (name, type_, format) in [
        ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool", None, None),
        ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray", None, None),
        ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray", None, None),
        ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", Some("string"), Some("int-or-string")),
        ("io.k8s.apimachinery.pkg.api.resource.Quantity", Some("string"), None),
        ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", Some("string"), Some("date-time")),
        ("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", Some("string"), Some("date-time")),
        ("io.k8s.apimachinery.pkg.apis.meta.v1.Patch", Some("object"), None),
        ("io.k8s.apimachinery.pkg.runtime.RawExtension", Some("object"), None),
    ] {
        let schema = &definitions[name];
        assert!(schema["description"].is_string(), "{name}: {schema}");
        assert_eq!((schema["type"].as_str(), schema["format"].as_str()), (type_, format), "{name}: {schema}");
        assert!(schema.get("properties").is_none() && schema.get("oneOf").is_none(), "{name}: {schema}");
    }
    let thing = &definitions["test.old.v1.Thing"]["properties"];
    assert_eq!(thing["spec"], json!({"x-kubernetes-preserve-unknown-fields": true}));
    assert_eq!(thing["status"]["properties"]["b"]["type"], "string");
    assert!(definitions["test.old.v1.ThingList"].is_object());
    assert!(document["paths"]["/apis/old.test/v1/namespaces/{namespace}/things"]["post"].is_object());
    assert!(document["paths"]["/api/v1/namespaces/{namespace}/pods"]["post"].is_object());
    let index = client.get("/openapi/v3").await.body;
    let url = index["paths"]["apis/old.test/v1"]["serverRelativeURL"].as_str().unwrap().to_string();
    let third = client.get(&url).await.body;
    assert_eq!(
        third["components"]["schemas"]["test.old.v1.Thing"]["properties"]["spec"]["properties"]["a"]["type"],
        "string"
    );
}
