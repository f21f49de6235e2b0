//! Custom resources as their users see them (API-14): a CustomResourceDefinition is created over the API, and its kind
//! is served, changed and deleted with it.

use axum::body::Body;
use http::{Method, Request};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use podium::api::{Api, ApiConfig, DeleteOptions, WriteOptions};
use podium::apiserver::{Credentials, Server, ServerConfig};
use podium::base::clock::Clock;
use podium::object::{Key, Kind, Object};
use podium::store::Store;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::added_kind::Client;
use crate::controllers::cluster::{Cluster, NO_NODES};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GADGETS: &str = "/apis/made.test/v1/namespaces/default/gadgets";

/// A definition of gadgets whose spec has this schema.
pub(crate) fn gadgets(spec: &Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.made.test"},
        "spec": {"group": "made.test", "scope": "Namespaced",
            "names": {"plural": "gadgets", "kind": "Gadget", "shortNames": ["gd"], "categories": ["all"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": spec, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}})
}

fn sized(most: i64) -> Value {
    json!({"type": "object", "properties": {"size": {"type": "integer", "maximum": most}}})
}

pub(crate) fn gadget(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "made.test/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": spec})
}

fn condition(definition: &Value, type_: &str) -> String {
    let conditions = definition["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == type_);
    found.map_or_else(String::new, |c| {
        format!("{} {}", c["status"].as_str().unwrap(), c["reason"].as_str().unwrap())
    })
}

/// The body of a watch.
async fn watched(api: &Api, path: &str) -> Body {
    let credentials = Credentials::new("secret");
    let server = Server::new(api.clone(), credentials, CancellationToken::new(), ServerConfig::default());
    let request = Request::builder().uri(path).header("authorization", "Bearer secret");
    server.handle(request.body(Body::empty()).unwrap()).await.into_body()
}

async fn named(client: &Client, name: &str) -> Value {
    client.get(&format!("{DEFINITIONS}/{name}")).await
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_served_once_it_is_established_api_14() {
    let cluster = Cluster::start(NO_NODES);
    let client = Client::new(&cluster.api);
    let (status, made) = client.create(DEFINITIONS, &gadgets(&sized(9))).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(
        (&made["spec"]["names"]["singular"], &made["spec"]["names"]["listKind"], &made["spec"]["conversion"]),
        (&json!("gadget"), &json!("GadgetList"), &json!({"strategy": "None"}))
    );
    assert_eq!(made["status"]["storedVersions"], json!(["v1"]));
    cluster.settle().await;
    let served = named(&client, "gadgets.made.test").await;
    assert_eq!(condition(&served, "NamesAccepted"), "True NoConflicts");
    assert_eq!(condition(&served, "Established"), "True InitialNamesAccepted");
    assert_eq!(served["status"]["acceptedNames"], served["spec"]["names"]);

    let (status, made) = client.create(GADGETS, &gadget("one", &json!({"size": 3, "other": 1}))).await;
    assert_eq!((status.as_u16(), &made["spec"]), (201, &json!({"size": 3})));
    let resources = client.get("/apis/made.test/v1").await;
    assert_eq!(resources["resources"][0]["shortNames"], json!(["gd"]));
    assert!(client.get("/openapi/v3/apis/made.test/v1").await["components"].is_object());

    // A changed schema is in force once the response is sent.
    let path = format!("{DEFINITIONS}/gadgets.made.test");
    let schema = json!([{"op": "replace", "path":
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/maximum", "value": 2}]);
    let json_patch = [("content-type", "application/json-patch+json")];
    let (status, changed) = client.ask(Method::PATCH, &path, &json_patch, &schema).await;
    assert_eq!((status.as_u16(), &changed["metadata"]["generation"]), (200, &json!(2)), "{changed}");
    let (status, refused) = client.create(GADGETS, &gadget("two", &json!({"size": 3}))).await;
    assert_eq!(status, 422, "{refused}");

    let (_, table) = client
        .ask(
            Method::GET,
            DEFINITIONS,
            &[("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")],
            &Value::Null,
        )
        .await;
    let columns: Vec<_> = table["columnDefinitions"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(columns, ["Name", "Created At"]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_goes_takes_its_objects_along_api_14() {
    let cluster = Cluster::start(NO_NODES);
    let client = Client::new(&cluster.api);
    client.create(DEFINITIONS, &gadgets(&sized(9))).await;
    cluster.settle().await;
    client.create(GADGETS, &gadget("one", &json!({}))).await;
    let mut held = gadget("held", &json!({}));
    held["metadata"]["finalizers"] = json!(["made.test/held"]);
    assert_eq!(client.create(GADGETS, &held).await.0, 201);

    let watch = watched(&cluster.api, &format!("{GADGETS}?watch=true")).await;

    let path = format!("{DEFINITIONS}/gadgets.made.test");
    let (status, going) = client.ask(Method::DELETE, &path, &[], &Value::Null).await;
    assert_eq!(status, 200);
    assert_eq!(condition(&going, "Terminating"), "True InstanceDeletionPending");
    assert_eq!(going["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    cluster.settle().await;
    assert_eq!(
        condition(&named(&client, "gadgets.made.test").await, "Terminating"),
        "True InstanceDeletionInProgress"
    );
    let (status, refused) = client.create(GADGETS, &gadget("late", &json!({}))).await;
    assert_eq!(
        (status.as_u16(), &refused["message"]),
        (405, &json!("create not allowed while custom resource definition is terminating"))
    );
    let resources = client.get("/apis/made.test/v1").await;
    assert!(!resources["resources"][0]["verbs"].as_array().unwrap().contains(&json!("create")));

    // The definition's finalizer is processed.
    let (status, _) =
        client.merge(&format!("{GADGETS}/held"), &json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(status, 200);
    cluster.settle().await;
    assert_eq!(client.ask(Method::GET, &path, &[], &Value::Null).await.0, 404);
    assert_eq!(client.ask(Method::GET, "/apis/made.test", &[], &Value::Null).await.0, 404);
    assert_eq!(client.ask(Method::GET, GADGETS, &[], &Value::Null).await.0, 404);
    let lines = tokio::time::timeout(std::time::Duration::from_mins(1), watch.collect()).await;
    let lines = lines.expect("the watch ends with its kind").unwrap().to_bytes();
    assert_eq!(String::from_utf8_lossy(&lines).matches("\"DELETED\"").count(), 2);

    // The definition can be created again.
    assert_eq!(client.create(DEFINITIONS, &gadgets(&sized(9))).await.0, 201);
    cluster.settle().await;
    assert_eq!(client.create(GADGETS, &gadget("one", &json!({}))).await.0, 201);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn names_of_a_group_belong_to_the_first_until_it_goes_api_14() {
    let cluster = Cluster::start(NO_NODES);
    let client = Client::new(&cluster.api);
    client.create(DEFINITIONS, &gadgets(&sized(9))).await;
    cluster.settle().await;
    let mut second = gadgets(&sized(9));
    second["metadata"]["name"] = json!("tools.made.test");
    second["spec"]["names"] =
        json!({"plural": "tools", "kind": "Gadget", "listKind": "ToolList", "singular": "tool"});
    assert_eq!(client.create(DEFINITIONS, &second).await.0, 201);
    cluster.settle().await;
    let waits = named(&client, "tools.made.test").await;
    assert_eq!(condition(&waits, "NamesAccepted"), "False KindConflict");
    assert_eq!(condition(&waits, "Established"), "False NotAccepted");
    let tools = "/apis/made.test/v1/namespaces/default/tools";
    assert_eq!(client.ask(Method::GET, tools, &[], &Value::Null).await.0, 404);
    client.ask(Method::DELETE, &format!("{DEFINITIONS}/gadgets.made.test"), &[], &Value::Null).await;
    cluster.settle().await;
    assert_eq!(
        condition(&named(&client, "tools.made.test").await, "Established"),
        "True InitialNamesAccepted"
    );
    client.get(tools).await;
    cluster.stop().await;
}

/// The same messages as Kubernetes' API server.
#[tokio::test(start_paused = true)]
async fn a_definition_with_faults_is_refused_in_kubernetes_words_api_14() {
    let cluster = Cluster::start(NO_NODES);
    let client = Client::new(&cluster.api);
    let at = "spec.validation.openAPIV3Schema.properties[spec]";
    for (pointer, value, expected) in [
        (
            "/metadata/name",
            json!("things.made.test"),
            "metadata.name: Invalid value: \"things.made.test\": must be spec.names.plural+\".\"+spec.group"
                .to_string(),
        ),
        ("/spec/scope", json!("Somewhere"), "spec.scope: Unsupported value: \"Somewhere\": supported values: \"Cluster\", \"Namespaced\"".into()),
        (
            "/spec/preserveUnknownFields",
            json!(true),
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set \
             x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
                .into(),
        ),
        (
            "/spec/versions/0/storage",
            json!(false),
            "spec.versions: Invalid value: must have exactly one version marked as storage version".into(),
        ),
        ("/spec/versions/0/schema", json!(null), "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required".into()),
        (
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec",
            json!({"properties": {}}),
            format!("{at}.type: Required value: must not be empty for specified object fields"),
        ),
        (
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec",
            json!({"type": "array"}),
            format!("{at}.items: Required value: must be specified"),
        ),
        (
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec",
            json!({"$ref": "#/definitions/spec", "type": "object"}),
            format!("{at}.$ref: Forbidden: $ref is not supported"),
        ),
        (
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec",
            json!({"type": "string", "pattern": "("}),
            format!("{at}.pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: unclosed group"),
        ),
        (
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec",
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {"type": "object", "required": ["port"],
                    "properties": {"port": {"type": "integer"}, "protocol": {"type": "string"}}}}),
            format!(
                "{at}.items.properties[protocol].default: Required value: this property is in \
                 x-kubernetes-list-map-keys, so it must have a default or be a required property"
            ),
        ),
        (
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec",
            json!({"type": "object", "properties": {"a": {"type": "string"}},
                "anyOf": [{"required": ["a"], "type": "object"}]}),
            format!("{at}.anyOf[0].type: Forbidden: must be empty to be structural"),
        ),
        (
            "/spec/versions/0/additionalPrinterColumns",
            json!([{"name": "Size", "type": "size", "jsonPath": ".spec.size"}]),
            "spec.additionalPrinterColumns[0].type: Invalid value: \"size\": must be one of \
             boolean,date,integer,number,string"
                .into(),
        ),
        (
            "/spec/versions/0/subresources/scale",
            json!({"specReplicasPath": ".size", "statusReplicasPath": ".status.replicas"}),
            "spec.subresources.scale.specReplicasPath: Invalid value: \".size\": should be a json path under .spec".into(),
        ),
        (
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/default",
            json!("much"),
            format!("{at}.properties[size].default: Invalid value: \"string\": default in body must be of type integer: \"string\""),
        ),
    ] {
        let mut definition = gadgets(&sized(9));
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        definition.pointer_mut(parent).unwrap()[field] = value;
        let (status, refused) = client.create(DEFINITIONS, &definition).await;
        assert_eq!(status, 422, "{pointer}: {refused}");
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains(&expected), "{pointer}\n{message}\n{expected}");
    }
    // A definition as calico and knative have it is accepted.
    let mut taken = gadgets(&json!({"type": "object", "properties": {
        "mark": {"type": "integer", "x-kubernetes-int-or-string": true, "pattern": "^.*"}}}));
    taken["spec"]["versions"][0]["additionalPrinterColumns"] =
        json!([{"name": "Config", "type": "string", "jsonPath": ".metadata.labels['made\\.test/config']"}]);
    let schema = &mut taken["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["metadata"] = json!({"type": "object"});
    schema["x-kubernetes-validations"] = json!([{"rule": "self.metadata.name == 'default'"}]);
    let (status, made) = client.create(DEFINITIONS, &taken).await;
    assert_eq!(status, 201, "{made}");
    cluster.settle().await;
    let mark = json!({"mark": "0x10"});
    let (status, refused) = client.create(GADGETS, &gadget("other", &mark)).await;
    assert_eq!(status, 422, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("failed rule: self.metadata.name"), "{refused}");
    let (status, made) = client.create(GADGETS, &gadget("default", &mark)).await;
    assert_eq!(status, 201, "{made}");
    let mut protected = gadgets(&sized(9));
    (protected["metadata"]["name"], protected["spec"]["group"]) =
        (json!("gadgets.made.k8s.io"), json!("made.k8s.io"));
    let (_, refused) = client.create(DEFINITIONS, &protected).await;
    assert!(
        refused["message"].as_str().unwrap().contains(
            "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have"
        ),
        "{refused}"
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_group_scope_and_kind_of_an_established_definition_are_immutable_api_14() {
    let cluster = Cluster::start(NO_NODES);
    let client = Client::new(&cluster.api);
    client.create(DEFINITIONS, &gadgets(&sized(9))).await;
    cluster.settle().await;
    for (patch, expected) in [
        (json!({"scope": "Cluster"}), "spec.scope: Invalid value: \"Cluster\": field is immutable"),
        (
            json!({"names": {"kind": "Thing"}}),
            "spec.names.kind: Invalid value: \"Thing\": field is immutable",
        ),
        (json!({"group": "other.test"}), "spec.group: Invalid value: \"other.test\": field is immutable"),
    ] {
        let path = format!("{DEFINITIONS}/gadgets.made.test");
        let (status, refused) = client.merge(&path, &json!({"spec": patch})).await;
        assert_eq!(status, 422);
        assert!(refused["message"].as_str().unwrap().contains(expected), "{refused}");
    }
    cluster.stop().await;
}

/// An object that was stored before its schema had a default shows it in every read, as if it had been stored with it.
#[tokio::test(start_paused = true)]
async fn an_object_older_than_a_default_is_shown_with_it_api_14() {
    let cluster = Cluster::start(NO_NODES);
    let client = Client::new(&cluster.api);
    let mut spec = sized(9);
    spec["properties"]["color"] = json!({"type": "string"});
    client.create(DEFINITIONS, &gadgets(&spec)).await;
    cluster.settle().await;
    let (_, made) = client.create(GADGETS, &gadget("old", &json!({"size": 1}))).await;
    assert_eq!(made["spec"], json!({"size": 1}));
    spec["properties"]["color"]["default"] = json!("red");
    let path = format!("{DEFINITIONS}/gadgets.made.test");
    let schema = json!([{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec", "value": spec}]);
    let json_patch = [("content-type", "application/json-patch+json")];
    assert_eq!(client.ask(Method::PATCH, &path, &json_patch, &schema).await.0, 200);
    let one = format!("{GADGETS}/old");
    let shown = json!({"size": 1, "color": "red"});
    let read = client.get(&one).await;
    assert_eq!(
        (&read["spec"], &read["metadata"]["resourceVersion"]),
        (&shown, &made["metadata"]["resourceVersion"])
    );
    assert_eq!(client.get(GADGETS).await["items"][0]["spec"], shown);
    let mut watch = watched(&cluster.api, &format!("{GADGETS}?watch=true")).await;
    let line = watch.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&line).unwrap()["object"]["spec"], shown);
    // A write stores it.
    let (_, written) = client.merge(&one, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(written["spec"], shown);
    cluster.stop().await;
}

/// The deletion of a namespace removes objects of kinds without a definition, which used to block it forever.
#[tokio::test(start_paused = true)]
async fn namespace_deletion_removes_objects_of_kinds_without_a_definition_api_14() {
    let cluster = Cluster::start(NO_NODES);
    let client = Client::new(&cluster.api);
    client.create(DEFINITIONS, &gadgets(&sized(9))).await;
    cluster.create::<Namespace>(json!({"metadata": {"name": "team"}}));
    cluster.settle().await;
    let team = "/apis/made.test/v1/namespaces/team/gadgets";
    assert_eq!(client.create(team, &gadget("left", &json!({}))).await.0, 201);
    let kind = cluster.api.kinds().in_group("made.test", "Gadget").unwrap();
    // The definition disappears as if its finalizer had been removed by hand.
    cluster.controllers.stop_one("customresourcedefinition").await;
    let path = format!("{DEFINITIONS}/gadgets.made.test");
    client.ask(Method::DELETE, &path, &[], &Value::Null).await;
    client.merge(&path, &json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(client.ask(Method::GET, &path, &[], &Value::Null).await.0, 404);
    assert_eq!(cluster.api.count(kind), 1);
    cluster.api.delete(Kind::Namespace, &Key::new("", "team"), &DeleteOptions::default()).unwrap();
    cluster.pass(60).await;
    assert_eq!(cluster.api.count(kind), 0);
    assert!(cluster.api.get(Kind::Namespace, &Key::new("", "team")).is_err());
    cluster.stop().await;
}

#[tokio::test]
async fn definitions_are_served_before_the_api_answers_again_api_14() {
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
    let definition = Object::from_value(Kind::CustomResourceDefinition, gadgets(&sized(9))).unwrap();
    let definition = api.create(definition, &WriteOptions::default()).unwrap();
    let client = Client::new(&api);
    assert_eq!(
        client.create(GADGETS, &gadget("early", &json!({}))).await.0,
        404,
        "its names are not accepted yet"
    );
    let accepted = api
        .modify_status::<CustomResourceDefinition>(&definition.key(), |definition| {
            let status = definition.status.as_mut().unwrap();
            status.accepted_names = Some(definition.spec.names.clone());
            let condition = json!([{"type": "NamesAccepted", "status": "True"}]);
            status.conditions = serde_json::from_value(condition).unwrap();
            Ok(())
        })
        .unwrap();
    assert_eq!(client.create(GADGETS, &gadget("kept", &json!({"size": 1}))).await.0, 201);
    api.durable(accepted.revision()).await.unwrap();
    drop((client, api));
    store.close();
    drop(store);
    let (store, api) = open();
    let retained = Client::new(&api).get(&format!("{GADGETS}/kept")).await;
    assert_eq!(retained["spec"]["size"], 1);
    store.close();
}

/// A definition with rules of every sort for its spec.
fn ruled() -> Value {
    gadgets(&json!({"type": "object",
        "properties": {
            "min": {"type": "integer"}, "max": {"type": "integer"}, "address": {"type": "string", "format": "ipv4"},
            "fixed": {"type": "string", "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "fixed is immutable", "reason": "FieldValueForbidden"}]},
            "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"],
                    "properties": {"name": {"type": "string"}, "number": {"type": "integer"}},
                    "x-kubernetes-validations": [{"rule": "self.number >= oldSelf.number"}]}}},
        "x-kubernetes-validations": [
            {"rule": "!has(self.min) || !has(self.max) || self.min <= self.max", "fieldPath": ".max",
                "messageExpression": "self.min == 3 ? 'max must be 3 or more' : 'max must be more'"}]}))
}

#[tokio::test(start_paused = true)]
async fn rules_are_judged_with_what_was_there_before_api_14() {
    let cluster = Cluster::start(NO_NODES);
    let client = Client::new(&cluster.api);
    let (status, made) = client.create(DEFINITIONS, &ruled()).await;
    assert_eq!(status, 201, "{made}");
    cluster.settle().await;
    for (spec, expected) in [
        (json!({"min": 1, "max": 2, "address": "10.0.0.1"}), ""),
        (json!({"min": 3, "max": 2}), "spec.max: Invalid value: max must be 3 or more"),
        (
            json!({"address": "10.0.0"}),
            "spec.address: Invalid value: \"10.0.0\": spec.address in body must be of type ipv4: \"10.0.0\"",
        ),
        (
            json!({"min": "x"}),
            "<nil>: Invalid value: \"null\": some validation rules were not checked because the object was invalid; correct \
             the existing errors to complete validation",
        ),
        (
            json!({"ports": [{"name": "a"}, {"name": "a"}]}),
            "spec.ports[1]: Duplicate value: {\"name\":\"a\"}",
        ),
    ] {
        let (status, answer) = client.create(&format!("{GADGETS}?dryRun=All"), &gadget("tried", &spec)).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert_eq!(status == 201, expected.is_empty(), "{spec}: {answer}");
        assert!(message.contains(expected), "{spec}: {message}");
    }
    let spec = json!({"fixed": "a", "ports": [{"name": "x", "number": 5}, {"name": "y", "number": 1}]});
    assert_eq!(client.create(GADGETS, &gadget("one", &spec)).await.0, 201);
    for (patch, expected) in [
        (json!({"fixed": "b"}), "spec.fixed: Forbidden: fixed is immutable"),
        (
            json!({"ports": [{"name": "y", "number": 2}, {"name": "x", "number": 4}]}),
            "spec.ports[1]: Invalid value: failed rule: self.number >= oldSelf.number",
        ),
        (json!({"ports": [{"name": "y", "number": 2}, {"name": "z", "number": 0}]}), ""),
    ] {
        let (status, answer) = client.merge(&format!("{GADGETS}/one"), &json!({"spec": patch})).await;
        assert_eq!(status == 200, expected.is_empty(), "{patch}: {answer}");
        assert!(answer["message"].as_str().unwrap_or_default().contains(expected), "{answer}");
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_cannot_be_read_is_refused_with_its_definition_api_14() {
    let cluster = Cluster::start(NO_NODES);
    let client = Client::new(&cluster.api);
    let at = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0]";
    for (rule, expected) in [
        (
            json!({"rule": "self.sise > 1"}),
            format!(
                "{at}.rule: Invalid value: \"self.sise > 1\": compilation failed: ERROR: <input>:1:5: undefined field 'sise'"
            ),
        ),
        (
            json!({"rule": "self.size"}),
            format!(
                "{at}.rule: Invalid value: \"self.size\": compilation failed: ERROR: <input>:1:5: cel expression must evaluate to a bool"
            ),
        ),
        (json!({"rule": ""}), format!("{at}.rule: Required value: rule is not specified")),
        (json!({"rule": "true", "reason": "Bad"}), format!("{at}.reason: ")),
        (
            json!({"rule": "true", "fieldPath": ".nothing"}),
            format!("{at}.fieldPath: Invalid value: \".nothing\": fieldPath must be a valid path"),
        ),
        (
            json!({"rule": "true", "messageExpression": "1"}),
            format!("{at}.messageExpression: Invalid value: \"1\""),
        ),
        (json!({"rule": "true", "optionalOldSelf": true}), format!("{at}.optionalOldSelf: ")),
    ] {
        let mut spec = sized(9);
        spec["x-kubernetes-validations"] = json!([rule]);
        let (status, refused) = client.create(DEFINITIONS, &gadgets(&spec)).await;
        assert_eq!(status, 422, "{rule}: {refused}");
        assert!(refused["message"].as_str().unwrap().contains(&expected), "{rule}\n{refused}\n{expected}");
    }
    // An expensive rule refuses only the objects that it is evaluated for.
    let mut spec = json!({"type": "object",
        "properties": {"list": {"type": "array", "maxItems": 1000, "items": {"type": "integer"}}}});
    spec["x-kubernetes-validations"] = json!([{"rule": "self.list.all(a, self.list.all(b, a + b >= 0))"}]);
    assert_eq!(client.create(DEFINITIONS, &gadgets(&spec)).await.0, 201);
    cluster.settle().await;
    let long: Vec<i64> = (0..1000).collect();
    let (status, refused) = client.create(GADGETS, &gadget("long", &json!({"list": long}))).await;
    assert_eq!(status, 422);
    assert!(refused["message"].as_str().unwrap().contains("call cost exceeds limit"), "{refused}");
    assert_eq!(client.create(GADGETS, &gadget("short", &json!({"list": [1, 2]}))).await.0, 201);
    cluster.stop().await;
}

/// The cost of a rule is estimated when the rule is written, by the bounds of the schema.
#[tokio::test(start_paused = true)]
async fn a_rule_that_may_cost_too_much_is_refused_with_its_definition_api_14() {
    const ADVICE: &str = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, \
                          and strings are declared)";
    let cluster = Cluster::start(NO_NODES);
    let client = Client::new(&cluster.api);
    let ruled = |bound: Option<i64>, rule: &Value| {
        let mut list = json!({"type": "array", "items": {"type": "string"}});
        if let Some(bound) = bound {
            list["maxItems"] = json!(bound);
            list["items"]["maxLength"] = json!(bound);
        }
        let spec = json!({"type": "object", "properties": {"list": list}, "x-kubernetes-validations": rule});
        gadgets(&spec)
    };
    let schema = "spec.validation.openAPIV3Schema";
    let at = format!("{schema}.properties[spec].x-kubernetes-validations[0]");
    let all_in_all = json!([{"rule": "self.list.all(a, self.list.all(b, a == b))"}]);
    let contained = json!([{"rule": "self.list.all(a, a.contains(self.list[0]))"}]);
    let message = json!([{"rule": "true", "messageExpression": "self.list.join(',')"}]);
    let half = json!({"rule": "self.list.all(a, self.list.exists(b, a.matches(b)))"});
    let factor = |of: &str, factor: &str| {
        format!("Forbidden: estimated {of} cost exceeds budget by factor of {factor} {ADVICE}")
    };
    for (rule, bound, expected) in [
        (&all_in_all, None, vec![format!("{at}.rule: {}", factor("rule", "more than 100x"))]),
        (&contained, None, vec![format!("{at}.rule: {}", factor("rule", "more than 100x"))]),
        (
            &message,
            None,
            vec![format!("{at}.messageExpression: {}", factor("messageExpression", "more than 100x"))],
        ),
        (&all_in_all, Some(10), vec![]),
        (&contained, Some(100), vec![]),
        (&message, Some(100), vec![]),
        // Each rule alone is cheap enough.
        (
            &Value::Array(vec![half.clone(); 20]),
            Some(70),
            vec![
                format!(
                    "{at}.rule: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire"
                ),
                format!(
                    "{schema}: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget"
                ),
            ],
        ),
    ] {
        let path = format!("{DEFINITIONS}?dryRun=All");
        let (status, answer) = client.create(&path, &ruled(bound, rule)).await;
        assert_eq!(status == 201, expected.is_empty(), "{rule} {bound:?}: {answer}");
        for expected in expected {
            assert!(
                answer["message"].as_str().unwrap_or_default().contains(&expected),
                "{rule}\n{answer}\n{expected}"
            );
        }
    }
    cluster.stop().await;
}

/// A bound was returned as `65535.0`, and an apply of the unchanged object conflicted with itself.
#[tokio::test(start_paused = true)]
async fn numbers_in_a_schema_stay_as_they_were_written_api_14() {
    let cluster = Cluster::start(NO_NODES);
    let client = Client::new(&cluster.api);
    let mut spec = sized(65_535);
    spec["properties"]["ratio"] = json!({"type": "number", "minimum": 0.5});
    let definition = gadgets(&spec);
    let path = format!("{DEFINITIONS}?fieldManager=first");
    let (_, made) =
        client.ask(Method::POST, &path, &[("content-type", "application/json")], &definition).await;
    let size = &made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    assert_eq!(
        (size["size"]["maximum"].to_string(), size["ratio"]["minimum"].to_string()),
        ("65535".into(), "0.5".into())
    );
    let apply = [("content-type", "application/apply-patch+yaml")];
    let path = format!("{DEFINITIONS}/gadgets.made.test?fieldManager=second");
    let (status, applied) = client.ask(Method::PATCH, &path, &apply, &definition).await;
    assert_eq!(status, 200, "{applied}");
    cluster.stop().await;
}

/// Kubernetes' validation ratcheting: a definition became stricter than the existing objects.
#[tokio::test(start_paused = true)]
async fn a_stricter_definition_leaves_alone_what_is_as_it_was_api_14() {
    let cluster = Cluster::start(NO_NODES);
    let client = Client::new(&cluster.api);
    let text = json!({"type": "string"});
    let loose = json!({"type": "object", "properties": {"size": {"type": "integer"}, "mode": text, "never": text,
        "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": text, "weight": {"type": "integer"}}}}}});
    client.create(DEFINITIONS, &gadgets(&loose)).await;
    cluster.settle().await;
    let spec = json!({"size": 9, "mode": "a", "parts": [{"name": "x", "weight": 1}]});
    assert_eq!(client.create(GADGETS, &gadget("one", &spec)).await.0, 201);
    let mut strict = loose.clone();
    strict["properties"]["size"] = json!({"type": "integer", "maximum": 2, "x-kubernetes-validations": [{"rule": "self < 2", "message": "less than two"}]});
    strict["properties"]["never"]["x-kubernetes-validations"] = json!([{"rule": "oldSelf.hasValue() && self != oldSelf.value()", "optionalOldSelf": true, "message": "must change"}]);
    strict["properties"]["parts"]["items"]["x-kubernetes-validations"] =
        json!([{"rule": "self.weight > 5", "message": "too light"}]);
    let path = format!("{DEFINITIONS}/gadgets.made.test");
    let schema = json!([{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec", "value": strict}]);
    let json_patch = [("content-type", "application/json-patch+json")];
    assert_eq!(client.ask(Method::PATCH, &path, &json_patch, &schema).await.0, 200);
    let one = format!("{GADGETS}/one");
    let light = json!({"name": "x", "weight": 1});
    for (patch, expected) in [
        (json!({"spec": {"mode": "b"}}), ""),
        (json!({"metadata": {"labels": {"a": "b"}}}), ""),
        (json!({"status": {"said": "yes"}}), ""),
        (json!({"spec": {"parts": [{"name": "y", "weight": 9}, light]}}), ""),
        (
            json!({"spec": {"parts": [{"name": "y", "weight": 3}, light]}}),
            "spec.parts[0]: Invalid value: too light",
        ),
        (
            json!({"spec": {"size": 8}}),
            "spec.size: Invalid value: 8: spec.size in body should be less than or equal to 2",
        ),
        (json!({"spec": {"size": 2}}), "spec.size: Invalid value: 2: less than two"),
        (json!({"spec": {"never": "a"}}), "spec.never: Invalid value: \"a\": must change"),
    ] {
        let at = if patch.get("status").is_some() { format!("{one}/status") } else { one.clone() };
        let (status, answer) = client.merge(&at, &patch).await;
        assert_eq!(status == 200, expected.is_empty(), "{patch}: {answer}");
        assert!(answer["message"].as_str().unwrap_or_default().contains(expected), "{answer}");
    }
    let (status, refused) = client.create(GADGETS, &gadget("two", &json!({"size": 9}))).await;
    assert_eq!(status, 422, "{refused}");
    cluster.stop().await;
}

/// The time is the cluster's own, which passes only while everything waits.
#[tokio::test(start_paused = true)]
async fn a_new_kind_is_known_everywhere_within_a_tenth_of_a_second_api_14() {
    let cluster = Cluster::start(NO_NODES);
    let client = Client::new(&cluster.api);
    let mut definition = gadgets(&sized(9));
    definition["spec"]["versions"][0]["additionalPrinterColumns"] =
        json!([{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]);
    // The caches that follow all kinds exist before.
    cluster.settle().await;
    assert_eq!(client.create(DEFINITIONS, &definition).await.0, 201);
    let is_found = async |path: &str, accept: &str, expected: &str| {
        let (status, answer) = client.ask(Method::GET, path, &[("accept", accept)], &Value::Null).await;
        status == 200 && answer.to_string().contains(expected)
    };
    let json = "application/json";
    let aggregated = "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io";
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let started = tokio::time::Instant::now();
    for (path, accept, expected) in [
        (format!("{DEFINITIONS}/gadgets.made.test").as_str(), json, "InitialNamesAccepted"),
        ("/apis", json, "made.test"),
        ("/apis", aggregated, "gadgets"),
        ("/apis/made.test/v1", json, "\"gd\""),
        ("/openapi/v3", json, "apis/made.test/v1"),
        ("/openapi/v2", json, "Gadget"),
        (GADGETS, table, "\"Size\""),
    ] {
        while !is_found(path, accept, expected).await {
            assert!(started.elapsed().as_millis() < 100, "{path} does not know it yet");
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
    assert!(started.elapsed().as_millis() < 100);
    cluster.stop().await;
}
