//! Executes a drain: cordons the nodes, requests all evictions at once, watches the pods terminate.
//!
//! One task drains all nodes, one after another. Dropping it stops the drain: evicted pods stay evicted, and the node
//! stays cordoned. The plan and [`NodeDrain`] make all decisions.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;

use super::budget::BudgetTracker;
use super::node_drain::{EvictionResponse, EvictionState, NodeDrain};
use super::plan::{Options, PodDeleteStatus, Row, plan};
use crate::effect::Outbox;
use crate::operations::node;
use base::clock::{self, Clock};
use console_data::action::{Action, Mutation, delete_params, error_text, eviction, execute};
use console_data::builtin_kinds;
use console_data::decoded::{JsonObject, TypedApi, WatchBackoff, api_of};
use console_data::resource::{ObjectRef, Uid};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Client;
use kube::api::ListParams;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use object::Kind;

/// The progress of a drain.
#[derive(Debug)]
pub enum Progress {
    /// The drain of a node began, with a plan for the pods that are on the node now.
    Began {
        /// Index of the node.
        node: usize,
        /// The plan for its pods.
        rows: Vec<Row>,
    },
    /// The evictions of these pods changed.
    Evictions {
        /// Index of the node.
        node: usize,
        /// The changed evictions.
        evictions: Vec<(Uid, EvictionState)>,
    },
    /// The drain of a node ended, or could not begin.
    Ended {
        /// Index of the node.
        node: usize,
        /// The error is the reason why the drain of the node could not begin.
        result: Result<(), String>,
    },
    /// The whole drain ended.
    Over,
}

/// Drains these nodes in order, starting at index `from`.
pub async fn run(
    out: Outbox,
    nodes: Vec<ObjectRef>,
    from: usize,
    options: Options,
    exceptions: BTreeSet<Uid>,
) {
    let clock = Clock::machine();
    // All nodes are cordoned first, as kubectl does: otherwise pods evicted from the first node land on the second and
    // are evicted again.
    for (node, target) in nodes.iter().enumerate().skip(from) {
        if let Err(error) = close(&out, target, &options).await {
            out.data(Progress::Ended { node, result: Err(error_text(&error)) }).await;
            return out.data(Progress::Over).await;
        }
    }
    for (node, target) in nodes.iter().enumerate().skip(from) {
        let result =
            Drain { out: &out, clock: &clock, node, target, options: &options, exceptions: &exceptions }
                .run()
                .await
                .map_err(|error| error_text(&error));
        out.data(Progress::Ended { node, result }).await;
    }
    out.data(Progress::Over).await;
}

/// Cordons a node that is not cordoned. The journal entry belongs to the drain: undoing it uncordons the node.
async fn close(out: &Outbox, target: &ObjectRef, options: &Options) -> Result<(), kube::Error> {
    let nodes = TypedApi::<Node>::all(out.client());
    let node = nodes.get(&target.name).await?;
    let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    let action = journal_row(target, options, is_cordoned);
    if is_cordoned {
        out.record(action, &Ok::<_, kube::Error>(())).await;
        return Ok(());
    }
    out.act(action).await?;
    Ok(())
}

/// Creates the journal entry for the drain of a node.
fn journal_row(target: &ObjectRef, options: &Options, is_cordoned: bool) -> Action {
    let cordon = node::action(target, true);
    let uncordon = node::action(target, false).undone_by(cordon.clone());
    let was = if is_cordoned { " (was already cordoned)" } else { "" };
    Action {
        title: format!("drain {}{was}", target.describe()),
        kubectl: kubectl(target, options),
        inverse: (!is_cordoned).then(|| Box::new(uncordon)),
        // The drain screen reports it.
        quiet: true,
        ..cordon
    }
}

