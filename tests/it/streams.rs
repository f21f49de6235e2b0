//! kubectl's long connections, in both of its protocols: exec, cp, port-forward; and the proxy (API-3, API-6, EPH-2).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use futures::AsyncReadExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, LogParams, PostParams};
use kube::runtime::wait::await_condition;
use object::pod::is_ready;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::instance::{ChildGuard, DataDir, Instance};
use crate::needs::needs;

const PODS: &str = r"
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: nginx, image: 'nginx:1.25', ports: [{containerPort: 80, name: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 8000, targetPort: http}]
---
apiVersion: v1
kind: Pod
metadata: {name: box}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: box, image: busybox, command: [sh, -c, 'echo one; echo two; sleep 100000']}
";

/// Both protocols of one kubectl: of versions before 1.30, and of later ones.
const PROTOCOLS: [(&str, &str); 2] = [("SPDY", "false"), ("WebSocket", "true")];

fn kubectl(instance: &Instance, web_sockets: &str, arguments: &[&str]) -> Command {
    let mut command = instance.kubectl_command();
    command
        .env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", web_sockets)
        .env("KUBECTL_PORT_FORWARD_WEBSOCKETS", web_sockets)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs kubectl with this as its input.
fn fed(instance: &Instance, web_sockets: &str, arguments: &[&str], input: &[u8]) -> Output {
    let mut child = kubectl(instance, web_sockets, arguments).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // Fails when the command ends before it has read all.
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().unwrap()
    })
}

/// A `kubectl port-forward` that listens.
struct Forward {
    child: ChildGuard,
    port: u16,
}

impl Forward {
    fn start(instance: &Instance, web_sockets: &str, target: &str, port: &str) -> Self {
        let arguments = ["port-forward", target, port, "--address=127.0.0.1"];
        let mut child = ChildGuard::spawn(&mut kubectl(instance, web_sockets, &arguments));
        let mut line = String::new();
        BufReader::new(child.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let port = line.strip_prefix("Forwarding from 127.0.0.1:").and_then(|rest| rest.split(' ').next());
        let port = port.unwrap_or_else(|| panic!("{line:?}")).parse().unwrap();
        Self { child, port }
    }

    fn get(&self) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_lose_nothing_in_either_protocol_api_3() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral"]);
    instance.apply(PODS);
    instance.kubectl(&["wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s"]);

    for (protocol, web_sockets) in PROTOCOLS {
        exec(&instance, protocol, web_sockets);
        copy(&instance, protocol, web_sockets, &home.path(protocol));
        forward(&instance, protocol, web_sockets);
    }
    channels(&instance).await;
    proxy(&instance);
    node_proxy(&instance);
    with_web_sockets(&instance);
    metrics(&instance);
    instance.stop();
}

/// The first lines of a container may also be its last. The file of its log is then there only for a moment.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_gets_what_a_silent_pod_prints_at_its_end_api_3() {
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "1"]);
    let pods: Api<Pod> = Api::default_namespaced(instance.client().await);
    let script = "trap 'echo goodbye; exit 0' TERM; touch /tmp/ready; while :; do sleep 0.1; done";
    let pod = json!({"metadata": {"name": "silent"}, "spec": {"containers": [{
        "name": "c", "image": "busybox", "command": ["sh", "-c", script],
        "readinessProbe": {"exec": {"command": ["cat", "/tmp/ready"]}, "periodSeconds": 1}}]}});
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    await_condition(pods.clone(), "silent", |pod: Option<&Pod>| pod.is_some_and(is_ready)).await.unwrap();
    let follow = LogParams { follow: true, ..LogParams::default() };
    let mut log = pods.log_stream("silent", &follow).await.unwrap();
    pods.delete("silent", &DeleteParams::default()).await.unwrap();
    let mut text = String::new();
    log.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "goodbye\n");
    instance.stop();
}

/// EPH-2: megabytes in and out, the exit code, and output of a process that leaves its input unread.
fn exec(instance: &Instance, protocol: &str, web_sockets: &str) {
    let input: Vec<u8> = (0..3_000_000_u32).flat_map(|n| [(n >> 8) as u8, n as u8]).collect();
    let echoed = fed(instance, web_sockets, &["exec", "-i", "box", "--", "sh", "-c", "cat; exit 7"], &input);
    assert!(echoed.stdout == input, "{protocol}: {} of {} bytes", echoed.stdout.len(), input.len());
    assert_eq!(echoed.status.code(), Some(7), "{protocol}");

    let script = "head -c 1000 | wc -c; echo well >&2; exit 3";
    let cut = fed(instance, web_sockets, &["exec", "-i", "box", "--", "sh", "-c", script], &input);
    assert_eq!(String::from_utf8_lossy(&cut.stdout).trim(), "1000", "{protocol}");
    assert_eq!(cut.status.code(), Some(3), "{protocol}");
    assert!(String::from_utf8_lossy(&cut.stderr).starts_with("well"), "{protocol}");

    let missing = fed(instance, web_sockets, &["exec", "box", "--", "no-such-program"], b"");
    let stderr = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(
        stderr.contains("exec: \"no-such-program\": executable file not found in $PATH"),
        "{protocol}: {stderr}"
    );
    assert_eq!(missing.status.code(), Some(1), "{protocol}");
}

