//! The controllers and other components of the control plane, as `podium.dev/v1alpha1` serves them, and as rows
//! (CON-19).

use std::borrow::Cow;
use std::collections::BTreeMap;

use compact_str::{CompactString, ToCompactString};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;

use super::column_cells::RowColumn;
use super::{Cell, Column, Row};
use crate::resource::{ResourceKey, Uid};
use crate::server_table::TableRow;
use crate::store::Stores;
use crate::thresholds::{Load, ThresholdLevel};
use base::sort::SliceOrder;
use console_toolkit::health::Health;
use console_toolkit::text::{age, clean};
use extension::fault::{Component, Fault, FaultTarget};
use object::selector::Selector;

/// The API group of the resource.
pub const GROUP: &str = "podium.dev";
/// The plural name of the resource.
pub const PLURAL: &str = "controllers";

/// Returns the resource of controllers, as Podium serves it.
pub fn resource() -> ResourceKey {
    let [group, version, plural] = [GROUP, "v1alpha1", PLURAL].map(Cow::Borrowed);
    ResourceKey { group, version, plural }
}

/// The status of a controller. Missing values are `None` or empty: a stopped controller only has a state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ControllerStatus {
    /// `Running`, `Paused`, `Starting`, `Restarting` or `Stopped`.
    pub state: String,
    /// The subsystem: `Controllers`, `Scheduler`, `Kubelet`, `Network` or `Cluster`.
    pub(crate) subsystem: Option<String>,
    /// The name of its component in faults.
    pub component: Option<String>,
    /// The node of the component, for a kubelet.
    pub node: Option<String>,
    /// The reason why faults cannot pause the controller.
    pub cannot_pause: Option<String>,
    /// The reason why the controller cannot be stepped while it is paused.
    pub cannot_step: Option<String>,
    /// The maximum number of concurrent reconciles.
    pub workers: u64,
    /// The time since which the statistics count.
    pub started_at: Option<Time>,
    /// Number of panics.
    pub panics: u64,
    /// The state of its queue; `None` if it has no queue.
    pub queue: Option<QueueStatus>,
    /// Further counters.
    pub counts: Vec<Count>,
    /// Number of finished reconciles.
    pub reconciles: u64,
    /// Number of failed reconciles.
    pub errors: u64,
    /// Number of reconciles that finished in the last minute.
    pub last_minute: u64,
    /// Waiting times of the last keys.
    pub queue_duration: Option<Quantiles>,
    /// Durations of the last reconciles.
    pub work_duration: Option<Quantiles>,
    /// The last failed reconcile.
    pub(crate) last_error: Option<KeyStatus>,
    /// Keys that are due.
    pub waiting: Vec<KeyStatus>,
    /// Keys that become due later.
    pub delayed: Vec<KeyStatus>,
    /// Keys that are being reconciled.
    pub in_flight: Vec<KeyStatus>,
    /// The last reconciles.
    pub recent: Vec<KeyStatus>,
    /// The last failed reconciles.
    pub last_errors: Vec<KeyStatus>,
}

/// A named counter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Count {
    /// The name.
    pub name: String,
    /// The value.
    pub count: u64,
}

/// The state of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueStatus {
    /// Number of keys that are due.
    pub depth: u64,
    /// Number of keys that are being reconciled.
    pub in_flight: u64,
    /// Number of keys that become due later.
    pub delayed: u64,
    /// The longest waiting time of a key.
    pub oldest_microseconds: Option<u64>,
    /// Pods that wait for a change of the cluster (scheduler only).
    pub unschedulable: Option<u64>,
    /// Pods that wait for the removal of their scheduling gates (scheduler only).
    pub gated: Option<u64>,
}

/// Quantiles of the most recent durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Quantiles {
    /// The median.
    pub p50_microseconds: u64,
    /// The 99th percentile.
    pub p99_microseconds: u64,
    /// Number of durations.
    pub samples: u64,
}

