//! NoExecute taints as kubectl sets them.

use crate::instance::{DataDir, wait_for};
use crate::needs::needs;

/// The pod tolerates the taint for three seconds. The test uses the real clock, and kubectl, which never sets
/// `timeAdded`.
#[test]
fn a_pod_leaves_three_seconds_after_kubectl_taints_its_node_node_2() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "0", "--hollow-nodes", "1"]);
    let manifest =
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/cases/manifests/01-noexecute-toleration-seconds.yaml");
    instance.kubectl(&["apply", "-f", manifest]);
    instance.kubectl(&["wait", "--for=condition=Ready", "pod/t1", "--timeout=60s"]);
    let node = instance.kubectl(&["get", "pod", "t1", "-o", "jsonpath={.spec.nodeName}"]);
    instance.kubectl(&["taint", "node", &node, "k=v:NoExecute"]);
    let node = instance.kubectl(&["get", "node", &node, "-o", "jsonpath={.spec.taints[?(@.key==\"k\")]}"]);
    assert!(!node.contains("timeAdded"), "kubectl sets a time now: this test proves nothing: {node}");
    wait_for("the pod to leave", || {
        instance.kubectl(&["get", "pod", "t1", "--ignore-not-found", "-o", "name"]).is_empty().then_some(())
    });
    let events =
        instance.kubectl(&["get", "events", "--field-selector=reason=TaintManagerEviction", "-o", "name"]);
    assert!(!events.is_empty());
}
