//! Pods as rows.

use k8s_openapi::api::core::v1::Pod;

use super::column_cells::RowColumn;
use super::{Cell, Column, Row};
use crate::store::{ContainerUsages, ResourceUsage, StoredObject, Stores};
use crate::thresholds::Resource;
use console_toolkit::text::clean;

/// The source of a pod's cells.
#[derive(Clone, Copy)]
pub(crate) struct PodParts<'a> {
    pod: StoredObject<'a, Pod>,
    /// The total measured usage.
    used: Option<ResourceUsage>,
}

/// Returns kubectl's columns NAME READY STATUS RESTARTS AGE, IP and NODE in every mode, and usage if it is measured: as
/// an amount, and in percent of requests and limits as in k9s.
pub(crate) fn columns<'a>() -> Vec<RowColumn<PodParts<'a>>> {
    vec![
        Column::text("NAME").weight(9).cell(|of| Cell::server_text(of.pod.name())),
        Column::text("READY").weight(8).cell(|of| {
            let seen = &of.pod.summary;
            Cell::Ratio(i64::from(seen.ready), i64::from(seen.total))
        }),
        Column::text("STATUS").weight(9).usual(19).cell(|of| {
            let seen = &of.pod.summary;
            let status = clean(&seen.status).into();
            match seen.pulled_percent {
                Some(percent) => Cell::Progress(status, seen.health, percent),
                None => Cell::Status(status, seen.health),
            }
        }),
        Column::text("RESTARTS").weight(7).usual(13).cell(|of| {
            let seen = &of.pod.summary;
            Cell::Restarts(i64::from(seen.restarts), seen.last_restart)
        }),
        Column::number("CPU")
            .measured()
            .weight(6)
            .usual(6)
            .cell(|of| of.measured(|used| Cell::cpu(used.cpu_millis, of.limits().0, of.requests().0))),
        Column::number("%CPU/R")
            .measured()
            .spare()
            .cell(|of| of.measured(|used| Cell::share(Resource::Cpu, used.cpu_millis, of.requests().0))),
        Column::number("%CPU/L")
            .measured()
            .spare()
            .cell(|of| of.measured(|used| Cell::share(Resource::Cpu, used.cpu_millis, of.limits().0))),
        Column::number("MEM")
            .measured()
            .weight(6)
            .usual(7)
            .cell(|of| of.measured(|used| Cell::memory(used.memory_bytes, of.limits().1, of.requests().1))),
        Column::number("%MEM/R")
            .measured()
            .spare()
            .cell(|of| of.measured(|used| Cell::share(Resource::Memory, used.memory_bytes, of.requests().1))),
        Column::number("%MEM/L")
            .measured()
            .spare()
            .cell(|of| of.measured(|used| Cell::share(Resource::Memory, used.memory_bytes, of.limits().1))),
        Column::text("NODE").weight(4).cell(|of| Cell::or_none(of.pod.summary.node.as_deref())),
        Column::text("IP").weight(3).usual(12).cell(|of| Cell::or_none(of.pod.summary.ip.as_deref())),
        Column::text("QOS").wide().weight(1).cell(|of| Cell::or_none(of.pod.summary.qos.as_deref())),
        Column::text("IMAGES").wide().weight(2).cell(|of| Cell::server_text(&of.pod.summary.images)),
        Column::text("AGE").weight(8).cell(|of| Cell::Age(of.pod.created)),
    ]
}

impl PodParts<'_> {
    fn measured(&self, cell: impl FnOnce(ResourceUsage) -> Cell) -> Cell {
        self.used.map_or_else(|| Cell::Dim("–".into()), cell)
    }

    /// Returns the limits of CPU and memory, if every container has one.
    fn limits(&self) -> (Option<i64>, Option<i64>) {
        self.pod.summary.limits
    }

    /// Returns the requests of CPU and memory. A sum of zero means that no container has a request.
    fn requests(&self) -> (Option<i64>, Option<i64>) {
        let positive = |amount: i64| Some(amount).filter(|amount| *amount > 0);
        let (cpu, memory) = self.pod.summary.container_requests;
        (positive(cpu), positive(memory))
    }
}

/// Returns a pod's row, with its usage if it is known.
pub(crate) fn row(pod: StoredObject<'_, Pod>, stores: &Stores) -> Row {
    let used = pod.namespace().and_then(|namespace| stores.used_by_pod(namespace, pod.name()));
    let parts = PodParts { pod, used: used.map(ContainerUsages::sum) };
    Row::of_entry(pod, Some(pod.summary.health), &columns(), &parts)
}
