//! The API over HTTP, without a socket: what clients send and what they read.

mod applies;
mod audit;
mod certificates;
mod dry_runs;
mod dual_stack;
mod effective_fields;
mod fair_queueing;
mod fields;
mod forwarded;
mod histories;
mod messages;
mod metrics;
mod old_clients;
mod old_versions;
mod profile;
mod virtual_objects;
mod zero_values;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, WARNING};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Credentials, Server, ServerConfig};
use api::{Api, ApiConfig};
use base::clock::Clock;
use store::Store;

const TOKEN: &str = "the owner's";
const APPLY: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

struct Client {
    server: Server,
}

#[derive(Debug)]
struct TestResponse {
    code: u16,
    body: Value,
    warnings: Vec<String>,
}

impl TestResponse {
    fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

impl Client {
    /// A client of a cluster with the namespace `default`.
    async fn new() -> Self {
        Self::with(ApiConfig::default()).await
    }

    async fn with(config: ApiConfig) -> Self {
        let clock = Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap());
        let api = Api::new(Store::ephemeral(), clock, config);
        let client = Self {
            server: Server::new(
                api,
                Credentials::new(TOKEN),
                CancellationToken::new(),
                ServerConfig::default(),
            ),
        };
        let made = client.post("/api/v1/namespaces", &json!({"metadata": {"name": "default"}})).await;
        assert_eq!(made.code, 201);
        client
    }

    async fn send(&self, method: &str, path: &str, type_: &str, body: String) -> TestResponse {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(AUTHORIZATION, format!("Bearer {TOKEN}"))
            .header(CONTENT_TYPE, type_)
            .body(Body::from(body))
            .unwrap();
        let response = self.server.handle(request).await;
        let code = response.status().as_u16();
        let warnings = response.headers().get_all(WARNING).iter();
        let warnings = warnings.map(|w| String::from_utf8(w.as_bytes().to_vec()).unwrap()).collect();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        TestResponse { code, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null), warnings }
    }

    /// Reads in the form that a client accepts.
    async fn get_as(&self, path: &str, accept: &str) -> Response {
        let request = Request::builder()
            .uri(path)
            .header(AUTHORIZATION, format!("Bearer {TOKEN}"))
            .header(ACCEPT, accept)
            .body(Body::empty())
            .unwrap();
        self.server.handle(request).await
    }

    /// Returns the only document of a response.
    async fn document(&self, path: &str, accept: &str) -> Value {
        let body = self.get_as(path, accept).await.into_body();
        serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap()
    }

    async fn get(&self, path: &str) -> TestResponse {
        self.send("GET", path, "", String::new()).await
    }

    async fn post(&self, path: &str, body: &Value) -> TestResponse {
        self.send("POST", path, JSON, body.to_string()).await
    }

    async fn put(&self, path: &str, body: &Value) -> TestResponse {
        self.send("PUT", path, JSON, body.to_string()).await
    }

    async fn patch(&self, path: &str, type_: &str, body: &Value) -> TestResponse {
        self.send("PATCH", path, type_, body.to_string()).await
    }

    async fn delete(&self, path: &str, body: &Value) -> TestResponse {
        self.send("DELETE", path, JSON, body.to_string()).await
    }
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// Regression: an invalid resourceVersion was ignored, and the write replaced another client's.
#[tokio::test(start_paused = true)]
async fn a_resource_version_that_is_none_refuses_the_write_api_5() {
    let client = Client::new().await;
    let map = |version: &str, value: &str| json!({"metadata": {"name": "a", "resourceVersion": version}, "data": {"k": value}});
    assert_eq!(client.post(MAPS, &map("", "first")).await.code, 201);
    let a = format!("{MAPS}/a");
    for version in ["abc", "-1", "1.5", "0x1", " 1", "99999999999999999999"] {
        let expected = format!(
            "ConfigMap \"a\" is invalid: metadata.resourceVersion: Invalid value: \"{version}\": strconv.ParseUint: \
             parsing \"{version}\": invalid syntax"
        );
        for answered in [
            client.put(&a, &map(version, "second")).await,
            client.patch(&a, MERGE, &map(version, "second")).await,
            client.patch(&a, STRATEGIC, &map(version, "second")).await,
        ] {
            assert_eq!((answered.code, answered.message()), (422, expected.as_str()));
        }
        let precondition = json!({"preconditions": {"resourceVersion": version}});
        assert_eq!(client.delete(&a, &precondition).await.code, 422);
        for query in ["", "&watch=true"] {
            let version = version.replace(' ', "%20");
            assert_eq!(client.get(&format!("{MAPS}?resourceVersion={version}{query}")).await.code, 400);
        }
    }
    assert_eq!(client.get(&a).await.body["data"]["k"], "first");
    assert_eq!(client.put(&a, &map("1", "second")).await.code, 409);
    let newest = client.get(&a).await.body["metadata"]["resourceVersion"].as_str().unwrap().to_string();
    assert_eq!(client.put(&a, &map(&newest, "second")).await.code, 200);
}

