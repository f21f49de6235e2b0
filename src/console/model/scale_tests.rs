//! `s` on a custom resource reads the count from the scale subresource, which knows the field (CON-6).

use std::sync::Arc;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::tabs_tests::{TestConsole, widgets};
use super::*;
use console_data::action::Action;
use console_data::catalogue::Catalogue;
use console_data::message::Data;
use console_data::message::Message;
use console_data::resource::Kind;
use console_data::server_table::ServerTable;
use console_data::store::{Change, Delta};
use console_operations::effect::Runner;

/// The response to a read of the scale subresource; `None` for no response.
type ScaleResponse = Option<(u16, Value)>;

fn scale(replicas: i32) -> (u16, Value) {
    (
        200,
        json!({"kind": "Scale", "apiVersion": "autoscaling/v1",
            "metadata": {"name": "fleet", "namespace": "default", "uid": "fleet"},
            // As Go encodes it: the field is omitted if it is 0.
            "spec": if replicas == 0 { json!({}) } else { json!({"replicas": replicas}) }, "status": {}}),
    )
}

fn failure(code: u16, message: &str) -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": "", "code": code});
    (code, status)
}

/// A console on a table of one widget; its server gives these responses in order, and repeats the last.
struct ScaleConsole {
    stage: TestConsole,
    runner: Runner,
    messages: mpsc::Receiver<Message>,
    responses: Arc<Mutex<Vec<ScaleResponse>>>,
}

