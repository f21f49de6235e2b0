//! Port-forwards: started from a pod, active while other screens are open, and moved to a pod's successor (CON-16).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use podium::console::model::Job;
use podium::console_data::builtin_kinds;
use podium::console_data::message::{Data, Message};
use podium::console_data::resource::ObjectRef;
use podium::console_data::store::{Change, Delta};
use podium::console_operations::effect::ForwardRequest;
use podium::console_screens::forwards::ForwardsData;
use podium::console_screens::forwards::forwarder::{self, Order, Report, State};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

use super::shows;
use super::test_console::{TestConsole, cluster, objects, pod};
use crate::instance::{DataDir, wait_for};
use crate::needs::needs;

#[test]
fn a_port_is_forwarded_in_the_background_con_16() {
    let mut stage = TestConsole::new(120, 36);
    stage.feed(cluster());
    let mut api = pod("default", "api-1-a", Some("api-1"), Some("node-1"), "Running", 7100);
    api["spec"]["containers"][0]["ports"] = json!([{"name": "http", "containerPort": 8080},
        {"name": "dns", "containerPort": 53, "protocol": "UDP"}]);
    stage.feed(vec![Delta::of::<Pod>(vec![Change::Applied(objects([api]).remove(0))])]);
    stage.press(": \"pf\" enter");
    shows(&stage.screen(), &["no port is forwarded; <F> on a pod, service or workload forwards one"]);
    stage.press("~ p F");
    shows(&stage.screen(), &["Forward a port of Pod default/api-1-a", "▸ port of the pod 8080▏ 8080 http"]);
    for (keys, why) in
        [("ctrl-u enter", "port of the pod: required"), ("ctrl-u 9 9 9 9 9 enter", "at most 65535")]
    {
        stage.press(keys);
        shows(&stage.screen(), &[why]);
        stage.press("esc F");
    }
    let jobs = stage.press("tab 1 8 0 8 0 enter");
    assert!(jobs.iter().any(|job| matches!(job, Job::Start(_))), "{jobs:?}");
    shows(&stage.screen(), &["⧗ 1 port-forward"]);
    assert!(stage.screen().contains("Pods all"), "the current screen stays");
    let (id, ()) =
        *stage.model.background(stage.now).first().map(|(id, _)| (*id, ())).as_ref().expect("it goes on");
    let tell = |stage: &mut TestConsole, state: State| {
        stage.send(Message::Data(id, Data::new(ForwardsData::Report(Report { id: 1, state }))));
    };
    let address = "127.0.0.1:18080".parse().unwrap();
    tell(&mut stage, State::Listening { address, open: 0, all: 0, last_error: None, pod: None });
    shows(&stage.screen(), &["✔ 127.0.0.1:18080 forwards to default/api-1-a:8080"]);
    // A second forward is added to the same list.
    stage.press("j F ctrl-u 8 0 enter");
    shows(&stage.screen(), &["⧗ 2 port-forwards"]);
    stage.press(": \"pf\" enter");
    tell(
        &mut stage,
        State::Listening {
            address,
            open: 2,
            all: 17,
            last_error: Some("it hung up".to_owned()),
            pod: Some("api-1-a".to_owned()),
        },
    );
    shows(
        &stage.screen(),
        &[
            "Port-forwards 2",
            "▸ ◐ 127.0.0.1:18080 → default/api-1-a:8080 2 open, 17 in all · last: it hung up",
        ],
    );
    // A reason that does not fit into the row is below it.
    stage.resize(80, 24);
    let last_error = Some("api-1-a is gone, and no similar pod is running".to_owned());
    tell(&mut stage, State::Listening { address, open: 2, all: 17, last_error, pod: None });
    let screen = stage.screen();
    let words: Vec<&str> = screen.split(['│', ' ', '\n']).filter(|word| !word.is_empty()).collect();
    assert!(words.join(" ").contains("last: api-1-a is gone, and no similar pod is running"), "{screen}");
    stage.resize(120, 36);
    // The pod is replaced: connections go to its successor.
    let pod = Some("api-1-c".to_owned());
    tell(&mut stage, State::Listening { address, open: 1, all: 18, last_error: None, pod });
    shows(&stage.screen(), &["▸ ● 127.0.0.1:18080 → default/api-1-c:8080 1 open, 18 in all"]);
    stage.press("esc ctrl-c");
    shows(&stage.screen(), &["1 background task will be stopped."]);
    stage.press("esc : \"pf\" enter ctrl-d");
    shows(&stage.screen(), &["Port-forwards 1", "stopped forwarding default/api-1-c:8080"]);
    // A port that cannot be bound leaves no forward: the dialog requests another port.
    let tell = |stage: &mut TestConsole, forward: u64, state: State| {
        stage.send(Message::Data(id, Data::new(ForwardsData::Report(Report { id: forward, state }))));
    };
    tell(&mut stage, 2, State::Failed("address in use".to_owned()));
    shows(
        &stage.screen(),
        &[
            "Port-forwards 0", "Forward a port of Pod default/api-1-b", "port of the pod 80", "▸ local port",
            "✖ address in use",
        ],
    );
    stage.press("1 9 0 9 0 enter");
    shows(&stage.screen(), &["Port-forwards 1", "127.0.0.1:19090 → default/api-1-b:80"]);
    // The console reports a forward that ends later.
    let address = "127.0.0.1:19090".parse().unwrap();
    tell(&mut stage, 3, State::Listening { address, open: 0, all: 0, last_error: None, pod: None });
    tell(&mut stage, 3, State::Failed("the pod is gone".to_owned()));
    shows(&stage.screen(), &["no port is forwarded", "✖ port-forward: the pod is gone"]);
    assert!(stage.model.dialog.is_none());
    let mut looking = TestConsole::with(120, 36, podium::console_data::scope::Scope::All, true);
    looking.feed(cluster());
    looking.press("p F");
    assert!(looking.model.dialog.is_none());
    shows(&looking.screen(), &["✖ read-only"]);
}

