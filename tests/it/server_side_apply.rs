//! Server-side apply and field ownership: over HTTP, and with an unmodified kubectl.

use http::Method;
use podium::api::{Api, ApiConfig, Part, WriteOptions};
use podium::base::clock::Clock;
use podium::object::{Key, Kind};
use podium::store::Store;
use serde_json::{Value, json};

use crate::added_kind::widgets;
use crate::http::{InMemoryServer, OWNER, Response};
use crate::instance::{DataDir, wait_for};
use crate::needs::needs;

const MAP: &str = "/api/v1/namespaces/default/configmaps/a";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";

async fn apply(face: &InMemoryServer, path: &str, query: &str, config: &Value) -> Response {
    let headers = [OWNER, ("content-type", "application/apply-patch+yaml")];
    face.ask(Method::PATCH, &format!("{path}?{query}"), &headers, &config.to_string()).await
}

async fn send(face: &InMemoryServer, method: Method, path: &str, media: &str, body: &Value) -> Response {
    let headers = [OWNER, ("content-type", media), ("user-agent", "writer/1.0 (x)")];
    let response = face.ask(method, path, &headers, &body.to_string()).await;
    assert!(response.status.is_success(), "{}", response.body);
    response
}

fn map(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

fn deployment(replicas: Option<i32>) -> Value {
    let mut web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "pause"}]}}}});
    if let Some(replicas) = replicas {
        web["spec"]["replicas"] = json!(replicas);
    }
    web
}

/// The owners: `manager operation subresource` and the fields.
fn owners(object: &Value) -> Vec<(String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_string();
    entries
        .iter()
        .map(|entry| {
            assert_eq!(entry["fieldsType"], "FieldsV1");
            assert!(entry["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{entry}");
            let words = ["manager", "operation", "subresource"].map(|name| text(entry, name));
            (words.join(" ").trim().to_string(), entry["fieldsV1"].clone())
        })
        .collect()
}

#[tokio::test]
async fn a_configuration_makes_an_object_and_changes_what_it_owns_api_13() {
    let face = InMemoryServer::new();
    let made = apply(&face, MAP, "fieldManager=m", &map(&json!({"x": "1", "y": "1"}))).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let both = json!({"f:data": {"f:x": {}, "f:y": {}}});
    assert_eq!(owners(&made.json()), [("m Apply".into(), both)]);
    let again = apply(&face, MAP, "fieldManager=m", &map(&json!({"x": "1", "y": "1"}))).await;
    assert_eq!((again.status.as_u16(), again.json()), (200, made.json()), "a no-op writes nothing");
    let dry = apply(&face, MAP, "fieldManager=m&dryRun=All", &map(&json!({"z": "1"}))).await;
    assert_eq!(dry.json()["data"], json!({"z": "1"}));
    let less = apply(&face, MAP, "fieldManager=m", &map(&json!({"x": "2"}))).await;
    assert_eq!(less.json()["data"], json!({"x": "2"}));
    let stored = face.get(MAP, &[]).await.json();
    assert_eq!((&stored, owners(&stored).len()), (&less.json(), 1));
}

#[tokio::test]
async fn every_writer_owns_what_it_writes_api_13() {
    let face = InMemoryServer::new();
    let json = "application/json";
    let made = send(&face, Method::POST, MAPS, json, &map(&json!({"x": "1"}))).await.json();
    assert_eq!(owners(&made), [("writer Update".into(), json!({"f:data": {".": {}, "f:x": {}}}))]);
    let patch = json!({"data": {"y": "1"}, "metadata": {"labels": {"l": "1"}}});
    let path = format!("{MAP}?fieldManager=p");
    let patched = send(&face, Method::PATCH, &path, "application/merge-patch+json", &patch).await.json();
    let of_patch = json!({"f:data": {"f:y": {}}, "f:metadata": {"f:labels": {".": {}, "f:l": {}}}});
    assert_eq!(owners(&patched)[0], ("p Update".into(), of_patch));
    let replaced = send(&face, Method::PUT, MAP, json, &map(&json!({"x": "2"}))).await.json();
    assert_eq!(owners(&replaced), [("writer Update".into(), json!({"f:data": {".": {}, "f:x": {}}}))]);
    let reset = json!({"metadata": {"managedFields": [{}]}});
    let reset = send(&face, Method::PATCH, MAP, "application/merge-patch+json", &reset).await.json();
    assert_eq!(owners(&reset), []);
}

#[tokio::test]
async fn status_and_scale_have_owners_of_their_own_api_13() {
    let face = InMemoryServer::new();
    let made = apply(&face, WEB, "fieldManager=m", &deployment(Some(1))).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let status = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "status": {"replicas": 1, "conditions": [{"type": "Available", "status": "True"}]}});
    let path = format!("{WEB}/status");
    let response = apply(&face, &path, "fieldManager=s", &status).await;
    assert_eq!(response.status, 200, "{}", response.body);
    let of_status = json!({"f:status": {"f:replicas": {}, "f:conditions": {
        "k:{\"type\":\"Available\"}": {".": {}, "f:status": {}, "f:type": {}}}}});
    assert_eq!(owners(&response.json())[1], ("s Apply status".into(), of_status));

    let scale = json!({"spec": {"replicas": 3}});
    send(&face, Method::PATCH, &format!("{WEB}/scale"), "application/merge-patch+json", &scale).await;
    let scaled = face.get(WEB, &[]).await.json();
    let by_scale = ("writer Update scale".to_string(), json!({"f:spec": {"f:replicas": {}}}));
    assert!(owners(&scaled).contains(&by_scale), "{scaled}");
    let refused = apply(&face, WEB, "fieldManager=m", &deployment(Some(1))).await;
    assert_eq!(
        refused.json()["message"],
        "Apply failed with 1 conflict: conflict with \"writer\" with subresource \"scale\" using apps/v1: \
         .spec.replicas"
    );
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 5}});
    for (query, stored) in [("fieldManager=hpa&force=true&dryRun=All", 3), ("fieldManager=hpa&force=true", 5)]
    {
        let response = apply(&face, &format!("{WEB}/scale"), query, &scale).await;
        assert_eq!(
            (response.status.as_u16(), &response.json()["spec"]["replicas"]),
            (200, &json!(5)),
            "{query}: {}",
            response.body
        );
        assert_eq!(face.get(WEB, &[]).await.json()["spec"]["replicas"], stored, "{query}");
    }
    let left = apply(&face, WEB, "fieldManager=m", &deployment(None)).await;
    assert_eq!(left.json()["spec"]["replicas"], 5, "another owns it: {}", left.body);
}

