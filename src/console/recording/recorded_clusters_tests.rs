//! Tests of other clusters, contexts and port-forwards, from a session to its replay (CON-21).

use std::convert::Infallible;
use std::time::Duration;

use crossterm::event::Event;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::connect_events::{ConnectEvent, ConnectRequest};
use super::format::{Recording, SessionHeader, VERSION};
use super::recorder::Session;
use super::replay::{ReplayOptions, Screen, replay};
use console_data::context::ScreenId;
use console_data::contexts::{ConnectedCluster, ContextEntry, Identity};
use console_data::message::{Data, Message};
use console_data::resource::ClusterId;
use console_screens::forwards::ForwardsData;
use console_screens::forwards::forwarder::{Report, State};
use console_toolkit::keys::Key;

fn pods(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": [
        {"metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "7",
            "creationTimestamp": "2026-11-26T05:58:00Z"},
         "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]},
         "status": {"phase": "Running", "containerStatuses": [{"name": "c", "ready": true, "restartCount": 0,
            "image": "i", "imageID": "", "state": {"running": {"startedAt": "2026-11-26T05:58:00Z"}}}]}}]})
}

fn beginning(version: u32) -> Value {
    json!({"at": 0, "begun": {"version": version, "now": "2026-11-26T06:00:00Z", "columns": 100, "rows": 24,
        "cluster": "home", "origin": "10.0.0.1:6443", "namespace": null, "theme": "night", "readOnly": false}})
}

/// A pod list request over a connection, answered at this time.
fn pod_list_request(id: u64, connection: u64, at: u64, name: &str) -> Vec<Value> {
    vec![
        json!({"at": at, "asked": {"id": id, "connection": connection, "method": "GET",
            "path": "/api/v1/pods?limit=500"}}),
        json!({"at": at, "answered": {"id": id, "status": 200, "contentType": "application/json"}}),
        json!({"at": at, "told": {"id": id, "text": pods(name).to_string()}}),
        json!({"at": at, "over": {"id": id, "broken": false}}),
    ]
}

/// The input events for these keys from a time on, one each tenth of a second.
fn typed(from: u64, script: &str) -> Vec<Value> {
    let keys = script.split(' ').flat_map(|word| match word.strip_prefix('"') {
        Some(text) => text
            .trim_end_matches('"')
            .chars()
            .map(|c| if c == '_' { "space".into() } else { c.to_string() })
            .collect(),
        None => vec![word.to_owned()],
    });
    let line = |(number, key): (u64, String)| json!({"at": from + 100 * number, "input": Event::Key(Key::parse(&key).expect("a key").event())});
    (0..).zip(keys).map(line).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "a literal each time")]
fn reached(id: u64, at: u64, event: Value) -> Value {
    json!({"at": at, "reached": {"id": id, "told": event}})
}

fn began(id: u64, at: u64, context: &str, goes: bool) -> Value {
    reached(id, at, json!({"began": {"context": context, "goes": goes}}))
}

fn answered(id: u64, at: u64, connection: u64) -> Value {
    reached(
        id,
        at,
        json!({"answered": {"connection": connection, "origin": "10.0.0.2:6443", "namespace": null}}),
    )
}

fn parsed(lines: &[Value]) -> Result<Recording, String> {
    let text: String = lines.iter().map(|line| line.to_string() + "\n").collect();
    Recording::parse(text.as_bytes()).map_err(|error| error.to_string())
}

fn play(lines: &[Value]) -> Vec<Screen> {
    replay(parsed(lines).expect("a recording"), &ReplayOptions::default()).expect("it plays").0
}

/// Returns the last screen.
fn last(lines: &[Value]) -> String {
    play(lines).last().expect("there is an end").text()
}

#[test]
fn a_table_over_two_clusters_has_the_rows_of_both_con_21() {
    let mut lines = vec![beginning(VERSION)];
    lines.extend(pod_list_request(0, 0, 20, "web-home"));
    lines.extend(typed(1000, ": \"pods_@-_@far\" enter"));
    lines.push(began(0, 2600, "far", false));
    lines.push(reached(0, 2700, json!({"silent": {"why": "far is down", "againIn": 500}})));
    lines.push(answered(0, 3300, 1));
    lines.extend(pod_list_request(1, 1, 3400, "web-far"));
    lines.extend(typed(6000, "j k"));
    let screens = play(&lines);
    let end = screens.last().expect("an end").text();
    for expected in ["web-home", "web-far", "far"] {
        assert!(end.contains(expected), "{expected}\n{end}");
    }
    assert_eq!(play(&lines), screens, "it is always the same");
    // A cluster that is not in the recording is reported as such.
    let mut lines = vec![beginning(VERSION)];
    lines.extend(pod_list_request(0, 0, 20, "web-home"));
    lines.extend(typed(1000, ": \"pods_@-_@far\" enter"));
    lines.extend(typed(4000, "j"));
    let end = last(&lines);
    assert!(end.contains("web-home") && end.contains("is not in the recording"), "{end}");
}

