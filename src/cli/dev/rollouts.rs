//! Follows the workloads that were applied until they are ready: reports that, or the reason why they are not (DEV-8).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::task::JoinSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, ListParams};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::object_name::ObjectName;
use super::report::Report;
use base::backoff::BackoffPolicy;
use base::count::counted;
use console_data::decoded::TypedApi;
use console_screens::rollout::cause;
use object::well_known::label::PODIUM_PROJECT;

/// The followed kinds, of the group `apps`.
const KINDS: [&str; 3] = ["Deployment", "StatefulSet", "DaemonSet"];
/// The intervals of looks at workloads that are not ready.
const LOOKS: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_millis(250), max: Duration::from_secs(4) };
/// A workload that is not ready after this time is reported.
const PATIENCE: Duration = Duration::from_secs(10);
/// The maximum number of pods of a workload that are searched for a reason.
const MOST_PODS: u32 = 200;
/// The maximum number of problems of one workload that are reported.
const MOST_PROBLEMS: usize = 20;
/// The weight of the cause of pods that run, but are not ready: they may only be slow.
const SLOW: u8 = 1;

/// The workloads that are not ready, each with the problems that were reported.
type UnreadyWorkloads = Arc<Mutex<BTreeMap<ObjectName, BTreeSet<String>>>>;

/// Follows workloads. Ends when it is dropped.
#[derive(Default)]
pub(super) struct Rollouts {
    unready: UnreadyWorkloads,
    task: JoinSet<()>,
}

impl Rollouts {
    /// Follows these objects, if they are workloads, and those that were not ready before.
    pub(super) fn follow(
        &mut self,
        changed: Vec<ObjectName>,
        client: Client,
        project: &str,
        report: &Report,
    ) {
        self.task = JoinSet::new();
        let workloads =
            changed.into_iter().filter(ObjectName::is_workload).map(|name| (name, BTreeSet::new()));
        self.unready.lock().extend(workloads);
        let (unready, project, report) = (self.unready.clone(), project.to_owned(), report.clone());
        self.task.spawn(async move { follow(&unready, &client, &project, &report).await });
    }
}

impl ObjectName {
    fn is_workload(&self) -> bool {
        self.api_version.starts_with("apps/") && KINDS.contains(&self.kind.as_str())
    }
}

async fn follow(unready: &UnreadyWorkloads, client: &Client, project: &str, report: &Report) {
    let began = Instant::now();
    for look in 1.. {
        let names: Vec<ObjectName> = unready.lock().keys().cloned().collect();
        if names.is_empty() {
            return;
        }
        let mut ready = Vec::new();
        for name in names {
            // Without an answer the next look asks again.
            let Ok(found) = name.api(client).get_opt(&name.name).await else { continue };
            let readiness = found.as_ref().map(|object| Readiness::of(&name.kind, object));
            match readiness {
                Some(Readiness::Waiting { summary, problem }) if began.elapsed() >= PATIENCE => {
                    let selector = found.as_ref().map(|object| selector_of(object, project));
                    let problem = match problem {
                        Some(text) => Some(Problem { text, pod: None, is_slow: false }),
                        None => problem_of_pods(client, &name, &selector.unwrap_or_default()).await,
                    };
                    if let Some(problem) = problem {
                        report_problem(unready, &name, &summary, &problem, report);
                    }
                }
                Some(Readiness::Waiting { .. }) => {}
                Some(Readiness::Ready(summary)) => {
                    ready.push(format!("{} ({summary})", name.label()));
                    report.clear(&name.label());
                    unready.lock().remove(&name);
                }
                // It was deleted.
                None => {
                    report.clear(&name.label());
                    unready.lock().remove(&name);
                }
            }
        }
        if !ready.is_empty() {
            report.done(&format!("ready: {}", ready.join(", ")));
        }
        tokio::time::sleep(LOOKS.delay(look)).await;
    }
}

/// The reason why a workload is not ready.
struct Problem {
    text: String,
    pod: Option<String>,
    /// It may end by itself.
    is_slow: bool,
}

/// Reports a problem of a workload once: pods that crash have two problems by turns.
fn report_problem(
    unready: &UnreadyWorkloads,
    name: &ObjectName,
    summary: &str,
    problem: &Problem,
    report: &Report,
) {
    {
        let mut unready = unready.lock();
        let Some(reported) = unready.get_mut(name) else { return };
        if reported.len() >= MOST_PROBLEMS || !reported.insert(problem.text.clone()) {
            return;
        }
    }
    let label = name.label();
    let pod = problem.pod.as_ref().map_or_else(String::new, |pod| format!("pod {pod}: "));
    let text = format!("{label} is not ready ({summary}): {pod}{}", problem.text);
    if problem.is_slow {
        report.note(&text);
    } else {
        report.failed(&label, &text, &[]);
    }
}

/// The label selector of a workload's pods.
fn selector_of(object: &DynamicObject, project: &str) -> String {
    let labels = object.data.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    let labels = labels.into_iter().flatten();
    let labels = labels.filter_map(|(key, value)| Some(format!(",{key}={}", value.as_str()?)));
    format!("{PODIUM_PROJECT}={project}{}", labels.collect::<String>())
}

