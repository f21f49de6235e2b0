//! A controller in its API forms: as an object, as its metadata, and as the row of a table.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{GROUP, KIND, VERSION};
use crate::negotiate::{MetaVersion, Representation};
use crate::table::IncludeObject;
use api::controller_changes::ObservedController;
use api::controller_status::{
    ControllerKeys, ControllerState, ControllerStatus, PauseTarget, ProbeName, Quantiles, QueueStatus,
    QueuedKey, ReconcileRecord, ReconcileResult,
};
use base::clock::time;
use object::Revision;
use object::time::{human_age, human_duration};

/// A controller's reported state.
pub(super) struct ControllerView {
    name: ProbeName,
    /// `None` if it does not run.
    status: Option<Arc<ControllerStatus>>,
    revision: Revision,
    /// The keys of its queue, only if the client selected the controller by name.
    keys: Option<ControllerKeys>,
}

impl ControllerView {
    /// Reports an observed controller; with its keys if the client selected it by name.
    pub(super) fn new(seen: &ObservedController, keys: Option<ControllerKeys>) -> Self {
        Self { name: seen.name.clone(), status: seen.status.clone(), revision: seen.changed, keys }
    }

    /// Returns the object in this form; a table has one row, and column definitions only if `columns` demands
    /// them.
    pub(super) fn in_form(
        &self,
        form: Representation,
        include: IncludeObject,
        now: Timestamp,
        columns: Columns,
    ) -> Value {
        match form {
            Representation::Object => self.object(),
            Representation::Metadata(version) => self.partial(version),
            Representation::Table(version) => {
                table(version, std::slice::from_ref(self), include, now, self.revision, columns)
            }
        }
    }

    fn state(&self) -> ControllerState {
        self.status.as_ref().map_or(ControllerState::Stopped, |status| status.state)
    }

    /// Returns the status; a controller that does not run is reported by name only.
    fn running(&self) -> Option<&ControllerStatus> {
        self.status.as_deref()
    }

    fn metadata(&self) -> Value {
        let mut metadata = json!({"name": self.name, "uid": format!("controller.{GROUP}/{}", self.name),
            "resourceVersion": self.revision.to_string()});
        if let Some(status) = self.running() {
            metadata["creationTimestamp"] = json!(time(status.started_at));
        }
        metadata
    }

    fn partial(&self, version: MetaVersion) -> Value {
        version.partial(&self.metadata())
    }

    pub(super) fn object(&self) -> Value {
        let mut status = json!({"state": self.state().as_str()});
        if let Some(running) = self.running() {
            status["subsystem"] = running.subsystem.as_str().into();
            match &running.pause {
                PauseTarget::Component(name) => status["component"] = (*name).into(),
                PauseTarget::Kubelet(node) => {
                    status["component"] = "kubelet".into();
                    status["node"] = node.as_str().into();
                }
                PauseTarget::Never(why) => status["cannotPause"] = (*why).into(),
            }
            if let Some(why) = running.takes_no_step {
                status["cannotStep"] = why.into();
            }
            if let Some(workers) = running.workers {
                status["workers"] = workers.into();
            }
            status["startedAt"] = json!(time(running.started_at));
            status["panics"] = running.panics.into();
            if let Some(waits) = &running.queue {
                status["queue"] = queue(waits);
            }
            if !running.counts.is_empty() {
                let counts = running.counts.iter();
                status["counts"] =
                    counts.map(|(name, count)| json!({"name": name, "count": count})).collect();
            }
            status["reconciles"] = running.work.reconciles.into();
            status["errors"] = running.work.errors.into();
            status["lastMinute"] = running.work.last_minute.into();
            status["queueDuration"] = quantiles(running.work.queue_duration);
            status["workDuration"] = quantiles(running.work.work_duration);
            if let Some(last) = &running.work.last_error {
                status["lastError"] = reconciled(last);
            }
            if let Some(keys) = &self.keys {
                status["waiting"] = keys
                    .waiting
                    .iter()
                    .map(|(key, waited, failures)| {
                        let mut fields = key_fields(key);
                        if let Some(waited) = waited {
                            fields.insert("waitedMicroseconds".into(), micros(*waited));
                        }
                        fields.insert("failures".into(), (*failures).into());
                        Value::Object(fields)
                    })
                    .collect();
                status["delayed"] = keys
                    .delayed
                    .iter()
                    .map(|(key, left, failures)| {
                        let mut fields = key_fields(key);
                        fields.insert("dueInMicroseconds".into(), micros(*left));
                        fields.insert("failures".into(), (*failures).into());
                        Value::Object(fields)
                    })
                    .collect();
                status["inFlight"] = keys
                    .in_flight
                    .iter()
                    .map(|(key, taken)| {
                        let mut fields = key_fields(key);
                        fields.insert("workedMicroseconds".into(), micros(*taken));
                        Value::Object(fields)
                    })
                    .collect();
                status["recent"] = keys.recent.iter().map(reconciled).collect();
                status["lastErrors"] = keys.errors.iter().map(reconciled).collect();
            }
        }
        json!({"kind": KIND, "apiVersion": format!("{GROUP}/{VERSION}"), "metadata": self.metadata(), "status": status})
    }

