//! A custom resource that the console knows only from discovery and the server's Table.

use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use podium::base::clock::Clock;
use podium::console::model::Job;
use podium::console_data::catalogue;
use podium::console_data::feed::{Feed, retry_policy};
use podium::console_data::message::{Data, Message};
use podium::console_operations::effect::Runner;
use podium::console_screens::edit;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::shows;
use super::test_console::TestConsole;
use crate::instance::WAIT_TIMEOUT;

/// A server with widgets, which have a scale, and read-only gauges.
#[derive(Default)]
struct WidgetServer {
    widget: Option<Value>,
    /// The requested changes: method, path with query, body.
    requests: Vec<(Method, String, Value)>,
}

fn widget() -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "round", "namespace": "default", "uid": "widget-1", "resourceVersion": "7",
            "labels": {"shape": "round"}, "creationTimestamp": "2026-05-01T11:00:00Z"},
        "spec": {"replicas": 3, "colour": "red"},
    })
}

fn table(rows: &[Value]) -> Value {
    let row = |object: &Value| json!({"cells": [object["metadata"]["name"], object["spec"]["colour"]], "object": object});
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "9"},
        "columnDefinitions": [
            {"name": "Name", "type": "string", "format": "name", "priority": 0},
            {"name": "Colour", "type": "string", "priority": 0},
        ],
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn resources() -> Value {
    let resource = |name: &str, kind: &str, verbs: &[&str]| json!({"name": name, "singularName": kind.to_lowercase(), "kind": kind, "namespaced": true, "verbs": verbs});
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "example.com/v1", "resources": [
        resource("widgets", "Widget", &["create", "delete", "get", "list", "patch", "update", "watch"]),
        resource("widgets/scale", "Scale", &["get", "patch", "update"]),
        resource("gauges", "Gauge", &["get", "list"]),
    ]})
}

impl WidgetServer {
    fn answer(&mut self, method: &Method, uri: &http::Uri, body: &Value) -> Option<Value> {
        let path = uri.path();
        let query = uri.query().unwrap_or_default();
        let one = "/apis/example.com/v1/namespaces/default/widgets/round";
        if method != Method::GET {
            self.requests.push((method.clone(), uri.to_string(), body.clone()));
        }
        let dry_run = query.contains("dryRun=All");
        match (method.as_str(), path) {
            ("GET", "/api/v1") => {
                Some(json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": []}))
            }
            ("GET", "/apis") => Some(json!({"kind": "APIGroupList", "groups": [{
                "name": "example.com", "versions": [{"groupVersion": "example.com/v1", "version": "v1"}],
                "preferredVersion": {"groupVersion": "example.com/v1", "version": "v1"}}]})),
            ("GET", "/apis/example.com/v1") => Some(resources()),
            ("GET", "/apis/example.com/v1/widgets") => Some(table(self.widget.as_slice())),
            ("GET", "/apis/example.com/v1/gauges") => Some(table(&[])),
            // Describe lists and watches the one object by its name.
            ("GET", "/apis/example.com/v1/namespaces/default/widgets") => {
                Some(json!({"kind": "WidgetList", "apiVersion": "example.com/v1",
                    "metadata": {"resourceVersion": "9"}, "items": self.widget.as_slice()}))
            }
            ("GET", path) if path == one => self.widget.clone(),
            ("PUT", path) if path == one => {
                let widget = self.widget.as_mut().filter(|_| !dry_run);
                if let Some(widget) = widget {
                    *widget = body.clone();
                }
                Some(body.clone())
            }
            ("GET", path) if path.strip_suffix("/scale") == Some(one) => {
                let widget = self.widget.as_ref()?;
                Some(json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": widget["metadata"],
                    "spec": {"replicas": widget["spec"]["replicas"]}}))
            }
            ("DELETE", path) if path == one => self.widget.take(),
            ("PATCH", path) if path.strip_suffix("/scale") == Some(one) => {
                let widget = self.widget.as_mut()?;
                widget["spec"]["replicas"] = body["spec"]["replicas"].clone();
                Some(json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": widget["metadata"],
                    "spec": body["spec"]}))
            }
            _ => None,
        }
    }
}

/// The server's client. Watches stay open without events; unknown objects are 404.
fn client(fake: &Arc<Mutex<WidgetServer>>) -> Client {
    let fake = fake.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let fake = fake.clone();
        async move {
            let (head, body) = request.into_parts();
            if head.uri.query().is_some_and(|query| query.contains("watch=true")) {
                std::future::pending::<()>().await;
            }
            let body = body.collect_bytes().await.unwrap_or_else(|_| bytes::Bytes::new());
            let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
            let answer = fake.lock().unwrap().answer(&head.method, &head.uri, &body);
            let (code, answer) = match answer {
                Some(answer) => (StatusCode::OK, answer),
                None => (
                    StatusCode::NOT_FOUND,
                    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                        "message": "not found", "reason": "NotFound", "code": 404}),
                ),
            };
            let response = Response::builder().status(code).header("content-type", "application/json");
            response.body(Body::from(answer.to_string().into_bytes()))
        }
    });
    Client::new(service, "default")
}

/// A console on that server, with all its I/O.
struct Console {
    stage: TestConsole,
    feed: Feed,
    runner: Runner,
    inbox: mpsc::Receiver<Message>,
}

impl Console {
    async fn new(client: Client) -> Self {
        let (sender, inbox) = mpsc::channel(64);
        let feed = Feed::start(&client, "default", &sender, &Clock::machine(), retry_policy("localhost"));
        let runner = Runner::new(client.clone(), sender);
        let mut console = Self { stage: TestConsole::new(110, 30), feed, runner, inbox };
        let found = catalogue::discover(&client).await.expect("it answers");
        console.stage.send(Message::Catalogue(found));
        console
    }