#[tokio::test]
async fn conflicts_name_owner_and_field_api_13() {
    let face = InMemoryServer::new();
    apply(&face, MAP, "fieldManager=a", &map(&json!({"x": "1"}))).await;
    let refused = apply(&face, MAP, "fieldManager=b", &map(&json!({"x": "2"}))).await;
    assert_eq!(refused.status, 409);
    assert_eq!(
        refused.json(),
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Conflict",
            "message": "Apply failed with 1 conflict: conflict with \"a\": .data.x",
            "details": {"causes": [{"reason": "FieldManagerConflict", "message": "conflict with \"a\"",
                "field": ".data.x"}]}, "code": 409})
    );
    let forced = apply(&face, MAP, "fieldManager=b&force=true", &map(&json!({"x": "2"}))).await;
    assert_eq!(owners(&forced.json()), [("b Apply".into(), json!({"f:data": {"f:x": {}}}))]);
}

#[tokio::test]
async fn invalid_apply_requests_are_rejected_api_13() {
    let face = InMemoryServer::new();
    let good = map(&json!({"x": "1"}));
    apply(&face, MAP, "fieldManager=a", &good).await;
    let with = |pointer: &str, value: Value| {
        let mut config = good.clone();
        *config.pointer_mut("/metadata").unwrap() = json!({"name": "a", pointer: value});
        config
    };
    for (query, config, code, expected) in [
        (
            "",
            good.clone(),
            422,
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
        ),
        ("fieldManager=a", with("managedFields", json!([])), 400, "metadata.managedFields must be nil"),
        (
            "fieldManager=a",
            with("resourceVersion", json!("1")),
            409,
            "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes \
             to the latest version and try again",
        ),
        (
            "fieldManager=a",
            json!({"apiVersion": "v2", "kind": "ConfigMap"}),
            400,
            "Incorrect version specified in apply patch. Specified patch version: v2, expected: v1",
        ),
        (
            "fieldManager=a",
            with("labels", json!({"l": 1})),
            500,
            "failed to create typed patch object (default/a; /v1, Kind=ConfigMap): .metadata.labels.l: expected string, \
             got &value.valueUnstructured{Value:1}",
        ),
        (
            "fieldManager=a",
            with("finalizers", json!(["x/y", "x/y"])),
            500,
            "failed to create typed patch object (default/a; /v1, Kind=ConfigMap): .metadata.finalizers: duplicate \
             entries for key [=\"x/y\"]",
        ),
    ] {
        let response = apply(&face, MAP, query, &config).await;
        assert_eq!((response.status.as_u16(), &response.json()["message"]), (code, &json!(expected)));
    }
    let other = apply(&face, MAP, "fieldManager=a", &with("uid", json!("other"))).await;
    assert_eq!((other.status.as_u16(), &other.json()["reason"]), (409, &json!("Conflict")));
    let mut absent = map(&json!({}));
    absent["metadata"] = json!({"name": "absent", "uid": "other"});
    let absent = apply(&face, &format!("{MAPS}/absent"), "fieldManager=a", &absent).await;
    assert_eq!(
        (absent.status.as_u16(), &absent.json()["message"]),
        (
            409,
            &json!(
                "Operation cannot be fulfilled on configmaps \"absent\": uid mismatch: the provided object \
                 specified uid other, and no existing object was found"
            )
        )
    );
    let unknown = apply(&face, &format!("{MAPS}/b"), "fieldManager=a", &with("uid", json!("other"))).await;
    assert_eq!(unknown.status, 400, "the name in the path is another: {}", unknown.body);
    let status = format!("{WEB}/status");
    let missing = apply(&face, &status, "fieldManager=a", &deployment(None)).await;
    assert_eq!(missing.status, 404, "a part is not made: {}", missing.body);
    let headers = [OWNER, ("content-type", "application/merge-patch+json")];
    let forced = face.ask(Method::PATCH, &format!("{MAP}?force=true"), &headers, "{}").await;
    assert_eq!(forced.status, 422, "{}", forced.body);
}