    fn row(&self, version: MetaVersion, include: IncludeObject, now: Timestamp) -> Value {
        const NONE: &str = "<none>";
        let mut cells = vec![json!(self.name), json!(self.state().as_str())];
        match self.running() {
            None => cells.extend(std::iter::repeat_n(Value::Null, COLUMNS.len() - 2)),
            Some(status) => {
                let work = &status.work;
                let waits = |pick: fn(&QueueStatus) -> usize| status.queue.as_ref().map(pick);
                let duration = |duration: Option<Duration>| duration.map_or_else(|| NONE.into(), short);
                let of = |quantiles: Option<Quantiles>, pick: fn(Quantiles) -> Duration| {
                    duration(quantiles.map(pick))
                };
                let last = work.last_error.as_ref().map_or_else(
                    || NONE.into(),
                    |last| {
                        let text = message(&last.result).unwrap_or_default();
                        beginning(&format!("{} ago, {}: {text}", human_age(last.at, now), last.key.key))
                    },
                );
                cells.extend([
                    json!(waits(|queue| queue.depth)),
                    json!(waits(|queue| queue.in_flight)),
                    json!(waits(|queue| queue.delayed)),
                    json!(duration(status.queue.as_ref().and_then(|queue| queue.oldest))),
                    json!(work.reconciles),
                    json!(work.last_minute),
                    json!(of(work.queue_duration, |all| all.p50)),
                    json!(of(work.queue_duration, |all| all.p99)),
                    json!(of(work.work_duration, |all| all.p50)),
                    json!(of(work.work_duration, |all| all.p99)),
                    json!(work.errors),
                    json!(status.panics),
                    json!(last),
                    json!(status.subsystem.as_str()),
                    json!(human_age(status.started_at, now)),
                ]);
            }
        }
        let mut row = json!({"cells": cells});
        match include {
            IncludeObject::None => {}
            IncludeObject::Metadata => row["object"] = self.partial(version),
            IncludeObject::Object => row["object"] = self.object(),
        }
        row
    }
}

