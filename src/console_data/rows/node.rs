//! Nodes as rows, and their resource usage.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, NodeSystemInfo};

use super::column_cells::{RowColumn, age, name};
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

/// The source of a node's cells.
pub(crate) struct NodeParts<'a> {
    node: &'a Node,
    status: (String, Health),
    requested: NodeRequests,
    used: Option<(f64, f64)>,
}

/// Returns kubectl's columns, with pods, their requests, measured usage, and the zone.
pub(crate) fn columns<'a>() -> Vec<RowColumn<NodeParts<'a>>> {
    vec![
        Column::text("NAME").weight(9).cell(|of| name(&of.node.metadata)),
        Column::text("STATUS").weight(9).usual(26).cell(|of| {
            let (word, health) = &of.status;
            Cell::Status(word.into(), *health)
        }),
        Column::text("ROLES").weight(2).cell(|of| Cell::or_none(Some(&roles(of.node)))),
        Column::number("PODS").weight(7).cell(|of| Cell::Number(of.requested.pods as i64)),
        Column::number("CPU-REQ%").weight(6).cell(|of| percent(Resource::Cpu, of.requested.cpu)),
        Column::number("MEM-REQ%").weight(6).cell(|of| percent(Resource::Memory, of.requested.memory)),
        Column::number("CPU%")
            .measured()
            .weight(5)
            .cell(|of| of.measured(|(cpu, _)| percent(Resource::Cpu, cpu))),
        Column::number("MEM%")
            .measured()
            .weight(5)
            .cell(|of| of.measured(|(_, memory)| percent(Resource::Memory, memory))),
        Column::text("ZONE").weight(3).cell(|of| Cell::or_none(zone(of.node))),
        Column::text("VERSION")
            .weight(2)
            .cell(|of| Cell::or_none(of.info().map(|info| info.kubelet_version.as_str()))),
        Column::text("INTERNAL-IP").wide().weight(2).cell(|of| {
            let mut addresses = of.node.status.iter().flat_map(|status| status.addresses.iter().flatten());
            let internal = addresses.find(|address| address.type_ == "InternalIP");
            Cell::or_none(internal.map(|address| address.address.as_str()))
        }),
        Column::text("KERNEL-VERSION")
            .wide()
            .weight(1)
            .cell(|of| Cell::or_none(of.info().map(|info| info.kernel_version.as_str()))),
        Column::text("TAINTS").wide().weight(1).cell(|of| {
            let taints = of.node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
            let taints: Vec<String> = taints.map(|taint| format!("{}:{}", taint.key, taint.effect)).collect();
            Cell::or_none(Some(&taints.join(",")))
        }),
        Column::text("AGE").weight(8).cell(|of| age(&of.node.metadata)),
    ]
}

impl NodeParts<'_> {
    fn info(&self) -> Option<&NodeSystemInfo> {
        self.node.status.as_ref()?.node_info.as_ref()
    }

    fn measured(&self, cell: impl FnOnce((f64, f64)) -> Cell) -> Cell {
        self.used.map_or_else(|| Cell::Dim("?".into()), cell)
    }
}

fn percent(resource: Resource, share: f64) -> Cell {
    Cell::percent(resource, (share * 100.0).round() as i32)
}

fn roles(node: &Node) -> String {
    let labels = node.metadata.labels.iter().flatten();
    let roles: BTreeSet<&str> = labels
        .filter_map(|(key, value)| {
            key.strip_prefix(label::NODE_ROLE_PREFIX).or((key == label::NODE_ROLE).then_some(value.as_str()))
        })
        .collect();
    roles.into_iter().collect::<Vec<_>>().join(",")
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
    let parts = NodeParts {
        node,
        status: status_with_fence(node, stores),
        requested: requested(node, stores),
        used: used(node, stores),
    };
    Row::of_parts(&node.metadata, Some(parts.status.1), &columns(), &parts)
}
