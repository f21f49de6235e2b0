//! Rows of the table of all workloads: the state of each kind, and its reason as far as the status contains one.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::Value;

use super::column_cells::RowColumn;
use super::workload::{deployment_state, replica_set_health};
use super::{Cell, Column, Row};
use crate::resource::{ResourceKey, Uid};
use crate::server_table::TableRow;
use crate::store::{Store, StoredObject, Stores, uid_of};
use crate::workloads::Workload;
use console_toolkit::health::Health;
use console_toolkit::text::clean;

/// Maximum number of characters of a reason: a message may have any length.
const REASON: usize = 512;

/// The source of a workload's cells.
pub(crate) struct WorkloadParts<'a> {
    name: &'a str,
    kind: Workload,
    state: &'a State,
    created: Option<Timestamp>,
}

/// Returns the columns: kind, count, state and reason. Of the columns beside the name, a narrow screen keeps the state
/// longest.
pub(crate) fn columns<'a>() -> Vec<RowColumn<WorkloadParts<'a>>> {
    vec![
        Column::text("NAME").weight(9).cell(|of| Cell::server_text(of.name)),
        Column::text("KIND").weight(8).cell(|of| Cell::Text(of.kind.kind_name().into())),
        Column::text("READY").weight(8).cell(|of| of.state.ready.clone()),
        Column::text("STATUS")
            .weight(9)
            .usual(13)
            .cell(|of| Cell::Status(clean(&of.state.label).into(), of.state.health)),
        Column::text("REASON").weight(4).cell(|of| {
            let reason = of.state.reason.split_whitespace().collect::<Vec<_>>().join(" ");
            Cell::Text(clean(&reason).chars().take(REASON).collect())
        }),
        Column::text("AGE").weight(7).cell(|of| Cell::Age(of.created)),
    ]
}

/// The state of a workload.
#[derive(Debug, PartialEq)]
struct State {
    ready: Cell,
    label: String,
    health: Health,
    reason: String,
}

impl State {
    fn new(ready: Cell, (word, health): (impl Into<String>, Health), reason: impl Into<String>) -> Self {
        Self { ready, label: word.into(), health, reason: reason.into() }
    }
}

/// Returns the stores of the available kinds.
fn stores_of(stores: &Stores) -> impl Iterator<Item = (Workload, &ResourceKey, &Store)> {
    stores.all().filter_map(|(resource, store)| Some((Workload::of(resource)?, resource, store)))
}

/// Returns the uids of all objects that may be rows. Pods represented by another row are left out, so that no rows are
/// built for very many pods.
pub(crate) fn uids(stores: &Stores) -> Vec<Uid> {
    let all = stores_of(stores).flat_map(|(kind, _, store)| {
        let uids = store.iter().map(|(uid, _)| uid);
        uids.filter(move |uid| is_row(stores, kind, store, uid)).cloned()
    });
    all.collect()
}

fn is_row(stores: &Stores, kind: Workload, store: &Store, uid: &Uid) -> bool {
    let is_covered_by = |owner: &OwnerReference| {
        Workload::of_owner(&owner.api_version, &owner.kind).is_some_and(|owner| kind.is_row_of_owner(owner))
    };
    match kind {
        // The owner is available without unpacking.
        Workload::Pod => {
            let pod = stores.pods().entry(uid);
            pod.is_some_and(|pod| !pod.open().controller.as_deref().is_some_and(is_covered_by))
        }
        Workload::ReplicaSet => {
            let owners = store.get(uid).and_then(|object| object.metadata().owner_references.as_ref());
            let controller = owners.and_then(|all| all.iter().find(|owner| owner.controller == Some(true)));
            !controller.is_some_and(is_covered_by)
        }
        _ => true,
    }
}

/// Returns the row of an object, unless it was deleted or another row represents it.
pub(crate) fn row(stores: &Stores, uid: &Uid) -> Option<Row> {
    let (kind, _, store) = stores_of(stores).find(|(_, _, store)| store.get(uid).is_some())?;
    if !is_row(stores, kind, store, uid) {
        return None;
    }
    match kind {
        Workload::Pod => {
            let pod = stores.pods().entry(uid)?;
            Some(of_pod(pod))
        }
        Workload::Deployment => {
            let deployment = stores.deployments().get(uid)?;
            of(kind, &deployment.metadata, &of_deployment(deployment, stores, uid))
        }
        Workload::ReplicaSet => {
            let set = stores.replica_sets().get(uid)?;
            of(kind, &set.metadata, &of_replica_set(set))
        }
        _ => {
            let row = store.row(uid)?;
            of(kind, &row.object.metadata, &of_table_row(kind, row))
        }
    }
}

