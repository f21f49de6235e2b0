//! Pods as rows.

use k8s_openapi::api::core::v1::Pod;

use super::{Cell, Column, Row};
use crate::store::{ContainerUsages, ResourceUsage, StoredObject, Stores};
use crate::thresholds::Resource;

/// Returns kubectl's columns NAME READY STATUS RESTARTS AGE, IP and NODE in every mode, and usage if it is measured: as
/// an amount, and in percent of requests and limits as in k9s.
pub(crate) fn columns() -> Vec<Column> {
    vec![
        Column::text("NAME").weight(9),
        Column::text("READY").weight(8),
        Column::text("STATUS").weight(9).usual(19),
        Column::text("RESTARTS").weight(7).usual(13),
        Column::number("CPU").measured().weight(6).usual(6),
        Column::number("%CPU/R").measured().spare(),
        Column::number("%CPU/L").measured().spare(),
        Column::number("MEM").measured().weight(6).usual(7),
        Column::number("%MEM/R").measured().spare(),
        Column::number("%MEM/L").measured().spare(),
        Column::text("NODE").weight(4),
        Column::text("IP").weight(3).usual(12),
        Column::text("QOS").wide().weight(1),
        Column::text("IMAGES").wide().weight(2),
        Column::text("AGE").weight(8),
    ]
}

/// Returns the total measured usage of a pod.
pub(crate) fn used(pod: StoredObject<'_, Pod>, stores: &Stores) -> Option<ResourceUsage> {
    stores.used_by_pod(pod.namespace()?, pod.name()).map(ContainerUsages::sum)
}

/// Returns a pod's row, with its usage if it is known.
pub(crate) fn row(pod: StoredObject<'_, Pod>, used: Option<ResourceUsage>) -> Row {
    let seen = &pod.summary;
    let (most_cpu, most_memory) = seen.limits;
    // A sum of zero means that no container has a request.
    let positive = |amount: i64| Some(amount).filter(|amount| *amount > 0);
    let (requested_cpu, requested_memory) =
        (positive(seen.container_requests.0), positive(seen.container_requests.1));
    let unknown = || Cell::Dim("–".into());
    let cells = vec![
        Cell::server_text(pod.name()),
        Cell::Ratio(i64::from(seen.ready), i64::from(seen.total)),
        match seen.pulled_percent {
            Some(percent) => {
                Cell::Progress(console_toolkit::text::clean(&seen.status).into(), seen.health, percent)
            }
            None => Cell::Status(console_toolkit::text::clean(&seen.status).into(), seen.health),
        },
        Cell::Restarts(i64::from(seen.restarts), seen.last_restart),
        used.map_or_else(unknown, |used| Cell::cpu(used.cpu_millis, most_cpu, requested_cpu)),
        used.map_or_else(unknown, |used| Cell::share(Resource::Cpu, used.cpu_millis, requested_cpu)),
        used.map_or_else(unknown, |used| Cell::share(Resource::Cpu, used.cpu_millis, most_cpu)),
        used.map_or_else(unknown, |used| Cell::memory(used.memory_bytes, most_memory, requested_memory)),
        used.map_or_else(unknown, |used| Cell::share(Resource::Memory, used.memory_bytes, requested_memory)),
        used.map_or_else(unknown, |used| Cell::share(Resource::Memory, used.memory_bytes, most_memory)),
        Cell::or_none(seen.node.as_deref()),
        Cell::or_none(seen.ip.as_deref()),
        Cell::or_none(seen.qos.as_deref()),
        Cell::server_text(&seen.images),
        Cell::Age(pod.created),
    ];
    Row::of_entry(pod, Some(seen.health), cells)
}
