//! The scheduler's verdict as `podium.dev/v1alpha1` serves it, and its request.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::{Api, Client};
use serde::Deserialize;

use console_data::action::error_text;
use console_data::resource::ObjectRef;

const PLURAL: &str = "schedulingverdicts";

/// The scheduler's last attempt at a pod, which found no node.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    pub(crate) attempted_at: Time,
    /// The message of the pod's event.
    pub message: String,
    /// Changes that would make the pod fit, the smallest first.
    #[serde(default)]
    pub hints: Vec<Hint>,
    /// The filters that refused a node, in the order of evaluation.
    #[serde(default)]
    pub filters: Vec<String>,
    /// The plugins that scored, with their weights.
    #[serde(default)]
    pub scored_by: Vec<Scorer>,
    /// The result for every node.
    #[serde(default)]
    pub nodes: Vec<NodeVerdict>,
}

/// All changes that one node needs to accept the pod.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Hint {
    pub(crate) node: String,
    /// The changes.
    pub changes: Vec<String>,
    /// The number of other nodes that need the same changes.
    #[serde(default)]
    pub alike: usize,
}

/// A plugin that scored.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Scorer {
    pub(crate) plugin: String,
    /// The weight of its score.
    pub(crate) weight: i64,
}

/// The result for one node.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct NodeVerdict {
    /// The node's name.
    pub name: String,
    /// The filters that refused it, with their reasons.
    #[serde(default)]
    pub refusals: Vec<PluginRefusal>,
    /// Its score from each scorer, out of 100.
    #[serde(default)]
    pub scores: Vec<i64>,
}

/// The refusal of one filter.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Hash)]
pub struct PluginRefusal {
    /// The filter.
    pub plugin: String,
    /// Its reasons, as in events.
    pub reasons: Vec<String>,
}

impl Verdict {
    /// Returns the weighted sum of a node's scores; `None` if it was not scored.
    pub fn total(&self, node: &NodeVerdict) -> Option<i64> {
        let parts = self.scored_by.iter().zip(&node.scores);
        parts.map(|(by, score)| by.weight.saturating_mul(*score)).reduce(i64::saturating_add)
    }
}

/// The response to a request for a verdict.
#[derive(Clone, Debug, PartialEq)]
pub enum VerdictResponse {
    /// The verdict.
    Verdict(Box<Verdict>),
    /// The scheduler has not tried the pod yet, or the pod has a node.
    Untried,
    /// The cluster does not serve verdicts; only Podium's control plane does.
    NotServed,
    /// The request failed.
    Failed(String),
}

/// Requests the verdict on a pod.
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
        Ok(object) => read(object::json_of(object)),
        Err(error) => refused(&error),
    }
}

fn read(value: serde_json::Value) -> VerdictResponse {
    match base::json::from_value(value) {
        Ok(verdict) => VerdictResponse::Verdict(Box::new(verdict)),
        Err(error) => VerdictResponse::Failed(format!("the scheduler's verdict cannot be read: {error}")),
    }
}

/// Interprets a failed request. A server with verdicts names the missing one in its 404; any other server does not know
/// the path, or forbids the request.
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
            "hints": [{"node": "a", "changes": ["uncordon the node"]}], "filters": ["NodeUnschedulable"],
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
    fn a_cluster_without_verdicts_differs_from_a_pod_without_one_con_14() {
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
            // A user who may only read pods.
            (403, Some(PLURAL), VerdictResponse::NotServed),
            (500, None, VerdictResponse::Failed("no".into())),
        ] {
            assert_eq!(status(code, kind), answer, "{code} {kind:?}");
        }
    }
}
