//! The scheduler's verdict as `podium.dev/v1alpha1` serves it, and how it is asked for.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::{Api, Client};
use serde::Deserialize;

use crate::action::error_text;
use crate::resource::ObjectRef;

const PLURAL: &str = "schedulingverdicts";

/// The scheduler's last attempt at a pod that found no node.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// When it was.
    pub(crate) attempted_at: Time,
    /// What the pod's event says.
    pub message: String,
    /// What would make it fit, the least first.
    #[serde(default)]
    pub hints: Vec<Hint>,
    /// The filters that had something to say, in the order in which they are asked.
    #[serde(default)]
    pub filters: Vec<String>,
    /// The plugins that scored, with their weights.
    #[serde(default)]
    pub scored_by: Vec<Scorer>,
    /// Every node.
    #[serde(default)]
    pub nodes: Vec<NodeVerdict>,
}

/// Everything to change for one node to take the pod.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Hint {
    /// The node.
    pub(crate) node: String,
    /// What to change.
    pub changes: Vec<String>,
    /// How many other nodes need the same.
    #[serde(default)]
    pub alike: usize,
}

/// A plugin that scored.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Scorer {
    /// Its name.
    pub(crate) plugin: String,
    /// How much its score counts.
    pub(crate) weight: i64,
}

/// What was found of one node.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct NodeVerdict {
    /// Its name.
    pub name: String,
    /// Who refused it, and why.
    #[serde(default)]
    pub refusals: Vec<Refusal>,
    /// How it would score, of 100, scorer by scorer.
    #[serde(default)]
    pub scores: Vec<i64>,
}

/// One filter's no.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// The filter.
    pub plugin: String,
    /// Its reasons, as in events.
    pub reasons: Vec<String>,
}

impl Verdict {
    /// The weighted sum of a node's scores; none when it was not scored.
    pub fn total(&self, node: &NodeVerdict) -> Option<i64> {
        let parts = self.scored_by.iter().zip(&node.scores);
        parts.map(|(by, score)| by.weight.saturating_mul(*score)).reduce(i64::saturating_add)
    }
}

/// What came of asking for a verdict.
#[derive(Clone, Debug, PartialEq)]
pub enum VerdictResponse {
    /// This is what the scheduler found.
    Verdict(Box<Verdict>),
    /// The scheduler has not tried the pod, or it has its node.
    Untried,
    /// This cluster has no such thing: only Podium's control plane does.
    NotServed,
    /// It could not be asked.
    Failed(String),
}

/// Gets the verdict on a pod.
pub async fn fetch(client: Client, pod: &ObjectRef) -> VerdictResponse {
    let resource = ApiResource {
        group: "podium.dev".into(),
        version: "v1alpha1".into(),
        api_version: "podium.dev/v1alpha1".into(),
        kind: "SchedulingVerdict".into(),
        plural: PLURAL.into(),
    };
    let namespace = pod.namespace.as_deref().unwrap_or("default");
    let verdicts: Api<DynamicObject> = Api::namespaced_with(client, namespace, &resource);
    match verdicts.get(&pod.name).await {
        Ok(object) => read(serde_json::to_value(object).unwrap_or_default()),
        Err(error) => refused(&error),
    }
}

fn read(value: serde_json::Value) -> VerdictResponse {
    match serde_json::from_value(value) {
        Ok(verdict) => VerdictResponse::Verdict(Box::new(verdict)),
        Err(error) => VerdictResponse::Failed(format!("the scheduler's verdict cannot be read: {error}")),
    }
}

/// A server that knows verdicts says whose it does not have; any other knows nothing of the path, or does
/// not let us ask for what it does not have.
fn refused(error: &kube::Error) -> VerdictResponse {
    let kube::Error::Api(status) = error else { return VerdictResponse::Failed(error_text(error)) };
    let named = status.details.as_ref().is_some_and(|details| details.kind == PLURAL);
    match status.code {
        404 if named => VerdictResponse::Untried,
        403 | 404 => VerdictResponse::NotServed,
        _ => VerdictResponse::Failed(error_text(error)),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_verdict_is_read_and_its_scores_add_up_con_9() {
        let VerdictResponse::Verdict(verdict) = read(json!({
            "kind": "SchedulingVerdict", "attemptedAt": "2026-05-01T11:59:48Z", "message": "0/1 nodes",
            "hints": [{"node": "a", "changes": ["uncordon it"]}], "filters": ["NodeUnschedulable"],
            "scoredBy": [{"plugin": "TaintToleration", "weight": 3}, {"plugin": "ImageLocality", "weight": 1}],
            "nodes": [{"name": "a", "refusals": [{"plugin": "NodeUnschedulable",
                "reasons": ["node(s) were unschedulable"]}], "scores": [100, 7]}, {"name": "b"}]}))
        else {
            panic!("a verdict")
        };
        assert_eq!(verdict.total(&verdict.nodes[0]), Some(307));
        assert_eq!(verdict.total(&verdict.nodes[1]), None, "it was not scored");
        assert!(
            matches!(read(json!({"message": 1})), VerdictResponse::Failed(why) if why.contains("cannot be read"))
        );
    }

    #[test]
    fn a_cluster_without_verdicts_is_told_from_a_pod_without_one_con_14() {
        let status = |code: u16, kind: Option<&str>| {
            let details =
                kind.map(|kind| json!({"kind": kind, "group": "podium.dev", "name": "default/web"}));
            let status: Status = serde_json::from_value(json!({"status": "Failure", "message": "no",
                "reason": "NotFound", "code": code, "details": details}))
            .expect("a status");
            refused(&kube::Error::Api(Box::new(status)))
        };
        for (code, kind, answer) in [
            (404, Some(PLURAL), VerdictResponse::Untried),
            (404, None, VerdictResponse::NotServed),
            // Somebody who may only look at pods.
            (403, Some(PLURAL), VerdictResponse::NotServed),
            (500, None, VerdictResponse::Failed("no".into())),
        ] {
            assert_eq!(status(code, kind), answer, "{code} {kind:?}");
        }
    }
}