/// A key in a queue, or a reconcile of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KeyStatus {
    /// The key as text.
    pub key: String,
    /// The object that the key names, if it names one.
    pub object: Option<KeyObject>,
    /// The time that the key waited, or has waited so far.
    pub waited_microseconds: Option<u64>,
    /// The time until the key is due.
    pub due_in_microseconds: Option<u64>,
    /// The duration of the reconcile, so far if it is running.
    pub worked_microseconds: Option<u64>,
    /// Number of consecutive failures.
    pub failures: u64,
    /// The end of the reconcile.
    pub at: Option<Time>,
    /// The result of the reconcile.
    pub result: String,
    /// The reason for the result.
    pub message: Option<String>,
    /// The delay of the requeue, if the reconcile requested one.
    pub requeued_after_microseconds: Option<u64>,
}

/// The object of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KeyObject {
    /// `group/version`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace, if it has one.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl ControllerStatus {
    /// Returns the state as a health.
    pub fn health(&self) -> Health {
        match self.state.as_str() {
            "Running" => Health::Running,
            "Starting" | "Paused" => Health::Pending,
            "Restarting" => Health::Crashing,
            "Stopped" => Health::Failed,
            _ => Health::Unknown,
        }
    }

    /// Reports whether the controller runs; nothing else is known about a stopped one.
    pub fn runs(&self) -> bool {
        self.state != "Stopped"
    }

    /// Returns the name of one unit of its work, singular and plural.
    pub fn work(&self) -> (&'static str, &'static str) {
        match self.subsystem.as_deref() {
            Some("Kubelet") => ("pod sync", "pod syncs"),
            Some("Network" | "Cluster") => ("round", "rounds"),
            _ => ("reconcile", "reconciles"),
        }
    }

    /// Returns whether the controller is paused.
    pub fn is_paused(&self) -> bool {
        self.state == "Paused"
    }
}

/// Returns the status in a row of a server-side Table with whole objects; `None` if it cannot be parsed.
pub(crate) fn status_of(row: &TableRow) -> Option<ControllerStatus> {
    base::json::from_value(row.object.data.get("status")?.clone()).ok()
}

/// Returns the status of a controller from its table.
pub fn table_status(stores: &Stores, uid: &Uid) -> Option<ControllerStatus> {
    status_of(stores.get(&resource())?.row(uid)?)
}

/// Returns the active faults that pause a controller. For faults that select nodes by labels, only known nodes are
/// considered.
pub(crate) fn paused_by<'f>(
    faults: impl Iterator<Item = &'f Fault>,
    status: &ControllerStatus,
    labels_of: impl Fn(&str) -> Option<BTreeMap<String, String>>,
) -> Vec<&'f Fault> {
    let node = status.node.as_deref();
    let chooses = |target: &FaultTarget| match (&target.node, &target.node_selector, node) {
        (Some(named), _, Some(node)) => named == node,
        (None, Some(selector), Some(node)) => {
            labels_of(node).is_some_and(|labels| Selector::from_field(selector).matches(Some(&labels)))
        }
        _ => false,
    };
    let is_targeted = |target: &FaultTarget| match (target.component(), status.component.as_deref()) {
        (Some(Component::Kubelet), Some("kubelet")) => chooses(target),
        (Some(Component::Scheduler), Some(component)) => component == "scheduler",
        (Some(Component::Controllers), Some(component)) => !["scheduler", "kubelet"].contains(&component),
        (Some(Component::Controller(name)), Some(component)) => node.is_none() && name == component,
        _ => false,
    };
    let mut pausing: Vec<&Fault> = faults
        .filter(|fault| fault.spec.type_ == "Pause" && super::fault::is_active(fault))
        .filter(|fault| fault.spec.target.as_ref().is_some_and(is_targeted))
        .collect();
    pausing.order_by_key(|fault| fault.metadata.name.clone());
    pausing
}