#[test]
fn one_goes_to_another_cluster_and_back_con_21() {
    let mut lines = vec![beginning(VERSION)];
    lines.extend(pod_list_request(0, 0, 20, "web-home"));
    lines.push(
        json!({"at": 30, "contexts": {"shown": false, "listed": {"Ok": [{"name": "far", "cluster": "c",
        "server": "https://10.0.0.2:6443", "user": "u", "namespace": null, "is_current": false}]}}}),
    );
    lines.extend(typed(1000, ": \"ctx_far\" enter"));
    lines.push(began(0, 1900, "far", true));
    lines.push(answered(0, 2400, 1));
    lines.extend(pod_list_request(1, 1, 2500, "web-far"));
    lines.extend(typed(4000, ": \"pods\" enter"));
    let there = last(&lines);
    assert!(there.contains("web-far") && there.contains("far") && !there.contains("web-home"), "{there}");
    lines.extend(typed(6000, ": \"ctx_-\" enter"));
    lines.extend(pod_list_request(2, 0, 6700, "web-again"));
    lines.extend(typed(8000, ": \"pods\" enter"));
    let back = last(&lines);
    assert!(back.contains("web-again") && !back.contains("web-far"), "{back}");
    // A cluster that did not answer is shown as such.
    let mut lines = vec![beginning(VERSION)];
    lines.extend(typed(1000, ": \"ctx_far\" enter"));
    lines.push(began(0, 1900, "far", true));
    lines.push(reached(0, 2000, json!({"silent": {"why": "far does not\u{1b}[2J answer", "againIn": null}})));
    let end = last(&lines);
    assert!(end.contains("answer") && end.contains("home") && !end.contains('\u{1b}'), "{end}");
    let mut lines = vec![beginning(VERSION)];
    lines.extend(typed(1000, ": \"ctx_far\" enter"));
    assert!(last(&lines).contains("this cluster is not in the recording"));
}

#[test]
fn port_forwards_are_shown_as_they_were_con_21() {
    let session = |version: u32, reports: &[Value]| {
        let mut lines = vec![beginning(version)];
        lines.extend(pod_list_request(0, 0, 20, "web-home"));
        lines.extend(typed(1000, ": \"pods\" enter F 8 0 enter enter"));
        lines.extend(reports.iter().map(|report| json!({"at": 2500, "forwards": {"id": 0, "told": report}})));
        lines.extend(typed(2600, ": \"pf\" enter"));
        last(&lines)
    };
    let listening = json!({"id": 1, "state": {"Listening": {"address": "127.0.0.1:8080", "open": 2, "all": 17,
        "last_error": null}}});
    let end = session(VERSION, &[Value::Null, listening]);
    for expected in ["127.0.0.1:8080", "default/web-home:80", "2 open, 17 in all"] {
        assert!(end.contains(expected), "{expected}\n{end}");
    }
    let end = session(VERSION, &[]);
    assert!(end.contains("these port-forwards are not in the recording"), "{end}");
    let end = session(2, &[]);
    assert!(end.contains("port-forwards are not in the recording:"), "{end}");
}

#[test]
fn invalid_records_of_other_clusters_are_rejected_with_their_line_con_21() {
    let silent = json!({"silent": {"why": "no", "againIn": null}});
    for (line, why) in [
        (reached(0, 1, silent.clone()), "line 2: unknown attempt 0"),
        (reached(u64::MAX, 1, silent), "line 2: unknown attempt 18446744073709551615"),
        (began(1, 1, "far", true), "line 2: attempt 1 is out of order"),
        (
            json!({"at": 1, "forwards": {"id": 3, "told": null}}),
            "line 2: port-forward screen 3 is out of order",
        ),
        (
            json!({"at": 1, "forwards": {"id": 0, "told": {"id": 1, "state": "Starting"}}}),
            "line 2: unknown port-forward screen 0",
        ),
    ] {
        assert_eq!(parsed(&[beginning(VERSION), line]).map(drop).unwrap_err(), why);
    }
    // A connection without requests does not prevent the replay.
    let mut lines = vec![beginning(VERSION)];
    lines.extend(typed(1000, ": \"ctx_far\" enter"));
    lines.extend([began(0, 1900, "far", true), answered(0, 2400, 77)]);
    assert!(last(&lines).contains("far"));
}

