//! Summarizes a change of an object: the state before and after, limited to what users follow. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use console_data::pod_status;
use console_data::resource::Kind;
use console_data::rows::workload;
use console_data::template;
use console_toolkit::health::Health;
use object::TypedKind as _;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StateChange {
    /// The health from then on.
    pub(super) health: Health,
    pub(super) text: String,
}

impl StateChange {
    fn new(health: Health, text: impl Into<String>) -> Self {
        Self { health, text: text.into() }
    }

    /// Creates the change of an object that was created.
    pub(super) fn created(brief: &ObjectSummary) -> Self {
        let how = brief.state();
        Self::new(brief.health, if how.is_empty() { "created".to_owned() } else { format!("created: {how}") })
    }

    /// Creates the change of an object that was deleted.
    pub(super) fn deleted() -> Self {
        Self::new(Health::Terminating, "deleted")
    }
}

/// The properties of an object that the timeline follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectSummary {
    health: Health,
    /// One or two words: `Running`, `Progressing`.
    status: String,
    /// Ready and desired count.
    ready: Option<(i64, i64)>,
    /// The replica count in the spec.
    replicas: Option<i32>,
    images: Vec<String>,
    paused: bool,
    restarts: i32,
    node: Option<String>,
    /// The status and reason of each condition.
    conditions: BTreeMap<String, String>,
}

impl ObjectSummary {
    /// Reads the properties of an object of a kind, as JSON.
    pub(super) fn of(kind: &Kind, object: &Value) -> Self {
        let mut brief = Self {
            health: Health::Unknown,
            status: String::new(),
            ready: None,
            replicas: template::replicas(object),
            images: Vec::new(),
            paused: object.pointer("/spec/paused") == Some(&Value::Bool(true))
                || object.pointer("/spec/suspend") == Some(&Value::Bool(true)),
            restarts: 0,
            node: None,
            conditions: BTreeMap::new(),
        };
        if kind.is::<Pod>() {
            brief.read_pod(object);
            return brief;
        }
        brief.images = template::pod_spec(object)
            .map(|spec| spec.containers.into_iter().filter_map(|container| container.image).collect())
            .unwrap_or_default();
        let ready = object.pointer("/status/readyReplicas").and_then(Value::as_i64).unwrap_or(0);
        brief.ready = brief.replicas.map(|want| (ready, i64::from(want)));
        brief.health = match brief.ready {
            Some((ready, want)) if ready < want => Health::Pending,
            _ => Health::Running,
        };
        if kind.is::<Deployment>()
            && let Ok(deployment) = Deployment::decode(object.clone())
        {
            let (word, health) = workload::deployment_state(&deployment);
            (brief.status, brief.health) = (word.to_owned(), health);
            return brief;
        }
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        for condition in conditions.into_iter().flatten() {
            let text = |field: &str| condition[field].as_str().unwrap_or_default();
            let reason = text("reason");
            let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
            brief.conditions.insert(text("type").to_owned(), format!("{}{reason}", text("status")));
            if matches!(text("type"), "Failed" | "FailureTarget") && text("status") == "True" {
                brief.health = Health::Failed;
            }
        }
        brief
    }

    fn read_pod(&mut self, object: &Value) {
        let Ok(pod) = Pod::decode(object.clone()) else { return };
        let status = pod_status::of(&pod);
        self.health = status.health;
        self.status = status.status;
        self.ready = Some((status.ready as i64, status.total as i64));
        self.restarts = status.restarts;
        let node = pod.spec.and_then(|spec| spec.node_name);
        self.node = node.filter(|node| !node.is_empty());
    }