/// Returns the drain as a kubectl command.
fn kubectl(target: &ObjectRef, options: &Options) -> String {
    let mut command = format!("kubectl drain {}", target.name);
    let switches = [
        (options.ignore_daemon_sets, " --ignore-daemonsets"),
        (options.force, " --force"),
        (options.delete_empty_dir_data, " --delete-emptydir-data"),
        (options.disable_eviction, " --disable-eviction"),
    ];
    for (_, flag) in switches.iter().filter(|(on, _)| *on) {
        command.push_str(flag);
    }
    if let Some(seconds) = options.grace_seconds {
        let _ = write!(command, " --grace-period={seconds}");
    }
    if let Some(timeout) = options.timeout {
        let _ = write!(command, " --timeout={}s", timeout.as_secs());
    }
    command
}

/// The drain of one node.
struct Drain<'a> {
    out: &'a Outbox,
    clock: &'a Clock,
    node: usize,
    target: &'a ObjectRef,
    options: &'a Options,
    exceptions: &'a BTreeSet<Uid>,
}

impl Drain<'_> {
    async fn run(&self) -> Result<(), kube::Error> {
        let client = self.out.client();
        let rows = self.rows(&client).await?;
        self.out.data(Progress::Began { node: self.node, rows: rows.clone() }).await;
        let now = self.clock.now();
        let is_evictable =
            |row: &&Row| row.delete_status.leaves() && row.delete_status != PodDeleteStatus::Going;
        let machine = NodeDrain::start(
            rows.iter().filter(is_evictable).map(|row| row.uid.clone()),
            rows.iter().filter(|row| row.delete_status == PodDeleteStatus::Going).map(|row| row.uid.clone()),
            self.options.timeout,
            now,
        );
        self.run_node_drain(&client, &rows, machine).await;
        Ok(())
    }

    /// Lists the node's pods and plans for them. The pods come from the server, because pods of earlier nodes may have
    /// been rescheduled here.
    async fn rows(&self, client: &Client) -> Result<Vec<Row>, kube::Error> {
        let pods = TypedApi::<Pod>::all(client.clone());
        let on_node = ListParams::default().fields(&format!("spec.nodeName={}", self.target.name));
        let pods = pods.list(&on_node).await?;
        let budgets = TypedApi::<PodDisruptionBudget>::all(client.clone());
        #[expect(
            clippy::disallowed_methods,
            reason = "the server checks budgets in any case; without permission to read them, only the preview is less exact"
        )]
        let budgets = budgets.list(&ListParams::default()).await.unwrap_or_default();
        let sets = api_of(client.clone(), Kind::DaemonSet, None);
        // Without permission to read DaemonSets, each one that a pod names counts as existing.
        let sets = sets.list_metadata(&ListParams::default()).await.ok();
        let sets = sets.map(|list| {
            list.items.iter().filter_map(|set| Some(Uid::from(set.metadata.uid.as_deref()?))).collect()
        });
        let mut tracker = BudgetTracker::new(&budgets);
        Ok(plan(&pods, &mut tracker, self.options, self.exceptions, sets.as_ref()))
    }

    /// Runs the drain's state machine to its end, and reports every step.
    async fn run_node_drain(&self, client: &Client, rows: &[Row], mut machine: NodeDrain) {
        let by_uid: HashMap<&Uid, &Row> = rows.iter().map(|row| (&row.uid, row)).collect();
        let pods = api_of(client.clone(), Kind::Pod, None);
        let config = watcher::Config::default().fields(&format!("spec.nodeName={}", self.target.name));
        let mut events = std::pin::pin!(watcher(pods, config).backoff(WatchBackoff::default()).fuse());
        let mut present: HashSet<Uid> = HashSet::new();
        let mut asking = FuturesUnordered::new();
        let evict = |uid: &Uid| by_uid.get(uid).map(|row| self.evict_pod(client, row).boxed());
        asking.extend(
            machine
                .evictions()
                .filter(|(_, eviction)| **eviction == EvictionState::InFlight)
                .filter_map(|(uid, _)| evict(uid)),
        );
        self.report(&machine, machine.evictions().map(|(uid, _)| uid.clone()).collect()).await;
        while !machine.is_over() {
            let wake = machine.wake_at().map(|at| clock::until(self.clock.now(), at));
            let changed: Vec<Uid> = tokio::select! {
                Some((uid, answer)) = asking.next(), if !asking.is_empty() => {
                    if machine.answered(&uid, answer, self.clock.now()) { vec![uid] } else { Vec::new() }
                }
                Some(event) = events.next() => self.handle_watch_event(event.ok(), &mut present, &mut machine),
                () = tokio::time::sleep(wake.unwrap_or_default()), if wake.is_some() => {
                    let again = machine.tick(self.clock.now());
                    asking.extend(again.iter().filter_map(evict));
                    // At the deadline any eviction may have changed, so that all are reported.
                    machine.evictions().map(|(uid, _)| uid.clone()).collect()
                }
            };
            self.report(&machine, changed).await;
        }
    }

    /// Applies a watch event; a new list reveals pods that were deleted unseen.
    fn handle_watch_event(
        &self,
        event: Option<Event<JsonObject>>,
        present: &mut HashSet<Uid>,
        machine: &mut NodeDrain,
    ) -> Vec<Uid> {
        let now = self.clock.now();
        match event {
            Some(Event::Delete(pod)) => {
                pod.uid().filter(|uid| machine.pod_deleted(uid, now)).into_iter().collect()
            }
            Some(Event::Init) => {
                present.clear();
                Vec::new()
            }
            Some(Event::InitApply(pod)) => {
                present.extend(pod.uid());
                Vec::new()
            }
            Some(Event::InitDone) => {
                let missing: Vec<Uid> = machine
                    .evictions()
                    .map(|(uid, _)| uid)
                    .filter(|uid| !present.contains(*uid))
                    .cloned()
                    .collect();
                missing.into_iter().filter(|uid| machine.pod_deleted(uid, now)).collect()
            }
            // The watcher reconnects by itself.
            Some(Event::Apply(_)) | None => Vec::new(),
        }
    }

    async fn report(&self, machine: &NodeDrain, changed: Vec<Uid>) {
        let evictions: Vec<(Uid, EvictionState)> = changed
            .into_iter()
            .filter_map(|uid| machine.eviction(&uid).cloned().map(|eviction| (uid, eviction)))
            .collect();
        if !evictions.is_empty() {
            self.out.data(Progress::Evictions { node: self.node, evictions }).await;
        }
    }

    /// Requests the eviction of one pod. The journal has one entry for the drain; only a failed eviction gets its own.
    async fn evict_pod(&self, client: &Client, row: &Row) -> (Uid, EvictionResponse) {
        let action = removal(row, self.options);
        let result = execute(client, &action.mutation).await.map(|_| ());
        let answer = eviction_response(&result);
        if matches!(answer, EvictionResponse::Failed(_)) {
            self.out.record(action, &result).await;
        }
        (row.uid.clone(), answer)
    }
}