/// As [`paused_by`], with the faults and nodes of the stores.
pub fn pausing<'s>(stores: &'s Stores, status: &ControllerStatus) -> Vec<&'s Fault> {
    let nodes = stores.nodes();
    let labels_of =
        |name: &str| nodes.by_name("", name).map(|node| node.metadata.labels.clone().unwrap_or_default());
    paused_by(stores.faults().iter().map(|(_, fault)| fault), status, labels_of)
}

/// The source of a controller's cells.
pub(crate) struct ControllerParts<'a> {
    name: &'a str,
    status: &'a ControllerStatus,
}

/// Returns the columns: state, queue and statistics.
pub(crate) fn columns<'a>() -> Vec<RowColumn<ControllerParts<'a>>> {
    vec![
        Column::text("NAME").weight(9).cell(|of| Cell::server_text(of.name)),
        Column::text("STATUS")
            .weight(9)
            .usual(10)
            .cell(|of| Cell::Status(clean(&of.status.state).into(), of.status.health())),
        Column::number("DEPTH").weight(8).usual(5).cell(|of| of.queue(|queue| Some(count(queue.depth)))),
        Column::number("FLIGHT").weight(6).cell(|of| of.queue(|queue| Some(count(queue.in_flight)))),
        Column::number("LATER").weight(6).cell(|of| of.queue(|queue| Some(count(queue.delayed)))),
        Column::number("OLDEST")
            .weight(7)
            .usual(6)
            .cell(|of| of.queue(|queue| queue.oldest_microseconds.map(duration))),
        Column::number("DONE")
            .weight(5)
            .usual(5)
            .cell(|of| of.figure(|status| Some(count(status.reconciles)))),
        Column::number("PER MIN").weight(4).cell(|of| of.figure(|status| Some(count(status.last_minute)))),
        Column::number("WAIT P50")
            .weight(5)
            .wide()
            .cell(|of| of.figure(|status| Some(duration(status.queue_duration?.p50_microseconds)))),
        Column::number("WAIT P99")
            .weight(5)
            .usual(6)
            .cell(|of| of.figure(|status| Some(duration(status.queue_duration?.p99_microseconds)))),
        Column::number("WORK P50")
            .weight(5)
            .wide()
            .cell(|of| of.figure(|status| Some(duration(status.work_duration?.p50_microseconds)))),
        Column::number("WORK P99")
            .weight(5)
            .usual(6)
            .cell(|of| of.figure(|status| Some(duration(status.work_duration?.p99_microseconds)))),
        Column::number("ERRORS").weight(8).cell(|of| of.figure(|status| Some(errors(status.errors)))),
        Column::number("PANICS").weight(5).wide().cell(|of| of.figure(|status| Some(errors(status.panics)))),
        Column::text("LAST ERROR")
            .weight(2)
            .cell(|of| of.figure(|status| Some(Cell::server_text(&status.last_error.as_ref()?.summary())))),
        Column::text("SUBSYSTEM")
            .weight(3)
            .wide()
            .cell(|of| of.figure(|status| Some(Cell::server_text(status.subsystem.as_deref()?)))),
        Column::text("AGE")
            .weight(3)
            .wide()
            .cell(|of| of.figure(|status| Some(Cell::Age(status.started_at.as_ref().map(|time| time.0))))),
    ]
}

impl ControllerParts<'_> {
    /// Returns the cell of a known figure; a dash if it is unknown. Nothing is known of a stopped controller.
    fn figure(&self, cell: impl FnOnce(&ControllerStatus) -> Option<Cell>) -> Cell {
        let known = if self.status.runs() { cell(self.status) } else { None };
        known.unwrap_or_else(|| Cell::Dim("–".into()))
    }

    fn queue(&self, cell: impl FnOnce(&QueueStatus) -> Option<Cell>) -> Cell {
        self.figure(|status| cell(status.queue.as_ref()?))
    }
}