/// Returns the health of a workload that is known as a row of a server-side Table, and its state in a few words, such as
/// `3/3 Complete`; `None` if the server returned only its metadata.
pub fn state_in_words(kind: Workload, row: &TableRow) -> Option<(Health, String)> {
    row.object.data.get("spec")?;
    let state = of_table_row(kind, row);
    let ready = match state.ready {
        Cell::Ratio(ready, want) => format!("{ready}/{want} "),
        _ => String::new(),
    };
    Some((state.health, format!("{ready}{}", state.label)))
}

fn of(kind: Workload, meta: &ObjectMeta, state: &State) -> Option<Row> {
    let parts = WorkloadParts {
        name: meta.name.as_deref().unwrap_or_default(),
        kind,
        state,
        created: meta.creation_timestamp.as_ref().map(|time| time.0),
    };
    let row = Row::of_parts(meta, Some(state.health), &columns(), &parts)?;
    Some(Row { workload: Some(kind), ..row })
}

fn of_pod(pod: StoredObject<'_, Pod>) -> Row {
    let open = pod.open();
    let seen = &open.summary;
    let ready = Cell::Ratio(i64::from(seen.ready), i64::from(seen.total));
    // A healthy pod needs no reason: only others are unpacked.
    let is_well = matches!(seen.health, Health::Running | Health::Succeeded);
    let reason = if is_well { String::new() } else { reason_of_pod(pod.whole()) };
    let state = State::new(ready, (&*seen.status, seen.health), reason);
    let parts =
        WorkloadParts { name: open.name(), kind: Workload::Pod, state: &state, created: open.created };
    let row = Row::of_entry(pod, Some(seen.health), &columns(), &parts);
    Row { workload: Some(Workload::Pod), ..row }
}

/// Returns the reason from the status of a pod: of the first container that waits or has failed, else of the pod.
fn reason_of_pod(pod: &Pod) -> String {
    let Some(status) = &pod.status else { return String::new() };
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let of_containers = containers.filter_map(|container| {
        let state = container.state.as_ref()?;
        let waits = state.waiting.as_ref().and_then(|waiting| waiting.message.clone());
        let ended = state.terminated.as_ref().filter(|ended| ended.exit_code != 0);
        let ended = ended.map(|ended| match ended.message.as_deref().map(str::trim) {
            Some(message) if !message.is_empty() => format!("exit {}: {message}", ended.exit_code),
            _ => format!("exit {}", ended.exit_code),
        });
        Some(format!("{}: {}", container.name, waits.or(ended)?))
    });
    let unmet = status.conditions.iter().flatten().filter(|condition| condition.status == "False");
    let mut unmet = unmet.filter_map(|condition| condition.message.clone().filter(|text| !text.is_empty()));
    let own = status.message.clone().filter(|message| !message.is_empty());
    own.or_else(|| of_containers.into_iter().next()).or_else(|| unmet.next()).unwrap_or_default()
}

/// Returns the problem of a Deployment's pods, in the overview's wording, such as
/// `ImagePullBackOff: main: Back-off pulling image …`.
fn cause_in_pods(stores: &Stores, deployment: &Uid) -> Option<String> {
    let sets = stores.replica_sets().owned_by(deployment).filter_map(uid_of);
    let pods = sets.flat_map(|set| stores.pods().entries_owned_by(&set).collect::<Vec<_>>());
    // The newest pods matter, because the rollout waits for them.
    let bad = pods.filter(|pod| pod.open().summary.health.is_fault()).max_by_key(|pod| pod.open().created)?;
    Some(reason_and_message(Some(&bad.open().summary.status), Some(&reason_of_pod(bad.whole()))))
}

