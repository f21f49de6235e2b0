//! ActivePods: limits the pods of the cluster that have not ended. Kubernetes has no such limit, because its
//! API server does not share a machine with everything else; here a `replicas: 2147483647` would exhaust the
//! memory.

use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;

use super::Request;
use crate::{Api, ApiError, store_limits};
use object::pod::is_terminal;
use object::well_known::annotation;
use object::{Kind, Object};

/// The number of pods allowed beyond the nodes' capacity, so that a cluster without nodes can be tried too.
const BASE_ALLOWANCE: usize = 1000;
/// The allowed multiple of the nodes' capacity: as many pods as can run may also wait.
const CAPACITY_FACTOR: usize = 2;
/// The number of pods that may be created between two counts, unless an eighth of the remaining capacity is more. A
/// count reads every node. The number is bounded because nodes may disappear between counts.
const MAX_UNCOUNTED: usize = 100;

/// The number of pods that may be created before the next count. Pods become active only by creation, so the limit
/// holds without a count for each pod; concurrent counts may exceed it by the pods that each of them allows.
#[derive(Default)]
pub(crate) struct PodBudget {
    // Not locked while pods are counted.
    remaining: Mutex<usize>,
}

impl PodBudget {
    /// Takes one pod from the budget; returns false if the budget is empty.
    fn take_one(&self) -> bool {
        let mut left = self.remaining.lock();
        if *left == 0 {
            return false;
        }
        *left -= 1;
        true
    }

    /// Sets the budget from a count.
    fn set_remaining(&self, count: usize) {
        *self.remaining.lock() = count;
    }
}

pub(super) fn validate(request: &Request<'_>, object: &Object) -> Result<(), ApiError> {
    let Some(pod) = object.get::<Pod>() else { return Ok(()) };
    // A static pod runs already, regardless of the API.
    if pod.metadata.annotations.as_ref().is_some_and(|a| a.contains_key(annotation::MIRROR_POD)) {
        return Ok(());
    }
    let api = request.api;
    if api.inner.config.limits.active_pods == Some(0) {
        return Ok(());
    }
    if api.inner.pod_budget.take_one() {
        return Ok(());
    }
    let capacity = remaining_capacity(api).map_err(|(active, limit)| {
        ApiError::forbidden(
            Kind::Pod,
            object.name(),
            format!(
                "the cluster has {active} active pods; at most {limit} are allowed (limits.activePods in the config \
                 file; by default {BASE_ALLOWANCE} plus twice the pods that the nodes may run)"
            ),
        )
    })?;
    api.inner.pod_budget.set_remaining(capacity - 1);
    Ok(())
}

/// Returns the budget of new pods, at least one. The error has the number of active pods and the limit that it has
/// reached.
fn remaining_capacity(api: &Api) -> Result<usize, (usize, usize)> {
    let limit = api.inner.config.limits.active_pods.unwrap_or_else(|| derived_limit(api));
    let all = api.count(Kind::Pod);
    let active = if all < limit {
        all
    } else {
        api.list_as::<Pod>(None).iter().filter(|pod| !is_terminal(pod)).count()
    };
    match limit.saturating_sub(active) {
        0 => Err((active, limit)),
        room => Ok(room.min(MAX_UNCOUNTED.max(room / 8))),
    }
}

fn derived_limit(api: &Api) -> usize {
    store_limits::pods_of_nodes(api).saturating_mul(CAPACITY_FACTOR).saturating_add(BASE_ALLOWANCE)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;

    use super::*;
    use crate::test_api::api_with;
    use crate::{ApiConfig, DeleteOptions};
    use object::Key;
    use object::config::Limits;

    fn cluster(active_pods: Option<usize>) -> Api {
        let config =
            ApiConfig { limits: Limits { active_pods, ..Limits::default() }, ..ApiConfig::default() };
        api_with(config, &["ns"])
    }

    fn make(api: &Api, name: usize) -> Result<(), ApiError> {
        let pod = json!({"metadata": {"name": format!("p{name}"), "namespace": "ns"},
            "spec": {"containers": [{"name": "c", "image": "x"}]}});
        api.create_as::<Pod>(serde_json::from_value(pod).unwrap()).map(drop)
    }

    fn end(api: &Api, name: usize) {
        api.modify_status::<Pod>(&Key::new("ns", format!("p{name}")), |pod| {
            pod.status.get_or_insert_default().phase = Some("Succeeded".into());
            Ok(())
        })
        .unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_takes_so_many_active_pods_and_no_more_safe_10() {
        let api = cluster(Some(250));
        for name in 0..250 {
            make(&api, name).unwrap();
        }
        let refused = make(&api, 250).unwrap_err();
        assert_eq!(refused.code(), 403);
        let expected =
            "pods \"p250\" is forbidden: the cluster has 250 active pods; at most 250 are allowed (";
        assert!(refused.to_string().starts_with(expected), "{refused}");
        // Pods that ended or were deleted are not counted.
        end(&api, 0);
        make(&api, 250).unwrap();
        assert!(make(&api, 251).is_err());
        api.delete(Kind::Pod, &Key::new("ns", "p1"), &DeleteOptions::default()).unwrap();
        make(&api, 251).unwrap();
        assert!(make(&api, 252).is_err());
        assert_eq!(api.count(Kind::Pod), 251);
    }

    #[tokio::test(start_paused = true)]
    async fn unless_it_is_set_the_limit_follows_the_nodes_safe_10() {
        let api = cluster(None);
        assert_eq!(derived_limit(&api), 1000);
        for (name, pods) in [("n1", "110"), ("n2", "40")] {
            let node = json!({"metadata": {"name": name}, "status": {"allocatable": {"pods": pods}}});
            api.create_as::<Node>(serde_json::from_value(node).unwrap()).unwrap();
        }
        assert_eq!(derived_limit(&api), 1300);
        let unlimited = cluster(Some(0));
        for name in 0..3 {
            make(&unlimited, name).unwrap();
        }
    }
}