/// As in Kubernetes, a Scale has only the metadata that identifies its object, regardless of the owner of the count.
#[tokio::test]
async fn a_scale_shows_no_owners_api_13() {
    let face = InMemoryServer::new();
    apply(&face, WEB, "fieldManager=m", &deployment(Some(1))).await;
    let path = format!("{WEB}/scale");
    let scale = face.get(&path, &[]).await.json();
    let fields: Vec<&String> = scale["metadata"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["creationTimestamp", "name", "namespace", "resourceVersion", "uid"]);
    let config = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 5}});
    let applied = apply(&face, &path, "fieldManager=hpa&force=true", &config).await.json();
    assert_eq!(applied["metadata"]["managedFields"], Value::Null);
}

#[tokio::test]
async fn the_client_that_finalizes_a_namespace_owns_its_finalizers_api_13() {
    let face = InMemoryServer::new();
    let path = "/api/v1/namespaces/default";
    let mut namespace = face.get(path, &[]).await.json();
    namespace["spec"]["finalizers"] = json!(["kubernetes", "x/y"]);
    let finalized =
        send(&face, Method::PUT, &format!("{path}/finalize"), "application/json", &namespace).await.json();
    let owner = ("writer Update finalize".to_string(), json!({"f:spec": {"f:finalizers": {}}}));
    assert!(owners(&finalized).contains(&owner), "{finalized}");
}

/// Fields that the garbage collector and other components remove from an object lose their owner.
#[tokio::test]
async fn removed_fields_lose_their_owner_api_13() {
    let face = InMemoryServer::new();
    let mut made = map(&json!({"x": "1"}));
    made["metadata"]["finalizers"] = json!(["x/a", "x/b"]);
    apply(&face, MAP, "fieldManager=m", &made).await;
    let key = Key::new("default", "a");
    let options = WriteOptions::default();
    let api = face.api.acting_as("kube-controller-manager");
    api.change_through("", Kind::ConfigMap, &key, Part::System, &options, |current| {
        let mut next = current.clone();
        next.meta_mut().finalizers = Some(vec!["x/b".into()]);
        Ok(next)
    })
    .unwrap();
    let stored = face.get(MAP, &[]).await.json();
    let left = json!({"f:data": {"f:x": {}}, "f:metadata": {"f:finalizers": {"v:\"x/b\"": {}}}});
    assert_eq!(owners(&stored), [("m Apply".to_string(), left)]);
}

