//! kubectl's verbs for StatefulSets and ReplicationControllers (API-6, STS-1, STS-2, RC-1).

use serde_json::Value;

use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::needs;

const WEB: &str = r"
apiVersion: v1
kind: Service
metadata: {name: nginx}
spec: {clusterIP: None, selector: {app: nginx}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  serviceName: nginx
  replicas: 3
  selector: {matchLabels: {app: nginx}}
  template:
    metadata: {labels: {app: nginx}}
    spec: {containers: [{name: nginx, image: 'nginx:1.7.9'}]}
---
apiVersion: v1
kind: ReplicationController
metadata: {name: old}
spec:
  replicas: 2
  template:
    metadata: {labels: {app: old}}
    spec: {containers: [{name: c, image: pause}]}
";

/// Columns of the lines below the heading, blank for columns that change with time.
fn rows(text: &str, columns: usize) -> Vec<String> {
    let cells = |line: &str| line.split_whitespace().take(columns).collect::<Vec<_>>().join(" ");
    text.lines().skip(1).map(cells).collect()
}

fn images(instance: &Instance) -> String {
    let path = "jsonpath={range .items[*]}{.metadata.name}={.spec.containers[0].image} {end}";
    instance.kubectl(&["get", "pods", "-l", "app=nginx", "-o", path]).trim().to_string()
}

fn rolled_out(instance: &Instance) {
    let output = instance.kubectl(&["rollout", "status", "sts/web", "--timeout=60s"]);
    assert!(output.contains("roll out complete: 3 new pods have been updated"), "{output}");
}

#[test]
fn kubectl_rolls_stateful_sets_out_and_back() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "0", "--hollow-nodes", "2"]);
    let manifest = home.path("web.yaml");
    std::fs::write(&manifest, WEB).unwrap();
    let manifest = manifest.to_str().unwrap();
    instance.kubectl(&["apply", "-f", manifest]);
    rolled_out(&instance);
    assert_eq!(rows(&instance.kubectl(&["get", "sts"]), 2), ["web 3/3"]);
    assert_eq!(images(&instance), "web-0=nginx:1.7.9 web-1=nginx:1.7.9 web-2=nginx:1.7.9");

    instance.kubectl(&["set", "image", "sts/web", "nginx=nginx:1.9.1"]);
    rolled_out(&instance);
    let history = instance.kubectl(&["rollout", "history", "sts/web"]);
    assert_eq!(rows(&history, 2)[1..3], ["1 <none>", "2 <none>"], "{history}");
    let first = instance.kubectl(&["rollout", "history", "sts/web", "--revision=1"]);
    assert!(first.contains("nginx:1.7.9"), "{first}");
    instance.kubectl(&["rollout", "undo", "sts/web"]);
    rolled_out(&instance);
    assert_eq!(images(&instance), "web-0=nginx:1.7.9 web-1=nginx:1.7.9 web-2=nginx:1.7.9");
    let history = instance.kubectl(&["rollout", "history", "sts/web"]);
    assert_eq!(rows(&history, 2)[1..3], ["2 <none>", "3 <none>"], "{history}");
    instance.kubectl(&["rollout", "restart", "sts/web"]);
    rolled_out(&instance);

    // The pods are orphaned, and adopted again.
    instance.kubectl(&["delete", "sts", "web", "--cascade=orphan"]);
    assert_eq!(images(&instance).split(' ').count(), 3);
    instance.kubectl(&["apply", "-f", manifest]);
    instance.kubectl(&["scale", "sts/web", "--replicas=1"]);
    wait_for("the set to shrink", || {
        (rows(&instance.kubectl(&["get", "sts"]), 2) == ["web 1/1"]).then_some(())
    });
    let refused = instance.kubectl_output(&["patch", "sts", "web", "-p", r#"{"spec":{"serviceName":"x"}}"#]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(message.contains("updates to statefulset spec for fields other than 'replicas'"), "{message}");
    instance.kubectl(&["delete", "sts", "web"]);
    wait_for("its pods to go", || images(&instance).is_empty().then_some(()));

    replication_controller(&instance);
    instance.stop();
}

/// RC-1: created, scaled, deleted.
fn replication_controller(instance: &Instance) {
    wait_for("two ready pods", || {
        (rows(&instance.kubectl(&["get", "rc"]), 4) == ["old 2 2 2"]).then_some(())
    });
    instance.kubectl(&["scale", "rc/old", "--replicas=3"]);
    wait_for("three ready pods", || {
        (rows(&instance.kubectl(&["get", "rc"]), 4) == ["old 3 3 3"]).then_some(())
    });
    let described = instance.kubectl(&["describe", "rc", "old"]);
    assert!(described.contains("Replicas:     3 current / 3 desired"), "{described}");
    instance.kubectl(&["delete", "rc", "old", "--cascade=foreground"]);
    let left: Value = serde_json::from_str(&instance.kubectl(&["get", "pods", "-o", "json"])).unwrap();
    assert_eq!(left["items"].as_array().map(Vec::len), Some(0));
}