/// The worst reason why a pod is not ready.
async fn problem_of_pods(client: &Client, workload: &ObjectName, selector: &str) -> Option<Problem> {
    let pods = TypedApi::<Pod>::namespaced(client.clone(), &workload.namespace);
    let selected = ListParams::default().labels(selector).limit(MOST_PODS);
    let pods = pods.list(&selected).await.ok()?;
    let present = || pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    if present().next().is_none() {
        return Some(Problem {
            text: "it has no pods; its events say why".into(),
            pod: None,
            is_slow: false,
        });
    }
    let causes = present().filter_map(|pod| Some((cause::of(pod)?, pod.name_any())));
    let Some((cause, pod)) = causes.max() else {
        return Some(Problem { text: "its pods are starting".into(), pod: None, is_slow: true });
    };
    let text = format!("{}: {}", cause.reason, cause.detail);
    Some(Problem { text, pod: Some(pod), is_slow: cause.weight == SLOW })
}

/// The state of a workload's rollout, as `kubectl rollout status` decides.
#[derive(Debug, PartialEq)]
enum Readiness {
    /// All pods are of the last revision and ready, or none is replaced by itself.
    Ready(String),
    Waiting {
        summary: String,
        /// A problem that no pod has, such as a quota.
        problem: Option<String>,
    },
}

impl Readiness {
    fn of(kind: &str, object: &DynamicObject) -> Self {
        let value = |pointer: &str| object.data.pointer(pointer);
        let count = |pointer: &str| value(pointer).and_then(Value::as_i64);
        let status = |field: &str| count(&format!("/status/{field}")).unwrap_or(0);
        if value("/spec/paused") == Some(&Value::Bool(true)) {
            return Self::Ready("paused".into());
        }
        let strategy = value("/spec/updateStrategy/type").and_then(Value::as_str);
        let replaced = strategy != Some("OnDelete");
        let (desired, updated, ready, total) = match kind {
            "DaemonSet" => (
                status("desiredNumberScheduled"),
                status("updatedNumberScheduled"),
                status("numberAvailable"),
                status("desiredNumberScheduled"),
            ),
            "StatefulSet" => {
                let desired = count("/spec/replicas").unwrap_or(1);
                let partition = count("/spec/updateStrategy/rollingUpdate/partition").unwrap_or(0);
                let updated = status("updatedReplicas") + partition.clamp(0, desired);
                (desired, updated.min(desired), status("readyReplicas"), status("replicas"))
            }
            _ => (
                count("/spec/replicas").unwrap_or(1),
                status("updatedReplicas"),
                status("availableReplicas"),
                status("replicas"),
            ),
        };
        let is_observed = status("observedGeneration") >= object.metadata.generation.unwrap_or(0);
        let is_updated = !replaced || updated == desired;
        if is_observed && is_updated && (ready, total) == (desired, desired) {
            return Self::Ready(counted(usize::try_from(desired).unwrap_or(0), "pod"));
        }
        // Pods of older revisions count as ready ones.
        let old = if replaced { total - updated } else { 0 };
        let fresh = (ready - old).max(0);
        let conditions = value("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        let mut problems = conditions.filter(|condition| {
            let is = |kind: &str, status: &str| condition["type"] == kind && condition["status"] == status;
            is("ReplicaFailure", "True")
        });
        let problem = problems.next().and_then(|condition| condition["message"].as_str());
        Self::Waiting {
            summary: format!("{fresh} of {desired}"),
            problem: problem.filter(|_| is_observed).map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_workload_is_ready_when_kubectl_says_so_dev_8() {
        let ready = |pods: &str| Readiness::Ready(pods.into());
        let waiting = |summary: &str| Readiness::Waiting { summary: summary.into(), problem: None };
        let table = [
            ("Deployment", json!({"replicas": 2}), json!({}), waiting("0 of 2")),
            (
                "Deployment",
                json!({"replicas": 2}),
                json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 1, "availableReplicas": 2}),
                waiting("0 of 2"),
            ),
            (
                "Deployment",
                json!({"replicas": 2}),
                json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}),
                ready("2 pods"),
            ),
            (
                "Deployment",
                json!({}),
                json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}),
                waiting("1 of 1"),
            ),
            ("Deployment", json!({"replicas": 0}), json!({"observedGeneration": 2}), ready("0 pods")),
            ("Deployment", json!({"paused": true}), json!({}), ready("paused")),
            (
                "Deployment",
                json!({}),
                json!({"observedGeneration": 2, "conditions": [
                    {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}]}),
                Readiness::Waiting { summary: "0 of 1".into(), problem: Some("exceeded quota".into()) },
            ),
            (
                "StatefulSet",
                json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}}),
                json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 1, "readyReplicas": 3}),
                ready("3 pods"),
            ),
            (
                "StatefulSet",
                json!({"replicas": 3, "updateStrategy": {"type": "OnDelete"}}),
                json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 0, "readyReplicas": 3}),
                ready("3 pods"),
            ),
            (
                "DaemonSet",
                json!({}),
                json!({"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3,
                    "numberAvailable": 2}),
                waiting("2 of 3"),
            ),
        ];
        for (kind, spec, status, expect) in table {
            let object = json!({"metadata": {"name": "x", "generation": 2}, "spec": spec, "status": status});
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            assert_eq!(Readiness::of(kind, &object), expect, "{kind} {}", object.data);
        }
    }
}
