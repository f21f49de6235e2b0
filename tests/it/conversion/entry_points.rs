//! Every entry point that shows an object in another version than the stored one.

use axum::body::Body;
use http::{Method, Request};
use http_body_util::BodyExt;
use podium::api::{DeleteOptions, Part, WriteOptions};
use podium::object::Key;
use serde_json::{Value, json};

use super::ask;
use super::{V1, V2, calls, converter, define, get, merge, post, site, sites_converted_by, stored};
use crate::http::{InMemoryServer, OWNER};
use crate::webhooks::server::Webhook;

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_read_and_written_in_every_version_api_14() {
    let (webhook, face) = (converter(), InMemoryServer::new());
    let kind = define(&face, &sites_converted_by(&webhook, "v1"));
    let (status, made) = post(&face, V2, &site("v2", "a", &json!({"host": "h", "port": "1", "x": 1}))).await;
    assert_eq!((status, &made["apiVersion"]), (201, &json!("conv.test/v2")), "{made}");
    assert_eq!(made["spec"], json!({"host": "h", "port": "1"}));
    let saved = stored(&face, kind, "a");
    assert_eq!((&saved["apiVersion"], &saved["spec"]), (&json!("conv.test/v1"), &json!({"hostPort": "h:1"})));
    assert_eq!(get(&face, &format!("{V1}/a")).await.1["spec"], json!({"hostPort": "h:1"}));
    assert_eq!(get(&face, &format!("{V2}/a")).await.1["spec"], json!({"host": "h", "port": "1"}));

    // A patch applies to the object in its version, and so does a replacement.
    let (status, patched) = merge(&face, &format!("{V2}/a"), &json!({"spec": {"port": "2"}})).await;
    assert_eq!((status, &patched["spec"]), (200, &json!({"host": "h", "port": "2"})), "{patched}");
    assert_eq!(patched["metadata"]["generation"], 2);
    assert_eq!(stored(&face, kind, "a")["spec"], json!({"hostPort": "h:2"}));
    let mut next = patched.clone();
    next["spec"]["host"] = json!("other");
    let (status, put) = ask(&face, Method::PUT, &format!("{V2}/a"), "application/json", &next).await;
    assert_eq!((status, &put["spec"]["host"]), (200, &json!("other")), "{put}");
    assert_eq!(
        ask(&face, Method::PUT, &format!("{V2}/a"), "application/json", &next).await.0,
        409,
        "it is old"
    );
    let before = put["metadata"]["resourceVersion"].clone();
    let (_, same) = merge(&face, &format!("{V2}/a"), &json!({"spec": {"host": "other"}})).await;
    assert_eq!(same["metadata"]["resourceVersion"], before, "nothing is written that is the same");

    // The subresources.
    let (status, response) =
        merge(&face, &format!("{V2}/a/status"), &json!({"status": {"replicas": 3}})).await;
    assert_eq!(
        (status, &response["status"]["replicas"], &response["spec"]["port"]),
        (200, &json!(3), &json!("2")),
        "{response}"
    );
    let scale = format!("{V2}/a/scale");
    let (status, scaled) = merge(&face, &scale, &json!({"spec": {"replicas": 5}})).await;
    assert_eq!((status, &scaled["spec"]["replicas"]), (200, &json!(5)), "{scaled}");
    let (_, scaled) = get(&face, &scale).await;
    assert_eq!((&scaled["spec"]["replicas"], &scaled["status"]["replicas"]), (&json!(5), &json!(3)));
    assert_eq!(stored(&face, kind, "a")["spec"], json!({"hostPort": "other:2", "replicas": 5}));

    // The result of a dry run is shown in its version.
    let (status, tried) =
        post(&face, &format!("{V2}?dryRun=All"), &site("v2", "t", &json!({"host": "t"}))).await;
    assert_eq!((status, &tried["spec"]), (201, &json!({"host": "t", "port": "80"})), "{tried}");

    // The response to a deletion is in its version, too.
    let held = json!({"metadata": {"finalizers": ["conv.test/held"]}});
    assert_eq!(merge(&face, &format!("{V2}/a"), &held).await.0, 200);
    let (status, going) =
        ask(&face, Method::DELETE, &format!("{V2}/a"), "application/json", &Value::Null).await;
    assert_eq!((status, &going["spec"]["host"]), (200, &json!("other")), "{going}");
    assert!(going["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(merge(&face, &format!("{V2}/a"), &json!({"metadata": {"finalizers": null}})).await.0, 200);
    assert_eq!(get(&face, &format!("{V2}/a")).await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_converted_in_one_call_and_selected_as_it_shows_api_14() {
    let (webhook, face) = (converter(), InMemoryServer::new());
    define(&face, &sites_converted_by(&webhook, "v1"));
    for (i, name) in ["a", "b", "c"].into_iter().enumerate() {
        let mut site = site("v1", name, &json!({"hostPort": format!("h:{i}")}));
        site["metadata"]["labels"] = json!({"n": name});
        assert_eq!(post(&face, V1, &site).await.0, 201);
    }
    assert!(calls(&webhook).is_empty(), "requests in the stored version call no webhook");
    let (status, list) = get(&face, V2).await;
    let ports: Vec<_> = list["items"].as_array().unwrap().iter().map(|o| o["spec"]["port"].clone()).collect();
    assert_eq!(
        (status, ports, &list["apiVersion"]),
        (200, vec![json!("0"), json!("1"), json!("2")], &json!("conv.test/v2"))
    );
    assert_eq!(calls(&webhook), [3]);
    let names = |list: &Value| -> String {
        list["items"].as_array().unwrap().iter().map(|o| o["metadata"]["name"].as_str().unwrap()).collect()
    };
    for (query, expected) in [
        ("fieldSelector=spec.port%3D1", "b"),
        ("labelSelector=n%3Dc", "c"),
        ("fieldSelector=metadata.name%3Da", "a"),
        ("limit=2", "ab"),
    ] {
        let (status, list) = get(&face, &format!("{V2}?{query}")).await;
        assert_eq!((status, names(&list).as_str()), (200, expected), "{query}: {list}");
    }
    assert!(calls(&webhook).is_empty(), "recent conversions are not repeated");
    let table = face.get(V2, &[("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")]).await.json();
    let cells: Vec<_> = table["rows"].as_array().unwrap().iter().map(|row| row["cells"].clone()).collect();
    assert_eq!(cells, [json!(["a", "0"]), json!(["b", "1"]), json!(["c", "2"])]);
    let (_, page) = get(&face, &format!("{V2}?limit=2")).await;
    let token = page["metadata"]["continue"].as_str().unwrap();
    let (_, page) = get(&face, &format!("{V2}?limit=2&continue={token}")).await;
    assert_eq!(page["items"][0]["spec"]["port"], "2");
    let some = format!("{V2}?fieldSelector=spec.port%3D1");
    let (status, gone) = ask(&face, Method::DELETE, &some, "application/json", &Value::Null).await;
    assert_eq!(
        (status, names(&gone).as_str(), &gone["items"][0]["spec"]["port"]),
        (200, "b", &json!("1")),
        "{gone}"
    );
    assert_eq!(names(&get(&face, V1).await.1), "ac");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_list_takes_a_call_for_each_five_hundred_api_14() {
    let (webhook, face) = (converter(), InMemoryServer::new());
    let kind = define(&face, &sites_converted_by(&webhook, "v1"));
    for i in 0..1100 {
        let mut site = site("v1", &format!("s{i}"), &json!({"hostPort": format!("h:{i}")}));
        site["metadata"]["namespace"] = json!("default");
        let site = podium::object::Object::from_value(kind, site).unwrap();
        face.api.create(site, &WriteOptions::default()).unwrap();
    }
    let (_, page) = get(&face, &format!("{V2}?limit=7")).await;
    assert_eq!(
        (page["items"].as_array().unwrap().len(), calls(&webhook)),
        (7, vec![7]),
        "only the page's objects are converted"
    );
    let (_, list) = get(&face, V2).await;
    assert_eq!((list["items"].as_array().unwrap().len(), calls(&webhook)), (1100, vec![500, 500, 93]));
    let mut lines = Lines::of(&face, &format!("{V2}?watch=true")).await;
    for _ in 0..1100 {
        assert!(lines.next().await.unwrap()["object"]["spec"]["port"].is_string());
    }
    assert!(calls(&webhook).is_empty());
}

/// The lines of a watch as they come.
struct Lines(Body, String);

impl Lines {
    async fn of(face: &InMemoryServer, path: &str) -> Self {
        let request = Request::builder().uri(path).header(OWNER.0, OWNER.1).body(Body::empty()).unwrap();
        Self(face.server.handle(request).await.into_body(), String::new())
    }

    /// Returns the next event; `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((line, rest)) = self.1.split_once('\n') {
                let line = serde_json::from_str(line).unwrap();
                self.1 = rest.to_string();
                return Some(line);
            }
            let frame = self.0.frame().await?.unwrap();
            self.1.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_tells_of_changes_in_its_version_and_ends_when_they_cannot_be_converted_api_14() {
    let webhook = Webhook::start(|_, review| {
        let broken = review["request"]["objects"].as_array().unwrap().iter();
        if broken.clone().any(|object| object["metadata"]["name"] == "broken") {
            return super::Reply::Text(500, "oops".into());
        }
        super::Reply::Json(super::correct_answer(review))
    });
    let face = InMemoryServer::new();
    define(&face, &sites_converted_by(&webhook, "v1"));
    post(&face, V1, &site("v1", "a", &json!({"hostPort": "h:1"}))).await;
    let mut lines = Lines::of(&face, &format!("{V2}?watch=true")).await;
    let mut selected = Lines::of(&face, &format!("{V2}?watch=true&fieldSelector=spec.port%3D2")).await;
    let event_of = |line: Option<Value>| {
        let line = line.unwrap();
        (line["type"].as_str().unwrap().to_string(), line["object"]["spec"]["port"].clone())
    };
    assert_eq!(event_of(lines.next().await), ("ADDED".into(), json!("1")));
    for port in ["2", "3"] {
        merge(&face, &format!("{V1}/a"), &json!({"spec": {"hostPort": format!("h:{port}")}})).await;
        assert_eq!(event_of(lines.next().await), ("MODIFIED".into(), json!(port)));
    }
    assert_eq!(event_of(selected.next().await), ("ADDED".into(), json!("2")));
    assert_eq!(event_of(selected.next().await), ("DELETED".into(), json!("2")), "it has left the selection");
    post(&face, V1, &site("v1", "broken", &json!({"hostPort": "h:2"}))).await;
    for lines in [&mut lines, &mut selected] {
        let error = lines.next().await.unwrap();
        assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(500)), "{error}");
        let message = error["object"]["message"].as_str().unwrap();
        let expected =
            "conversion webhook for conv.test/v1, Kind=Site failed: an error on the server (\"oops\")";
        assert!(message.starts_with(expected), "{message}");
        assert_eq!(lines.next().await, None);
    }
}

/// An object that cannot be converted does not hide those before it from watchers, neither in the initial state nor in
/// changes.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_tells_what_comes_before_one_that_cannot_be_converted_api_14() {
    let webhook = Webhook::start(|_, review| {
        let mut objects = review["request"]["objects"].as_array().unwrap().iter();
        if objects.any(|object| object["metadata"]["name"] == "s5") {
            return super::Reply::Text(500, "oops".into());
        }
        super::Reply::Json(super::correct_answer(review))
    });
    let face = InMemoryServer::new();
    define(&face, &sites_converted_by(&webhook, "v1"));
    let from = get(&face, V1).await.1["metadata"]["resourceVersion"].as_str().unwrap().to_string();
    for i in 0..9 {
        post(&face, V1, &site("v1", &format!("s{i}"), &json!({"hostPort": format!("h:{i}")}))).await;
    }
    for path in [format!("{V2}?watch=true"), format!("{V2}?watch=true&resourceVersion={from}")] {
        let mut lines = Lines::of(&face, &path).await;
        for i in 0..5 {
            let line = lines.next().await.unwrap();
            assert_eq!(
                (&line["type"], &line["object"]["spec"]["port"]),
                (&json!("ADDED"), &json!(i.to_string())),
                "{line}"
            );
        }
        let error = lines.next().await.unwrap();
        assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(500)), "{error}");
        assert_eq!(lines.next().await, None);
    }
}

