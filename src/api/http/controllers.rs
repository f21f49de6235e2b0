//! podium.dev: how the controllers of this control plane work (CON-19). `controllers` tells of each its queue, its last
//! reconciles and its errors; read only and never stored. A POST to `controllers/NAME/step` has one that is paused reconcile
//! one key: the next, or the one that the body names.

use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use http::{Method, StatusCode};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::Server;
use super::body;
use super::negotiate::{Form, MetaVersion};
use super::respond::Answer;
use super::response_format::{ResponseFormat, not_allowed};
use super::shown::Shown;
use super::table::IncludeObject;
use super::verdicts::{GROUP, VERSION};
use crate::ApiError;
use crate::controller_status::{
    ControllerKeys, ControllerState, ControllerStatus, Quantiles, QueuedKey, ReconcileResult, Reconciled,
    StepError,
};
use base::clock::time;
use object::time::{human_age, human_duration};

/// The resource.
pub(super) const PLURAL: &str = "controllers";
/// Its kind.
pub(super) const KIND: &str = "Controller";
/// The subresource that takes a step.
pub(super) const STEP: &str = "step";
/// What is sent to it and answered.
pub(super) const STEP_KIND: &str = "ControllerStep";

/// Keys of each part of a queue that are told.
const KEYS: usize = 100;

/// What a path below the resource names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ControllerTarget {
    /// All of them.
    All,
    /// One.
    One(String),
    /// A step of one.
    Step(String),
}

impl ControllerTarget {
    /// Reads the part of the path after the version.
    pub(super) fn parse(rest: &[&str]) -> Option<Self> {
        Some(match rest {
            [PLURAL] => Self::All,
            [PLURAL, name] => Self::One((*name).into()),
            [PLURAL, name, STEP] => Self::Step((*name).into()),
            _ => return None,
        })
    }

    /// Whether it names more than one.
    pub(super) fn is_collection(&self) -> bool {
        *self == Self::All
    }
}

/// Answers a request below the resource.
pub(super) async fn answer(
    server: &Server,
    target: &ControllerTarget,
    request: Request,
    wanted: &ResponseFormat,
) -> Result<Response, ApiError> {
    let name = match target {
        ControllerTarget::Step(name) => return step(server, name, request, wanted).await,
        ControllerTarget::One(name) => Some(name),
        ControllerTarget::All => None,
    };
    wanted.only_reads(request.method())?;
    if let Some(selector) = ["labelSelector", "fieldSelector"]
        .into_iter()
        .find(|selector| wanted.query.get(selector).is_some_and(|text| !text.is_empty()))
    {
        let message = format!("{selector}: {PLURAL}.{GROUP} are few, and are listed without selectors");
        return Err(ApiError::BadRequest(message));
    }
    let told: Vec<Told> = match name {
        None => server
            .api()
            .controllers()
            .into_iter()
            .map(|(name, probe)| {
                let status = probe.map(|probe| probe.status());
                Told::new(name, status, None)
            })
            .collect(),
        Some(name) => {
            let (name, probe) = server.api().controller(name).ok_or_else(|| not_known(name))?;
            vec![Told::new(
                name,
                probe.as_ref().map(|probe| probe.status()),
                probe.map(|probe| probe.keys(KEYS)),
            )]
        }
    };
    let listed = |kind: &str, version: &str, items: Vec<Value>| json!({"kind": format!("{kind}List"), "apiVersion": version, "metadata": {}, "items": items});
    let body = match wanted.form() {
        Form::Table(version) => {
            let include = wanted.query.get("includeObject").and_then(IncludeObject::from_parameter);
            table(version, &told, include.unwrap_or_default(), server.api().server_clock().now())
        }
        Form::Object if name.is_some() => told[0].object(),
        Form::Metadata(version) if name.is_some() => told[0].partial(version),
        Form::Metadata(version) => {
            let items = told.iter().map(|one| one.partial(version)).collect();
            listed("PartialObjectMetadata", version.api_version(), items)
        }
        Form::Object => listed(KIND, &format!("{GROUP}/{VERSION}"), told.iter().map(Told::object).collect()),
    };
    Answer::json(StatusCode::OK, &body)
}

fn not_known(name: &str) -> ApiError {
    ApiError::NotKnown { resource: PLURAL, group: GROUP, name: name.into() }
}