/// Kubernetes' `AllowUnconditionalUpdate`: a controller that writes what it has not read must find out here.
#[tokio::test(start_paused = true)]
async fn some_kinds_are_updated_only_with_a_resource_version_api_5() {
    let client = Client::new().await;
    let definition = json!({"metadata": {"name": "things.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let defined = client.post(definitions, &definition).await;
    client.server.api().define(&serde_json::from_value(defined.body["spec"].clone()).unwrap()).unwrap();
    let things = "/apis/example.com/v1/namespaces/default/things";
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let thing =
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {}});
    for (all, part, resource, object) in [
        (things, "", "things.example.com", &thing),
        (things, "/status", "things.example.com", &thing),
        (leases, "", "leases.coordination.k8s.io", &json!({"metadata": {"name": "a"}, "spec": {}})),
    ] {
        let one = format!("{all}/a{part}");
        if part.is_empty() {
            assert_eq!(client.post(all, object).await.code, 201, "{one}");
        }
        let refused = client.put(&one, object).await;
        let expected = format!(
            "{resource} \"a\" is invalid: metadata.resourceVersion: Invalid value: 0x0: must be specified for an update"
        );
        assert_eq!((refused.code, refused.message()), (422, expected.as_str()), "{one}");
        let patch = json!({"metadata": {"resourceVersion": null}});
        assert_eq!(client.patch(&one, MERGE, &patch).await.code, 422, "{one}");
        let patch = json!({"metadata": {"labels": {"a": "b"}}});
        assert_eq!(client.patch(&one, MERGE, &patch).await.code, 200, "{one}");
        let current = client.get(&format!("{all}/a")).await.body;
        assert_eq!(client.put(&one, &current).await.code, 200, "{one}");
    }
    let map = json!({"metadata": {"name": "a"}});
    assert_eq!(client.post(MAPS, &map).await.code, 201);
    assert_eq!(client.put(&format!("{MAPS}/a"), &map).await.code, 200);
}

/// Kubernetes' `AllowCreateOnUpdate`, on which `kubectl replace` of a missing Role or Service relies.
#[tokio::test(start_paused = true)]
async fn an_update_of_a_missing_object_creates_it_for_some_kinds_api_2() {
    let client = Client::new().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let object = json!({"metadata": {"name": "a"}});
    for all in [roles, leases] {
        let made = client.put(&format!("{all}/a"), &object).await;
        assert_eq!(
            (made.code, client.get(&format!("{all}/a")).await.body),
            (201, made.body.clone()),
            "{all}"
        );
        let old = json!({"metadata": {"name": "b", "resourceVersion": "1"}});
        assert_eq!(client.put(&format!("{all}/b"), &old).await.code, 400, "{all}");
        assert_eq!(client.put(&format!("{all}/b/status"), &object).await.code, 404, "{all}");
    }
    assert_eq!(client.put(&format!("{roles}/a"), &object).await.code, 200);
    assert_eq!(client.put(&format!("{MAPS}/a"), &object).await.code, 404);
    let unknown = "/apis/coordination.k8s.io/v1/namespaces/missing/leases/a";
    assert_eq!(client.put(unknown, &object).await.code, 404);
}

/// Regression: error messages repeated the control characters of the request.
#[tokio::test(start_paused = true)]
async fn no_answer_drives_a_terminal_sec_3() {
    let client = Client::new().await;
    let hostile = "x\u{1b}]0;PWN\u{7}\u{9b}31m\u{202e}";
    let in_path: String =
        percent_encoding::utf8_percent_encode(hostile, percent_encoding::NON_ALPHANUMERIC).collect();
    let answered = client.get(&format!("{MAPS}/{in_path}")).await;
    assert_eq!(answered.message(), "configmaps \"x\\x1b]0;PWN\\a\\u009b31m\\u202e\" not found");
    let object = json!({"metadata": {"name": hostile, "labels": {hostile: hostile}, "annotations": {hostile: ""},
        "finalizers": [hostile]}, "data": {hostile: ""}});
    let mut texts = Vec::new();
    for answered in [
        client.post(MAPS, &object).await,
        client.post(MAPS, &json!({"kind": hostile, "apiVersion": hostile})).await,
        client.post(MAPS, &json!({"kind": "ConfigMap", "apiVersion": hostile})).await,
        client.put(&format!("{MAPS}/a"), &json!({"metadata": {"name": hostile}})).await,
        client.get(&format!("{MAPS}?labelSelector={in_path}")).await,
        client.get(&format!("{MAPS}?fieldSelector={in_path}%3D1")).await,
        client.get(&format!("{MAPS}?limit={in_path}")).await,
        client.get(&format!("{MAPS}?resourceVersion={in_path}")).await,
        client.delete(&format!("{MAPS}/a"), &json!({"propagationPolicy": hostile})).await,
        client.post(&format!("{MAPS}?dryRun={in_path}"), &json!({"metadata": {"name": "a"}})).await,
        client.post(&format!("{MAPS}?fieldValidation={in_path}"), &json!({"metadata": {"name": "a"}})).await,
        client
            .post(&format!("{MAPS}?fieldValidation=Strict"), &json!({"metadata": {"name": "a"}, hostile: 1}))
            .await,
        client
            .post(
                PODS,
                &json!({"metadata": {"name": "p"}, "spec": {"restartPolicy": hostile,
            "serviceAccountName": hostile, "containers": [{"name": hostile, "image": hostile}]}}),
            )
            .await,
    ] {
        assert!((400..500).contains(&answered.code), "{answered:?}");
        texts.push(answered.message().to_string());
        for cause in answered.body["details"]["causes"].as_array().into_iter().flatten() {
            texts.extend(
                ["message", "field"].map(|part| cause[part].as_str().unwrap_or_default().to_string()),
            );
        }
    }
    let warned = client.post(MAPS, &json!({"metadata": {"name": "warned"}, hostile: 1})).await;
    assert_eq!((warned.code, warned.warnings.len()), (201, 1));
    texts.extend(warned.warnings);
    for text in texts {
        let drives = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
        assert!(!text.contains(drives), "{text:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nulls_in_maps_and_lists_are_zero_values_for_every_write_api_8() {
    let client = Client::new().await;
    let map = json!({"metadata": {"name": "a", "labels": {"l": null}, "annotations": {"n": null}},
        "data": {"A": "x", "B": null}});
    let made = client.post(MAPS, &map).await;
    assert_eq!((made.code, &made.body["data"]), (201, &json!({"A": "x", "B": ""})), "{made:?}");
    assert_eq!(made.body["metadata"]["labels"], json!({"l": ""}));
    let replaced =
        client.put(&format!("{MAPS}/a"), &json!({"metadata": {"name": "a"}, "data": {"C": null}})).await;
    assert_eq!((replaced.code, &replaced.body["data"]), (200, &json!({"C": ""})));
    let patch = json!([{"op": "add", "path": "/data/D", "value": null}]);
    let patched = client.patch(&format!("{MAPS}/a"), "application/json-patch+json", &patch).await;
    assert_eq!((patched.code, &patched.body["data"]), (200, &json!({"C": "", "D": ""})));
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x",
        "args": [null], "resources": {"limits": {"cpu": null}}}]}});
    let made = client.post(PODS, &pod).await;
    let container = &made.body["spec"]["containers"][0];
    assert_eq!((made.code, &container["args"]), (201, &json!([""])), "{made:?}");
    assert_eq!(container["resources"]["limits"], json!({"cpu": "0"}));
    let nothing =
        client.post(PODS, &json!({"metadata": {"name": "q"}, "spec": {"containers": [null]}})).await;
    assert_eq!(nothing.code, 422, "{nothing:?}");
}