fn of_deployment(deployment: &Deployment, stores: &Stores, uid: &Uid) -> State {
    let (word, health) = deployment_state(deployment);
    let status = deployment.status.as_ref();
    let ready = status.and_then(|status| status.ready_replicas).unwrap_or(0);
    let ready = Cell::Ratio(i64::from(ready), i64::from(deployment.spec.replicas.unwrap_or(1)));
    let condition = |name: &str, status_is: &str| {
        let mut all = status.iter().flat_map(|status| status.conditions.iter().flatten());
        let found = all.find(|condition| {
            condition.type_.as_deref() == Some(name) && condition.status.as_deref() == Some(status_is)
        })?;
        Some(reason_and_message(found.reason.as_deref(), found.message.as_deref()))
    };
    // An exceeded deadline does not explain the cause.
    let cause = || cause_in_pods(stores, uid);
    let reason = match health {
        Health::Failed => {
            condition("ReplicaFailure", "True").or_else(cause).or_else(|| condition("Progressing", "False"))
        }
        Health::Pending => cause().or_else(|| condition("Available", "False")),
        _ => None,
    };
    State::new(ready, (word, health), reason.unwrap_or_default())
}

fn of_replica_set(set: &ReplicaSet) -> State {
    let status = set.status.as_ref();
    let want = i64::from(set.spec.replicas.unwrap_or(1));
    let ready = i64::from(status.and_then(|status| status.ready_replicas).unwrap_or(0));
    let mut conditions = status.iter().flat_map(|status| status.conditions.iter().flatten());
    let failure = conditions
        .find(|one| one.type_.as_deref() == Some("ReplicaFailure") && one.status.as_deref() == Some("True"));
    let failure = failure.map(|one| reason_and_message(one.reason.as_deref(), one.message.as_deref()));
    of_replicas(ready, want, replica_set_health(set), failure)
}

/// Returns the state of a ReplicaSet or ReplicationController.
fn of_replicas(ready: i64, want: i64, health: Health, failure: Option<String>) -> State {
    let label = match health {
        Health::Terminating => "Terminating",
        _ if failure.is_some() => "ReplicaFailure",
        Health::Succeeded => "Scaled to 0",
        Health::Running => "Available",
        _ => "Unavailable",
    };
    let health = if failure.is_some() && health != Health::Terminating { Health::Failed } else { health };
    State::new(Cell::Ratio(ready, want), (label, health), failure.unwrap_or_default())
}

/// Returns `reason: message`, or the one that exists.
fn reason_and_message(reason: Option<&str>, message: Option<&str>) -> String {
    let parts = [reason, message].into_iter().flatten().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(": ")
}

/// An object of a server-side Table as its fields.
struct Fields<'a>(&'a Value);

impl Fields<'_> {
    fn number(&self, path: &str) -> Option<i64> {
        self.0.pointer(path)?.as_i64()
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.0.pointer(path)?.as_str()
    }

    fn is(&self, path: &str) -> bool {
        self.0.pointer(path).and_then(Value::as_bool).unwrap_or(false)
    }

    /// Returns the reason and message of a condition that is true.
    fn condition(&self, name: &str) -> Option<String> {
        let all = self.0.pointer("/status/conditions")?.as_array()?;
        let text = |one: &Value, field: &str| one.get(field).and_then(Value::as_str).map(str::to_owned);
        let found = all.iter().find(|one| {
            text(one, "type").as_deref() == Some(name) && text(one, "status").as_deref() == Some("True")
        })?;
        Some(reason_and_message(text(found, "reason").as_deref(), text(found, "message").as_deref()))
    }
}

fn of_table_row(kind: Workload, row: &TableRow) -> State {
    let meta = &row.object.metadata;
    let fields = Fields(&row.object.data);
    // The server provides no Table of whole objects, or has not yet: the state is unknown.
    if fields.0.get("spec").is_none() {
        return State::new(
            Cell::Dim("–".into()),
            ("Unknown", Health::Unknown),
            "the server returned only its name",
        );
    }
    let is_observed = fields.number("/status/observedGeneration") >= meta.generation;
    let mut state = match kind {
        Workload::StatefulSet => of_stateful_set(&fields, is_observed),
        Workload::DaemonSet => of_daemon_set(&fields, is_observed),
        Workload::Job => of_job(&fields),
        Workload::CronJob => of_cron_job(&fields),
        _ => {
            let want = fields.number("/spec/replicas").unwrap_or(1);
            let ready = fields.number("/status/readyReplicas").unwrap_or(0);
            let current = fields.number("/status/replicas").unwrap_or(0);
            let health = match () {
                () if want == 0 && current == 0 => Health::Succeeded,
                () if ready < want || current != want => Health::Pending,
                () => Health::Running,
            };
            of_replicas(ready, want, health, fields.condition("ReplicaFailure"))
        }
    };
    if meta.deletion_timestamp.is_some() {
        (state.label, state.health) = ("Terminating".to_owned(), Health::Terminating);
    }
    state
}