/// The last event of a watch of a kind with a deleted definition is still in the version that it was opened with. On
/// one thread, so that the watch learns of both at once.
#[tokio::test]
async fn a_watch_keeps_its_version_when_the_definition_has_gone_api_4_api_14() {
    let (webhook, face) = (converter(), InMemoryServer::new());
    let kind = define(&face, &sites_converted_by(&webhook, "v1"));
    post(&face, V1, &site("v1", "a", &json!({"hostPort": "h:1"}))).await;
    let mut lines = Lines::of(&face, &format!("{V2}?watch=true")).await;
    assert_eq!(lines.next().await.unwrap()["type"], "ADDED");
    face.api.delete(kind, &Key::new("default", "a"), &DeleteOptions::default()).unwrap();
    face.api.undefine(kind);
    let last = lines.next().await.unwrap();
    assert_eq!(
        (&last["type"], &last["object"]["apiVersion"], &last["object"]["metadata"]["name"]),
        (&json!("DELETED"), &json!("conv.test/v2"), &json!("a")),
        "{last}"
    );
    assert_eq!(lines.next().await, None);
}

/// Garbage collection, the end of a namespace, quota and the like take objects as they are stored.
#[tokio::test(flavor = "multi_thread")]
async fn actors_of_the_cluster_ask_no_webhook_api_14() {
    let (webhook, face) = (converter(), InMemoryServer::new());
    let kind = define(&face, &sites_converted_by(&webhook, "v1"));
    post(&face, V1, &site("v1", "a", &json!({"hostPort": "h:1"}))).await;
    // Other managers own fields in other versions.
    let other = format!("{V2}/a?fieldManager=other");
    assert_eq!(merge(&face, &other, &json!({"spec": {"replicas": 1}})).await.0, 200);
    define(&face, &sites_converted_by(&webhook, "v2"));
    calls(&webhook);
    let key = Key::new("default", "a");
    let edit = |object: &podium::object::Object| {
        let mut next = object.clone();
        next.meta_mut().finalizers = Some(vec!["conv.test/held".into()]);
        Ok(next)
    };
    face.api.change(kind, &key, Part::Main, &WriteOptions::default(), edit).unwrap();
    assert_eq!(stored(&face, kind, "a")["apiVersion"], "conv.test/v1");
    face.api.delete(kind, &key, &DeleteOptions::default()).unwrap();
    assert!(calls(&webhook).is_empty());
}