#[tokio::test(start_paused = true)]
async fn an_image_pull_secret_without_name_is_accepted_with_a_warning_api_16() {
    let client = Client::new().await;
    for secrets in [json!([{"name": ""}]), json!([{}])] {
        let pod = json!({"metadata": {"generateName": "p-"}, "spec": {"imagePullSecrets": secrets,
            "containers": [{"name": "c", "image": "x"}]}});
        let made = client.post(PODS, &pod).await;
        assert_eq!(made.code, 201, "{made:?}");
        let expected = "299 - \"spec.imagePullSecrets[0].name: invalid empty name \\\"\\\"\"";
        assert!(made.warnings.iter().any(|warning| warning == expected), "{:?}", made.warnings);
    }
}

/// Found here, SAFE-10: a header for each of 40 000 duplicate fields ended the request in a panic.
#[tokio::test(start_paused = true)]
async fn warnings_have_a_bound_safe_10() {
    let client = Client::new().await;
    let twice = "\"k\": \"\", ".repeat(40_000);
    let body = format!("{{\"metadata\": {{\"name\": \"a\"}}, \"data\": {{{twice}\"k\": \"v\"}}}}");
    let made = client.send("POST", MAPS, "application/json", body).await;
    assert_eq!(made.code, 201, "{made:?}");
    let bytes: usize = made.warnings.iter().map(String::len).sum();
    assert!((1..8192).contains(&bytes), "{bytes}");
    let names: Vec<Value> = (0..9_000).map(|_| json!({"name": "A"})).collect();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x", "env": names}]}});
    let made = client.post(PODS, &pod).await;
    assert_eq!(made.code, 201);
    assert!(made.warnings.iter().map(String::len).sum::<usize>() < 8192);
}

/// As in Kubernetes: the last value counts, and `fieldValidation` decides if that is an error (API-2).
#[tokio::test(start_paused = true)]
async fn a_duplicate_key_of_a_yaml_body_is_refused_only_if_strict_api_2() {
    let client = Client::new().await;
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: NAME\n  name: NAME\ndata:\n  k: first\n  \
                k:\n    last\nunknown: 1\n";
    let keys = ["line 5: key \"name\" already set in map", "line 9: key \"k\" already set in map"];
    let warnings: Vec<String> = [keys[0], keys[1], "unknown field \"unknown\""]
        .map(|warning| format!("299 - \"{}\"", warning.replace('"', "\\\"")))
        .into();
    let send = async |method: &str, name: &str, query: &str, media: &str| {
        let path = if method == "POST" { MAPS.to_owned() } else { format!("{MAPS}/{name}") };
        // A server-side apply refuses unknown fields.
        let text = if method == "POST" { text } else { text.trim_end_matches("unknown: 1\n") };
        client.send(method, &format!("{path}?{query}"), media, text.replace("NAME", name)).await
    };
    for (name, query, expected) in [
        ("a", "", &warnings[..]),
        ("b", "fieldValidation=Warn", &warnings),
        ("c", "fieldValidation=Ignore", &[]),
    ] {
        let made = send("POST", name, query, "application/yaml").await;
        assert_eq!((made.code, &made.body["data"]["k"]), (201, &json!("last")), "{made:?}");
        assert_eq!(made.warnings, expected, "{query}");
    }
    let refused = send("POST", "d", "fieldValidation=Strict", "application/yaml").await;
    let lines = format!("yaml: unmarshal errors:\n  {}\n  {}", keys[0], keys[1]);
    let expected = format!("strict decoding error: {lines}, unknown field \"unknown\"");
    assert_eq!(refused.code, 400);
    assert!(refused.message().ends_with(&expected), "{}", refused.message());

    let (apply, manager) = (APPLY, "fieldManager=m&force=true");
    let refused = send("PATCH", "e", &format!("{manager}&fieldValidation=Strict"), apply).await;
    let expected = format!("error strict decoding YAML: error converting YAML to JSON: {lines}");
    assert_eq!((refused.code, refused.message()), (400, expected.as_str()));
    for (query, expected) in
        [(manager.to_owned(), &keys[..]), (format!("{manager}&fieldValidation=Ignore"), &[])]
    {
        let applied = send("PATCH", "e", &query, apply).await;
        assert!(matches!(applied.code, 200 | 201), "{applied:?}");
        assert_eq!(applied.body["data"]["k"], "last");
        let warned =
            |key: &&str| applied.warnings.contains(&format!("299 - \"{}\"", key.replace('"', "\\\"")));
        assert_eq!(keys.iter().filter(|key| warned(key)).count(), expected.len(), "{:?}", applied.warnings);
    }
}