/// Returns a controller's row.
pub(crate) fn row(stores: &Stores, uid: &Uid) -> Option<Row> {
    let row = stores.get(&resource())?.row(uid)?;
    let status = status_of(row)?;
    let meta = &row.object.metadata;
    let parts = ControllerParts { name: meta.name.as_deref().unwrap_or_default(), status: &status };
    Row::of_parts(meta, Some(status.health()), &columns(), &parts)
}

fn errors(count: u64) -> Cell {
    match i64::try_from(count).unwrap_or(i64::MAX) {
        0 => Cell::Number(0),
        count => Cell::Used {
            amount: count,
            text: count.to_compact_string(),
            load: Load::Fixed(ThresholdLevel::At),
        },
    }
}

fn duration(micros: u64) -> Cell {
    amount(micros, format_micros(micros).into())
}

/// Returns a counter.
fn count(number: u64) -> Cell {
    amount(number, number.to_compact_string())
}

fn amount(number: u64, text: CompactString) -> Cell {
    Cell::Used {
        amount: i64::try_from(number).unwrap_or(i64::MAX),
        text,
        load: Load::Fixed(ThresholdLevel::Far),
    }
}

impl KeyStatus {
    /// Returns `default/web: Failed: why`, in one line.
    pub fn summary(&self) -> String {
        let reason = self.message.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        format!("{}: {}{reason}", self.key, self.result).replace(['\n', '\r'], " ")
    }
}

/// Returns `85µs`, `3.2ms`, `120ms`, `4.5s`; from one minute on in the format of ages.
pub fn format_micros(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros}µs"),
        1_000..10_000 => format!("{}.{}ms", micros / 1_000, micros / 100 % 10),
        10_000..1_000_000 => format!("{}ms", micros / 1_000),
        1_000_000..60_000_000 => format!("{}.{}s", micros / 1_000_000, micros / 100_000 % 10),
        _ => age(i64::try_from(micros / 1_000_000).unwrap_or(i64::MAX)),
    }
}