/// API-6: `kubectl cp` there and back.
fn copy(instance: &Instance, protocol: &str, web_sockets: &str, at: &Path) {
    let content: Vec<u8> = (0..500_000_u32).flat_map(u32::to_le_bytes).collect();
    let (there, back) = (at.with_extension("there"), at.with_extension("back"));
    std::fs::write(&there, &content).unwrap();
    let remote = format!("box:/tmp/{protocol}");
    for (from, to) in [(there.to_str().unwrap(), remote.as_str()), (&remote, back.to_str().unwrap())] {
        let copied = fed(instance, web_sockets, &["cp", from, to], b"");
        assert!(copied.status.success(), "{protocol}: {}", String::from_utf8_lossy(&copied.stderr));
    }
    assert!(std::fs::read(back).unwrap() == content, "{protocol}");
}

/// API-3: many connections at once; another pod's listener is not taken for this pod's.
fn forward(instance: &Instance, protocol: &str, web_sockets: &str) {
    for (target, port) in [("pod/web", ":80"), ("svc/web", ":8000")] {
        let forward = Forward::start(instance, web_sockets, target, port);
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..20).map(|_| scope.spawn(|| forward.get().unwrap())).collect();
            for answer in all {
                let answer = answer.join().unwrap();
                assert!(answer.starts_with("HTTP/1.1 200"), "{protocol} {target}: {answer:?}");
            }
        });
    }
    let mut refused = Forward::start(instance, web_sockets, "pod/box", ":80");
    assert!(!refused.get().is_ok_and(|answer| answer.contains("200")), "{protocol}");
    // kubectl gives up at the first connection that fails, and prints the reason.
    let mut stderr = String::new();
    refused.child.0.stderr.as_mut().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(stderr.contains("error forwarding port 80 to pod "), "{protocol}: {stderr}");
    assert!(
        stderr.contains("uid : failed to connect to localhost:80 inside the pod: dial tcp4 "),
        "{stderr}"
    );
}

/// API-3: the older protocol, with two WebSocket channels for each port, as the kube crate speaks it.
async fn channels(instance: &Instance) {
    let pods: Api<Pod> = Api::default_namespaced(instance.client().await);
    let mut forward = pods.portforward("web", &[80]).await.unwrap();
    let mut stream = forward.take_stream(80).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");

    let mut forward = pods.portforward("box", &[80]).await.unwrap();
    let error = forward.take_error(80).unwrap().await.unwrap();
    assert!(error.starts_with("error forwarding port 80 to pod "), "{error}");
}

/// API-3: through the API to a pod's port and to a service's endpoint.
fn proxy(instance: &Instance) {
    let get =
        |path: &str| instance.kubectl_output(&["get", "--raw", &format!("/api/v1/namespaces/default{path}")]);
    for path in
        ["/pods/web/proxy/", "/pods/http:web:80/proxy/", "/services/web/proxy/", "/services/web:8000/proxy/"]
    {
        let answer = get(path);
        let page = String::from_utf8_lossy(&answer.stdout).into_owned();
        assert!(answer.status.success() && page.contains("nginx"), "{path}: {page}");
    }
    for (path, expected) in [
        ("/pods/box:81/proxy/", "error trying to reach service: dial tcp "),
        ("/services/web:81/proxy/", "no service port 81 found for service \"web\""),
        ("/pods/a:b:c/proxy/", "invalid pod request \"a:b:c\""),
        ("/pods/nosuch/proxy/", "pods \"nosuch\" not found"),
    ] {
        let stderr = String::from_utf8_lossy(&get(path).stderr).into_owned();
        assert!(stderr.contains(expected), "{path}: {stderr}");
    }
}