/// Has a controller take a step.
async fn step(
    server: &Server,
    name: &str,
    request: Request,
    wanted: &ResponseFormat,
) -> Result<Response, ApiError> {
    if *request.method() != Method::POST {
        return Err(not_allowed());
    }
    if wanted.query.get("dryRun").is_some_and(|dry_run| !dry_run.is_empty()) {
        return Err(ApiError::BadRequest("dryRun: a step is taken or not".into()));
    }
    let asked = body::read_value(request).await?.value;
    let key = key_of(&asked)?;
    let (name, probe) = server.api().controller(name).ok_or_else(|| not_known(name))?;
    let answer = match probe {
        None => Err(StepError::Stopped),
        Some(probe) => probe.step(key.clone()).await,
    };
    let done = answer.map_err(|why| ApiError::NotNow {
        resource: PLURAL,
        group: GROUP,
        name: name.into(),
        message: why.to_string(),
    })?;
    let mut answer = json!({"kind": STEP_KIND, "apiVersion": format!("{GROUP}/{VERSION}"),
        "metadata": {"name": name}, "spec": {}, "status": reconciled(&done)});
    if let Some(key) = key {
        answer["spec"]["key"] = key.into();
    }
    // What it has written is to stay true.
    let shown = Shown::up_to(server.api().revision(), Answer::json(StatusCode::CREATED, &answer)?);
    super::shown::once_durable(server, Ok(shown)).await
}

/// The key that the body of a step names; none for the next.
fn key_of(asked: &Value) -> Result<Option<String>, ApiError> {
    let wrong = |what: &str| ApiError::BadRequest(format!("{STEP_KIND}: {what}"));
    if !asked.is_object() {
        return Err(wrong("the body is not an object"));
    }
    for (field, expected) in [("kind", STEP_KIND.to_owned()), ("apiVersion", format!("{GROUP}/{VERSION}"))] {
        if asked.get(field).is_some_and(|given| *given != expected) {
            return Err(wrong(&format!("{field} is not {expected}")));
        }
    }
    match asked.pointer("/spec/key") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(key)) => Ok(Some(key.clone())),
        Some(_) => Err(wrong("spec.key is not a string")),
    }
}

/// A controller as it is told.
struct Told {
    name: &'static str,
    /// None of one that does not run.
    status: Option<ControllerStatus>,
    /// Of a single one.
    keys: Option<ControllerKeys>,
}

impl Told {
    fn new(name: &'static str, status: Option<ControllerStatus>, keys: Option<ControllerKeys>) -> Self {
        Self { name, status, keys }
    }

    fn state(&self) -> ControllerState {
        self.status.as_ref().map_or(ControllerState::Stopped, |status| status.state)
    }

    /// What is told of it while it does not run is its name alone.
    fn running(&self) -> Option<&ControllerStatus> {
        self.status.as_ref().filter(|status| status.state != ControllerState::Stopped)
    }

    fn metadata(&self) -> Value {
        let mut metadata = json!({"name": self.name, "uid": format!("controller.{GROUP}/{}", self.name)});
        if let Some(status) = self.running() {
            metadata["creationTimestamp"] = json!(time(status.started_at));
        }
        metadata
    }

    fn partial(&self, version: MetaVersion) -> Value {
        json!({"kind": "PartialObjectMetadata", "apiVersion": version.api_version(), "metadata": self.metadata()})
    }

