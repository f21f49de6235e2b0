//! What a pod asks of its node: effective requests and limits.
//!
//! The rule is Kubernetes' (pages "Init containers" and "Sidecar containers", *Resource sharing*): the sum
//! of the app containers and of the sidecars (restartable init containers), or the largest step of the
//! init sequence when that is more, plus the pod's overhead; requests of the pod as a whole go first.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use super::quantity::{Amount, ResourceList};

/// Amounts by resource name, read.
pub type Amounts = BTreeMap<String, Amount>;

/// What the pod needs on its node.
pub fn pod_requests(pod: &Pod) -> Amounts {
    pod_requests_or(pod, &[])
}

/// What the pod needs on its node when every container that names no request for one of these resources
/// asked for the given amount.
pub fn pod_requests_or(pod: &Pod, missing: &[(&str, Amount)]) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::new() };
    let mut total = effective(spec, |container| {
        let mut asked = amounts(container.resources.as_ref().and_then(|r| r.requests.as_ref()));
        for (resource, amount) in missing {
            asked.entry((*resource).to_string()).or_insert(*amount);
        }
        asked
    });
    for_pod_as_a_whole(&mut total, spec.resources.as_ref().and_then(|r| r.requests.as_ref()));
    add(&mut total, &amounts(spec.overhead.as_ref()));
    total
}

/// What the pod may use at most on its node, of the resources it limits.
pub fn pod_limits(pod: &Pod) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::new() };
    let mut total = effective(spec, |c| amounts(c.resources.as_ref().and_then(|r| r.limits.as_ref())));
    for_pod_as_a_whole(&mut total, spec.resources.as_ref().and_then(|r| r.limits.as_ref()));
    for (resource, overhead) in amounts(spec.overhead.as_ref()) {
        // What is unlimited stays unlimited.
        total.entry(resource).and_modify(|limit| *limit += overhead);
    }
    total
}

/// Whether an init container keeps running beside the app containers.
pub fn is_sidecar(init_container: &Container) -> bool {
    init_container.restart_policy.as_deref() == Some("Always")
}

fn effective(spec: &PodSpec, of: impl Fn(&Container) -> Amounts) -> Amounts {
    let mut running = Amounts::new();
    for container in &spec.containers {
        add(&mut running, &of(container));
    }
    let mut sidecars = Amounts::new();
    let mut largest_step = Amounts::new();
    for container in spec.init_containers.iter().flatten() {
        let mut step = of(container);
        if is_sidecar(container) {
            add(&mut running, &step);
            add(&mut sidecars, &step);
            raise(&mut largest_step, &sidecars);
        } else {
            add(&mut step, &sidecars);
            raise(&mut largest_step, &step);
        }
    }
    raise(&mut running, &largest_step);
    running
}

fn for_pod_as_a_whole(total: &mut Amounts, whole: Option<&ResourceList>) {
    total.extend(amounts(whole));
}

fn amounts(list: Option<&ResourceList>) -> Amounts {
    list.into_iter().flatten().map(|(name, quantity)| (name.clone(), Amount::of(quantity))).collect()
}

fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        *total.entry(name.clone()).or_default() += *amount;
    }
}

fn raise(total: &mut Amounts, to: &Amounts) {
    for (name, amount) in to {
        let entry = total.entry(name.clone()).or_default();
        *entry = (*entry).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cpu_of(spec: serde_json::Value) -> i64 {
        let pod = Pod { spec: Some(serde_json::from_value(spec).unwrap()), ..Pod::default() };
        pod_requests(&pod).get("cpu").copied().unwrap_or_default().millis()
    }

    fn container(cpu: &str) -> serde_json::Value {
        json!({"name": "c", "resources": {"requests": {"cpu": cpu}}})
    }

    fn sidecar(cpu: &str) -> serde_json::Value {
        json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn the_larger_of_running_and_starting_plus_overhead_sch_3() {
        for (spec, millis) in [
            (json!({"containers": []}), 0),
            (json!({"containers": [container("100m"), container("200m")]}), 300),
            // One init container at a time: the largest counts, when it is more than the apps.
            (
                json!({"containers": [container("1")], "initContainers": [container("2"), container("3")]}),
                3000,
            ),
            (
                json!({"containers": [container("4")], "initContainers": [container("2"), container("3")]}),
                4000,
            ),
            // A sidecar runs beside the apps, and beside the init containers after it.
            (json!({"containers": [container("1")], "initContainers": [sidecar("2")]}), 3000),
            (json!({"containers": [container("1")], "initContainers": [sidecar("2"), container("3")]}), 5000),
            (json!({"containers": [container("1")], "initContainers": [container("4"), sidecar("2")]}), 4000),
            (json!({"containers": [container("1")], "overhead": {"cpu": "50m"}}), 1050),
            (
                json!({"containers": [container("1")], "resources": {"requests": {"cpu": "3"}},
                    "overhead": {"cpu": "1"}}),
                4000,
            ),
        ] {
            assert_eq!(cpu_of(spec.clone()), millis, "{spec}");
        }
    }

    #[test]
    fn limits_stay_unlimited_and_missing_requests_are_assumed_per_container() {
        let pod: Pod = serde_json::from_value(json!({"spec": {"overhead": {"cpu": "1", "memory": "1Gi"},
            "containers": [{"name": "a", "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "0"}}},
                {"name": "b"}]}}))
        .unwrap();
        let limits = pod_limits(&pod);
        assert_eq!((limits["cpu"].units(), limits.get("memory")), (3, None));
        // a says 0, b says nothing.
        let assumed = pod_requests_or(&pod, &[("cpu", Amount::from_millis(100))]);
        assert_eq!(assumed["cpu"].millis(), 1100);
    }
}
