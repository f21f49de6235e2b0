//! A kind that only this file defines is added at run time, and all of Podium treats it as a built-in one (API-7): it
//! is created, defaulted, validated, listed, watched, shown as a table, patched, scaled, counted by quotas, collected
//! with its owner, emptied with its namespace, discovered, and restored after a restart.

use axum::body::Body;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ResourceQuota};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionSpec;
use podium::api::{Api, ApiConfig, ApiError, ChangeKind, DeleteOptions, Visibility, WriteOptions};
use podium::apiserver::{Credentials, Server, ServerConfig};
use podium::base::clock::Clock;
use podium::object::{Key, Kind, Object, Revision};
use podium::store::Store;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::controllers::cluster::{Cluster, NO_NODES, key};

/// The definition of the kind.
pub(crate) fn widgets() -> CustomResourceDefinitionSpec {
    let schema = json!({"type": "object", "required": ["spec"], "properties": {
        "spec": {"type": "object", "required": ["replicas"], "properties": {
            "replicas": {"type": "integer", "minimum": 0, "maximum": 9},
            "color": {"type": "string", "enum": ["red", "blue"], "default": "red"}}},
        "status": {"type": "object", "properties": {
            "replicas": {"type": "integer"}, "selector": {"type": "string"}}}}});
    serde_json::from_value(json!({
        "group": "added.test", "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
        "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}},
                "selectableFields": [{"jsonPath": ".spec.color"}],
                "additionalPrinterColumns": [
                    {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.replicas", "priority": 1},
                    {"name": "Note", "type": "string", "jsonPath": ".metadata.annotations.added\\.test/note"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]},
            {"name": "v1beta1", "served": true, "storage": false, "schema": {"openAPIV3Schema": schema}}],
    }))
    .unwrap()
}

fn widget(name: &str, replicas: i64) -> Value {
    json!({"apiVersion": "added.test/v1", "kind": "Widget", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas}})
}

/// A client of the API over HTTP.
pub(crate) struct Client(Server);