fn connected(name: &str) -> ConnectedCluster {
    let service = tower::service_fn(|_: http::Request<Body>| async {
        Ok::<_, Infallible>(http::Response::new(Body::from(b"{\"major\": \"1\"}".to_vec())))
    });
    let client = Client::new(service, "default");
    ConnectedCluster { name: Some(name.to_owned()), origin: "10.0.0.2:6443".into(), namespace: None, client }
}

#[tokio::test]
async fn responses_of_other_clusters_are_recorded_under_their_cluster_con_21() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("session");
    let header: SessionHeader = serde_json::from_value(beginning(VERSION)["begun"].clone()).unwrap();
    let session = Session::begin(&path, header).unwrap();
    let recorder = session.recorder();
    let now = "2026-11-26T06:00:00Z".parse().unwrap();
    let entry = ContextEntry {
        name: "far".into(),
        cluster: "c".into(),
        server: "https://10.0.0.2:6443".into(),
        user: "u".into(),
        namespace: None,
        is_current: false,
    };
    recorder.message(&mut Message::Contexts(Ok(vec![entry.clone()])), now);
    let cluster = ClusterId::joined(1);
    recorder.joins(cluster, Some("far"));
    let unreachable = Message::Unreachable { reason: "no".into(), retry_at: now + Duration::from_secs(2) };
    recorder.message(&mut Message::On(cluster, Box::new(unreachable)), now);
    let mut joined =
        Message::On(cluster, Box::new(Message::Joined(Box::new((connected("far"), Identity::default())))));
    recorder.message(&mut joined, now);
    let Message::On(_, inner) = joined else { panic!("it is one") };
    let Message::Joined(inner) = *inner else { panic!("it is one") };
    let version_request = || http::Request::get("/version").body(Vec::new()).unwrap();
    inner.0.client.request_text(version_request()).await.unwrap();
    recorder.record_context_switch("other");
    let mut switched = Message::Connected(Box::new(connected("other")));
    recorder.message(&mut switched, now);
    let Message::Connected(gone) = switched else { panic!("it is one") };
    gone.client.request_text(version_request()).await.unwrap();
    recorder.record_context_switch("third");
    recorder.record_failed_switch("it is down");
    let screen = ScreenId::new(7, ClusterId::HOME);
    recorder.forwards_begin(screen);
    let report = Report { id: 1, state: State::Failed("in use".into()) };
    let mut message = Message::Data(screen, Data::new(ForwardsData::Report(report.clone())));
    recorder.message(&mut message, now);
    drop(recorder);
    drop((inner, gone));
    session.end().await.unwrap();

    let recording = Recording::read(&path).unwrap();
    let over: Vec<(u64, &str)> =
        recording.exchanges.iter().map(|(of, request, _)| (*of, &*request.1)).collect();
    assert_eq!(over, [(1, "/version"), (2, "/version")]);
    assert!(recording.exchanges.iter().all(|(_, _, exchange)| !exchange.chunks.is_empty()));
    assert_eq!(
        recording.contexts.iter().map(|(_, listed)| listed.clone()).collect::<Vec<_>>(),
        [Ok(vec![entry])]
    );
    let requests: Vec<ConnectRequest> =
        recording.attempts.iter().map(|attempt| attempt.request.clone()).collect();
    let of = |context: &str, goes| ConnectRequest { context: Some(context.to_owned()), goes };
    assert_eq!(requests, [of("far", false), of("other", true), of("third", true)]);
    let events: Vec<Vec<&ConnectEvent>> = recording
        .attempts
        .iter()
        .map(|attempt| attempt.events.iter().map(|(_, event)| event).collect())
        .collect();
    let answered =
        |connection| ConnectEvent::Answered { connection, origin: "10.0.0.2:6443".into(), namespace: None };
    let silent = |reason: &str, again_in| ConnectEvent::Silent { why: reason.to_owned(), again_in };
    assert_eq!(events[0], [&silent("no", Some(2000)), &answered(1)]);
    assert_eq!(events[1], [&answered(2)]);
    assert_eq!(events[2], [&silent("it is down", None)]);
    assert_eq!(recording.forwards.len(), 1);
    assert_eq!(recording.forwards[0][0].1, report);
}

#[tokio::test]
async fn a_recording_of_one_cluster_contains_nothing_of_the_kubeconfig_con_21() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("session");
    let header: SessionHeader = serde_json::from_value(beginning(VERSION)["begun"].clone()).unwrap();
    let session = Session::begin(&path, header).unwrap();
    let listed = Err("/home/me/.kube/config: secret place".to_owned());
    session.recorder().message(&mut Message::Contexts(listed), "2026-11-26T06:00:00Z".parse().unwrap());
    session.end().await.unwrap();
    assert!(!std::fs::read_to_string(&path).unwrap().contains("secret place"));
}