    fn object(&self) -> Value {
        let mut status = json!({"state": self.state().as_str()});
        if let Some(running) = self.running() {
            status["component"] = running.component.into();
            status["workers"] = running.workers.into();
            status["startedAt"] = json!(time(running.started_at));
            status["panics"] = running.panics.into();
            status["queue"] = queue(running);
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
                        let mut told = key_fields(key);
                        if let Some(waited) = waited {
                            told.insert("waitedMicroseconds".into(), micros(*waited));
                        }
                        told.insert("failures".into(), (*failures).into());
                        Value::Object(told)
                    })
                    .collect();
                status["delayed"] = keys
                    .delayed
                    .iter()
                    .map(|(key, left, failures)| {
                        let mut told = key_fields(key);
                        told.insert("dueInMicroseconds".into(), micros(*left));
                        told.insert("failures".into(), (*failures).into());
                        Value::Object(told)
                    })
                    .collect();
                status["inFlight"] = keys
                    .in_flight
                    .iter()
                    .map(|(key, taken)| {
                        let mut told = key_fields(key);
                        told.insert("workedMicroseconds".into(), micros(*taken));
                        Value::Object(told)
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
                let (queue, work) = (&status.queue, &status.work);
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
                    json!(queue.depth),
                    json!(queue.in_flight),
                    json!(queue.delayed),
                    json!(duration(queue.oldest)),
                    json!(work.reconciles),
                    json!(work.last_minute),
                    json!(of(work.queue_duration, |all| all.p50)),
                    json!(of(work.queue_duration, |all| all.p99)),
                    json!(of(work.work_duration, |all| all.p50)),
                    json!(of(work.work_duration, |all| all.p99)),
                    json!(work.errors),
                    json!(status.panics),
                    json!(last),
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

/// On one line, no longer than a line is read.
fn beginning(text: &str) -> String {
    const MOST: usize = 200;
    let mut cut: String = text.chars().take(MOST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

/// Heading, type, and whether it is shown in wide tables alone.
const COLUMNS: [(&str, &str, u8); 16] = [
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
    ("Age", "string", 0),
];

fn table(version: MetaVersion, told: &[Told], include: IncludeObject, now: Timestamp) -> Value {
    let columns: Vec<Value> = COLUMNS
        .iter()
        .map(|(name, kind, priority)| {
            let format = if *name == "Name" { "name" } else { "" };
            json!({"name": name, "type": kind, "format": format, "description": "", "priority": priority})
        })
        .collect();
    let rows: Vec<Value> = told.iter().map(|one| one.row(version, include, now)).collect();
    json!({"kind": "Table", "apiVersion": version.api_version(), "metadata": {},
        "columnDefinitions": columns, "rows": rows})
}

fn queue(status: &ControllerStatus) -> Value {
    let queue = &status.queue;
    let mut told = json!({"depth": queue.depth, "inFlight": queue.in_flight, "delayed": queue.delayed});
    if let Some(oldest) = queue.oldest {
        told["oldestMicroseconds"] = micros(oldest);
    }
    for (why, count) in &queue.parked {
        told[*why] = (*count).into();
    }
    told
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
        let version = if info.group.is_empty() {
            info.version.into()
        } else {
            format!("{}/{}", info.group, info.version)
        };
        let mut of = json!({"apiVersion": version, "kind": info.name, "name": object.name});
        if let Some(namespace) = object.namespace() {
            of["namespace"] = namespace.into();
        }
        fields.insert("object".into(), of);
    }
    fields
}

fn reconciled(ended: &Reconciled) -> Value {
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

/// What it says, where it says something.
fn message(result: &ReconcileResult) -> Option<&str> {
    match result {
        ReconcileResult::Failed(text)
        | ReconcileResult::Panicked(text)
        | ReconcileResult::Scheduled(text)
        | ReconcileResult::Unschedulable(text) => Some(text),
        ReconcileResult::Done | ReconcileResult::Requeued(_) | ReconcileResult::Held => None,
    }
}

fn micros(duration: Duration) -> Value {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).into()
}

/// `85µs`, `3.2ms`, `120ms`, `4.5s`, and from a minute on as ages are.
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
        let told = |micros: u64| short(Duration::from_micros(micros));
        assert_eq!(told(0), "0µs");
        assert_eq!(
            [85, 999, 1_000, 3_250, 12_345, 999_999, 4_520_000, 125_000_000].map(told),
            ["85µs", "999µs", "1.0ms", "3.2ms", "12ms", "999ms", "4.5s", "2m5s"]
        );
    }

    #[test]
    fn a_step_names_a_key_or_none_and_nothing_else_con_19() {
        let key = |asked: Value| key_of(&asked).map_err(|error| error.code());
        assert_eq!(key(json!({})), Ok(None));
        assert_eq!(key(json!({"kind": "ControllerStep", "apiVersion": "podium.dev/v1alpha1"})), Ok(None));
        assert_eq!(key(json!({"spec": {"key": "default/web"}})), Ok(Some("default/web".into())));
        for wrong in
            [json!([]), json!({"kind": "Pod"}), json!({"apiVersion": "v1"}), json!({"spec": {"key": 7}})]
        {
            assert_eq!(key(wrong), Err(400));
        }
    }
}