fn eviction_response(result: &Result<(), kube::Error>) -> EvictionResponse {
    let error = match result {
        Ok(()) => return EvictionResponse::Accepted,
        Err(error) => error,
    };
    let kube::Error::Api(status) = error else { return EvictionResponse::Failed(error_text(error)) };
    let cause =
        status.details.iter().flat_map(|details| &details.causes).find(|cause| !cause.message.is_empty());
    match status.code {
        // The cause has the numbers: "The disruption budget web needs 8 healthy pods and has 8 currently".
        429 => EvictionResponse::Blocked(
            cause.map_or_else(|| status.message.clone(), |cause| cause.message.clone()),
        ),
        404 => EvictionResponse::NotFound,
        // A pod with another uid has the name now, so the evicted one is gone. Any other conflict is retried.
        409 if status.message.contains("UID") => EvictionResponse::NotFound,
        409 => EvictionResponse::Blocked(status.message.clone()),
        _ => EvictionResponse::Failed(error_text(error)),
    }
}

/// Creates the journal entry for the removal of a pod.
fn removal(row: &Row, options: &Options) -> Action {
    let target = ObjectRef {
        kind: builtin_kinds::kind::<Pod>(),
        namespace: Some(row.namespace.clone()),
        name: row.name.clone(),
        uid: Some(row.uid.clone()),
    };
    let params = delete_params(&target, options.grace_seconds, None);
    let (verb, kubectl, mutation) = if options.disable_eviction {
        let grace = options.grace_seconds.map(|seconds| format!(" --grace-period={seconds}"));
        let kubectl =
            format!("kubectl delete pod/{} -n {}{}", row.name, row.namespace, grace.unwrap_or_default());
        ("delete", kubectl, Mutation::Delete { target: target.clone(), params })
    } else {
        // kubectl has no command for one eviction; this is the request that `kubectl drain` sends.
        let kubectl = format!(
            "kubectl create --raw /api/v1/namespaces/{}/pods/{}/eviction -f - <<< '{}'",
            row.namespace,
            row.name,
            eviction(&target, &params)
        );
        ("evict", kubectl, Mutation::Evict { target: target.clone(), params })
    };
    Action::new(&target, format!("{verb} {}", target.describe()), kubectl, mutation).quietly()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use kube::core::Status;

    #[test]
    fn a_drain_is_one_row_of_the_journal_that_uncordons_the_node_con_17() {
        let node = ObjectRef {
            kind: builtin_kinds::kind::<Node>(),
            namespace: None,
            name: "n1".into(),
            uid: Some("u".into()),
        };
        let options = Options {
            grace_seconds: Some(5),
            timeout: Some(std::time::Duration::from_mins(1)),
            force: true,
            ..Options::default()
        };
        let row = journal_row(&node, &options, false);
        assert_eq!(row.title, "drain Node n1");
        assert_eq!(
            row.kubectl,
            "kubectl drain n1 --ignore-daemonsets --force --grace-period=5 --timeout=60s"
        );
        let back = row.inverse.expect("a way back");
        assert_eq!(back.kubectl, "kubectl uncordon n1");
        assert_eq!(back.inverse.expect("a way forward").kubectl, "kubectl cordon n1", "not a drain");
        // Undoing the drain does not uncordon a node that was already cordoned.
        assert!(journal_row(&node, &options, true).inverse.is_none());
    }

    /// CON-6: responses of the eviction API are classified.
    #[test]
    fn responses_of_the_eviction_api_are_classified() {
        let status = |json: serde_json::Value| -> Result<(), kube::Error> {
            let status: Status = serde_json::from_value(json).unwrap();
            Err(kube::Error::Api(Box::new(status)))
        };
        let cases = [
            (Ok(()), EvictionResponse::Accepted),
            (
                status(
                    json!({ "code": 429, "message": "Cannot evict pod as it would violate the pod's disruption budget.",
                    "details": { "causes": [{ "reason": "DisruptionBudget",
                        "message": "The disruption budget web needs 8 healthy pods and has 8 currently" }] } }),
                ),
                EvictionResponse::Blocked(
                    "The disruption budget web needs 8 healthy pods and has 8 currently".to_owned(),
                ),
            ),
            (status(json!({ "code": 404, "message": "pods \"a\" not found" })), EvictionResponse::NotFound),
            (
                status(
                    json!({ "code": 409, "message": "Precondition failed: UID in precondition: a, UID in object meta: b" }),
                ),
                EvictionResponse::NotFound,
            ),
            (
                status(json!({ "code": 500, "message": "more than one" })),
                EvictionResponse::Failed("more than one".to_owned()),
            ),
        ];
        for (result, expect) in cases {
            assert_eq!(eviction_response(&result), expect, "{result:?}");
        }
    }
}
