//! Computes the kernel's preference for killing a container's processes when memory runs out (`oom_score_adj`), as
//! Kubernetes' page "Node-pressure eviction" defines it: best effort first, guaranteed last. Pure.

use k8s_openapi::api::core::v1::{Container, Pod};

use crate::eviction::SYSTEM_CRITICAL;
use crate::spec::{self, Role};
use object::quantity::Amount;
use object::resources::{pod_level_resources, qos_class, requests_of_containers};

/// The value for containers of guaranteed pods, and of pods that a node cannot do without.
const GUARANTEED: i32 = -997;
/// The value for containers that request no memory: the kernel's highest.
const BEST_EFFORT: i32 = 1000;
/// The lowest value for a burstable pod's container, above that of any guaranteed one.
const LOWEST_BURSTABLE: i32 = 3;
const HIGHEST_BURSTABLE: i32 = 999;

/// The adjustment for a container with its allocated resources, on a machine with this much memory in bytes.
pub(super) fn oom_score_adj(pod: &Pod, role: Role, container: &Container, memory_bytes: i64) -> i32 {
    if is_node_critical(pod) {
        return GUARANTEED;
    }
    match qos_class(pod) {
        "Guaranteed" => GUARANTEED,
        "BestEffort" => BEST_EFFORT,
        _ => burstable(pod, role, container, memory_bytes),
    }
}

fn is_node_critical(pod: &Pod) -> bool {
    let spec = spec::spec(pod);
    spec.priority.is_some_and(|priority| priority >= SYSTEM_CRITICAL)
        && spec.priority_class_name.as_deref() == Some("system-node-critical")
}

/// Returns the value for a burstable pod's container: lower for larger memory requests.
fn burstable(pod: &Pod, role: Role, container: &Container, memory_bytes: i64) -> i32 {
    let mut requested = memory_request(container);
    if role == Role::Sidecar {
        // A sidecar outlives the containers that need it.
        let least = spec::app_containers(pod).iter().map(memory_request).min();
        requested = requested.max(least.unwrap_or(0));
    }
    requested = requested.saturating_add(share_of_pod(pod));
    if memory_bytes <= 0 {
        return HIGHEST_BURSTABLE;
    }
    let thousandths = i128::from(requested) * 1000 / i128::from(memory_bytes);
    let adjustment = i32::try_from(1000 - thousandths).unwrap_or(LOWEST_BURSTABLE);
    adjustment.clamp(LOWEST_BURSTABLE, HIGHEST_BURSTABLE)
}

/// A container's share of the memory that the pod as a whole requests beyond the sum of its containers.
fn share_of_pod(pod: &Pod) -> i64 {
    let spec = spec::spec(pod);
    let whole =
        Amount::in_list(pod_level_resources(spec).and_then(|whole| whole.requests.as_ref()), "memory");
    if whole.is_zero() {
        return 0;
    }
    let of_containers = Amount::in_list(Some(&requests_of_containers(spec)), "memory");
    let containers = spec.containers.len() + spec.init_containers.as_ref().map_or(0, Vec::len);
    let rest = whole.units().saturating_sub(of_containers.units()).max(0);
    rest / i64::try_from(containers.max(1)).unwrap_or(i64::MAX)
}

fn memory_request(container: &Container) -> i64 {
    let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    Amount::in_list(requests, "memory").units()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// POD-11: the score depends on the QoS class and, for a burstable pod, on the requests of its containers.
    #[test]
    fn the_kernel_spares_what_requests_most_pod_11() {
        let requests = |memory: &str| json!({"requests": {"memory": memory}});
        let all = json!({"cpu": "1", "memory": "1Gi"});
        let guaranteed = json!({"requests": all, "limits": all});
        let sidecar = json!({"name": "s", "restartPolicy": "Always", "resources": requests("100Mi")});
        let one = |resources: Value| json!({"containers": [{"name": "c", "resources": resources}]});
        let with =
            |resources: Value, containers: Value| json!({"resources": resources, "containers": containers});
        for (spec, name, expected) in [
            (one(json!({})), "c", 1000),
            (one(guaranteed.clone()), "c", -997),
            (one(requests("1Gi")), "c", 900),
            (one(json!({"requests": {"cpu": "1"}})), "c", 999),
            (one(requests("1Mi")), "c", 999),
            (one(requests("10Gi")), "c", 3),
            (one(requests("20Gi")), "c", 3),
            // A sidecar has at most the score of the container with the highest one.
            (
                json!({"initContainers": [sidecar], "containers": [{"name": "c", "resources": requests("2Gi")},
                    {"name": "d", "resources": requests("1Gi")}]}),
                "s",
                900,
            ),
            // Pod-level resources: guaranteed by them alone, or with an equal share of the remainder for each
            // container.
            (with(guaranteed, json!([{"name": "c"}])), "c", -997),
            (
                with(requests("4Gi"), json!([{"name": "c", "resources": requests("1Gi")}, {"name": "d"}])),
                "c",
                750,
            ),
            (
                with(requests("4Gi"), json!([{"name": "c", "resources": requests("1Gi")}, {"name": "d"}])),
                "d",
                850,
            ),
            (
                json!({"priority": SYSTEM_CRITICAL, "priorityClassName": "system-node-critical",
                    "containers": [{"name": "c"}]}),
                "c",
                -997,
            ),
            (
                json!({"priority": 1_000, "priorityClassName": "mine", "containers": [{"name": "c"}]}),
                "c",
                1000,
            ),
        ] {
            let pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
            let (role, container) = spec::container(&pod, name).unwrap();
            assert_eq!(oom_score_adj(&pod, role, &container, 10 << 30), expected, "{name} of {spec}");
        }
        let pod: Pod = serde_json::from_value(json!({"spec": one(requests("1Gi"))})).unwrap();
        let (role, container) = spec::container(&pod, "c").unwrap();
        assert_eq!(oom_score_adj(&pod, role, &container, 0), 999, "a machine of unknown size");
    }
}