impl ScaleConsole {
    fn new(answers: &[ScaleResponse]) -> Self {
        let answers = Arc::new(Mutex::new(answers.to_vec()));
        let given = answers.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let given = given.clone();
            async move {
                assert_eq!(request.uri().path(), "/apis/x.io/v1/namespaces/default/widgets/fleet/scale");
                let answer = {
                    let mut given = given.lock();
                    if given.len() > 1 { given.remove(0) } else { given[0].clone() }
                };
                let Some((code, value)) = answer else { return std::future::pending().await };
                let response = Response::builder().status(code).header("content-type", "application/json");
                Ok::<_, kube::Error>(response.body(Body::from(value.to_string().into_bytes())).unwrap())
            }
        });
        let (sender, messages) = mpsc::channel(16);
        let runner = Runner::new(Client::new(service, "default"), sender);
        let mut facts = (*widgets("widgets")).clone();
        facts.verbs.insert("patch".to_owned());
        facts.subresources.insert("scale".to_owned(), ["get", "patch"].map(String::from).into());
        let kind = Kind::new(facts);
        let mut stage = TestConsole::new(100, 24);
        stage.model.update(Message::Catalogue(Catalogue::of(vec![kind.clone()])), stage.now);
        stage.press(": \"widgets\" enter");
        let table = json!({"kind": "Table", "metadata": {"resourceVersion": "1"},
            "columnDefinitions": [{"name": "Name", "type": "string"}],
            "rows": [{"cells": ["fleet"], "object": {"metadata": {"name": "fleet", "namespace": "default", "uid": "fleet"}}}]});
        let table: ServerTable = serde_json::from_value(table).unwrap();
        let rows = table.rows.into_iter().map(Arc::new).collect();
        stage.feed(Delta::of_table(
            kind.resource.clone(),
            Some(table.column_definitions),
            vec![Change::Reset(rows)],
        ));
        Self { stage, runner, messages, responses: answers }
    }

    /// Presses keys. Returns the requested changes of the cluster.
    fn press(&mut self, keys: &str) -> Vec<Action> {
        let mut actions = Vec::new();
        for job in self.stage.press(keys) {
            match job {
                Job::Start(task) => self.runner.start(task),
                Job::Cancel(screen, slot) => self.runner.cancel(screen, slot),
                Job::Act(action) => actions.push(*action),
                _ => {}
            }
        }
        actions
    }

    /// Handles the next message of the running task.
    async fn handle_next_message(&mut self) {
        let message = self.messages.recv().await.expect("the task lives");
        self.stage.model.update(message, self.stage.now);
    }

    fn shows(&mut self, expected: &[&str]) {
        let screen = self.stage.screen();
        let words: Vec<&str> =
            screen.split(|c: char| c.is_whitespace() || c == '│').filter(|word| !word.is_empty()).collect();
        let joined = words.join(" ");
        for text in expected {
            assert!(joined.contains(text), "no {text:?} in\n{screen}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_custom_resource_is_scaled_from_the_count_of_its_scale_subresource_con_6() {
    let mut desk = ScaleConsole::new(&[Some(scale(3))]);
    desk.press("s");
    desk.shows(&["Scale widgets default/fleet", "reading…"]);
    // Keys may arrive before the response.
    assert!(desk.press("5 enter").is_empty());
    desk.shows(&["fleet: its replicas are still being read; try again in a moment"]);
    desk.handle_next_message().await;
    desk.shows(&["replicas 5▏ now 3"]);
    let done = desk.press("enter");
    assert_eq!(done[0].title, "scale widgets default/fleet 3 → 5");
    let back = done[0].inverse.as_ref().expect("the way back");
    assert_eq!(back.title, "scale widgets default/fleet 5 → 3");

    // The field shows the present count until the user types; also 0.
    for (count, stands) in [(3, "replicas 3▏ now 3"), (0, "replicas 0▏ now 0")] {
        let mut desk = ScaleConsole::new(&[Some(scale(count))]);
        desk.press("s");
        desk.handle_next_message().await;
        desk.shows(&[stands]);
        assert!(desk.press("enter").is_empty());
        desk.shows(&["nothing to change"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_count_that_cannot_be_read_says_why_and_can_be_set_all_the_same_con_6() {
    let forbidden = "widgets.x.io \"fleet\" is forbidden: User \"ann\" cannot get resource \"widgets/scale\"";
    let silent = "no answer within 5 s";
    let no_field = "the spec replicas field \".spec.size\" does not exist";
    for (answer, why) in
        [(Some(failure(403, forbidden)), forbidden), (None, silent), (Some(failure(500, no_field)), no_field)]
    {
        let mut desk = ScaleConsole::new(&[answer]);
        desk.press("s");
        desk.handle_next_message().await;
        desk.shows(&["now unknown", &format!("cannot read the replicas of fleet: {why}")]);
        let done = desk.press("5 enter");
        assert_eq!(done[0].title, "scale widgets default/fleet to 5", "{why}");
        assert!(done[0].inverse.is_none());
    }
    // A late response fills a field that is still empty.
    let mut desk = ScaleConsole::new(&[None, Some(scale(3))]);
    desk.press("s");
    desk.handle_next_message().await;
    desk.shows(&["now unknown"]);
    desk.handle_next_message().await;
    desk.shows(&["replicas 3▏ now 3"]);
    assert!(!desk.stage.screen().contains("cannot read"), "{}", desk.stage.screen());
}

#[tokio::test(start_paused = true)]
async fn changes_of_a_custom_resource_appear_in_its_open_scale_dialog_con_6() {
    let mut desk = ScaleConsole::new(&[Some(scale(3)), Some(scale(7))]);
    desk.press("s");
    desk.handle_next_message().await;
    desk.handle_next_message().await;
    desk.shows(&["replicas 3▏ now 3", "⚠ fleet has 7 now"]);
    assert!(desk.press("enter").is_empty());
    desk.shows(&["fleet has 7 now, not 3: enter again scales back"]);
    let done = desk.press("enter");
    assert_eq!(done[0].title, "scale widgets default/fleet 7 → 3");

    // The object is deleted, or was replaced by another.
    let mut other = scale(3);
    other.1["metadata"]["uid"] = json!("another");
    let not_found = "widgets.x.io \"fleet\" not found";
    for (answer, why) in
        [(Some(failure(404, not_found)), not_found), (Some(other), "it was deleted and created again")]
    {
        let mut desk = ScaleConsole::new(&[Some(scale(3)), answer]);
        desk.press("s");
        desk.handle_next_message().await;
        desk.handle_next_message().await;
        desk.shows(&[&format!("fleet: {why}")]);
        assert!(desk.press("5 enter").is_empty());
        assert!(desk.stage.model.dialog.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn the_count_is_read_no_longer_than_the_dialog_is_open_con_6() {
    let mut desk = ScaleConsole::new(&[Some(scale(3)), Some(scale(4))]);
    desk.press("s");
    desk.handle_next_message().await;
    desk.press("esc");
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    assert!(desk.messages.try_recv().is_err());
    assert_eq!(desk.responses.lock().len(), 1, "it was asked once");
    // A message that arrives after the dialog closed is dropped.
    let id = desk.stage.model.top().0;
    desk.stage.model.update(Message::DialogData(id, Data::new(())), desk.stage.now);
    assert!(desk.stage.model.dialog.is_none());
}
