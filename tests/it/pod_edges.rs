//! The first and the last moments of pods, and their ports of the node, with an unmodified kubectl.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::needs;

/// The first line of the page at the root.
fn get(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET / HTTP/1.0\r\nHost: x\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    text.lines().next().map(str::to_owned)
}

/// A host port, early output for `attach`, an early probe, and a termination message from a log without a last line
/// end.
#[test]
fn the_edges_of_pods_are_as_on_any_cluster() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "1"]);
    let port = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap().local_addr().unwrap().port();
    let manifest = format!(
        r"
apiVersion: v1
kind: Pod
metadata: {{name: web}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: nginx
    image: nginx:1.25
    ports: [{{containerPort: 80, hostPort: {port}}}]
    readinessProbe: {{httpGet: {{port: 80}}, periodSeconds: 3600}}
    livenessProbe: {{tcpSocket: {{port: 80}}, periodSeconds: 3600}}
---
apiVersion: v1
kind: Pod
metadata: {{name: says}}
spec:
  restartPolicy: Never
  containers:
  - name: c
    image: busybox
    command: [sh, -c, 'echo -n DONE; exit 1']
    terminationMessagePolicy: FallbackToLogsOnError
"
    );
    instance.apply(&manifest);
    attaches(&instance);

    wait_for("the end of the pod that says something", || (instance.phase("says") == "Failed").then_some(()));
    let message = ".status.containerStatuses[0].state.terminated.message";
    assert_eq!(instance.field("says", message), "DONE");
    assert_eq!(instance.logs("says"), "DONE");
    assert_eq!(instance.field("says", ".status.containerStatuses[0].lastState"), "{}");

    // A period later would be far beyond the deadline.
    instance.until_ready("web");
    let about = ["get", "events", "--field-selector", "involvedObject.name=web"];
    let reasons = instance.kubectl(&[&about[..], &["-o", "jsonpath={.items[*].reason}"]].concat());
    assert!(reasons.contains("Started") && !reasons.contains("Unhealthy"), "{reasons}");
    let node = instance.on_machine(&instance.field("web", ".status.hostIP"));
    for address in [format!("{node}:{port}"), format!("127.0.0.1:{port}")] {
        wait_for(&address, || (get(&address)? == "HTTP/1.0 200 OK").then_some(()));
    }
    instance.stop();
}

/// The output of a very short-lived program appears once, also when attached.
fn attaches(instance: &Instance) {
    for (number, script) in ["echo yo", "echo yo; sleep 0.3", "echo yo; exit 0"].iter().enumerate() {
        let name = format!("short-{number}");
        let run = ["run", &name, "--attach", "--rm", "--image=busybox", "--restart=Never", "--quiet"];
        let output = instance.kubectl_output(&[&run[..], &["--", "sh", "-c", script]].concat());
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(stdout.trim(), "yo", "{script}: {stderr}");
        assert!(!stderr.contains("couldn't attach"), "{script}: {stderr}");
    }
}
