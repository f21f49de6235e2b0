//! Data that outlives pods, on real processes with an unmodified kubectl (VOL-2).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;

use serde_json::Value;

use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::{Need, lacks, needs};
use podium::base::optional_file::read_optional;

fn json(instance: &Instance, arguments: &[&str]) -> Value {
    let mut all = arguments.to_vec();
    all.extend(["-o", "json"]);
    serde_json::from_str(&instance.kubectl(&all)).unwrap()
}

/// The directory of a claim's data, according to its volume.
fn directory(instance: &Instance, claim: &str) -> PathBuf {
    let claim = json(instance, &["get", "pvc", claim]);
    let volume = json(instance, &["get", "pv", claim["spec"]["volumeName"].as_str().unwrap()]);
    volume["spec"]["hostPath"]["path"].as_str().unwrap().into()
}

fn lines(file: &std::path::Path) -> usize {
    read_optional(file).lines().count()
}

/// The example of the Kubernetes task page: a volume and a claim by hand, a web server that shows them.
#[test]
fn a_web_server_shows_a_volume_made_by_hand_vol_2() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "1"]);
    let place = home.path("mnt-data");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("index.html"), "Hello from Kubernetes storage\n").unwrap();
    let manifest = format!(
        r#"
apiVersion: v1
kind: PersistentVolume
metadata: {{name: task-pv-volume, labels: {{type: local}}}}
spec:
  storageClassName: manual
  capacity: {{storage: 10Gi}}
  accessModes: [ReadWriteOnce]
  hostPath: {{path: "{}"}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: task-pv-claim}}
spec:
  storageClassName: manual
  accessModes: [ReadWriteOnce]
  resources: {{requests: {{storage: 3Gi}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: task-pv-pod}}
spec:
  volumes:
  - name: task-pv-storage
    persistentVolumeClaim: {{claimName: task-pv-claim}}
  containers:
  - name: task-pv-container
    image: nginx
    ports: [{{containerPort: 80}}]
    volumeMounts:
    - {{mountPath: /usr/share/nginx/html, name: task-pv-storage}}
  - name: reader
    image: busybox
    command: [sleep, '1000']
    volumeMounts:
    - {{mountPath: /part, name: task-pv-storage, subPath: part, readOnly: true}}
"#,
        place.display()
    );
    instance.apply(&manifest);
    instance.until_ready("task-pv-pod");
    let pod = json(&instance, &["get", "pod", "task-pv-pod"]);
    let ip = instance.on_machine(pod["status"]["podIP"].as_str().unwrap());
    let mut stream = wait_for("the web server", || TcpStream::connect((ip.as_str(), 80)).ok());
    stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("Hello from Kubernetes storage\n"), "{answer}");
    std::fs::write(place.join("part/file"), "seen").unwrap();
    let script = "cat /part/file; touch /part/new || echo refused";
    let seen = instance.kubectl(&["exec", "task-pv-pod", "-c", "reader", "--", "sh", "-c", script]);
    assert!(seen.starts_with("seen"), "{seen}");
    let node = json(&instance, &["get", "node", "node-1"]);
    let namespaces = node["metadata"]["annotations"]["podium.dev/namespaces"] != "none";
    if !lacks(Need::Namespaces, namespaces) {
        assert!(seen.contains("refused"), "{seen}");
    }
    let claims = instance.kubectl(&["get", "pvc", "--no-headers"]);
    let words: Vec<&str> = claims.split_ascii_whitespace().collect();
    assert_eq!(words[..6], ["task-pv-claim", "Bound", "task-pv-volume", "10Gi", "RWO", "manual"]);
    let described = instance.kubectl(&["describe", "pvc", "task-pv-claim"]);
    assert!(
        described.contains("Used By:       task-pv-pod")
            && described.contains("[kubernetes.io/pvc-protection]"),
        "{described}"
    );

    instance.kubectl(&["delete", "pvc", "task-pv-claim", "--wait=false"]);
    assert!(instance.kubectl(&["get", "pvc", "--no-headers"]).contains("Terminating"));
    instance.kubectl(&["delete", "pod", "task-pv-pod", "--now"]);
    instance.kubectl(&["wait", "--for=delete", "pvc/task-pv-claim", "--timeout=60s"]);
    wait_for("the volume's release", || instance.kubectl(&["get", "pv"]).contains("Released").then_some(()));
    assert_eq!(std::fs::read_to_string(place.join("part/file")).unwrap(), "seen");
}

/// A claim of the default class: provisioned with its first pod, used by the next pod and after a restart, deleted with
/// the claim.
#[test]
fn data_of_a_deployment_outlives_its_pods_vol_2() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--nodes", "2"]);
    instance.apply(
        r"
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: diary}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: writer}
spec:
  selector: {matchLabels: {app: writer}}
  strategy: {type: Recreate}
  template:
    metadata: {labels: {app: writer}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: writer
        image: busybox
        command: [sh, -c, 'hostname >> /data/log; exec sleep 1000']
        volumeMounts: [{name: data, mountPath: /data}]
      volumes:
      - {name: data, persistentVolumeClaim: {claimName: diary}}
",
    );
    let ready = |instance: &Instance| {
        instance.kubectl(&["rollout", "status", "deployment/writer", "--timeout=60s"]);
    };
    ready(&instance);
    let class = instance.kubectl(&["get", "sc", "standard", "--no-headers"]);
    assert!(class.starts_with("standard (default)   podium.dev/directory   Delete"), "{class}");
    let place = directory(&instance, "diary");
    assert!(
        place.starts_with(home.data_dir().canonicalize().unwrap().join("volumes")),
        "{}",
        place.display()
    );
    let log = place.join("log");
    wait_for("the first line", || (lines(&log) == 1).then_some(()));
    instance.kubectl(&["delete", "pod", "-l", "app=writer", "--now"]);
    wait_for("the second pod's line", || (lines(&log) == 2).then_some(()));
    let events = instance.kubectl(&["get", "events", "--field-selector=involvedObject.name=diary"]);
    for reason in ["WaitFor", "ExternalProvisioning", "Provisioning", "ProvisioningSucceeded"] {
        assert!(events.contains(reason), "{reason}: {events}");
    }
    instance.stop();

    let instance = home.start(&["--nodes", "1"]);
    wait_for("the line after the restart", || (lines(&log) >= 3).then_some(()));
    ready(&instance);
    assert_eq!(directory(&instance, "diary"), place);
    instance.kubectl(&["delete", "pvc", "diary", "--wait=false"]);
    instance.kubectl(&["delete", "deployment", "writer"]);
    instance.kubectl(&["wait", "--for=delete", "pvc/diary", "--timeout=60s"]);
    wait_for("the directory's end", || (!place.exists()).then_some(()));
    wait_for("the volume's end", || instance.kubectl(&["get", "pv"]).is_empty().then_some(()));
    instance.stop();
}