/// The entries of managed fields used to count as the object's own parts, so that an object could be created and then
/// neither patched nor replaced.
#[tokio::test]
async fn owners_are_no_parts_of_an_object_api_13() {
    let face = InMemoryServer::new();
    let data: serde_json::Map<String, Value> = (0..19_000).map(|n| (format!("k{n}"), json!("v"))).collect();
    let made = send(&face, Method::POST, MAPS, "application/json", &map(&data.into())).await.json();
    let patch = json!({"data": {"k0": "w"}});
    send(&face, Method::PATCH, MAP, "application/merge-patch+json", &patch).await;
    let mut read = face.get(MAP, &[]).await.json();
    assert_eq!(owners(&made).len(), 1);
    read["data"]["k1"] = json!("w");
    send(&face, Method::PUT, MAP, "application/json", &read).await;
}

/// Kubernetes' algorithm drops them, too; its API servers fail there (kubernetes/kubernetes#111937).
#[tokio::test]
async fn owners_in_a_version_that_is_gone_own_nothing_api_13() {
    let face = InMemoryServer::new();
    let mut definition = widgets();
    face.api.define(&definition).unwrap();
    let path = |version: &str| format!("/apis/added.test/{version}/namespaces/default/widgets/w");
    let widget = |version: &str, color: &str| {
        json!({"apiVersion": format!("added.test/{version}"), "kind": "Widget", "metadata": {"name": "w"},
            "spec": {"replicas": 1, "color": color}})
    };
    let made = apply(&face, &path("v1beta1"), "fieldManager=old", &widget("v1beta1", "blue")).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let refused = apply(&face, &path("v1"), "fieldManager=m", &widget("v1", "red")).await;
    assert_eq!(refused.json()["message"], "Apply failed with 1 conflict: conflict with \"old\": .spec.color");
    let patch = json!({"metadata": {"labels": {"l": "1"}}});
    let merge = "application/merge-patch+json";
    let patched = send(&face, Method::PATCH, &path("v1"), merge, &patch).await.json();
    assert_eq!(owners(&patched).len(), 2);
    definition.versions.retain(|version| version.name == "v1");
    face.api.define(&definition).unwrap();
    let applied = apply(&face, &path("v1"), "fieldManager=m", &widget("v1", "red")).await;
    assert_eq!(applied.status, 200, "{}", applied.body);
    let names: Vec<String> = owners(&applied.json()).into_iter().map(|(owner, _)| owner).collect();
    assert_eq!(names, ["m Apply", "writer Update"]);
}

/// A list that becomes atomic belongs as a whole to every owner of an element.
#[tokio::test]
async fn owners_of_elements_own_the_whole_list_once_it_becomes_atomic_api_13() {
    let face = InMemoryServer::new();
    let define = |list: &str| {
        let mut definition = widgets();
        for version in &mut definition.versions {
            let schema =
                version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()).unwrap();
            let spec = schema.properties.as_mut().and_then(|fields| fields.get_mut("spec")).unwrap();
            let tags = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": list});
            let tags = serde_json::from_value(tags).unwrap();
            spec.properties.as_mut().unwrap().insert("tags".into(), tags);
        }
        face.api.define(&definition).unwrap();
    };
    let path = "/apis/added.test/v1/namespaces/default/widgets/w";
    let widget = |tags: Value| {
        json!({"apiVersion": "added.test/v1", "kind": "Widget", "metadata": {"name": "w"},
            "spec": {"replicas": 1, "tags": tags}})
    };
    define("set");
    let made = apply(&face, path, "fieldManager=a", &widget(json!(["x"]))).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let both = apply(&face, path, "fieldManager=b", &widget(json!(["y"]))).await.json();
    assert_eq!(both["spec"]["tags"], json!(["x", "y"]));
    assert_eq!(owners(&both)[0].1["f:spec"]["f:tags"], json!({"v:\"x\"": {}}));
    define("atomic");
    let refused = apply(&face, path, "fieldManager=b", &widget(json!(["z"]))).await;
    assert_eq!(refused.json()["message"], "Apply failed with 1 conflict: conflict with \"a\": .spec.tags");
    let forced = apply(&face, path, "fieldManager=b&force=true", &widget(json!(["z"]))).await.json();
    assert_eq!(forced["spec"]["tags"], json!(["z"]));
    let fields: Vec<Value> =
        owners(&forced).into_iter().map(|(_, fields)| fields["f:spec"].clone()).collect();
    assert_eq!(fields, [json!({"f:replicas": {}}), json!({"f:replicas": {}, "f:tags": {}})]);
}

