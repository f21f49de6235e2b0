//! ActivePods: the cluster takes so many pods that have not ended, and no more. Kubernetes has no such limit, as its
//! API server does not share a machine with everything else; here a `replicas: 2147483647` would fill the memory.

use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;

use super::Request;
use crate::{Api, ApiError, room};
use object::pod::is_terminal;
use object::well_known::annotation;
use object::{Kind, Object};

/// What a cluster takes beyond what its nodes could run, so that one without nodes can be tried as well.
const BEYOND_NODES: usize = 1000;
/// Twice what the nodes could run: as many again may wait for them.
const PER_NODE_POD: usize = 2;
/// Pods are counted again after so many new ones at the latest, or an eighth of the room that there is, for the nodes
/// may have become fewer. To count means to look at every node.
const MOST_UNCOUNTED: usize = 100;

/// How many more pods may be made before they are counted again. Pods become active only by being made, so that the
/// limit is kept without counting each time; writers that count at once may pass it by what they count.
#[derive(Default)]
pub(crate) struct PodBudget {
    // Held for one step of arithmetic; those who count do so without it.
    left: Mutex<usize>,
}

impl PodBudget {
    /// Whether one of those that were counted is left.
    fn take(&self) -> bool {
        let mut left = self.left.lock();
        if *left == 0 {
            return false;
        }
        *left -= 1;
        true
    }

    /// So many were counted.
    fn found(&self, room: usize) {
        *self.left.lock() = room;
    }
}

pub(super) fn validate(request: &Request<'_>, object: &Object) -> Result<(), ApiError> {
    let Some(pod) = object.get::<Pod>() else { return Ok(()) };
    // A static pod runs already, whatever the API says of it.
    if pod.metadata.annotations.as_ref().is_some_and(|a| a.contains_key(annotation::MIRROR_POD)) {
        return Ok(());
    }
    let api = request.api;
    if api.inner.config.limits.active_pods == Some(0) {
        return Ok(());
    }
    if api.inner.pod_budget.take() {
        return Ok(());
    }
    let room = room(api).map_err(|(active, limit)| {
        ApiError::forbidden(
            Kind::Pod,
            object.name(),
            format!(
                "the cluster has {active} active pods and takes {limit} (limits.activePods in the config file; \
                 unless set, {BEYOND_NODES} and twice the pods that its nodes may run)"
            ),
        )
    })?;
    api.inner.pod_budget.found(room - 1);
    Ok(())
}

/// How many more fit, at least one; or how many there are, and how many there may be.
fn room(api: &Api) -> Result<usize, (usize, usize)> {
    let limit = api.inner.config.limits.active_pods.unwrap_or_else(|| derived_limit(api));
    let all = api.count(Kind::Pod);
    let active = if all < limit {
        all
    } else {
        api.list_as::<Pod>(None).iter().filter(|pod| !is_terminal(pod)).count()
    };
    match limit.saturating_sub(active) {
        0 => Err((active, limit)),
        room => Ok(room.min(MOST_UNCOUNTED.max(room / 8))),
    }
}

fn derived_limit(api: &Api) -> usize {
    room::pods_of_nodes(api).saturating_mul(PER_NODE_POD).saturating_add(BEYOND_NODES)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Namespace, Node};
    use serde_json::json;

    use super::*;
    use crate::{ApiConfig, DeleteOptions};
    use base::clock::Clock;
    use object::Key;
    use object::config::Limits;
    use store::Store;

    fn cluster(active_pods: Option<usize>) -> Api {
        let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
        let config =
            ApiConfig { limits: Limits { active_pods, ..Limits::default() }, ..ApiConfig::default() };
        let api = Api::new(Store::ephemeral(), clock, config);
        api.create_as::<Namespace>(serde_json::from_value(json!({"metadata": {"name": "ns"}})).unwrap())
            .unwrap();
        api
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
        let expected = "pods \"p250\" is forbidden: the cluster has 250 active pods and takes 250 (";
        assert!(refused.to_string().starts_with(expected), "{refused}");
        // Those that ended or went are not counted.
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