const WEB: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 1\n  \
    selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec:\n      \
    terminationGracePeriodSeconds: 1\n      containers:\n      - {name: c, image: 'nginx:1.25', ports: [{containerPort: 80}]}\n";

/// Fetches a page over the forwarded port.
async fn get(address: std::net::SocketAddr) -> String {
    let request = async {
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.expect("written");
        let mut answer = Vec::new();
        // A connection that fails at its end has delivered its data.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    };
    tokio::time::timeout(Duration::from_secs(30), request).await.expect("the connection ends")
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_reach_the_pod_and_its_successor_con_16() {
    needs!(Kubectl);
    let home = DataDir::new();
    let server = home.start(&["--nodes", "1"]);
    let file = home.path("web.yaml");
    std::fs::write(&file, WEB).unwrap();
    server.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    server.kubectl(&["rollout", "status", "deploy/web", "--timeout=60s"]);
    let client = server.impatient_client().await;
    let pods: kube::Api<Pod> = kube::Api::default_namespaced(client.clone());
    let first = pods.list(&kube::api::ListParams::default()).await.unwrap().items.remove(0);
    let forward = |local| ForwardRequest {
        pod: ObjectRef::of(builtin_kinds::kind::<Pod>(), &first),
        remote: 80,
        local,
    };
    let (orders, waiting) = mpsc::unbounded_channel();
    let (reports, mut reported) = mpsc::unbounded_channel();
    let tell: forwarder::ReportFn = Arc::new(move |report| {
        let _ = reports.send(report);
        Box::pin(std::future::ready(()))
    });
    let carrying = tokio::spawn(forwarder::run_forwards(client, waiting, tell));
    orders.send(Order::Start(1, forward(0))).unwrap();
    let Some(Report { state: State::Listening { address, .. }, .. }) = reported.recv().await else {
        panic!("it listens")
    };
    let page = get(address).await;
    assert!(page.starts_with("HTTP/1") && page.contains("200"), "{page}");
    // The port is in use: the second forward reports that, and the first is not affected.
    orders.send(Order::Start(2, forward(address.port()))).unwrap();
    let failed = async {
        loop {
            if let State::Failed(why) = reported.recv().await.expect("a report").state {
                return why;
            }
        }
    };
    let why = tokio::time::timeout(Duration::from_secs(30), failed).await.expect("a report");
    assert!(why.contains("in use"), "{why}");
    // The pod is replaced: the same port leads to its successor.
    server.kubectl(&["delete", "pod", first.metadata.name.as_deref().unwrap(), "--wait=true"]);
    server.kubectl(&["rollout", "status", "deploy/web", "--timeout=60s"]);
    // The program may not listen yet when its container has started.
    let served = async {
        while !get(address).await.contains("200") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), served).await.expect("the successor answers");
    orders.send(Order::Stop(1)).unwrap();
    wait_for("the port to be closed", || std::net::TcpStream::connect(address).is_err().then_some(()));
    drop(orders);
    carrying.await.unwrap();
    server.stop();
}
