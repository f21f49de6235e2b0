//! Pods as rows.

use k8s_openapi::api::core::v1::Pod;

use super::{Cell, Column, Row};
use crate::pod_status;

/// NAME READY STATUS RESTARTS AGE of kubectl, with IP and NODE always.
pub(crate) fn columns() -> Vec<Column> {
    vec![
        Column::text("NAME").weight(9),
        Column::text("READY").weight(8),
        Column::text("STATUS").weight(9).usual(19),
        Column::text("RESTARTS").weight(7).usual(13),
        Column::text("NODE").weight(4),
        Column::text("IP").weight(3).usual(12),
        Column::text("QOS").wide().weight(1),
        Column::text("IMAGES").wide().weight(2),
        Column::text("AGE").weight(8),
    ]
}

/// A pod's row.
pub(crate) fn row(pod: &Pod) -> Option<Row> {
    let seen = pod_status::of(pod);
    let spec = pod.spec.as_ref();
    let status = pod.status.as_ref();
    let images: Vec<&str> = spec
        .map(|spec| spec.containers.iter().filter_map(|c| c.image.as_deref()).collect())
        .unwrap_or_default();
    let cells = vec![
        Cell::said(pod.metadata.name.as_deref().unwrap_or_default()),
        Cell::Ratio(seen.ready as i64, seen.total as i64),
        Cell::Status(crate::text::clean(&seen.status).into_owned(), seen.health),
        Cell::Restarts(i64::from(seen.restarts), seen.last_restart),
        Cell::or_none(spec.and_then(|spec| spec.node_name.as_deref())),
        Cell::or_none(status.and_then(|status| status.pod_ip.as_deref())),
        Cell::or_none(status.and_then(|status| status.qos_class.as_deref())),
        Cell::said(&images.join(",")),
        Cell::Age(pod.metadata.creation_timestamp.as_ref().map(|time| time.0)),
    ];
    Row::of(pod, Some(seen.health), cells)
}
