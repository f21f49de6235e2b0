//! Matches evicted pods with the pods that replaced them.
//!
//! The API does not record which pod replaces which: a controller only creates another one. Pods that the controller
//! created since the start are therefore assigned to the evicted ones, the oldest to the first row.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use base::sort::SliceOrder;
use console_data::pod_status;
use console_data::resource::Uid;
use console_operations::operations::drain::Row;

/// A pod that replaces an evicted one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replacement {
    pub(crate) name: String,
    /// Its node; `None` until it is scheduled.
    pub(crate) node: Option<String>,
    pub(crate) ready: bool,
    /// The reason why it is not ready, if something failed: `ImagePullBackOff`.
    pub(crate) problem: Option<String>,
}

/// Returns the replacement of each of these rows, if there is one. `pods_of` returns the pods of a controller.
pub(crate) fn replacements<'a>(
    gone: impl IntoIterator<Item = &'a Row>,
    since: Timestamp,
    pods_of: impl Fn(&Uid) -> Vec<&'a Pod>,
) -> HashMap<Uid, Replacement> {
    let deleted: Vec<&Row> = gone.into_iter().collect();
    let left: HashSet<&str> = deleted.iter().map(|row| row.uid.as_str()).collect();
    let mut fresh: HashMap<&Uid, std::vec::IntoIter<&Pod>> = HashMap::new();
    let mut found = HashMap::new();
    for row in &deleted {
        let Some(owner) = &row.owner else { continue };
        let pods = fresh.entry(owner).or_insert_with(|| {
            let mut pods = pods_of(owner);
            pods.retain(|pod| {
                let created = pod.metadata.creation_timestamp.as_ref().map(|at| at.0.as_second());
                // Creation timestamps have a resolution of one second.
                created.is_some_and(|created| created >= since.as_second())
                    && !left.contains(pod.metadata.uid.as_deref().unwrap_or_default())
            });
            pods.order_by_key(|pod| (pod.metadata.creation_timestamp.clone(), pod.metadata.name.clone()));
            pods.into_iter()
        });
        if let Some(pod) = pods.next() {
            found.insert(row.uid.clone(), replacement(pod));
        }
    }
    found
}

fn replacement(pod: &Pod) -> Replacement {
    let status = pod_status::of(pod);
    Replacement {
        problem: Some(status.status).filter(|_| status.health.is_fault()),
        name: pod.metadata.name.clone().unwrap_or_default(),
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        ready: object::pod::is_ready(pod),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use console_operations::operations::drain::{BudgetDecision, PodDeleteStatus};
    use serde_json::json;

    fn row(uid: &str, owner: Option<&str>) -> Row {
        Row {
            uid: Uid::from(uid),
            namespace: "default".to_owned(),
            name: uid.to_owned(),
            owner: owner.map(Uid::from),
            delete_status: PodDeleteStatus::Evict,
            budget_decision: BudgetDecision::Free,
        }
    }

    fn pod(name: &str, created: &str, node: Option<&str>) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": name, "uid": name, "creationTimestamp": created },
            "spec": { "containers": [], "nodeName": node },
            "status": { "conditions": [{ "type": "Ready", "status": node.map_or("False", |_| "True") }] },
        }))
        .unwrap()
    }

    /// CON-6: each evicted pod has at most one replacement, created since then, and no pod replaces two.
    #[test]
    fn the_pods_a_controller_made_since_are_dealt_out() {
        let pods = [
            pod("old", "2026-05-01T11:00:00Z", Some("n1")),
            pod("late", "2026-05-01T12:00:05Z", None),
            pod("soon", "2026-05-01T12:00:01Z", Some("n2")),
        ];
        let rows = [row("a", Some("rs")), row("b", Some("rs")), row("c", Some("rs")), row("d", None)];
        let since = "2026-05-01T12:00:00.900Z".parse().unwrap();
        let found = replacements(&rows, since, |_| pods.iter().collect());
        let of = |uid: &str| {
            found.get(&Uid::from(uid)).map(|one| (one.name.as_str(), one.node.as_deref(), one.ready))
        };
        assert_eq!(of("a"), Some(("soon", Some("n2"), true)));
        assert_eq!(of("b"), Some(("late", None, false)));
        assert_eq!((of("c"), of("d")), (None, None));
    }
}