/// Returns the text on one line, cut to a readable length.
fn beginning(text: &str) -> String {
    const MAX_CHARS: usize = 200;
    let mut cut: String =
        text.chars().take(MAX_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

/// Title, type, and priority: 1 for columns of wide tables only.
const COLUMNS: [(&str, &str, u8); 17] = [
    ("Name", "string", 0),
    ("State", "string", 0),
    ("Depth", "integer", 0),
    ("In Flight", "integer", 0),
    ("Delayed", "integer", 0),
    ("Oldest", "string", 0),
    ("Reconciles", "integer", 0),
    ("Last Minute", "integer", 1),
    ("Queue P50", "string", 1),
    ("Queue P99", "string", 0),
    ("Work P50", "string", 1),
    ("Work P99", "string", 0),
    ("Errors", "integer", 0),
    ("Panics", "integer", 1),
    ("Last Error", "string", 1),
    ("Subsystem", "string", 1),
    ("Age", "string", 0),
];

/// Column definitions in a table: a watch sends them only once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Columns {
    Defined,
    Known,
}

/// Returns the table of these controllers.
pub(super) fn table(
    version: MetaVersion,
    views: &[ControllerView],
    include: IncludeObject,
    now: Timestamp,
    revision: Revision,
    columns: Columns,
) -> Value {
    let define = |(name, kind, priority): &(&str, &str, u8)| {
        let format = if *name == "Name" { "name" } else { "" };
        json!({"name": name, "type": kind, "format": format, "description": "", "priority": priority})
    };
    let columns = (columns == Columns::Defined).then(|| COLUMNS.iter().map(define).collect::<Vec<_>>());
    let rows: Vec<Value> = views.iter().map(|one| one.row(version, include, now)).collect();
    json!({"kind": "Table", "apiVersion": version.api_version(), "metadata": {"resourceVersion": revision.to_string()},
        "columnDefinitions": columns, "rows": rows})
}

fn queue(queue: &QueueStatus) -> Value {
    let mut fields = json!({"depth": queue.depth, "inFlight": queue.in_flight, "delayed": queue.delayed});
    if let Some(oldest) = queue.oldest {
        fields["oldestMicroseconds"] = micros(oldest);
    }
    for (why, count) in &queue.parked {
        fields[*why] = (*count).into();
    }
    fields
}

fn quantiles(quantiles: Option<Quantiles>) -> Value {
    quantiles.map_or(Value::Null, |all| {
        json!({"p50Microseconds": micros(all.p50), "p99Microseconds": micros(all.p99), "samples": all.count})
    })
}

fn key_fields(key: &QueuedKey) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("key".into(), key.key.as_str().into());
    if let Some((kind, object)) = &key.object {
        let info = kind.info();
        let mut of = json!({"apiVersion": info.api_version(), "kind": info.name, "name": object.name});
        if let Some(namespace) = object.namespace() {
            of["namespace"] = namespace.into();
        }
        fields.insert("object".into(), of);
    }
    fields
}

/// Returns the JSON of a completed reconcile.
pub(super) fn reconciled(ended: &ReconcileRecord) -> Value {
    let mut fields = key_fields(&ended.key);
    fields.insert("at".into(), json!(time(ended.at)));
    fields.insert("result".into(), ended.result.as_str().into());
    if let Some(waited) = ended.waited {
        fields.insert("waitedMicroseconds".into(), micros(waited));
    }
    fields.insert("workedMicroseconds".into(), micros(ended.took));
    if let Some(text) = message(&ended.result) {
        fields.insert("message".into(), text.into());
    }
    if let ReconcileResult::Requeued(after) = &ended.result {
        fields.insert("requeuedAfterMicroseconds".into(), micros(*after));
    }
    Value::Object(fields)
}

/// Returns the message of a result, if it has one.
fn message(result: &ReconcileResult) -> Option<&str> {
    match result {
        ReconcileResult::Failed(text)
        | ReconcileResult::Panicked(text)
        | ReconcileResult::Scheduled(text)
        | ReconcileResult::Unschedulable(text) => Some(text),
        ReconcileResult::Done | ReconcileResult::Requeued(_) | ReconcileResult::Waiting => None,
    }
}

fn micros(duration: Duration) -> Value {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).into()
}

/// Formats a duration: `85µs`, `3.2ms`, `120ms`, `4.5s`, and from a minute on in the format of ages.
fn short(duration: Duration) -> String {
    let micros = duration.as_micros();
    match micros {
        0..1_000 => format!("{micros}µs"),
        1_000..10_000 => format!("{}.{}ms", micros / 1_000, micros / 100 % 10),
        10_000..1_000_000 => format!("{}ms", micros / 1_000),
        1_000_000..60_000_000 => format!("{}.{}s", micros / 1_000_000, micros / 100_000 % 10),
        _ => human_duration(i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short_con_19() {
        let text = |micros: u64| short(Duration::from_micros(micros));
        assert_eq!(text(0), "0µs");
        assert_eq!(
            [85, 999, 1_000, 3_250, 12_345, 999_999, 4_520_000, 125_000_000].map(text),
            ["85µs", "999µs", "1.0ms", "3.2ms", "12ms", "999ms", "4.5s", "2m5s"]
        );
    }
}
