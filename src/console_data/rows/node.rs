//! Nodes as rows, and their resource usage.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;

use super::fault::fence_state;
use super::{Cell, Column, Row};
use crate::store::Stores;
pub use crate::store::pod::is_over;
use crate::thresholds::Resource;
use console_toolkit::health::Health;
use object::node::condition_status;
pub use object::node::is_ready;
use object::quantity::Amount;
use object::well_known::label;

/// Returns kubectl's columns, with pods, their requests, measured usage, and the zone.
pub(crate) fn columns() -> Vec<Column> {
    vec![
        Column::text("NAME").weight(9),
        Column::text("STATUS").weight(9).usual(26),
        Column::text("ROLES").weight(2),
        Column::number("PODS").weight(7),
        Column::number("CPU-REQ%").weight(6),
        Column::number("MEM-REQ%").weight(6),
        Column::number("CPU%").measured().weight(5),
        Column::number("MEM%").measured().weight(5),
        Column::text("ZONE").weight(3),
        Column::text("VERSION").weight(2),
        Column::text("INTERNAL-IP").wide().weight(2),
        Column::text("TAINTS").wide().weight(1),
        Column::text("AGE").weight(8),
    ]
}

/// Returns whether the node takes no new pods.
pub fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

/// Returns STATUS as kubectl prints it, and the health.
pub fn status(node: &Node) -> (String, Health) {
    let (word, health) = match condition_status(node, "Ready") {
        Some("True") => ("Ready", Health::Running),
        Some("False") => ("NotReady", Health::Failed),
        Some(_) => ("NotReady", Health::Unknown),
        None => ("Unknown", Health::Unknown),
    };
    if is_cordoned(node) {
        let health = if health == Health::Running { Health::Terminating } else { health };
        return (format!("{word},SchedulingDisabled"), health);
    }
    (word.into(), health)
}

/// Returns the status, with the progress of its fence if it has one.
pub fn status_with_fence(node: &Node, stores: &Stores) -> (String, Health) {
    let (word, health) = status(node);
    let fence = node.metadata.name.as_deref().and_then(|name| stores.node_fences().by_name("", name));
    match fence.map(fence_state) {
        Some((far, health)) => (format!("{word},{far}"), health),
        None => (word, health),
    }
}

/// The resource requests of a node's pods, relative to its allocatable resources.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeRequests {
    /// Requested share of the allocatable CPU; 1 is all of it, and the share may exceed 1.
    pub cpu: f64,
    /// Requested share of the memory.
    pub memory: f64,
    /// Number of pods that are not finished.
    pub pods: usize,
    /// Maximum number of pods.
    pub pods_allocatable: i64,
}

/// Sums the requests of a node's unfinished pods.
pub fn requested(node: &Node, stores: &Stores) -> NodeRequests {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let mut cpu: i64 = 0;
    let mut memory: i64 = 0;
    let mut pods = 0;
    for pod in stores.entries_on(name).filter(|pod| !pod.summary.is_over) {
        pods += 1;
        cpu = cpu.saturating_add(pod.summary.container_requests.0);
        memory = memory.saturating_add(pod.summary.container_requests.1);
    }
    NodeRequests {
        cpu: share(cpu, Amount::in_list(allocatable, "cpu").millis()),
        memory: share(memory, Amount::in_list(allocatable, "memory").units()),
        pods,
        pods_allocatable: Amount::in_list(allocatable, "pods").units(),
    }
}

/// Returns the measured shares of allocatable CPU and memory, as in `kubectl top`.
fn used(node: &Node, stores: &Stores) -> Option<(f64, f64)> {
    let used = stores.used_by(node.metadata.name.as_deref()?)?;
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let cpu = share(used.cpu_millis, Amount::in_list(allocatable, "cpu").millis());
    Some((cpu, share(used.memory_bytes, Amount::in_list(allocatable, "memory").units())))
}

fn share(part: i64, of: i64) -> f64 {
    if of > 0 { part as f64 / of as f64 } else { 0.0 }
}

/// Returns the zone of the node, if it has a label for it.
pub fn zone(node: &Node) -> Option<&str> {
    node.metadata.labels.as_ref()?.get(label::ZONE).map(String::as_str)
}

pub(crate) fn row(node: &Node, stores: &Stores) -> Option<Row> {
    let (word, health) = status_with_fence(node, stores);
    let requested = requested(node, stores);
    let labels = node.metadata.labels.iter().flatten();
    let roles: BTreeSet<&str> = labels
        .filter_map(|(key, value)| {
            key.strip_prefix(label::NODE_ROLE_PREFIX).or((key == label::NODE_ROLE).then_some(value.as_str()))
        })
        .collect();
    let roles: Vec<&str> = roles.into_iter().collect();
    let node_status = node.status.as_ref();
    let version = node_status.and_then(|s| s.node_info.as_ref()).map(|info| info.kubelet_version.as_str());
    let addresses = node_status.and_then(|s| s.addresses.as_deref()).unwrap_or_default();
    let ip = addresses.iter().find(|a| a.type_ == "InternalIP").map(|a| a.address.as_str());
    let taints: Vec<String> = node
        .spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten())
        .map(|t| format!("{}:{}", t.key, t.effect))
        .collect();
    let percent = |resource, share: f64| Cell::percent(resource, (share * 100.0).round() as i32);
    let used = used(node, stores);
    let unknown = || Cell::Dim("?".into());
    let cells = vec![
        Cell::server_text(node.metadata.name.as_deref().unwrap_or_default()),
        Cell::Status(word.into(), health),
        Cell::or_none(Some(&roles.join(","))),
        Cell::Number(requested.pods as i64),
        percent(Resource::Cpu, requested.cpu),
        percent(Resource::Memory, requested.memory),
        used.map_or_else(unknown, |(cpu, _)| percent(Resource::Cpu, cpu)),
        used.map_or_else(unknown, |(_, memory)| percent(Resource::Memory, memory)),
        Cell::or_none(zone(node)),
        Cell::or_none(version),
        Cell::or_none(ip),
        Cell::or_none(Some(&taints.join(","))),
        Cell::Age(node.metadata.creation_timestamp.as_ref().map(|time| time.0)),
    ];
    Row::of(node, Some(health), cells)
}