/// Owners are stored with the object.
#[tokio::test]
async fn owners_survive_a_restart_api_13() {
    let directory = tempfile::tempdir().unwrap();
    let (key, owned) = (Key::new("default", "a"), |api: &Api| {
        api.get(Kind::ConfigMap, &Key::new("default", "a")).unwrap().managed_fields().clone()
    });
    let api = |store: &Store| Api::new(store.clone(), Clock::machine(), ApiConfig::default());
    let store = Store::open(directory.path()).unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    let object = |value: Value| podium::object::Object::from_any_value(value).unwrap();
    api(&store).create(object(namespace), &WriteOptions::default()).unwrap();
    let mut made = map(&json!({"x": "1"}));
    made["metadata"]["namespace"] = json!("default");
    let writer = api(&store).acting_as("writer");
    let stored = writer.create(object(made), &WriteOptions::default()).unwrap();
    assert_eq!(stored.key(), key);
    let before = owned(&writer);
    assert_eq!(before.entries()[0].manager().name, "writer");
    store.durable(stored.revision()).await.unwrap();
    store.close();
    drop((store, writer));
    let reopened = Store::open(directory.path()).unwrap();
    assert_eq!(owned(&api(&reopened)), before);
    reopened.close();
}

#[test]
fn kubectl_applies_on_the_server_side_api_13() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "0", "--hollow-nodes", "1"]);
    let write = |config: &Value| {
        let path = home.path("config.json");
        std::fs::write(&path, config.to_string()).unwrap();
        path.to_str().unwrap().to_string()
    };
    // From client-side apply on: its fields pass to server-side apply.
    instance.kubectl(&["apply", "-f", &write(&map(&json!({"x": "1", "y": "1"})))]);
    let file = write(&map(&json!({"x": "2"})));
    instance.kubectl(&["apply", "--server-side", "-f", &file]);
    let get = |what: &[&str]| -> Value {
        let arguments = [&["get", "-o", "json", "--show-managed-fields"], what].concat();
        serde_json::from_str(&instance.kubectl(&arguments)).unwrap()
    };
    let object = get(&["configmap", "a"]);
    assert_eq!(object["data"], json!({"x": "2"}));
    assert!(!object.to_string().contains("kubectl-client-side-apply"), "{object}");

    let refused = instance.kubectl_output(&[
        "apply",
        "--server-side",
        "--field-manager=other",
        "-f",
        &write(&map(&json!({"x": "3"}))),
    ]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        message.contains("Apply failed with 1 conflict: conflict with \"kubectl\": .data.x"),
        "{message}"
    );
    let file = write(&map(&json!({"x": "3"})));
    instance.kubectl(&["apply", "--server-side", "--force-conflicts", "--field-manager=other", "-f", &file]);
    assert_eq!(get(&["configmap", "a"])["data"], json!({"x": "3"}));

    // Podium's own actors own the fields that they write.
    instance.kubectl(&["apply", "--server-side", "-f", &write(&deployment(Some(1)))]);
    instance.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let web = wait_for("the controller to own the status", || {
        let web = get(&["deployment", "web"]);
        owners(&web).iter().any(|(owner, _)| owner == "kube-controller-manager Update status").then_some(web)
    });
    assert!(owners(&web).iter().any(|(owner, _)| owner == "kubectl Apply"), "{web}");
    let pod = &get(&["pods"])["items"][0];
    let names: Vec<String> = owners(pod).into_iter().map(|(owner, _)| owner).collect();
    assert_eq!(names, ["kube-controller-manager Update", "kubelet Update status"], "{pod}");
}