/// An admission webhook for another version gets the object in that version, and its changes are converted to the
/// request's.
#[tokio::test(flavor = "multi_thread")]
async fn admission_sees_the_version_that_its_rules_name_api_14_api_16() {
    use crate::webhooks::server::{Reply, patched};
    let (webhook, face) = (converter(), InMemoryServer::new());
    let kind = define(&face, &sites_converted_by(&webhook, "v2"));
    let admission = Webhook::start(|_, review| {
        Reply::Json(patched(
            review,
            &json!([{"op": "replace", "path": "/spec/hostPort", "value": "mutated:9"}]),
        ))
    });
    let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "m"}, "webhooks": [{"name": "m.conv.test", "clientConfig": admission.client_config("/"),
            "sideEffects": "None", "admissionReviewVersions": ["v1"], "matchPolicy": "Equivalent",
            "rules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": ["conv.test"], "apiVersions": ["v1"],
                "resources": ["sites"]}]}]});
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    assert_eq!(post(&face, path, &configuration).await.0, 201);
    let (status, made) = post(&face, V2, &site("v2", "a", &json!({"host": "h", "port": "1"}))).await;
    assert_eq!((status, &made["spec"]), (201, &json!({"host": "mutated", "port": "9"})), "{made}");
    assert_eq!(stored(&face, kind, "a")["spec"], json!({"host": "mutated", "port": "9"}));
    let seen = admission.take_seen();
    assert_eq!(seen[0]["object"]["spec"], json!({"hostPort": "h:1"}));
    assert_eq!(
        (&seen[0]["kind"]["version"], &seen[0]["requestKind"]["version"]),
        (&json!("v1"), &json!("v2"))
    );
    merge(&face, &format!("{V2}/a"), &json!({"spec": {"port": "4"}})).await;
    let seen = admission.take_seen();
    assert_eq!(seen[0]["oldObject"]["spec"], json!({"hostPort": "mutated:9"}));
}