    /// Returns `Running 1/1`.
    fn state(&self) -> String {
        let ready = self.ready.map(|(ready, want)| format!("{ready}/{want}"));
        let parts = [Some(self.status.clone()).filter(|word| !word.is_empty()), ready];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

/// Returns the changes worth an entry; none for most updates.
pub(super) fn changes_between(before: &ObjectSummary, after: &ObjectSummary) -> Vec<StateChange> {
    let mut changes = Vec::new();
    if before.replicas != after.replicas
        && let (Some(from), Some(to)) = (before.replicas, after.replicas)
    {
        changes.push(StateChange::new(Health::Pending, format!("scaled {from} → {to}")));
    }
    if before.images != after.images && !after.images.is_empty() {
        let images = format!("image {} → {}", before.images.join(", "), after.images.join(", "));
        changes.push(StateChange::new(Health::Pending, images));
    }
    if before.paused != after.paused {
        changes.push(StateChange::new(after.health, if after.paused { "paused" } else { "resumed" }));
    }
    if before.node != after.node
        && let Some(node) = &after.node
    {
        changes.push(StateChange::new(Health::Pending, format!("bound to {node}")));
    }
    if after.restarts > before.restarts {
        let count = after.restarts;
        let times = if count == 1 { "once".to_owned() } else { format!("{count} times by now") };
        changes.push(StateChange::new(after.health, format!("restarted, {times}")));
    }
    // A changed replica count is covered by the entry above.
    let same_ready = before.ready.map(|(ready, _)| ready) == after.ready.map(|(ready, _)| ready);
    if before.status != after.status || !same_ready {
        let state = after.state();
        if !state.is_empty() {
            changes.push(StateChange::new(after.health, state));
        }
    }
    for (kind, state) in &after.conditions {
        if before.conditions.get(kind) != Some(state) {
            changes.push(StateChange::new(after.health, format!("{kind} is {state}")));
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use console_data::builtin_kinds;
    use k8s_openapi::api::apps::v1::ReplicaSet;
    use serde_json::json;

    fn check(kind: &Kind, before: &Value, after: &Value, expected: &[&str]) {
        let changes = changes_between(&ObjectSummary::of(kind, before), &ObjectSummary::of(kind, after));
        let texts: Vec<&str> = changes.iter().map(|what| what.text.as_str()).collect();
        assert_eq!(texts, expected, "{before} → {after}");
    }

    #[test]
    fn a_change_is_summarized_in_a_few_words_con_19() {
        let pod = |node: Option<&str>, phase: &str, ready: bool, restarts: i32| {
            json!({"spec": {"nodeName": node, "containers": [{"name": "a"}]}, "status": {"phase": phase,
                "containerStatuses": [{"name": "a", "ready": ready, "restartCount": restarts, "image": "",
                    "imageID": "", "state": if ready { json!({"running": {}}) } else { json!({}) }}]}})
        };
        let pods = builtin_kinds::kind::<Pod>();
        let (waits, bound) = (pod(None, "Pending", false, 0), pod(Some("node-1"), "Pending", false, 0));
        let (runs, again) =
            (pod(Some("node-1"), "Running", true, 0), pod(Some("node-1"), "Running", true, 2));
        check(&pods, &waits, &bound, &["bound to node-1"]);
        check(&pods, &bound, &runs, &["Running 1/1"]);
        check(&pods, &runs, &again, &["restarted, 2 times by now"]);
        check(&pods, &runs, &runs, &[]);
        let set = |want: i32, ready: i32, image: &str| {
            json!({"spec": {"replicas": want, "template": {"spec": {"containers": [{"name": "a", "image": image}]}}},
                "status": {"readyReplicas": ready, "replicas": want}})
        };
        let sets = builtin_kinds::kind::<ReplicaSet>();
        check(&sets, &set(3, 3, "x:1"), &set(5, 3, "x:1"), &["scaled 3 → 5"]);
        check(&sets, &set(5, 3, "x:1"), &set(5, 4, "x:1"), &["4/5"]);
        let deployments = builtin_kinds::kind::<Deployment>();
        let (old, new) = (set(2, 2, "x:1"), set(2, 2, "x:2"));
        let changes =
            changes_between(&ObjectSummary::of(&deployments, &old), &ObjectSummary::of(&deployments, &new));
        assert_eq!(changes[0].text, "image x:1 → x:2");
        let job = |complete: bool| {
            json!({"status": {"conditions": if complete { json!([{"type": "Complete", "status": "True",
                "reason": "CompletionsReached"}]) } else { json!([]) }}})
        };
        check(&sets, &job(false), &job(true), &["Complete is True (CompletionsReached)"]);
        // Malformed objects must not panic.
        check(&pods, &json!({}), &json!({"spec": 7, "status": []}), &[]);
    }
}