/// Returns the microseconds that are left of a duration, which was reported at `reported_at`.
pub fn remaining(micros: u64, reported_at: Timestamp, now: Timestamp) -> u64 {
    let passed = now.duration_since(reported_at).max(SignedDuration::ZERO).as_micros();
    micros.saturating_sub(u64::try_from(passed).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rows::column_cells::{cells as cells_of, headings};

    fn status(value: serde_json::Value) -> ControllerStatus {
        serde_json::from_value(value).expect("a status")
    }

    /// Returns the cells of a controller by the headings of their columns.
    fn cells(value: serde_json::Value) -> BTreeMap<Cow<'static, str>, Cell> {
        let status = status(value);
        let cells = cells_of(&columns(), &ControllerParts { name: "deployment", status: &status });
        headings(columns()).into_iter().map(|column| column.name).zip(cells).collect()
    }

    fn shows(cells: &BTreeMap<Cow<'static, str>, Cell>, expected: &[(&str, &str)]) {
        for (heading, text) in expected {
            assert_eq!(cells[*heading].plain(), *text, "{heading}");
        }
    }

    #[test]
    fn a_controller_that_does_not_run_shows_no_figures_con_19() {
        let mut stopped = cells(json!({"state": "Stopped"}));
        assert_eq!(stopped.remove("NAME"), Some(Cell::Text("deployment".into())));
        assert_eq!(stopped.remove("STATUS"), Some(Cell::Status("Stopped".into(), Health::Failed)));
        assert!(stopped.values().all(|cell| *cell == Cell::Dim("–".into())), "{stopped:?}");
        let running =
            cells(json!({"state": "Running", "queue": {"depth": 3, "oldestMicroseconds": 34_000_000},
                "reconciles": 1204, "errors": 2, "workDuration": {"p99Microseconds": 3250},
                "lastError": {"key": "default/web", "result": "Failed", "message": "no\nroom\u{1b}[2J"}}));
        shows(&running, &[("DEPTH", "3"), ("FLIGHT", "0"), ("LATER", "0"), ("OLDEST", "34.0s")]);
        shows(&running, &[("DONE", "1204"), ("PER MIN", "0"), ("WAIT P50", "–"), ("WAIT P99", "–")]);
        shows(&running, &[("WORK P50", "0µs"), ("WORK P99", "3.2ms")]);
        let last = running["LAST ERROR"].plain();
        assert!(last.starts_with("default/web: Failed: no room") && !last.contains('\u{1b}'), "{last}");
        // Durations in different units sort by value.
        assert_eq!(duration(3_250).order(&duration(2_000_000)), std::cmp::Ordering::Less);
    }

    #[test]
    fn a_controller_without_a_queue_shows_dashes_and_its_work_con_19() {
        let shown = cells(json!({"state": "Running", "subsystem": "Network", "reconciles": 7, "errors": 1,
                "workDuration": {"p99Microseconds": 640}, "cannotPause": "it is a loop"}));
        shows(&shown, &[("STATUS", "Running"), ("DEPTH", "–"), ("FLIGHT", "–"), ("LATER", "–")]);
        shows(&shown, &[("OLDEST", "–"), ("DONE", "7"), ("PER MIN", "0"), ("WORK P99", "640µs")]);
        shows(&shown, &[("ERRORS", "1"), ("SUBSYSTEM", "Network")]);
    }

    #[test]
    fn a_pause_is_of_one_component_of_all_controllers_or_of_the_scheduler_con_19() {
        let fault = |name: &str, component: &str, active: &str| -> Fault {
            serde_json::from_value(json!({"metadata": {"name": name},
                "spec": {"type": "Pause", "target": {"component": component}},
                "status": {"conditions": [{"type": "Active", "status": active, "reason": "InForce",
                    "message": "", "lastTransitionTime": "2026-05-01T11:59:48Z"}]}}))
            .expect("a fault")
        };
        let of_kubelets = |name: &str, target: serde_json::Value| {
            let mut one = fault(name, "kubelet", "True");
            one.spec.target = Some(serde_json::from_value(target).expect("a target"));
            one
        };
        let all = [
            of_kubelets("by-name", json!({"component": "kubelet", "node": "n1"})),
            of_kubelets(
                "by-label",
                json!({"component": "kubelet", "nodeSelector": {"matchLabels": {"zone": "a"}}}),
            ),
            of_kubelets(
                "elsewhere",
                json!({"component": "kubelet", "nodeSelector": {"matchLabels": {"zone": "b"}}}),
            ),
            fault("one", "deployment", "True"),
            fault("other", "job", "True"),
            fault("all", "controllers", "True"),
            fault("asked", "deployment", "False"),
            fault("sched", "scheduler", "True"),
        ];
        let names = |status: serde_json::Value| -> Vec<String> {
            let labels_of = |node: &str| (node == "n1").then(|| [("zone".to_owned(), "a".to_owned())].into());
            let pausing = paused_by(all.iter(), &self::status(status), labels_of);
            pausing.iter().filter_map(|fault| fault.metadata.name.clone()).collect()
        };
        let of = |component: &str| names(json!({"state": "Paused", "component": component}));
        assert_eq!(of("deployment"), ["all", "one"]);
        assert_eq!(of("scheduler"), ["sched"]);
        assert_eq!(of("cronjob"), ["all"]);
        let kubelet = |node: &str| names(json!({"state": "Paused", "component": "kubelet", "node": node}));
        assert_eq!(kubelet("n1"), ["by-label", "by-name"]);
        assert!(kubelet("n2").is_empty(), "nothing is known of its labels");
        assert!(names(json!({"state": "Running", "cannotPause": "it is a loop"})).is_empty());
    }
}
