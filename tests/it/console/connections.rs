//! The console's screens for connections of a pod and for the meaning of policies, with given results.

use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Service;
use kube::Client;
use podium::console::model::Job;
use podium::console_data::message::{Data, Message};
use podium::console_data::store::{Change, Delta};
use podium::console_operations::diagnostics::{Diagnostics, PolicyTarget};
use podium::console_operations::effect::Runner;
use podium::console_screens::connection::ConnectionData;
use podium::console_screens::connection::report::Report;
use podium::console_screens::describe::DescribeData;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::shows;
use super::test_console::{TestConsole, ago, cluster, objects, pod};

/// Answers every query, and records it.
#[derive(Debug, Default)]
struct FakeDiagnostics {
    requests: Mutex<Vec<(String, String)>>,
}

impl Diagnostics for FakeDiagnostics {
    fn diagnose_connection(
        &self,
        _client: Client,
        source: String,
        destination: String,
    ) -> BoxFuture<'static, Result<Value, String>> {
        self.requests.lock().unwrap().push((source, destination));
        async { Ok(refused()) }.boxed()
    }

    fn policies(
        &self,
        _client: Client,
        object: PolicyTarget,
    ) -> BoxFuture<'static, Result<Vec<String>, String>> {
        async move { Ok(vec![format!("{object:?}")]) }.boxed()
    }
}

fn refused() -> Value {
    json!({
        "source": "default/api-1-a", "destination": "web:8080",
        "findings": [
            {"step": "name", "state": "fine", "text": "web is web.default.svc.cluster.local: 10.96.0.7"},
            {"step": "endpoints", "state": "problem", "details": ["default/web-1 has app=web, not app=wbe"],
             "text": "no endpoints: the selector app=wbe matches no pod, and this sentence is longer than the screen is wide"},
            {"step": "policy", "state": "note", "text": "not enforced here"},
        ],
        "verdict": {"connected": false, "reason": "no endpoints: the selector app=wbe matches no pod",
                    "advice": "make the selector and the pods' labels agree"},
    })
}

/// Sends a line as the screen's task would.
fn tell(stage: &mut TestConsole, data: Data) {
    let (screen, _) = stage.model.top();
    let screen = *screen;
    stage.send(Message::Data(screen, data));
}

fn client() -> Client {
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        Err::<http::Response<kube::client::Body>, std::io::Error>(std::io::ErrorKind::NotConnected.into())
    });
    Client::new(service, "default")
}

/// NET-8, CON-2: the key opens a dialog for the destination, and the walk is drawn with a glyph and a word for each
/// state.
#[tokio::test]
async fn a_dialog_takes_the_destination_and_the_path_is_shown_step_by_step_net_8() {
    for (width, height) in [(80, 24), (140, 40)] {
        let mut stage = TestConsole::new(width, height);
        stage.feed(cluster());
        stage.press("p / \"api-1-a\" enter C");
        shows(&stage.screen(), &["Check connections from Pod default/api-1-a"]);
        stage.press("enter");
        shows(&stage.screen(), &["the destination is required"]);
        let jobs = stage.press("\"web:8080\" enter");
        shows(
            &stage.screen(),
            &["why not connected · default/api-1-a → web:8080", "checking the connection …"],
        );

        let fake = Arc::new(FakeDiagnostics::default());
        let (sender, mut inbox) = mpsc::channel(8);
        let mut runner = Runner::new(client(), sender).diagnosing(Some(fake.clone()));
        for job in jobs {
            if let Job::Start(task) = job {
                runner.start(task);
            }
        }
        let walked = inbox.recv().await.expect("the result of the walk");
        stage.send(walked);
        assert_eq!(*fake.requests.lock().unwrap(), [("default/api-1-a".to_owned(), "web:8080".to_owned())]);
        let screen = stage.screen();
        shows(
            &screen,
            &[
                "✖ not connected: no endpoints: the selector app=wbe matches no pod",
                "→ make the selector and the pods' labels agree",
                "✔ name web is web.default.svc.cluster.local: 10.96.0.7",
                "✖ endpoints no endpoints: the selector app=wbe matches no pod",
                "default/web-1 has app=web, not app=wbe",
                "· policy not enforced here",
                "checked 0s ago",
                "<r>again <c>copy",
            ],
        );
        assert!(width > 100 || screen.contains("wide"), "a long sentence is broken, not cut\n{screen}");
    }
}

/// NET-8: for a service, the dialog requires the source pod; without a way to walk, the screen reports that; earlier
/// results stay.
#[tokio::test]
async fn the_dialog_for_a_path_to_a_service_takes_the_source_pod_net_8() {
    let mut stage = TestConsole::new(100, 30);
    stage.feed(cluster());
    let service = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "svc-web", "creationTimestamp": ago(60)},
        "spec": {"clusterIP": "10.96.0.7", "ports": [{"port": 80}]}});
    stage.feed(vec![Delta::of::<Service>(vec![Change::Applied(objects([service]).remove(0))])]);
    stage.press("s C");
    shows(&stage.screen(), &["Check connections to Service shop/web"]);
    let jobs = stage.press("\"client\" tab \"80\" enter");
    shows(&stage.screen(), &["why not connected · shop/client → svc/shop/web:80"]);
    let (sender, mut inbox) = mpsc::channel(8);
    let mut runner = Runner::new(client(), sender);
    for job in jobs {
        if let Job::Start(task) = job {
            runner.start(task);
        }
    }
    stage.send(inbox.recv().await.expect("an answer"));
    shows(&stage.screen(), &["✖ this console cannot check connections"]);
    tell(&mut stage, Data::new(ConnectionData::Finished(Report::read(refused()).unwrap())));
    tell(&mut stage, Data::new(ConnectionData::Failed("the server does not answer".into())));
    shows(&stage.screen(), &["✖ the server does not answer", "✖ not connected: no endpoints"]);
    let again = stage.press("r");
    assert!(again.iter().any(|job| matches!(job, Job::Start(_))), "it is walked again");
    assert!(Report::read(json!({"findings": 1})).is_err());
}

/// NET-8: the description of a pod lists the policies that select it, and the connections they allow.
#[test]
fn a_description_tells_what_policies_mean_net_8() {
    let mut stage = TestConsole::new(80, 24);
    stage.feed(cluster());
    stage.press("p / \"api-1-a\" enter d");
    let mut object = pod("default", "api-1-a", Some("api-1"), Some("node-1"), "Running", 7100);
    object["kind"] = json!("Pod");
    tell(&mut stage, Data::new(DescribeData::Object(Box::new(object))));
    let lines =
        ["ingress: isolated by default/friends", "  lets through app=friend on 80 (policy default/friends)"];
    tell(&mut stage, Data::new(DescribeData::Policies(lines.map(str::to_owned).to_vec())));
    shows(&stage.screen(), &["describe · Pod default/api-1-a"]);
    stage.press("G");
    shows(&stage.screen(), &[&format!("Network Policies: {}", lines[0]), lines[1]]);
}
