//! `podium fence` on real processes (SAFE-5): a node with a hung host holds a StatefulSet and its disk until its
//! processes are confirmed dead.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use rustix::process::Signal;

use crate::instance::{DataDir, Instance, seconds_of_its_own, wait_for};
use crate::needs::needs;
use crate::stopping::{host_pid, processes};

/// One identity with a disk, which records its starts.
const SINGLE: &str = r#"
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  serviceName: web
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: c
        image: busybox
        command: [sh, -c, "echo $NODE >> /data/nodes; setsid sleep MARK & exec sleep MARK"]
        env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {storageClassName: disk, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
"#;

fn podium(home: &DataDir, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_podium"));
    let command = command.args(arguments).arg("--data-dir").arg(home.data_dir());
    command.stdin(std::process::Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn attached(instance: &Instance) -> String {
    let path = "jsonpath={.items[*].spec.nodeName}={.items[*].status.attached}";
    instance.kubectl(&["get", "volumeattachments", "-o", path])
}

#[test]
fn a_node_with_a_hanging_host_is_fenced_and_its_set_continues_with_its_disk_safe_5_vol_3() {
    needs!(Kubectl);
    let (home, mark) = (DataDir::new(), seconds_of_its_own().to_string());
    let config = home.path("config.yaml");
    std::fs::write(&config, "timings: {runtimeStatusTimeout: 0.5}").unwrap();
    let instance = home.start(&["--nodes", "2", "--config", config.to_str().unwrap()]);
    instance.apply(&SINGLE.replace("MARK", &mark));
    wait_for("the processes", || (processes(&mark).len() == 2).then_some(()));
    let old = processes(&mark);
    let node_of = || {
        instance.kubectl(&["get", "pod", "web-0", "--ignore-not-found", "-o", "jsonpath={.spec.nodeName}"])
    };
    let node = node_of();
    assert_eq!(attached(&instance), format!("{node}=true"));
    let in_use = instance.kubectl(&["get", "node", &node, "-o", "jsonpath={.status.volumesInUse}"]);
    assert!(in_use.contains("kubernetes.io/csi/disk.podium.dev^pvc-"), "{in_use}");

    rustix::process::kill_process(host_pid(&home, &node), Signal::STOP).unwrap();
    instance.kubectl(&["delete", "pod", "web-0", "--wait=false"]);

    let output = podium(&home, &["fence", &node]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("default/web-0"), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("no terminal to confirm at; use --yes"));
    assert_eq!(processes(&mark), old, "nothing was done");

    let fenced = podium(&home, &["fence", &node, "--yes", "--reason", "its host hangs"]);
    assert!(fenced.status.success(), "{}", text(&fenced.stderr));
    assert!(text(&fenced.stdout).contains("are confirmed dead"), "{}", text(&fenced.stdout));
    assert!(processes(&mark).keys().all(|pid| !old.contains_key(pid)), "they are dead when this is said");
    wait_for("the replacement", || {
        let now = processes(&mark);
        assert!(now.len() <= 2, "two sets of processes of one identity: {now:?}");
        (now.len() == 2).then_some(())
    });
    let other = if node == "node-1" { "node-2" } else { "node-1" };
    assert_eq!((node_of().as_str(), attached(&instance)), (other, format!("{other}=true")));
    let written = instance.kubectl(&["exec", "web-0", "--", "cat", "/data/nodes"]);
    assert_eq!(written, format!("{node}\n{other}\n"), "it is the same disk");
    let taints = instance.kubectl(&["get", "node", &node, "-o", "jsonpath={.spec.taints[*].key}"]);
    assert!(taints.contains("node.kubernetes.io/out-of-service"), "{taints}");

    let returned = podium(&home, &["fence", &node, "--release"]);
    assert!(returned.status.success(), "{}", text(&returned.stderr));
    instance.kubectl(&["wait", "--for=condition=Ready", &format!("node/{node}"), "--timeout=60s"]);
    let reasons = instance.kubectl(&["get", "events", "-A", "-o", "jsonpath={.items[*].reason}"]);
    for reason in
        ["FencingNode", "NodeProcessesDead", "NodeOutOfService", "VolumeForceDetached", "NodeReturned"]
    {
        assert!(reasons.contains(reason), "{reason}: {reasons}");
    }
    assert_eq!(instance.kubectl(&["get", "nodefences"]), "");

    // After a crash, the next control plane treats a fenced node like a machine that was switched off: no process runs
    // there, so it returns.
    let fenced = podium(&home, &["fence", other, "--yes"]);
    assert!(fenced.status.success(), "{}", text(&fenced.stderr));
    instance.crash();
    let instance = home.start(&["--nodes", "2", "--config", config.to_str().unwrap()]);
    wait_for("the node's return", || instance.kubectl(&["get", "nodefences"]).is_empty().then_some(()));
    wait_for("the set", || {
        let now = processes(&mark);
        assert!(now.len() <= 2, "two sets of processes of one identity: {now:?}");
        (now.len() == 2).then_some(())
    });
    let taints = instance.kubectl(&["get", "node", other, "-o", "jsonpath={.spec.taints[*].key}"]);
    assert!(!taints.contains("node.kubernetes.io/out-of-service"), "{taints}");
    instance.stop();
    assert_eq!(processes(&mark), BTreeMap::new());
}
