//! The main story with an unmodified kubectl: roll out, break, undo, scale, drain, debug (API-6, DEP-2, DEP-4).

mod cluster_info;
mod openapi;
mod stateful_sets;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::TryStreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::watcher;
use serde_json::Value;

use crate::instance::{ChildGuard, DataDir, Instance, wait_for};
use crate::needs::needs;

const WEB: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: nginx
        image: nginx:1.7.9
        ports: [{containerPort: 80}]
";

fn json(instance: &Instance, arguments: &[&str]) -> Value {
    let mut all = arguments.to_vec();
    all.extend(["-o", "json"]);
    serde_json::from_str(&instance.kubectl(&all)).unwrap()
}

fn pods(instance: &Instance) -> Vec<Value> {
    json(instance, &["get", "pods", "-l", "app=web"])["items"].as_array().unwrap().clone()
}

/// Returns the response of a web server at its pod's address.
fn get(ip: &str) -> String {
    // A pod's mirror address on this machine appears a moment after the pod.
    let mut stream = wait_for("the web server", || TcpStream::connect((ip, 80)).ok());
    stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Follows the pods of a Deployment: never more than `max` at once, never fewer than `min` available.
struct Bounds {
    most: Arc<AtomicUsize>,
    fewest: Arc<AtomicUsize>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Bounds {
    async fn watch(instance: &Instance) -> Self {
        let client = instance.client().await;
        let (most, fewest) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(usize::MAX)));
        let pods: Api<Pod> = Api::default_namespaced(client.clone());
        let seen = most.clone();
        let count = tokio::spawn(async move {
            let mut live = std::collections::HashSet::new();
            let mut events = Box::pin(watcher(pods, watcher::Config::default().labels("app=web")));
            while let Ok(Some(event)) = events.try_next().await {
                match event {
                    watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) => {
                        let name = pod.metadata.name.unwrap_or_default();
                        // A terminating pod is on its way out and does not count, as in Kubernetes.
                        if pod.metadata.deletion_timestamp.is_some() {
                            live.remove(&name);
                        } else {
                            live.insert(name);
                        }
                    }
                    watcher::Event::Delete(pod) => {
                        live.remove(&pod.metadata.name.unwrap_or_default());
                    }
                    watcher::Event::Init | watcher::Event::InitDone => {}
                }
                seen.fetch_max(live.len(), Ordering::SeqCst);
            }
        });
        let deployments: Api<Deployment> = Api::default_namespaced(client);
        let seen = fewest.clone();
        let available = tokio::spawn(async move {
            let mut events = Box::pin(watcher(deployments, watcher::Config::default()));
            while let Ok(Some(event)) = events.try_next().await {
                if let watcher::Event::Apply(d) | watcher::Event::InitApply(d) = event {
                    let available = d.status.and_then(|s| s.available_replicas).unwrap_or(0);
                    seen.fetch_min(usize::try_from(available).unwrap(), Ordering::SeqCst);
                }
            }
        });
        Self { most, fewest, tasks: vec![count, available] }
    }

    fn check(&self, min: usize, max: usize) {
        let (most, fewest) = (self.most.load(Ordering::SeqCst), self.fewest.load(Ordering::SeqCst));
        assert!(most <= max, "{most} pods at once");
        assert!(fewest >= min, "{fewest} available");
    }
}

impl Drop for Bounds {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn roll_out_break_undo_scale_drain_and_debug() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral"]);
    let manifest = home.path("web.yaml");
    std::fs::write(&manifest, WEB).unwrap();

    instance.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    assert!(instance.kubectl(&["rollout", "status", "deploy/web"]).contains("successfully rolled out"));
    let ip = instance.on_machine(pods(&instance)[0]["status"]["podIP"].as_str().unwrap());
    assert!(get(&ip).to_lowercase().contains("server: podium (as nginx/1.7.9)"), "{}", get(&ip));

    // DEP-2: 25 % of 3 is one more and none less.
    let bounds = Bounds::watch(&instance).await;
    wait_for("the watches to begin", || (bounds.fewest.load(Ordering::SeqCst) == 3).then_some(()));
    instance.kubectl(&["set", "image", "deploy/web", "nginx=nginx:1.9.1"]);
    instance.kubectl(&["rollout", "status", "deploy/web"]);
    bounds.check(3, 4);

