//! A node, as `kubectl describe node` prints it, with its unfinished pods and their resource requests.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::age_at;
use super::builder::{DocumentBuilder, Tone, at, identity, items, labels, text, time};
use super::conditions;
use base::sort::SliceOrder;
use object::TypedKind as _;
use object::quantity::Amount;
use object::resources::{Amounts, pod_limits, pod_requests};
use object::well_known::label::NODE_ROLE_PREFIX;

/// Writes the description; `pods` are all pods of the node, `beside` contains its Lease.
pub(crate) fn describe(
    doc: &mut DocumentBuilder,
    node: &Value,
    pods: &[Value],
    beside: &[Value],
    now: Option<Timestamp>,
) {
    identity(doc, node);
    let roles: Vec<String> = node["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, _)| key.strip_prefix(NODE_ROLE_PREFIX).map(str::to_owned))
        .collect();
    doc.field(0, "Roles", roles.join(","));
    labels(doc, node);
    doc.field(0, "CreationTimestamp", time(&node["metadata"]["creationTimestamp"]));
    let taints = items(node, "/spec/taints").map(|taint| {
        let value = taint["value"].as_str().map(|value| format!("={value}")).unwrap_or_default();
        format!("{}{value}:{}", text(&taint["key"]), text(&taint["effect"]))
    });
    doc.list(0, "Taints", taints);
    let cordoned = node.pointer("/spec/unschedulable") == Some(&Value::Bool(true));
    let tone = if cordoned { Tone::Waiting } else { Tone::Plain };
    doc.toned(0, "Unschedulable", if cordoned { "true" } else { "false" }, tone);
    lease(doc, beside);
    let columns = [
        ("Type", "type"),
        ("Status", "status"),
        ("LastHeartbeatTime", "lastHeartbeatTime"),
        ("LastTransitionTime", "lastTransitionTime"),
        ("Reason", "reason"),
        ("Message", "message"),
    ];
    conditions::describe(doc, node, &columns);
    doc.head(0, "Addresses");
    for address in items(node, "/status/addresses") {
        doc.field(2, &text(&address["type"]), text(&address["address"]));
    }
    for (title, path) in [("Capacity", "/status/capacity"), ("Allocatable", "/status/allocatable")] {
        doc.head(0, title);
        for (name, amount) in node.pointer(path).and_then(Value::as_object).into_iter().flatten() {
            doc.field(2, name, text(amount));
        }
    }
    doc.head(0, "System Info");
    for (title, key) in [
        ("Machine ID", "machineID"),
        ("System UUID", "systemUUID"),
        ("Boot ID", "bootID"),
        ("Kernel Version", "kernelVersion"),
        ("OS Image", "osImage"),
        ("Operating System", "operatingSystem"),
        ("Architecture", "architecture"),
        ("Container Runtime Version", "containerRuntimeVersion"),
        ("Kubelet Version", "kubeletVersion"),
    ] {
        doc.field(2, title, text(&node["status"]["nodeInfo"][key]));
    }
    for (title, path) in [("PodCIDR", "/spec/podCIDR"), ("ProviderID", "/spec/providerID")] {
        if node.pointer(path).is_some() {
            doc.field(0, title, at(node, path));
        }
        let ranges: Vec<String> = items(node, "/spec/podCIDRs").map(text).collect();
        if title == "PodCIDR" && !ranges.is_empty() {
            doc.field(0, "PodCIDRs", ranges.join(","));
        }
    }
    pods_of(doc, node, pods, now);
}

/// Appends the node's lease: its holder, and the times when the holder acquired and last renewed it.
fn lease(doc: &mut DocumentBuilder, beside: &[Value]) {
    let Some(lease) = beside.iter().find(|object| object["kind"] == "Lease") else { return };
    let or_unset = |text: String| if text.is_empty() { "<unset>".to_owned() } else { text };
    doc.head(0, "Lease");
    doc.field(2, "HolderIdentity", or_unset(at(lease, "/spec/holderIdentity")));
    doc.field(2, "AcquireTime", or_unset(time(&lease["spec"]["acquireTime"])));
    doc.field(2, "RenewTime", or_unset(time(&lease["spec"]["renewTime"])));
}

/// A pod's effective requests and limits, which include those of init containers and its overhead.
#[derive(Default)]
struct PodResources {
    requests: Amounts,
    limits: Amounts,
}

impl PodResources {
    /// Returns none for a pod that cannot be read.
    fn of(pod: &Value) -> Self {
        let Ok(pod) = Pod::decode(pod.clone()) else { return Self::default() };
        Self { requests: pod_requests(&pod), limits: pod_limits(&pod) }
    }
}

fn millis(amounts: &Amounts, resource: &str) -> i64 {
    amounts.get(resource).copied().map_or(0, Amount::millis)
}

fn pods_of(doc: &mut DocumentBuilder, node: &Value, pods: &[Value], now: Option<Timestamp>) {
    let mut live: Vec<(&Value, PodResources)> = pods
        .iter()
        .filter(|pod| !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")))
        .map(|pod| (pod, PodResources::of(pod)))
        .collect();
    live.order_by_key(|(pod, _)| (at(pod, "/metadata/namespace"), at(pod, "/metadata/name")));
    let allocatable = |resource: &str| {
        let amount = node.pointer("/status/allocatable").and_then(|list| list[resource].as_str());
        amount.and_then(|amount| Amount::parse(amount).ok()).map_or(0, Amount::millis)
    };
    let share = |millis: i64, resource: &str| {
        let all = allocatable(resource);
        let percent = if all > 0 { i128::from(millis) * 100 / i128::from(all) } else { 0 };
        let amount = Amount::from_millis(millis);
        let amount = if resource == "cpu" { amount.to_decimal().0 } else { amount.to_binary().0 };
        format!("{amount} ({percent}%)")
    };
    doc.field(0, "Non-terminated Pods", format!("({} in total)", live.len()));
    let rows: Vec<(Vec<String>, Tone)> = live
        .iter()
        .map(|(pod, PodResources { requests, limits })| {
            let created = pod["metadata"]["creationTimestamp"].as_str().and_then(|at| at.parse().ok());
            let row = vec![
                at(pod, "/metadata/namespace"),
                at(pod, "/metadata/name"),
                share(millis(requests, "cpu"), "cpu"),
                share(millis(limits, "cpu"), "cpu"),
                share(millis(requests, "memory"), "memory"),
                share(millis(limits, "memory"), "memory"),
                created.map_or_else(String::new, |created| age_at(now, created)),
            ];
            (row, Tone::Plain)
        })
        .collect();
    let header =
        ["Namespace", "Name", "CPU Requests", "CPU Limits", "Memory Requests", "Memory Limits", "Age"];
    doc.table(2, &header, &rows);
    doc.head(0, "Allocated resources");
    doc.line(2, "(Total limits may be over 100 percent, i.e., overcommitted.)", Tone::Dim);
    let rows: Vec<(Vec<String>, Tone)> = ["cpu", "memory", "ephemeral-storage"]
        .iter()
        .map(|resource| {
            let requested: i64 = live.iter().map(|(_, pod)| millis(&pod.requests, resource)).sum();
            let limited: i64 = live.iter().map(|(_, pod)| millis(&pod.limits, resource)).sum();
            let row = vec![(*resource).to_owned(), share(requested, resource), share(limited, resource)];
            (row, Tone::Plain)
        })
        .collect();
    doc.table(2, &["Resource", "Requests", "Limits"], &rows);
}