/// SAFE-10: a text of a megabyte repeats a key in a map with many others.
#[tokio::test(start_paused = true)]
async fn many_duplicate_keys_are_read_in_one_pass_safe_10() {
    let client = Client::new().await;
    let keys = (0..20_000).map(|n| format!("  k{n}: v\n")).collect::<Vec<_>>().concat();
    let text = format!("metadata: {{name: a}}\ndata:\n{keys}{}", "  k19999: w\n".repeat(20_000));
    let made = client.send("POST", MAPS, "application/yaml", text).await;
    assert_eq!((made.code, &made.body["data"]["k19999"]), (201, &json!("w")));
    assert_eq!(made.warnings.len(), 32);
}

/// SAFE-10: three bytes of text may become thousands as a volume.
#[tokio::test(start_paused = true)]
async fn an_object_has_so_many_parts_and_no_more_safe_10() {
    let client = Client::new().await;
    let pod = |taints: usize| {
        let tolerations = vec![json!({"operator": "Exists"}); taints];
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}],
            "tolerations": tolerations}})
    };
    let refused = client.post(PODS, &pod(10_000)).await;
    assert_eq!(refused.code, 413);
    let expected = "the object has more than 20000 objects and list elements";
    assert_eq!(refused.message(), expected);
    assert_eq!(client.post(PODS, &pod(9_900)).await.code, 201);
    // A patch does not exceed the limit either: it is refused before or after it is applied.
    let many = json!({"spec": {"tolerations": vec![json!({}); 10_000]}});
    assert_eq!(client.patch(&format!("{PODS}/p"), STRATEGIC, &many).await.message(), expected);
    let more: Vec<Value> = (0..200)
        .map(|_| json!({"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}}))
        .collect();
    let refused = client.patch(&format!("{PODS}/p"), "application/json-patch+json", &json!(more)).await;
    assert_eq!(refused.message(), expected);
}

/// Found here, SAFE-10: each constraint was compared with every other; the server stalled for minutes.
#[tokio::test(start_paused = true)]
async fn long_lists_are_validated_in_one_pass_safe_10() {
    let client = Client::new().await;
    let constraint = |n: usize| json!({"maxSkew": 1, "topologyKey": format!("k{n}"), "whenUnsatisfiable": "DoNotSchedule"});
    let mut constraints: Vec<Value> = (0..9_000).map(constraint).collect();
    let pod = |constraints: &[Value]| {
        json!({"metadata": {"name": "p"}, "spec": {"topologySpreadConstraints": constraints,
            "containers": [{"name": "c", "image": "x"}]}})
    };
    assert_eq!(client.post(&format!("{PODS}?dryRun=All"), &pod(&constraints)).await.code, 201);
    constraints.push(constraint(7));
    let refused = client.post(PODS, &pod(&constraints)).await;
    assert_eq!(refused.code, 422);
    let expected = "spec.topologySpreadConstraints[7].{topologyKey, whenUnsatisfiable}: Duplicate value: ";
    assert!(refused.message().contains(expected), "{}", refused.message());
}

fn deployment(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}}})
}

#[tokio::test(start_paused = true)]
async fn a_scale_is_shown_as_a_table_api_6() {
    let client = Client::new().await;
    let mut workload = deployment("web");
    workload["spec"]["replicas"] = json!(3);
    assert_eq!(client.post(DEPLOYMENTS, &workload).await.code, 201);
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let table = client.document(&format!("{DEPLOYMENTS}/web/scale"), accept).await;
    let columns: Vec<&Value> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|column| &column["name"]).collect();
    assert_eq!(columns, ["Name", "Desired", "Available", "Age"]);
    assert_eq!(table["rows"][0]["cells"], json!(["web", 3, 0, "0s"]));
    assert_eq!(table["rows"][0]["object"]["metadata"]["name"], "web");
}