    // A version that does not exist: the rollout is stuck, and the other pods keep serving.
    instance.kubectl(&["set", "image", "deploy/web", "nginx=nginx:1.91"]);
    wait_for("ImagePullBackOff", || {
        instance.kubectl(&["get", "pods"]).contains("ImagePullBackOff").then_some(())
    });
    let deployment = json(&instance, &["get", "deploy", "web"]);
    assert_eq!(deployment["status"]["availableReplicas"], 3);
    let stuck = instance.kubectl_output(&["rollout", "status", "deploy/web", "--timeout=1s"]);
    assert!(!stuck.status.success());
    let history = instance.kubectl(&["rollout", "history", "deploy/web"]);
    assert_eq!(history.lines().filter(|l| l.ends_with("<none>")).count(), 3, "{history}");
    instance.kubectl(&["rollout", "undo", "deploy/web"]);
    instance.kubectl(&["rollout", "status", "deploy/web"]);
    bounds.check(3, 4);
    let image =
        &json(&instance, &["get", "deploy", "web"])["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "nginx:1.9.1");
    drop(bounds);

    instance.kubectl(&["scale", "deploy/web", "--replicas=6"]);
    instance.kubectl(&["rollout", "status", "deploy/web"]);
    assert_eq!(pods(&instance).len(), 6);

    drain(&instance);
    streams(&instance);
    cluster_info::dump(&instance, &home);
    instance.stop();
}

/// PDB-1, NODE-3: a drain that a budget blocks, and then none.
fn drain(instance: &Instance) {
    instance.kubectl(&["create", "pdb", "web", "--selector=app=web", "--min-available=6"]);
    wait_for("the budget's status", || {
        (json(instance, &["get", "pdb", "web"])["status"]["currentHealthy"] == 6).then_some(())
    });
    let node = pods(instance)[0]["spec"]["nodeName"].as_str().unwrap().to_string();
    let refused = instance.kubectl_output(&["drain", &node, "--timeout=5s"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success());
    assert!(
        message.contains("Cannot evict pod as it would violate the pod's disruption budget."),
        "{message}"
    );
    assert_eq!(pods(instance).iter().filter(|p| p["spec"]["nodeName"] == node.as_str()).count(), 2);

    instance.kubectl(&["delete", "pdb", "web"]);
    instance.kubectl(&["drain", &node, "--timeout=60s"]);
    assert_eq!(pods(instance).iter().filter(|p| p["spec"]["nodeName"] == node.as_str()).count(), 0);
    instance.kubectl(&["uncordon", &node]);
    instance.kubectl(&["rollout", "status", "deploy/web"]);
}

/// EPH-2, POD-13: logs, exec and a debugger that sees its target.
fn streams(instance: &Instance) {
    let pod = pods(instance)[0]["metadata"]["name"].as_str().unwrap().to_string();
    let output = instance.kubectl(&["exec", &pod, "--", "sh", "-c", "echo from $HOSTNAME"]);
    assert_eq!(output.trim(), format!("from {pod}"));
    let failed = instance.kubectl_output(&["exec", &pod, "--", "sh", "-c", "exit 7"]);
    assert_eq!(failed.status.code(), Some(7));

    let ip = instance.on_machine(json(instance, &["get", "pod", &pod])["status"]["podIP"].as_str().unwrap());
    let mut follow = instance.kubectl_command();
    let mut follower = ChildGuard::spawn(follow.args(["logs", "-f", &pod]).stdout(Stdio::piped()));
    get(&ip);
    let mut log = std::io::BufReader::new(follower.0.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("GET / HTTP/1.1") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut log, &mut line).unwrap() > 0, "the log ended");
    }
    drop(follower);

    instance.kubectl(&[
        "debug",
        &pod,
        "--image=busybox",
        "--target=nginx",
        "-c",
        "debugger",
        "--",
        "sh",
        "-c",
        "echo target $TARGET_PID; cat /proc/$TARGET_PID/comm",
    ]);
    wait_for("the debugger's output", || {
        let log = instance.kubectl_output(&["logs", &pod, "-c", "debugger"]);
        String::from_utf8_lossy(&log.stdout).contains("target ").then_some(())
    });
}
