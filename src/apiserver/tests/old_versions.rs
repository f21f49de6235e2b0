//! Removed API versions, at their paths (API-18).

use super::*;

fn old_deployment() -> Value {
    json!({"apiVersion": "extensions/v1beta1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"template": {
        "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}}})
}

/// The paths of the documents in discovery.
async fn listed(client: &Client) -> Vec<String> {
    let groups = client.get("/apis").await.body;
    let groups = groups["groups"].as_array().unwrap().iter();
    let versions = groups.flat_map(|group| group["versions"].as_array().unwrap().clone());
    versions.map(|version| version["groupVersion"].as_str().unwrap().to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_old_version_is_written_and_read_at_its_path_with_its_warning_api_18() {
    const OLD: &str = "/apis/extensions/v1beta1/namespaces/default/deployments";
    const DEPRECATION: &str = "299 - \"extensions/v1beta1 Deployment is deprecated in v1.8+, unavailable in v1.16+; use apps/v1 Deployment\"";
    let client = Client::new().await;
    let made = client.post(OLD, &old_deployment()).await;
    assert_eq!((made.code, &made.warnings[..]), (201, &[DEPRECATION.to_string()][..]), "{made:?}");
    assert_eq!(
        (&made.body["apiVersion"], &made.body["spec"]["revisionHistoryLimit"]),
        (&json!("extensions/v1beta1"), &json!(i32::MAX))
    );
    let new = client.get(&format!("{DEPLOYMENTS}/web")).await;
    assert_eq!((&new.body["apiVersion"], new.warnings.len()), (&json!("apps/v1"), 0));
    assert_eq!(new.body["spec"]["selector"], json!({"matchLabels": {"app": "web"}}));
    let list = client.get(OLD).await;
    assert_eq!(
        (&list.body["kind"], &list.body["apiVersion"]),
        (&json!("DeploymentList"), &json!("extensions/v1beta1"))
    );
    assert_eq!(list.warnings, [DEPRECATION]);
    // An unknown field causes the usual warning, and a field of a wrong type is refused.
    let mut odd = old_deployment();
    odd["metadata"]["name"] = "odd".into();
    odd["spec"]["replicaz"] = 1.into();
    let warned = client.post(OLD, &odd).await;
    assert!(warned.warnings.iter().any(|w| w.contains("unknown field \\\"spec.replicaz\\\"")), "{warned:?}");
    odd["spec"]["replicas"] = "two".into();
    assert_eq!(client.put(&format!("{OLD}/odd"), &odd).await.code, 400);
    // Lists merge as in the stored version.
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "d", "image": "y"}]}}}});
    let patched = client.patch(&format!("{OLD}/web"), STRATEGIC, &patch).await;
    assert_eq!(
        patched.body["spec"]["template"]["spec"]["containers"].as_array().map(Vec::len),
        Some(2),
        "{patched:?}"
    );
    let whole = client.put(&format!("{OLD}/web"), &old_deployment()).await;
    assert_eq!((whole.code, &whole.body["spec"]["strategy"]["rollingUpdate"]["maxSurge"]), (200, &json!(1)));
    let scale = client.get(&format!("{OLD}/web/scale")).await;
    assert_eq!(scale.body["spec"]["replicas"], 1);
    let refused = client.post("/apis/apps/v1beta1/namespaces/default/deployments", &old_deployment()).await;
    assert_eq!(refused.code, 400, "{refused:?}");
    // Regression: errors lacked the warning of the removed version.
    for (path, code) in [(format!("{OLD}/missing"), 404), (format!("{OLD}/missing/scale"), 404)] {
        let answered = client.get(&path).await;
        assert_eq!((answered.code, &answered.warnings[..]), (code, &[DEPRECATION.to_string()][..]), "{path}");
    }
    let mut invalid = old_deployment();
    invalid["metadata"]["name"] = "Not A Name".into();
    let refused = client.post(OLD, &invalid).await;
    assert_eq!((refused.code, refused.warnings.first().map(String::as_str)), (422, Some(DEPRECATION)));
    assert_eq!(client.delete(&format!("{OLD}/web"), &json!({})).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn an_old_ingress_is_applied_and_an_old_definition_taken_api_18() {
    let client = Client::new().await;
    let old = json!({"apiVersion": "networking.k8s.io/v1beta1", "kind": "Ingress", "metadata": {"name": "web"},
        "spec": {"rules": [{"http": {"paths": [{"path": "/", "backend": {"serviceName": "web", "servicePort": 80}}]}}]}});
    let path = "/apis/networking.k8s.io/v1beta1/namespaces/default/ingresses/web";
    let applied = client.patch(&format!("{path}?fieldManager=me"), APPLY, &old).await;
    assert_eq!(applied.code, 201, "{applied:?}");
    assert_eq!(
        applied.body["spec"]["rules"][0]["http"]["paths"][0]["backend"],
        json!({"serviceName": "web", "servicePort": 80})
    );
    let new = client.get("/apis/networking.k8s.io/v1/namespaces/default/ingresses/web").await.body;
    assert_eq!(new["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["port"]["number"], 80);
    let merged = json!({"spec": {"backend": {"serviceName": "rest", "servicePort": "http"}}});
    let merged = client.patch(path, MERGE, &merged).await;
    assert_eq!(merged.body["spec"]["backend"]["serviceName"], "rest", "{merged:?}");
    let old = json!({"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.a.example"}, "spec": {"group": "a.example", "version": "v1", "scope": "Cluster",
            "names": {"plural": "things", "kind": "Thing"}, "validation": {"openAPIV3Schema": {"properties": {
                "spec": {"required": ["size"], "properties": {"size": {"type": "integer", "minimum": 1}, "any": {},
                    "list": {"items": {"properties": {"a": {"type": "string"}}}}}}}}}}});
    let path = "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions";
    let made = client.post(path, &old).await;
    assert_eq!((made.code, &made.body["spec"]["version"]), (201, &json!("v1")), "{made:?}");
    let budget = json!({"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {}}});
    let made = client.post("/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets", &budget).await;
    assert_eq!((made.code, &made.body["spec"]["selector"]), (201, &json!({})), "{made:?}");
}

#[tokio::test(start_paused = true)]
async fn old_versions_are_listed_if_they_are_enabled_api_18() {
    let old =
        ["extensions/v1beta1", "apps/v1beta2", "batch/v1beta1", "policy/v1beta1", "autoscaling/v2beta2"];
    let client = Client::new().await;
    let without = listed(&client).await;
    assert!(old.iter().all(|version| !without.contains(&(*version).to_string())), "{without:?}");
    assert_eq!(client.get("/apis/extensions/v1beta1").await.code, 404);
    let client = Client::with(ApiConfig { legacy_versions: true, ..ApiConfig::default() }).await;
    let with = listed(&client).await;
    assert!(old.iter().all(|version| with.contains(&(*version).to_string())), "{with:?}");
    // Short names resolve to the first group.
    assert_eq!(with.last().map(String::as_str), Some("extensions/v1beta1"));
    let found = client.get("/apis/extensions/v1beta1").await.body;
    let names: Vec<_> =
        found["resources"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"deployments") && names.contains(&"ingresses/status"), "{names:?}");
    // The newest comes first: it is the preferred version.
    assert_eq!(client.get("/apis/apps").await.body["preferredVersion"]["version"], "v1");
}

/// Regression: the paths of old versions had no schemas, so kubectl explained no fields and merged lists as a whole.
#[tokio::test(start_paused = true)]
async fn old_versions_that_are_listed_are_described_api_18() {
    let client = Client::with(ApiConfig { legacy_versions: true, ..ApiConfig::default() }).await;
    let version_3 = client.get("/openapi/v3/apis/extensions/v1beta1").await.body;
    let version_2 = client.get("/openapi/v2").await.body;
    let gvk = |kind: &str| json!([{"group": "extensions", "kind": kind, "version": "v1beta1"}]);
    let path = "/apis/extensions/v1beta1/namespaces/{namespace}/deployments";
    let reference = "/io.k8s.api.extensions.v1beta1.Deployment";
    let body = &version_3["paths"][path]["post"]["requestBody"]["content"]["*/*"]["schema"];
    assert!(body.to_string().contains(reference), "{body}");
    let body = &version_2["paths"][path]["post"]["parameters"][0]["schema"]["$ref"];
    assert_eq!(body, &format!("#/definitions{reference}"));
    for (document, schemas) in
        [("v3", &version_3["components"]["schemas"]), ("v2", &version_2["definitions"])]
    {
        let deployment = &schemas["io.k8s.api.extensions.v1beta1.Deployment"];
        assert_eq!(deployment["x-kubernetes-group-version-kind"], gvk("Deployment"), "{document}");
        assert!(
            deployment["properties"]["spec"].to_string().contains("apps.v1.DeploymentSpec"),
            "{deployment}"
        );
        let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
        assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
        assert!(schemas["io.k8s.api.extensions.v1beta1.DeploymentList"].is_object(), "{document}");
        // A backend had other fields then; the schema omits them, so that it states nothing wrong.
        let ingress = &schemas["io.k8s.api.extensions.v1beta1.Ingress"];
        assert_eq!(ingress["x-kubernetes-group-version-kind"], gvk("Ingress"), "{document}");
        assert_eq!(ingress["x-kubernetes-preserve-unknown-fields"], true, "{document}");
        assert!(ingress["properties"]["spec"].is_null() && ingress["properties"]["metadata"].is_object());
    }
    // The stored version keeps its own name and version.
    let apps = client.get("/openapi/v3/apis/apps/v1").await.body;
    assert_eq!(
        apps["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"]["x-kubernetes-group-version-kind"],
        json!([{"group": "apps", "kind": "Deployment", "version": "v1"}])
    );
    let mut found = Vec::new();
    references(&version_2, &mut found);
    for name in found {
        let name = name.strip_prefix("#/definitions/").unwrap();
        assert!(version_2["definitions"][name].is_object(), "{name}");
    }
}

fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(entries) => {
            found.extend(entries.get("$ref").and_then(Value::as_str));
            entries.values().for_each(|value| references(value, found));
        }
        Value::Array(elements) => elements.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

/// Clients that request protobuf also read JSON; no client gets a message with another version's field
/// numbers.
#[tokio::test(start_paused = true)]
async fn an_old_version_is_served_as_json_even_if_protobuf_is_requested_api_18() {
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let client = Client::new().await;
    let path = "/apis/extensions/v1beta1/namespaces/default/deployments";
    assert_eq!(client.post(path, &old_deployment()).await.code, 201);
    for accept in [PROTOBUF, "application/vnd.kubernetes.protobuf,application/json"] {
        for path in [path.to_string(), format!("{path}/web")] {
            let request = Request::builder()
                .uri(&path)
                .header(AUTHORIZATION, format!("Bearer {TOKEN}"))
                .header(http::header::ACCEPT, accept)
                .body(Body::empty())
                .unwrap();
            let response = client.server.handle(request).await;
            assert_eq!(
                (response.status().as_u16(), response.headers()[CONTENT_TYPE].to_str().unwrap()),
                (200, "application/json")
            );
            let body = response.into_body().collect().await.unwrap().to_bytes();
            let body: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(body["apiVersion"], "extensions/v1beta1", "{path}");
        }
    }
    let refused = client.send("POST", path, PROTOBUF, "k8s\0".into()).await;
    assert_eq!(refused.code, 400, "{refused:?}");
}