impl Client {
    pub(crate) fn new(api: &Api) -> Self {
        let credentials = Credentials::new("secret");
        Self(Server::new(api.clone(), credentials, CancellationToken::new(), ServerConfig::default()))
    }

    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> (StatusCode, Value) {
        let mut request =
            Request::builder().method(method).uri(path).header("authorization", "Bearer secret");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.0.handle(request.body(Body::from(body.to_string())).unwrap()).await;
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask(Method::GET, path, &[], &Value::Null).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub(crate) async fn create(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        self.ask(Method::POST, path, &[("content-type", "application/json")], body).await
    }

    pub(crate) async fn merge(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        self.ask(Method::PATCH, path, &[("content-type", "application/merge-patch+json")], body).await
    }
}

const WIDGETS: &str = "/apis/added.test/v1/namespaces/default/widgets";

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_joins_is_read_and_written_like_ours_api_7() {
    let cluster = Cluster::start(NO_NODES);
    let client = Client::new(&cluster.api);
    assert_eq!(client.create(WIDGETS, &widget("early", 1)).await.0, 404, "not served before it is defined");
    let kind = cluster.api.define(&widgets()).unwrap();
    let mut watcher = cluster.api.watch(kind, cluster.api.revision(), Visibility::Applied);

    let mut first = widget("first", 3);
    first["spec"]["unknown"] = json!(1);
    first["metadata"]["annotations"] = json!({"added.test/note": "noted"});
    first["status"] = json!({"replicas": 7});
    let (status, made) = client.create(WIDGETS, &first).await;
    assert_eq!(
        (status, &made["kind"], &made["apiVersion"]),
        (StatusCode::CREATED, &json!("Widget"), &json!("added.test/v1"))
    );
    assert_eq!(made["spec"], json!({"color": "red", "replicas": 3}), "pruned and defaulted");
    assert_eq!((&made["status"], &made["metadata"]["generation"]), (&Value::Null, &json!(1)));
    let (status, refused) = client.create(&format!("{WIDGETS}?fieldValidation=Strict"), &first).await;
    assert_eq!(status, 400, "{refused}");
    let (status, refused) = client.create(WIDGETS, &widget("big", 10)).await;
    assert_eq!(status, 422);
    assert_eq!(
        refused["message"],
        "Widget.added.test \"big\" is invalid: spec.replicas: Invalid value: 10: spec.replicas in body should be less \
         than or equal to 9"
    );
    let mut second = widget("second", 1);
    (second["spec"]["color"], second["metadata"]["labels"]) = (json!("blue"), json!({"a": "b"}));
    assert_eq!(client.create(WIDGETS, &second).await.0, 201);

    let list = client.get(WIDGETS).await;
    assert_eq!((&list["kind"], names(&list)), (&json!("WidgetList"), vec!["first", "second"]));
    assert_eq!(names(&client.get(&format!("{WIDGETS}?fieldSelector=spec.color%3Dblue")).await), ["second"]);
    assert_eq!(names(&client.get(&format!("{WIDGETS}?labelSelector=a%3Db")).await), ["second"]);
    assert_eq!(
        client
            .ask(Method::GET, &format!("{WIDGETS}?fieldSelector=spec.replicas%3D1"), &[], &Value::Null)
            .await
            .0,
        400
    );
    let older = client.get("/apis/added.test/v1beta1/namespaces/default/widgets/first").await;
    assert_eq!((&older["apiVersion"], &older["spec"]["replicas"]), (&json!("added.test/v1beta1"), &json!(3)));

    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let (_, table) = client.ask(Method::GET, &format!("{WIDGETS}/first"), &table, &Value::Null).await;
    let columns = table["columnDefinitions"].as_array().unwrap();
    assert_eq!(
        columns.iter().map(|c| c["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["Name", "Color", "Size", "Note", "Age"]
    );
    assert_eq!(table["rows"][0]["cells"], json!(["first", "red", 3, "noted", "0s"]));

    let first = format!("{WIDGETS}/first");
    let (status, patched) =
        client.merge(&first, &json!({"spec": {"color": "blue"}, "status": {"replicas": 1}})).await;
    assert_eq!(
        (status, &patched["spec"]["color"], &patched["status"]),
        (StatusCode::OK, &json!("blue"), &Value::Null)
    );
    assert_eq!(patched["metadata"]["generation"], 2);
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    assert_eq!(client.ask(Method::PATCH, &first, &strategic, &json!({})).await.0, 415);
    let report = json!({"spec": {"color": "red"}, "status": {"replicas": 2, "selector": "a=b"}});
    let (_, reported) = client.merge(&format!("{first}/status"), &report).await;
    assert_eq!((&reported["spec"]["color"], &reported["status"]["replicas"]), (&json!("blue"), &json!(2)));
    assert_eq!(reported["metadata"]["generation"], 2);

    let scale = client.get(&format!("{first}/scale")).await;
    assert_eq!(
        (&scale["spec"]["replicas"], &scale["status"]),
        (&json!(3), &json!({"replicas": 2, "selector": "a=b"}))
    );
    let (_, scale) = client.merge(&format!("{first}/scale"), &json!({"spec": {"replicas": 5}})).await;
    assert_eq!(scale["spec"]["replicas"], 5);
    assert_eq!(client.get(&first).await["spec"]["replicas"], 5);

    let (status, gone) = client.ask(Method::DELETE, &format!("{WIDGETS}/second"), &[], &Value::Null).await;
    assert_eq!((status, &gone["details"]["kind"]), (StatusCode::OK, &json!("widgets")));
    let seen: Vec<String> =
        watcher.take().unwrap().iter().map(|c| format!("{:?} {}", c.kind, c.object.name())).collect();
    assert_eq!(
        seen,
        [
            "Added first", "Added second", "Modified first", "Modified first", "Modified first",
            "Deleted second"
        ]
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_joins_is_discovered_and_goes_with_its_definition_api_7() {
    let cluster = Cluster::start(NO_NODES);
    let client = Client::new(&cluster.api);
    let before = client.get("/openapi/v3").await;
    let kind = cluster.api.define(&widgets()).unwrap();
    let group = client.get("/apis/added.test").await;
    assert_eq!(group["preferredVersion"]["groupVersion"], "added.test/v1");
    let resources = client.get("/apis/added.test/v1").await;
    let found: Vec<_> =
        resources["resources"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(found, ["widgets", "widgets/scale", "widgets/status"]);
    let widgets = &resources["resources"][0];
    assert_eq!(
        (&widgets["shortNames"], &widgets["categories"], &widgets["singularName"]),
        (&json!(["wd"]), &json!(["all"]), &json!("widget"))
    );
    let index = client.get("/openapi/v3").await;
    assert_eq!(
        before["paths"]["apis/apps/v1"], index["paths"]["apis/apps/v1"],
        "the built-in API stays as it was"
    );
    let document = client.get("/openapi/v3/apis/added.test/v1").await;
    let schema = &document["components"]["schemas"]["test.added.v1.Widget"];
    assert_eq!(schema["properties"]["spec"]["properties"]["color"]["default"], "red");
    assert!(
        document["paths"]["/apis/added.test/v1/namespaces/{namespace}/widgets/{name}/scale"]["get"]
            .is_object()
    );
    assert!(client.get("/openapi/v2").await["definitions"]["test.added.v1.Widget"].is_object());

    cluster.api.undefine(kind);
    assert_eq!(client.ask(Method::GET, WIDGETS, &[], &Value::Null).await.0, 404);
    assert_eq!(client.ask(Method::GET, "/apis/added.test", &[], &Value::Null).await.0, 404);
    cluster.stop().await;
}

fn create(api: &Api, kind: Kind, value: Value) -> Result<std::sync::Arc<Object>, ApiError> {
    api.create(Object::from_value(kind, value).unwrap(), &WriteOptions::default())
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_joins_is_counted_and_collected_like_ours_api_7() {
    let cluster = Cluster::start(NO_NODES);
    cluster.settle().await;
    // The controllers run before it joins.
    let kind = cluster.api.define(&widgets()).unwrap();
    cluster.create::<ResourceQuota>(json!({"metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {"count/widgets.added.test": "2"}}}));
    cluster.settle().await;
    let owner = create(&cluster.api, kind, widget("owner", 1)).unwrap();
    let reference =
        json!({"apiVersion": "added.test/v1", "kind": "Widget", "name": "owner", "uid": owner.uid()});
    let mut owned = widget("owned", 1);
    owned["metadata"]["ownerReferences"] = json!([reference]);
    create(&cluster.api, kind, owned).unwrap();
    let refused = create(&cluster.api, kind, widget("third", 1)).unwrap_err();
    assert!(
        refused.to_string().contains("exceeded quota: q, requested: count/widgets.added.test=1"),
        "{refused}"
    );
    cluster.create::<ConfigMap>(
        json!({"metadata": {"name": "map", "namespace": "default", "ownerReferences": [reference]}}),
    );
    cluster.settle().await;
    assert_eq!(cluster.api.count(kind), 2);

    cluster.api.delete(kind, &key("owner"), &DeleteOptions::default()).unwrap();
    cluster.pass(60).await;
    assert_eq!(cluster.api.count(kind), 0, "owned objects are deleted");
    assert!(cluster.api.get_as::<ConfigMap>(&key("map")).is_err());
    let used = cluster.get::<ResourceQuota>("q").status.clone().unwrap().used.unwrap();
    assert_eq!(used["count/widgets.added.test"].0, "0", "the quota controller follows it");

    cluster.create::<Namespace>(json!({"metadata": {"name": "team"}}));
    let mut other = widget("other", 1);
    other["metadata"]["namespace"] = json!("team");
    create(&cluster.api, kind, other).unwrap();
    cluster.api.delete(Kind::Namespace, &Key::new("", "team"), &DeleteOptions::default()).unwrap();
    cluster.pass(60).await;
    assert!(
        cluster.api.get(Kind::Namespace, &Key::new("", "team")).is_err(),
        "its namespace is emptied of it"
    );
    assert_eq!(cluster.api.count(kind), 0);
    cluster.stop().await;
}

#[tokio::test]
async fn a_custom_kind_survives_a_restart_api_7() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    std::fs::create_dir(&state).unwrap();
    let open = || {
        let store = Store::open(&state).unwrap();
        (store.clone(), Api::new(store, Clock::machine(), ApiConfig::default()))
    };
    let (store, api) = open();
    api.create_as::<Namespace>(serde_json::from_value(json!({"metadata": {"name": "default"}})).unwrap())
        .unwrap();
    let kind = api.define(&widgets()).unwrap();
    let made = create(&api, kind, widget("kept", 4)).unwrap();
    api.durable(made.revision()).await.unwrap();
    drop(api);
    store.close();
    drop(store);
    let (store, api) = open();
    // Its objects exist before its definition does.
    assert_eq!(api.count(kind), 1);
    assert_eq!(api.define(&widgets()).unwrap(), kind);
    let retained = api.get(kind, &key("kept")).unwrap();
    assert_eq!((retained.uid(), &retained.to_value()["spec"]["replicas"]), (made.uid(), &json!(4)));
    let gone = api.delete(kind, &key("kept"), &DeleteOptions::default()).unwrap();
    assert!(gone.object().revision() > Revision(0));
    let changes = api.watch(kind, made.revision(), Visibility::Applied).take().unwrap();
    assert!(changes.iter().any(|change| change.kind == ChangeKind::Deleted));
    store.close();
}
