//! `podium snapshot` on real processes: claims, a crash in the middle, a cluster that does not run, a fork (SAFE-8).

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::needs;
use podium::base::optional_file::read_optional;

const CLUSTER: &str = r#"
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 1
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 2
      containers:
      - name: c
        image: busybox
        # It does not care to be asked.
        command: [sh, -c, 'echo began >> /data/log; trap "" TERM; while :; do sleep 0.1; done']
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
"#;

/// Runs `podium snapshot`, and returns its output if it succeeds.
fn snapshot(data_dir: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_podium"));
    command.arg("snapshot").args(arguments).arg("--data-dir").arg(data_dir);
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

fn started(data_dir: &Path) -> Instance {
    let mut command = Command::new(env!("CARGO_BIN_EXE_podium"));
    command.args(["serve", "--nodes", "1", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data_dir);
    DataDir::start_command(&mut command, &data_dir.join("kubeconfig"))
}

fn uid_of_db(instance: &Instance) -> Option<String> {
    let pod = instance.kubectl_output(&["get", "pod", "db-0", "-o", "json"]);
    let pod: Value = serde_json::from_slice(&pod.stdout).ok()?;
    let runs = pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null();
    runs.then(|| pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned())
}

/// The content of the claim's file: a line for each start of its pod.
fn log(data_dir: &Path) -> String {
    let volumes = std::fs::read_dir(data_dir.join("volumes")).unwrap().flatten();
    volumes.map(|volume| read_optional(volume.path().join("log"))).collect()
}

/// Waits until the claim's file has this content; a failure prints the actual one.
fn says(data_dir: &Path, expected: &str, what: &str) {
    let mut last = String::new();
    let look = || {
        last = log(data_dir);
        (last == expected).then_some(())
    };
    let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| wait_for(what, look)));
    assert!(waited.is_ok(), "{what}: {expected:?} was wanted, and it says {last:?}");
}

fn is_recreated(instance: &Instance, before: &str) -> String {
    wait_for("the pod runs anew", || uid_of_db(instance).filter(|uid| uid != before))
}

#[test]
fn a_cluster_is_saved_restored_and_forked_safe_8() {
    needs!(Kubectl);
    let home = DataDir::new();
    let data = home.data_dir();
    let instance = started(&data);
    instance.apply(CLUSTER);
    let first = wait_for("the pod runs", || uid_of_db(&instance));
    says(&data, "began\n", "it has written");
    let output =
        snapshot(&data, &["save", "good", "--claims", "--description", "the log has one line"]).unwrap();
    assert!(
        output.starts_with("snapshot good saved: ") && output.contains("the content of 1 claim"),
        "{output}"
    );
    assert!(snapshot(&data, &["save", "good"]).unwrap_err().contains("already exists"));
    let wide = instance.kubectl(&["get", "clustersnapshots", "-o", "wide"]);
    assert!(wide.contains("DESCRIPTION") && wide.contains("the log has one line"), "{wide}");

    // The file is overwritten, and another one is added.
    instance.kubectl(&["exec", "db-0", "--", "sh", "-c", "echo spoilt > /data/log; touch /data/more"]);
    instance.kubectl(&["delete", "service", "web"]);
    let output = snapshot(&data, &["restore", "good", "--claims", "--grace-period", "1"]).unwrap();
    assert!(output.contains("snapshot good restored: the cluster is as it was at "), "{output}");
    let second = is_recreated(&instance, &first);
    says(&data, "began\nbegan\n", &format!("it has written again ({output})"));
    instance.kubectl(&["get", "service", "web"]);
    let refused = snapshot(&data, &["restore", "never"]).unwrap_err();
    assert!(refused.contains("no ready snapshot \"never\""), "{refused}");

    // Even if the control plane dies in the middle, the next one continues: the pod does not end before its grace
    // period.
    let restore = r#"{"apiVersion": "podium.dev/v1alpha1", "kind": "ClusterRestore", "metadata": {"name": "cut"},
        "spec": {"snapshot": "good", "gracePeriodSeconds": 6}}"#;
    let file = home.path("restore.json");
    std::fs::write(&file, restore).unwrap();
    instance.kubectl(&["create", "configmap", "since"]);
    instance.kubectl(&["create", "-f", file.to_str().unwrap()]);
    let phase = |instance: &Instance| {
        instance.kubectl(&["get", "clusterrestore", "cut", "-o", "jsonpath={.status.phase}"])
    };
    wait_for("pods are to end", || (phase(&instance) == "Ending").then_some(()));
    instance.crash();
    let instance = started(&data);
    wait_for("the restore is done", || (phase(&instance) == "Completed").then_some(()));
    let third = is_recreated(&instance, &second);
    assert!(!instance.kubectl_output(&["get", "configmap", "since"]).status.success());
    instance.kubectl(&["get", "clustersnapshot", "before-cut"]);

    // A second cluster beside the first.
    let other = home.path("other");
    let output = snapshot(&data, &["fork", "good", other.to_str().unwrap()]).unwrap();
    assert!(output.contains("start it with: podium --data-dir "), "{output}");
    let refused = snapshot(&data, &["fork", "good", other.to_str().unwrap()]).unwrap_err();
    assert!(refused.contains("is not empty"), "{refused}");
    let fork = started(&other);
    is_recreated(&fork, "");
    says(&other, "began\nbegan\n", "the fork's claim is its own");
    assert_eq!(uid_of_db(&instance), Some(third.clone()), "the first is as it was");
    fork.stop();

    // Without a running instance, the next start restores the snapshot.
    instance.kubectl(&["delete", "statefulset", "db", "--cascade=orphan"]);
    instance.stop();
    let output = snapshot(&data, &["restore", "good"]).unwrap();
    assert!(output.contains("its next start restores"), "{output}");
    assert!(snapshot(&data, &["list"]).unwrap().contains("before-cut"));
    let instance = started(&data);
    is_recreated(&instance, &third);
    instance.kubectl(&["get", "statefulset", "db"]);
    snapshot(&data, &["delete", "good"]).unwrap();
    let is_gone = |name: &str| !data.join("snapshots").join(name).exists();
    wait_for("its files are gone", || (is_gone("good.json") && is_gone("good.claims")).then_some(()));
    instance.stop();
}