fn of_stateful_set(fields: &Fields<'_>, is_observed: bool) -> State {
    let want = fields.number("/spec/replicas").unwrap_or(1);
    let count = |path: &str| fields.number(path).unwrap_or(0);
    let (ready, updated) = (count("/status/readyReplicas"), count("/status/updatedReplicas"));
    let partition = count("/spec/updateStrategy/rollingUpdate/partition");
    let rolls = fields.text("/spec/updateStrategy/type") != Some("OnDelete");
    let is_new = fields.text("/status/currentRevision") == fields.text("/status/updateRevision");
    let left = if rolls && !is_new { (want - partition - updated).max(0) } else { 0 };
    let (state, reason) = match () {
        () if !is_observed => (("Progressing", Health::Pending), "waiting for the controller".to_owned()),
        () if left > 0 => (("Progressing", Health::Pending), format!("{left} to be updated")),
        () if want == 0 && count("/status/replicas") == 0 => {
            (("Scaled to 0", Health::Succeeded), String::new())
        }
        () if ready < want => (("Unavailable", Health::Pending), format!("{} not ready", want - ready)),
        () => (("Available", Health::Running), String::new()),
    };
    State::new(Cell::Ratio(ready, want), state, reason)
}

fn of_daemon_set(fields: &Fields<'_>, is_observed: bool) -> State {
    let count = |path: &str| fields.number(path).unwrap_or(0);
    let want = count("/status/desiredNumberScheduled");
    let (ready, updated) = (count("/status/numberReady"), count("/status/updatedNumberScheduled"));
    let misscheduled = count("/status/numberMisscheduled");
    let rolls = fields.text("/spec/updateStrategy/type") != Some("OnDelete");
    let (state, reason) = match () {
        () if !is_observed => (("Progressing", Health::Pending), "waiting for the controller".to_owned()),
        () if rolls && updated < want => {
            (("Progressing", Health::Pending), format!("{} to be updated", want - updated))
        }
        () if ready < want => (("Unavailable", Health::Pending), format!("{} not ready", want - ready)),
        () if want == 0 => (("On no node", Health::Succeeded), String::new()),
        () if misscheduled > 0 => (("Available", Health::Running), format!("{misscheduled} misscheduled")),
        () => (("Available", Health::Running), String::new()),
    };
    State::new(Cell::Ratio(ready, want), state, reason)
}

fn of_job(fields: &Fields<'_>) -> State {
    let count = |path: &str| fields.number(path).unwrap_or(0);
    let (active, failed) = (count("/status/active"), count("/status/failed"));
    let ready = Cell::Ratio(count("/status/succeeded"), fields.number("/spec/completions").unwrap_or(1));
    let failures = || match failed {
        0 => String::new(),
        1 => "1 pod failed".to_owned(),
        many => format!("{many} pods failed"),
    };
    let (state, reason) = if let Some(why) = fields.condition("Failed") {
        (("Failed", Health::Failed), why)
    } else if fields.condition("Complete").is_some() {
        (("Complete", Health::Succeeded), String::new())
    } else if let Some(why) = fields.condition("FailureTarget") {
        (("Failing", Health::Failed), why)
    } else if fields.condition("Suspended").is_some() || fields.is("/spec/suspend") {
        (("Suspended", Health::Terminating), String::new())
    } else if active > 0 {
        // A pod failed and another one is tried: the job is neither healthy nor finished.
        (("Running", if failed > 0 { Health::Pending } else { Health::Running }), failures())
    } else {
        (("Waiting", Health::Pending), failures())
    };
    State::new(ready, state, reason)
}

fn of_cron_job(fields: &Fields<'_>) -> State {
    let schedule = fields.text("/spec/schedule").unwrap_or_default();
    let zone = fields.text("/spec/timeZone").map(|zone| format!(" {zone}")).unwrap_or_default();
    let active = fields.0.pointer("/status/active").and_then(Value::as_array).map_or(0, Vec::len);
    let state = match () {
        () if fields.is("/spec/suspend") => ("Suspended", Health::Terminating),
        () if active > 0 => ("Active", Health::Running),
        () => ("Scheduled", Health::Succeeded),
    };
    State::new(Cell::Dim("–".into()), state, format!("{schedule}{zone}"))
}