/// Monitoring reads these endpoints of kubelets.
fn node_proxy(instance: &Instance) {
    let get = |path: &str| instance.kubectl_output(&["get", "--raw", &format!("/api/v1/nodes/{path}")]);
    let json = |path: &str| -> Value { serde_json::from_slice(&get(path).stdout).unwrap() };
    assert_eq!(get("node-1/proxy/healthz").stdout, b"ok");
    let all: usize = (1..=3)
        .map(|n| json(&format!("https:node-{n}:10250/proxy/pods")))
        .map(|list| {
            assert_eq!(list["kind"], "PodList");
            list["items"].as_array().unwrap().len()
        })
        .sum();
    assert_eq!(all, 2, "every pod is on one node");
    assert_eq!(json("node-1/proxy/stats/summary")["node"]["nodeName"], "node-1");
    for (path, expected) in [
        ("node-1/proxy/metrics", "kubelet_node_name{node=\"node-1\"} 1\n"),
        ("node-1/proxy/metrics/resource", "# TYPE resource_scrape_error gauge\n"),
        ("node-1/proxy/metrics/cadvisor", "# TYPE machine_memory_bytes gauge\n"),
    ] {
        let body = String::from_utf8(get(path).stdout).unwrap();
        assert!(body.contains(expected), "{path}: {body}");
    }
    for (path, expected) in [
        ("node-9/proxy/healthz", "nodes \"node-9\" not found"),
        ("node-1/proxy/nothing", "the server could not find the requested resource"),
        ("a:b:c:d/proxy/pods", "invalid node request \"a:b:c:d\""),
    ] {
        let output = get(path);
        let output =
            format!("{}{}", String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
        assert!(!get(path).status.success() && output.contains(expected), "{path}: {output}");
    }
}

/// API-19: the metrics of the scheduler, the controllers and the open session, as monitoring reads them.
fn metrics(instance: &Instance) {
    let metrics =
        || String::from_utf8(instance.kubectl_output(&["get", "--raw", "/metrics"]).stdout).unwrap();
    let metrics_text = metrics();
    for line in [
        "scheduler_schedule_attempts_total{profile=\"default-scheduler\",result=\"scheduled\"} 2",
        "scheduler_pending_pods{queue=\"unschedulable\"} 0",
        "workqueue_depth{name=\"serviceaccount\"} 0",
    ] {
        assert!(metrics_text.lines().any(|sample| sample == line), "{line}: {metrics_text}");
    }
    let value = |metrics_text: &str, series: &str| -> f64 {
        let found = metrics_text.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok());
        found.unwrap_or_else(|| panic!("no {series}: {metrics_text}"))
    };
    assert!(value(&metrics_text, "workqueue_adds_total{name=\"serviceaccount\"}") > 0.0);
    assert!(value(&metrics_text, "workqueue_work_duration_seconds_count{name=\"serviceaccount\"}") > 0.0);
    let sessions = "apiserver_longrunning_requests{component=\"apiserver\",group=\"\",resource=\"pods\",scope=\"resource\",\
                    subresource=\"exec\",verb=\"CONNECT\",version=\"v1\"}";
    for web_sockets in ["true", "false"] {
        let exec = ["exec", "box", "--", "sh", "-c", "echo up; exec sleep 100000"];
        let mut session = ChildGuard::spawn(&mut kubectl(instance, web_sockets, &exec));
        let mut line = String::new();
        BufReader::new(session.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "up\n");
        assert!((value(&metrics(), sessions) - 1.0).abs() < 0.1, "a session lasts until its end");
        drop(session);
        let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
        while value(&metrics(), sessions) > 0.5 {
            assert!(std::time::Instant::now() < deadline, "the session has ended");
        }
    }
}

/// A log over WebSocket, as browsers read it: an empty message, the text, and an end (API-3).
fn with_web_sockets(instance: &Instance) {
    let mut proxy = ChildGuard::spawn(&mut kubectl(instance, "true", &["proxy", "--port=0"]));
    let mut line = String::new();
    BufReader::new(proxy.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("Starting to serve on ").unwrap_or_else(|| panic!("{line:?}"));
    for (protocol, expected) in [("binary.k8s.io", "one\ntwo\n"), ("base64.binary.k8s.io", "b25lCnR3bwo=")] {
        let messages = messages(address, "/api/v1/namespaces/default/pods/box/log", protocol);
        assert_eq!((messages[0].as_str(), messages.concat().as_str()), ("", expected), "{protocol}");
    }
    watch_over_web_socket(address);
}

/// API-19: each event is a message, and the end of the watch that of the socket.
fn watch_over_web_socket(address: &str) {
    let path = "/api/v1/namespaces?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                &allowWatchBookmarks=true&timeoutSeconds=1";
    let events: Vec<serde_json::Value> = messages(address, path, "anything")
        .iter()
        .map(|event| serde_json::from_str(event).unwrap())
        .collect();
    let types: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types[..5], ["ADDED", "ADDED", "ADDED", "ADDED", "BOOKMARK"]);
    assert_eq!(events[0]["object"]["kind"], "Namespace");
}

/// All messages of a WebSocket's server at a path, until it closes.
fn messages(address: &str, path: &str, protocol: &str) -> Vec<String> {
    let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
    write!(
        stream.get_mut(),
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: {protocol}\r\n\r\n"
    )
    .unwrap();
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{head}");
    }
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.to_ascii_lowercase().contains(&format!("sec-websocket-protocol: {protocol}")), "{head}");
    std::iter::from_fn(|| Some(message(&mut stream)))
        .take_while(|(kind, _)| *kind != 8)
        .map(|(_, text)| String::from_utf8(text).unwrap())
        .collect()
}

/// The next message of a WebSocket's server, of one frame: its opcode (RFC 6455, 5.2) and its content.
fn message(stream: &mut impl Read) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    stream.read_exact(&mut head).unwrap();
    assert!(head[0] & 0x80 != 0 && head[1] < 127, "a message of one frame: {head:?}");
    let mut length = usize::from(head[1]);
    if length == 126 {
        let mut longer = [0; 2];
        stream.read_exact(&mut longer).unwrap();
        length = u16::from_be_bytes(longer).into();
    }
    let mut content = vec![0; length];
    stream.read_exact(&mut content).unwrap();
    (head[0] & 0x0f, content)
}
