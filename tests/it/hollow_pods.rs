//! Pods on hollow nodes, as an unmodified kubectl sees them (NODE-7).

use serde_json::json;

use crate::instance::{DataDir, wait_for};
use crate::needs::needs;

#[test]
fn sessions_on_a_hollow_node_say_why_they_cannot_be_node_7_api_3() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--nodes", "0", "--hollow-nodes", "1"]);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {
        "containers": [{"name": "c", "image": "busybox"}]}});
    let manifest = home.path("pod.json");
    std::fs::write(&manifest, pod.to_string()).unwrap();
    let manifest = manifest.to_str().unwrap();
    instance.kubectl(&["apply", "-f", manifest]);
    wait_for("the pod to run", || {
        let phase = instance.kubectl(&["get", "pod", "a", "-o", "jsonpath={.status.phase}"]);
        (phase == "Running").then_some(())
    });
    for (arguments, verb) in [
        (&["exec", "a", "--", "true"][..], "exec into"),
        (&["exec", "-it", "a", "--", "sh"], "exec into"),
        (&["attach", "a"], "attach to"),
        (&["cp", manifest, "a:/tmp/pod.json"], "exec into"),
        (&["cp", "a:/etc/hostname", "hostname"], "exec into"),
        (&["port-forward", "a", ":80"], "forward ports to"),
    ] {
        let output = instance.kubectl_output(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = format!(
            "cannot {verb} pod \"a\": it is on the hollow node hollow-00001, which runs no processes"
        );
        assert!(!output.status.success() && stderr.contains(&expected), "{arguments:?}: {stderr}");
    }
    let output = instance.kubectl_output(&["exec", "a", "-c", "other", "--", "true"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("container other is not valid for pod a"), "{stderr}");
    instance.stop();
}
