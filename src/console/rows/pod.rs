//! Pods as rows.

use k8s_openapi::api::core::v1::Pod;

use super::{Cell, Column, Row};
use crate::pod_status;
use crate::store::{Stores, Used};
use object::quantity::Amount;

/// NAME READY STATUS RESTARTS AGE of kubectl, with IP and NODE always, and what it uses where that is measured.
pub(crate) fn columns() -> Vec<Column> {
    vec![
        Column::text("NAME").weight(9),
        Column::text("READY").weight(8),
        Column::text("STATUS").weight(9).usual(19),
        Column::text("RESTARTS").weight(7).usual(13),
        Column::number("CPU").measured().weight(6).usual(6),
        Column::number("MEM").measured().weight(6).usual(7),
        Column::text("NODE").weight(4),
        Column::text("IP").weight(3).usual(12),
        Column::text("QOS").wide().weight(1),
        Column::text("IMAGES").wide().weight(2),
        Column::text("AGE").weight(8),
    ]
}

/// The limits of a pod, where each of its containers has one: in thousandths of a CPU, and in bytes.
pub(crate) fn limits(pod: &Pod) -> (Option<i64>, Option<i64>) {
    let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default();
    let sum = |resource: &str, of: fn(Amount) -> i64| {
        let limit = |limits: Option<&std::collections::BTreeMap<_, _>>| {
            limits
                .filter(|limits| limits.contains_key(resource))
                .map(|_| of(Amount::in_list(limits, resource)))
        };
        let all = containers.iter().map(|container| {
            limit(container.resources.as_ref().and_then(|resources| resources.limits.as_ref()))
        });
        all.sum::<Option<i64>>().filter(|sum| *sum > 0)
    };
    (sum("cpu", Amount::millis), sum("memory", Amount::units))
}

/// What a pod uses in all, where that was measured.
pub(crate) fn used(pod: &Pod, stores: &Stores) -> Option<Used> {
    let (namespace, name) = (pod.metadata.namespace.as_deref()?, pod.metadata.name.as_deref()?);
    let containers = stores.used_by_pod(namespace, name)?;
    let add = |sum: Used, one: &Used| Used {
        cpu_millis: sum.cpu_millis.saturating_add(one.cpu_millis),
        memory_bytes: sum.memory_bytes.saturating_add(one.memory_bytes),
    };
    Some(containers.values().fold(Used::default(), add))
}

/// A pod's row, with what it uses where that is known.
pub(crate) fn row(pod: &Pod, used: Option<Used>) -> Option<Row> {
    let seen = pod_status::of(pod);
    let spec = pod.spec.as_ref();
    let status = pod.status.as_ref();
    let images: Vec<&str> = spec
        .map(|spec| spec.containers.iter().filter_map(|c| c.image.as_deref()).collect())
        .unwrap_or_default();
    let (most_cpu, most_memory) = if used.is_some() { limits(pod) } else { (None, None) };
    let unknown = || Cell::Dim("–".into());
    let cells = vec![
        Cell::said(pod.metadata.name.as_deref().unwrap_or_default()),
        Cell::Ratio(seen.ready as i64, seen.total as i64),
        Cell::Status(crate::text::clean(&seen.status).into_owned(), seen.health),
        Cell::Restarts(i64::from(seen.restarts), seen.last_restart),
        used.map_or_else(unknown, |used| Cell::cpu(used.cpu_millis, most_cpu)),
        used.map_or_else(unknown, |used| Cell::memory(used.memory_bytes, most_memory)),
        Cell::or_none(spec.and_then(|spec| spec.node_name.as_deref())),
        Cell::or_none(status.and_then(|status| status.pod_ip.as_deref())),
        Cell::or_none(status.and_then(|status| status.qos_class.as_deref())),
        Cell::said(&images.join(",")),
        Cell::Age(pod.metadata.creation_timestamp.as_ref().map(|time| time.0)),
    ];
    Row::of(pod, Some(seen.health), cells)
}