/// Regression: Kubernetes' Python client reads the answer as the kind that the schema names.
#[tokio::test(start_paused = true)]
async fn a_deletion_returns_a_status_or_the_object_by_its_kind_api_3() {
    let client = Client::new().await;
    let service = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}});
    let class = json!({"metadata": {"name": "a"}, "provisioner": "example.com/p"});
    let map = json!({"metadata": {"name": "a"}});
    for (path, object, kind) in [
        ("/api/v1/namespaces/default/services", &service, "Service"),
        ("/apis/storage.k8s.io/v1/storageclasses", &class, "StorageClass"),
        (MAPS, &map, "Status"),
    ] {
        assert_eq!(client.post(path, object).await.code, 201, "{path}");
        let deleted = client.delete(&format!("{path}/a"), &json!({})).await;
        assert_eq!((deleted.code, &deleted.body["kind"]), (200, &json!(kind)), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn namespaces_are_not_deleted_as_a_collection_api_3() {
    let client = Client::new().await;
    for path in ["/api/v1/namespaces", "/api/v1/namespaces?labelSelector=a%3Db"] {
        assert_eq!(client.delete(path, &json!({})).await.code, 405, "{path}");
    }
    assert_eq!(client.get("/api/v1/namespaces/default").await.body["status"]["phase"], "Active");
}

/// Regression: updates of a cluster-scoped object with a namespace were refused, such as the second `kubectl apply` of
/// a ClusterRole whose manifest has one.
#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_object_loses_its_namespace_api_2() {
    let client = Client::new().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = json!({"metadata": {"name": "r", "namespace": "default"}, "rules": []});
    assert_eq!(client.post(roles, &role).await.code, 201);
    let one = format!("{roles}/r");
    let patch = json!({"metadata": {"namespace": "default", "labels": {"a": "b"}}});
    for changed in [client.put(&one, &role).await, client.patch(&one, MERGE, &patch).await] {
        assert_eq!((changed.code, &changed.body["metadata"]["namespace"]), (200, &Value::Null));
    }
}

/// Regression: a client that had not requested bookmarks got one after the initial state.
#[tokio::test(start_paused = true)]
async fn a_bookmark_ends_the_initial_state_only_for_a_client_that_requests_bookmarks_api_4() {
    let client = Client::new().await;
    assert_eq!(client.post(MAPS, &json!({"metadata": {"name": "a"}})).await.code, 201);
    let watch = format!(
        "{MAPS}?watch=true&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    );
    for (bookmarks, expected) in
        [("", vec!["ADDED"]), ("&allowWatchBookmarks=true", vec!["ADDED", "BOOKMARK"])]
    {
        let body = client.get_as(&format!("{watch}{bookmarks}"), JSON).await.into_body();
        let stream = body.collect().await.unwrap().to_bytes();
        let events = serde_json::Deserializer::from_slice(&stream).into_iter::<Value>();
        let types: Vec<_> = events.map(|event| event.unwrap()["type"].clone()).collect();
        assert_eq!(types, expected, "{bookmarks}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_a_selection_is_shown_as_it_was_api_4() {
    let client = Client::new().await;
    let map = |value: &str| json!({"metadata": {"name": "a", "labels": {"shard": value}}});
    let made = client.post(MAPS, &map("1")).await;
    let revision = made.body["metadata"]["resourceVersion"].as_str().unwrap();
    let moved = client.put(&format!("{MAPS}/a"), &map("2")).await;
    let watch =
        format!("{MAPS}?watch=true&labelSelector=shard%3D1&timeoutSeconds=1&resourceVersion={revision}");
    let event = client.document(&watch, "application/json").await;
    assert_eq!(event["type"], "DELETED");
    assert_eq!(event["object"]["metadata"]["labels"]["shard"], "1");
    assert_eq!(event["object"]["metadata"]["resourceVersion"], moved.body["metadata"]["resourceVersion"]);
}

/// Regression: Ansible's k8s_scale sends such a patch; it was refused with `expected Scale`.
#[tokio::test(start_paused = true)]
async fn a_scale_is_patched_in_the_words_of_its_workload_api_3() {
    let client = Client::new().await;
    assert_eq!(client.post(DEPLOYMENTS, &deployment("web")).await.code, 201);
    let scale = format!("{DEPLOYMENTS}/web/scale");
    let body = json!({"kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 3}});
    let patched = client.patch(&scale, STRATEGIC, &body).await;
    assert_eq!(
        (patched.code, &patched.body["kind"], &patched.body["spec"]["replicas"]),
        (200, &json!("Scale"), &json!(3))
    );
    let refused = client.patch(&scale, STRATEGIC, &json!({"spec": {"replicas": -1}})).await;
    assert_eq!(
        (refused.code, refused.message()),
        (
            422,
            "Scale.autoscaling \"web\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0"
        )
    );
    assert_eq!(refused.body["details"]["kind"], "Scale");
    assert_eq!(client.get(&format!("{DEPLOYMENTS}/web")).await.body["spec"]["replicas"], 3);
}

/// Regression: every revision but the newest got 410.
#[tokio::test(start_paused = true)]
async fn a_list_of_an_exact_revision_is_the_state_of_then_api_2() {
    let client = Client::new().await;
    let mut revisions = Vec::new();
    for name in ["a", "b", "c"] {
        let made = client.post(MAPS, &json!({"metadata": {"name": name}})).await;
        revisions.push(made.body["metadata"]["resourceVersion"].as_str().unwrap().to_string());
    }
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_string()).collect()
    };
    let exact = format!("{MAPS}?resourceVersionMatch=Exact&resourceVersion={}", revisions[1]);
    let then = client.get(&exact).await;
    assert_eq!((then.code, names(&then.body)), (200, vec!["a".to_string(), "b".into()]));
    assert_eq!(then.body["metadata"]["resourceVersion"], revisions[1]);
    let page = client.get(&format!("{exact}&limit=1")).await;
    let token = page.body["metadata"]["continue"].as_str().unwrap();
    let rest = client.get(&format!("{MAPS}?limit=5&continue={token}")).await;
    assert_eq!(
        (names(&rest.body), &rest.body["metadata"]["resourceVersion"]),
        (vec!["b".to_string()], &json!(revisions[1]))
    );
    for (query, code) in [
        ("resourceVersionMatch=Exact", 422),
        ("resourceVersionMatch=Nearly&resourceVersion=1", 422),
        ("sendInitialEvents=true", 422),
        ("watch=true&sendInitialEvents=true", 422),
        ("resourceVersionMatch=Exact&resourceVersion=99999", 504),
        ("limit=-1", 200),
    ] {
        assert_eq!(client.get(&format!("{MAPS}?{query}")).await.code, code, "{query}");
    }
    assert_eq!(client.post("/api/v1/watch/pods", &json!({})).await.code, 405);
}

#[tokio::test(start_paused = true)]
async fn events_of_the_new_form_are_validated_when_made_api_11() {
    let client = Client::new().await;
    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    let refused = client.post(events, &json!({"metadata": {"name": "e"}, "type": "Normal"})).await;
    assert_eq!((refused.code, refused.message()), (422, "Event \"e\" is invalid: eventTime: Required value"));
    let good = json!({"metadata": {"name": "e"}, "type": "Normal", "reason": "R", "action": "A", "note": "n",
        "regarding": {"namespace": "default"}, "eventTime": "2026-11-21T00:00:00.000000Z",
        "reportingController": "example.com/c", "reportingInstance": "i"});
    let made = client.post(events, &good).await;
    assert_eq!(made.code, 201, "{made:?}");
    let found = client.get("/api/v1/namespaces/default/events?fieldSelector=source%3Dexample.com/c").await;
    assert_eq!(found.body["items"].as_array().unwrap().len(), 1, "{found:?}");
    // The old form may still omit all of it.
    let old = json!({"metadata": {"name": "old"}, "involvedObject": {"namespace": "default"}});
    assert_eq!(client.post("/api/v1/namespaces/default/events", &old).await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn a_binding_names_its_pod_in_the_body_too_api_7() {
    let client = Client::new().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    assert_eq!(client.post(PODS, &pod).await.code, 201);
    let bindings = "/api/v1/namespaces/default/bindings";
    let binding =
        |name: &str, kind: &str| json!({"metadata": {"name": name}, "target": {"kind": kind, "name": "n1"}});
    for (path, body, code) in [
        (bindings.to_string(), binding("", "Node"), 400),
        (bindings.to_string(), binding("p", "Moon"), 422),
        (bindings.to_string(), json!({"metadata": {"name": "p"}, "target": {}}), 422),
        (bindings.to_string(), binding("q", "Node"), 404),
        (format!("{PODS}/p/binding"), binding("q", "Node"), 400),
        (bindings.to_string(), binding("p", "Node"), 201),
        (bindings.to_string(), binding("p", "Node"), 409),
    ] {
        let answered = client.post(&path, &body).await;
        assert_eq!(answered.code, code, "{path} {body} {answered:?}");
    }
    assert_eq!(client.get(&format!("{PODS}/p")).await.body["spec"]["nodeName"], "n1");
    assert_eq!(client.get(bindings).await.code, 405);
}

/// Only a server-side apply of an existing object may leave the name out.
#[tokio::test(start_paused = true)]
async fn a_write_names_its_object_in_the_body_too_api_2() {
    let client = Client::new().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    let namespace = json!({"metadata": {"name": "team"}});
    for (path, object) in [
        (MAPS, &json!({"metadata": {"name": "a"}})),
        (DEPLOYMENTS, &deployment("web")),
        (PODS, &pod),
        ("/api/v1/namespaces", &namespace),
    ] {
        assert_eq!(client.post(path, object).await.code, 201, "{path}");
    }
    let (map, web) = (format!("{MAPS}/a"), format!("{DEPLOYMENTS}/web"));
    let finalize = "/api/v1/namespaces/team/finalize".to_string();
    let nameless = |name: &str| {
        format!("the name of the object ({name} based on URL) was undeterminable: name must be provided")
    };
    let other =
        |name: &str| format!("the name of the object (b) does not match the name on the URL ({name})");
    let named = |name: Value| json!({"metadata": {"name": name}});
    let scale = |name: Value| json!({"metadata": {"name": name}, "spec": {"replicas": 2}});
    let other_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}});
    let nothing = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"k": "v"}});
    let applied_map = format!("{map}?fieldManager=m");
    let applied_new = format!("{MAPS}/new?fieldManager=m");
    for (method, path, type_, body, message) in [
        ("PUT", &map, JSON, json!({}), nameless("a")),
        ("PUT", &map, JSON, named(json!("b")), other("a")),
        ("PUT", &map, JSON, named(json!("a")), String::new()),
        ("PATCH", &map, MERGE, named(Value::Null), nameless("a")),
        ("PATCH", &map, MERGE, named(json!("b")), other("a")),
        ("PUT", &format!("{web}/status"), JSON, json!({}), nameless("web")),
        ("PUT", &format!("{web}/scale"), JSON, scale(Value::Null), nameless("web")),
        ("PUT", &format!("{web}/scale"), JSON, scale(json!("b")), other("web")),
        ("PUT", &format!("{web}/scale"), JSON, scale(json!("web")), String::new()),
        ("PATCH", &format!("{web}/scale"), MERGE, scale(json!("b")), other("web")),
        ("PATCH", &applied_new, APPLY, nothing.clone(), nameless("new")),
        ("PATCH", &applied_map, APPLY, nothing, String::new()),
        ("PATCH", &applied_map, APPLY, other_map, other("a")),
        ("PUT", &finalize, JSON, json!({"spec": {}}), nameless("team")),
        (
            "POST",
            &format!("{PODS}/p/eviction"),
            JSON,
            named(json!("b")),
            "name in URL does not match name in Eviction object".into(),
        ),
        (
            "POST",
            &format!("{PODS}/p/eviction"),
            JSON,
            json!({}),
            "name in URL does not match name in Eviction object".into(),
        ),
        (
            "POST",
            &format!("{PODS}/p/binding"),
            JSON,
            json!({"target": {"kind": "Node", "name": "n"}}),
            "name in URL does not match name in Binding object".into(),
        ),
        ("POST", &format!("{PODS}/p/eviction"), JSON, named(json!("p")), String::new()),
    ] {
        let answered = client.send(method, path, type_, body.to_string()).await;
        let code = if message.is_empty() { [200, 201] } else { [400; 2] };
        let found = answered.body["message"].as_str().unwrap_or_default();
        assert!(code.contains(&answered.code) && found == message, "{method} {path} {body}: {answered:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_takes_only_qualified_finalizers_api_10() {
    let client = Client::new().await;
    let namespaces = "/api/v1/namespaces";
    assert_eq!(client.post(namespaces, &json!({"metadata": {"name": "team"}})).await.code, 201);
    let finalize =
        |finalizer: &str| json!({"metadata": {"name": "team"}, "spec": {"finalizers": [finalizer]}});
    let path = format!("{namespaces}/team/finalize");
    let refused = client.put(&path, &finalize("own")).await;
    assert_eq!(
        (refused.code, refused.message()),
        (
            422,
            "Namespace \"team\" is invalid: spec.finalizers[0]: Invalid value: \"own\": name is neither a standard \
             finalizer name nor is it fully qualified"
        )
    );
    let set = client.put(&path, &finalize("example.com/own")).await;
    assert_eq!((set.code, &set.body["spec"]["finalizers"]), (200, &json!(["example.com/own"])));
}

/// As YAML's `|` has it, with a line break in it and at its end.
#[tokio::test(start_paused = true)]
async fn bytes_times_and_quantities_are_read_as_go_reads_them_api_8() {
    let client = Client::new().await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = |data: &str| json!({"metadata": {"name": "a"}, "data": {"key": data}});
    let made = client.post(secrets, &secret("YWJj\nZGVm\n")).await;
    assert_eq!((made.code, &made.body["data"]["key"]), (201, &json!("YWJjZGVm")));
    let patch = json!({"data": {"key": "YW\nI="}});
    let patched = client.patch(&format!("{secrets}/a"), MERGE, &patch).await;
    assert_eq!((patched.code, &patched.body["data"]["key"]), (200, &json!("YWI=")));
    let refused = client.post(secrets, &secret("YW.j")).await;
    assert_eq!(
        (refused.code, refused.message()),
        (400, "Secret in version \"v1\" cannot be handled as a Secret: illegal base64 data at input byte 2")
    );
    let resources = json!({"limits": {"memory": "lots"}});
    let containers = json!([{"name": "a", "image": "b", "resources": resources}]);
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": containers}});
    let refused = client.post(PODS, &pod).await;
    assert_eq!(refused.code, 400);
    assert!(
        refused.message().starts_with(
            "Pod in version \"v1\" cannot be handled as a Pod: quantities must match the regular expression"
        ),
        "{refused:?}"
    );
}

/// kr8s' whoami asks for the user of its own token.
#[tokio::test(start_paused = true)]
async fn reviews_know_the_owners_token_and_the_permissions_of_others_api_15() {
    let client = Client::new().await;
    let tokens = "/apis/authentication.k8s.io/v1/tokenreviews";
    let review = client.post(tokens, &json!({"spec": {"token": TOKEN}})).await;
    assert_eq!(review.code, 201);
    assert_eq!(
        (&review.body["status"]["authenticated"], &review.body["status"]["user"]["username"]),
        (&json!(true), &json!("podium-admin"))
    );
    let foreign = client.post(tokens, &json!({"spec": {"token": TOKEN, "audiences": ["vault"]}})).await;
    assert!(foreign.body["status"]["authenticated"].is_null(), "{foreign:?}");
    let wrong = client.post(tokens, &json!({"spec": {"token": "x"}})).await;
    assert_eq!(wrong.body["status"]["error"], "[invalid bearer token, the token is not a JWT]");
    let none = client.post(tokens, &json!({"spec": {}})).await;
    assert_eq!((none.code, none.message()), (400, "token is required for TokenReview in authentication"));
    let spec = json!({"user": "bob", "resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"}});
    let roles = "/apis/rbac.authorization.k8s.io/v1";
    for allowed in [false, true] {
        for path in ["subjectaccessreviews", "namespaces/default/localsubjectaccessreviews"] {
            let path = format!("/apis/authorization.k8s.io/v1/{path}");
            let answered = client.post(&path, &json!({"spec": spec})).await;
            assert_eq!(
                (answered.code, &answered.body["status"]["allowed"]),
                (201, &json!(allowed)),
                "{path}"
            );
        }
        if !allowed {
            let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
            client
                .post(&format!("{roles}/clusterroles"), &json!({"metadata": {"name": "r"}, "rules": rules}))
                .await;
            let binding = json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "r"},
                "subjects": [{"kind": "User", "name": "bob"}]});
            let made = client.post(&format!("{roles}/namespaces/default/rolebindings"), &binding).await;
            assert_eq!(made.code, 201, "{made:?}");
        }
    }
    // kubectl 1.27 knows only these versions of the review.
    for version in ["v1", "v1beta1", "v1alpha1"] {
        let who =
            json!({"apiVersion": format!("authentication.k8s.io/{version}"), "kind": "SelfSubjectReview"});
        let path = format!("/apis/authentication.k8s.io/{version}/selfsubjectreviews");
        let answered = client.post(&path, &who).await;
        assert_eq!((answered.code, &answered.body["apiVersion"]), (201, &who["apiVersion"]));
        assert_eq!(answered.body["status"]["userInfo"]["username"], "podium-admin");
    }
    let other_namespace = "/apis/authorization.k8s.io/v1/namespaces/kube-system/localsubjectaccessreviews";
    assert_eq!(client.post(other_namespace, &json!({"spec": spec})).await.code, 422);
    let listed = client.get("/apis/authorization.k8s.io/v1").await;
    let names: Vec<_> =
        listed.body["resources"].as_array().unwrap().iter().map(|r| r["name"].clone()).collect();
    assert!(
        names.contains(&json!("localsubjectaccessreviews")) && names.contains(&json!("subjectaccessreviews"))
    );
}