    fn work(&mut self, jobs: Vec<Job>) {
        for job in jobs {
            match job {
                Job::Start(task) => self.runner.start(task),
                Job::Act(action) => self.runner.act(*action),
                Job::Watch(kind, namespace, include) => self.feed.watch(kind, namespace, include),
                Job::Unwatch(resource) => self.feed.unwatch(&resource),
                _ => {}
            }
        }
    }

    fn press(&mut self, keys: &str) {
        let jobs = self.stage.press(keys);
        self.work(jobs);
    }

    async fn until(&mut self, expected: &str) {
        let look = async {
            while !self.stage.screen().contains(expected) {
                let message = self.inbox.recv().await.expect("the feed goes on");
                let jobs = self.stage.send(message);
                self.work(jobs);
            }
        };
        let seen = tokio::time::timeout(WAIT_TIMEOUT, look).await.is_ok();
        assert!(seen, "waited in vain for {expected:?}\n{}", self.stage.screen());
    }
}

/// A kind unknown to the console is listed, described, edited, scaled and deleted as far as discovery allows; verbs
/// that discovery does not list are neither offered nor sent.
#[tokio::test]
async fn a_custom_resource_is_as_good_as_a_pod_con_14() {
    let fake = Arc::new(Mutex::new(WidgetServer { widget: Some(widget()), requests: Vec::new() }));
    let mut console = Console::new(client(&fake)).await;
    let requests_of = |method: Method| {
        let fake = fake.lock().unwrap();
        let matching = fake.requests.iter().filter(|(known, ..)| *known == method).cloned();
        matching.collect::<Vec<_>>()
    };

    console.press(": \"widgets\" enter");
    console.until("▸ default").await;
    shows(&console.stage.screen(), &["Widgets all 1", "NAME ↑ COLOUR", "▸ default round red"]);
    let footer = console.stage.screen().lines().last().unwrap_or_default().to_owned();
    assert!(footer.contains("<s>scale") && footer.contains("<e>edit"), "{footer}");
    for (key, why) in [
        ("r", "Widgets cannot be restarted"),
        ("i", "the images of Widgets are set by editing them"),
        ("l", "Widgets have no pods with logs"),
    ] {
        assert!(!footer.contains(&format!("<{key}>")), "{key}: {footer}");
        console.press(key);
        shows(&console.stage.screen(), &[why]);
    }

    console.press("d");
    console.until("Colour").await;
    let screen = console.stage.screen();
    shows(&screen, &["describe · Widget default/round"]);
    assert!(!screen.lines().last().unwrap_or_default().contains("logs"), "{screen}");
    console.press("esc s");
    console.until("now 3").await;
    shows(&console.stage.screen(), &["Scale Widget default/round", "replicas 3▏ now 3"]);
    console.press("5 enter");
    console.until("✔ scale Widget default/round 3 → 5").await;
    let (_, path, body) = requests_of(Method::PATCH).remove(0);
    assert!(path.contains("/widgets/round/scale"), "{path}");
    assert_eq!(body, json!({"spec": {"replicas": 5}}));
    let kubectl = console.stage.model.shared.cluster.journal.entries()[0].outcome.action.kubectl.clone();
    assert_eq!(kubectl, "kubectl scale widget.example.com/round -n default --replicas=5");

    console.press("e");
    console.until("colour: red").await;
    let edited = console.stage.screen();
    assert!(!edited.contains("uid:"), "the server's fields are left out:\n{edited}");
    let screen = console.stage.model.top().0;
    let text = "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: round\n  namespace: default\nspec:\n  \
                replicas: 5\n  colour: blue\n";
    let jobs =
        console.stage.send(Message::Data(screen, Data::new(edit::EditData::External(text.to_owned()))));
    console.work(jobs);
    console.press("ctrl-s");
    console.until("the server would accept this").await;
    console.press("enter");
    console.until("✔ edit Widget default/round").await;
    let saved = requests_of(Method::PUT).into_iter().find(|(_, path, _)| !path.contains("dryRun=All"));
    assert_eq!(saved.expect("it is saved").2["spec"]["colour"], "blue");

    console.until("Widgets all 1").await;
    console.press("ctrl-d tab tab tab tab enter");
    console.until("✔ delete Widget default/round").await;
    assert_eq!(requests_of(Method::DELETE).len(), 1);
}

/// A read-only resource has no key that changes it.
#[tokio::test]
async fn a_read_only_resource_has_no_key_that_changes_it_con_18() {
    let fake = Arc::new(Mutex::new(WidgetServer::default()));
    let mut console = Console::new(client(&fake)).await;
    console.press(": \"gauges\" enter");
    console.until("no gauges in any namespace").await;
    let footer = console.stage.screen().lines().last().unwrap_or_default().to_owned();
    assert!(!footer.contains("delete") && !footer.contains("edit"), "{footer}");
    for (key, why) in [
        ("ctrl-d", "this server cannot delete Gauges"),
        ("e", "this server cannot update Gauges"),
        ("L", "this server cannot patch Gauges"),
    ] {
        console.press(key);
        assert!(console.stage.model.dialog.is_none());
        shows(&console.stage.screen(), &[why]);
    }
    console.press("?");
    let help = console.stage.screen();
    assert!(!help.contains("Edit as YAML") && !help.contains("Delete, after confirmation"), "{help}");
    // The palette does not circumvent that.
    console.press("esc : \"delete\" enter");
    shows(&console.stage.screen(), &["this server cannot delete Gauges"]);
    assert!(fake.lock().unwrap().requests.is_empty());
}
