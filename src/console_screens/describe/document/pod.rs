//! A pod, as `kubectl describe pod` prints it.

use serde_json::Value;

use super::builder::{
    DocumentBuilder, Tone, at, controller, identity, items, labels, pairs, selector, text, time,
};
use super::{conditions, container};

pub(crate) fn describe(doc: &mut DocumentBuilder, pod: &Value) {
    identity(doc, pod);
    doc.field(0, "Priority", at(pod, "/spec/priority"));
    if let Some(class) = pod.pointer("/spec/priorityClassName") {
        doc.field(0, "Priority Class Name", text(class));
    }
    doc.field(0, "Service Account", at(pod, "/spec/serviceAccountName"));
    let (node, host) = (at(pod, "/spec/nodeName"), at(pod, "/status/hostIP"));
    doc.field(0, "Node", if host.is_empty() { node } else { format!("{node}/{host}") });
    if let Some(start) = pod.pointer("/status/startTime") {
        doc.field(0, "Start Time", time(start));
    }
    labels(doc, pod);
    let phase = at(pod, "/status/phase");
    if let Some(deleted) = pod.pointer("/metadata/deletionTimestamp") {
        doc.toned(0, "Status", format!("Terminating (since {})", time(deleted)), Tone::Waiting);
        doc.field(
            0,
            "Termination Grace Period",
            format!("{}s", at(pod, "/metadata/deletionGracePeriodSeconds")),
        );
    } else {
        let tone = match phase.as_str() {
            "Running" | "Succeeded" => Tone::Good,
            "Pending" => Tone::Waiting,
            _ => Tone::Bad,
        };
        doc.toned(0, "Status", phase, tone);
    }
    for (title, path) in [("Reason", "/status/reason"), ("Message", "/status/message")] {
        if let Some(value) = pod.pointer(path) {
            doc.toned(0, title, text(value), Tone::Bad);
        }
    }
    doc.field(0, "IP", at(pod, "/status/podIP"));
    let ips: Vec<String> = items(pod, "/status/podIPs").map(|ip| text(&ip["ip"])).collect();
    if ips.is_empty() {
        doc.field(0, "IPs", "");
    } else {
        doc.head(0, "IPs");
        for ip in ips {
            doc.field(2, "IP", ip);
        }
    }
    if let Some(controller) = controller(pod) {
        doc.field(0, "Controlled By", controller);
    }
    container::describe_all(doc, 0, &pod["spec"], pod.get("status"));
    let columns = [("Type", "type"), ("Status", "status"), ("Reason", "reason"), ("Message", "message")];
    conditions::describe(doc, pod, &columns);
    container::volumes(doc, 0, &pod["spec"]);
    container::resources(doc, 0, &pod["spec"]);
    doc.field(0, "QoS Class", at(pod, "/status/qosClass"));
    placement(doc, 0, &pod["spec"]);
}

/// Appends the placement rules of a pod spec.
pub(crate) fn placement(doc: &mut DocumentBuilder, indent: usize, spec: &Value) {
    let spreads: Vec<String> = items(spec, "/topologySpreadConstraints").map(spread).collect();
    if !spreads.is_empty() {
        doc.list(indent, "Topology Spread Constraints", spreads);
    }
    doc.list(indent, "Node-Selectors", pairs(spec, "/nodeSelector", "="));
    doc.list(indent, "Tolerations", items(spec, "/tolerations").map(toleration));
}

/// Returns `zone:DoNotSchedule when max skew 1 is exceeded for selector app=web`.
fn spread(constraint: &Value) -> String {
    let mut line = format!(
        "{}:{} when max skew {} is exceeded",
        text(&constraint["topologyKey"]),
        text(&constraint["whenUnsatisfiable"]),
        text(&constraint["maxSkew"])
    );
    if !constraint["labelSelector"].is_null() {
        line = format!("{line} for selector {}", selector(&constraint["labelSelector"]));
    }
    line
}

/// Returns `node.kubernetes.io/not-ready:NoExecute op=Exists for 300s`.
pub(crate) fn toleration(toleration: &Value) -> String {
    let mut line = text(&toleration["key"]);
    if toleration["value"].is_string() {
        line = format!("{line}={}", text(&toleration["value"]));
    }
    if toleration["effect"].is_string() {
        line = format!("{line}:{}", text(&toleration["effect"]));
    }
    if toleration["operator"] == "Exists" {
        line.push_str(if line.is_empty() { "op=Exists" } else { " op=Exists" });
    }
    if let Some(seconds) = toleration["tolerationSeconds"].as_i64() {
        line = format!("{line} for {seconds}s");
    }
    line
}