/// SAFE-10: etcd's request limit.
#[tokio::test(start_paused = true)]
async fn an_object_takes_a_mebibyte_and_a_half_at_most_safe_10() {
    let client = Client::new().await;
    let pod = |name: &str, environment: usize| {
        let value = "v".repeat(1000);
        let variables: Vec<Value> =
            (0..environment).map(|n| json!({"name": format!("E{n}"), "value": value})).collect();
        json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x", "env": variables}]}})
    };
    assert_eq!(client.post(PODS, &pod("large", 1400)).await.code, 201);
    for path in [PODS.to_string(), format!("{PODS}?dryRun=All")] {
        let refused = client.post(&path, &pod("larger", 1600)).await;
        assert_eq!((refused.code, refused.message()), (413, "etcdserver: request is too large"));
    }
    let grows = json!({"metadata": {"annotations": {"a": "x".repeat(200 * 1024)}}});
    assert_eq!(client.patch(&format!("{PODS}/large"), MERGE, &grows).await.code, 413);
    let annotated = json!({"metadata": {"name": "a", "annotations": {"a": "x".repeat(256 * 1024)}}});
    let refused = client.post(MAPS, &annotated).await;
    assert_eq!(
        (refused.code, refused.message()),
        (
            422,
            "ConfigMap \"a\" is invalid: metadata.annotations: Too long: may not be more than 262144 bytes"
        )
    );
    assert_eq!(client.delete(&format!("{PODS}/large"), &json!({})).await.code, 200);
}

/// Regression: both fields were omitted when they were empty.
#[tokio::test(start_paused = true)]
async fn a_status_shows_what_kubernetes_always_shows_api_6() {
    let client = Client::new().await;
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let made = client.post("/api/v1/namespaces/default/services", &service).await;
    assert_eq!(made.body["status"], json!({"loadBalancer": {}}), "{made:?}");
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    client.post(PODS, &pod).await;
    let status = json!({"status": {"containerStatuses": [{"name": "c", "image": "x", "imageID": "", "ready": false,
        "restartCount": 0, "state": {"waiting": {"reason": "R"}}}]}});
    let written = client.patch(&format!("{PODS}/p/status"), MERGE, &status).await;
    assert_eq!(written.body["status"]["containerStatuses"][0]["lastState"], json!({}), "{written:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_option_names_the_options_of_its_verb_api_2() {
    let client = Client::new().await;
    let map = json!({"metadata": {"name": "a"}});
    client.post(MAPS, &map).await;
    let (many, one) = (format!("{MAPS}?dryRun=x"), format!("{MAPS}/a?dryRun=x"));
    for (answered, options) in [
        (client.post(&many, &map).await, "CreateOptions"),
        (client.put(&one, &map).await, "UpdateOptions"),
        (client.patch(&one, MERGE, &map).await, "PatchOptions"),
        (client.delete(&one, &json!({})).await, "DeleteOptions"),
    ] {
        assert_eq!(answered.code, 422);
        assert!(
            answered.message().starts_with(&format!("{options}.meta.k8s.io \"\" is invalid: dryRun: ")),
            "{answered:?}"
        );
    }
    let gvisor = json!({"metadata": {"name": "p"}, "spec": {"runtimeClassName": "gvisor",
        "containers": [{"name": "c", "image": "x"}]}});
    let refused = client.post(PODS, &gvisor).await;
    assert_eq!(
        (refused.code, refused.message()),
        (403, "pods \"p\" is forbidden: pod rejected: RuntimeClass \"gvisor\" not found")
    );
}
