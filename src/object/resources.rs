//! A pod's effective requests and limits.
//!
//! The rule is Kubernetes' (pages "Init containers" and "Sidecar containers", *Resource sharing*): the sum over the app
//! containers and the sidecars (restartable init containers), or, if that is more, what the largest step of the init
//! sequence needs; plus the pod's overhead. Requests of the pod as a whole take precedence.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodStatus, ResourceRequirements};

use super::conditions::Condition as _;
use super::quantity::{Amount, ResourceList};
use base::sort::CollectMap;

/// Parsed amounts by resource name.
pub type Amounts = BTreeMap<String, Amount>;

/// Returns the pod's requests on its node. A container that is being resized counts with the larger of its desired
/// and its actual resources, or with the actual ones if the node can never provide the desired ones.
pub fn pod_requests(pod: &Pod) -> Amounts {
    pod_requests_or(pod, &[])
}

/// Returns true if two versions of a pod's status count alike in [`pod_requests`].
pub fn count_alike(a: Option<&PodStatus>, b: Option<&PodStatus>) -> bool {
    is_infeasible(a) == is_infeasible(b) && allocated_resources(a).eq(allocated_resources(b))
}

/// Returns the allocated and the actual resources of containers in a status.
fn allocated_resources(
    status: Option<&PodStatus>,
) -> impl Iterator<Item = (&str, Option<&ResourceList>, Option<&ResourceList>)> {
    let lists = status.into_iter().flat_map(|s| [&s.container_statuses, &s.init_container_statuses]);
    let given_resources = lists.flatten().flatten().map(|s| {
        (
            s.name.as_str(),
            s.allocated_resources.as_ref(),
            s.resources.as_ref().and_then(|r| r.requests.as_ref()),
        )
    });
    given_resources.filter(|(_, given, actual)| given.is_some() || actual.is_some())
}

/// Returns true if the node can never provide the desired resources of a resize.
fn is_infeasible(status: Option<&PodStatus>) -> bool {
    status
        .and_then(|s| s.conditions.as_ref())
        .into_iter()
        .flatten()
        .any(|c| c.type_ == "PodResizePending" && c.is_true() && c.reason.as_deref() == Some("Infeasible"))
}

/// Returns the resources allocated to the pod on its node, or its requests while its status has none.
pub fn allocated_requests(pod: &Pod) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::new() };
    let given =
        |container: &Container| pod.status.as_ref().and_then(|status| allocated(status, &container.name));
    requests(spec, |container| given(container).unwrap_or_else(|| effective_requests(container)))
}

/// Returns the requests in the pod's spec, regardless of its allocation.
pub fn spec_requests(pod: &Pod) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::new() };
    requests(spec, effective_requests)
}

fn effective_requests(container: &Container) -> Amounts {
    amounts(container.resources.as_ref().and_then(|r| r.requests.as_ref()))
}

/// Returns the pod's requests, assuming the given amount of a resource for every container without a request for it.
pub fn pod_requests_or(pod: &Pod, missing: &[(&str, Amount)]) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::new() };
    let status = pod.status.as_ref();
    let infeasible = is_infeasible(status);
    requests(spec, |container| {
        let requested = effective_requests(container);
        let mut counted = match status.and_then(|status| allocated(status, &container.name)) {
            Some(held) if infeasible => held,
            Some(held) => {
                let mut counted = requested;
                raise(&mut counted, &held);
                counted
            }
            None => requested,
        };
        for (resource, amount) in missing {
            counted.entry((*resource).to_string()).or_insert(*amount);
        }
        counted
    })
}

/// Returns the allocated or actual resources of a container; `None` before the status reports them.
fn allocated(status: &PodStatus, name: &str) -> Option<Amounts> {
    let lists = [&status.container_statuses, &status.init_container_statuses];
    let given_resources = lists.into_iter().flatten().flatten().find(|s| s.name == name)?;
    let given = given_resources.allocated_resources.as_ref();
    let actual = given_resources.resources.as_ref().and_then(|r| r.requests.as_ref());
    if given.is_none() && actual.is_none() {
        return None;
    }
    let mut held = amounts(given);
    raise(&mut held, &amounts(actual));
    Some(held)
}

fn requests(spec: &PodSpec, of: impl Fn(&Container) -> Amounts) -> Amounts {
    let mut total = effective(spec, of);
    for_pod_as_a_whole(&mut total, spec.resources.as_ref().and_then(|r| r.requests.as_ref()));
    add(&mut total, &amounts(spec.overhead.as_ref()));
    total
}

/// Returns the sum of the requests of the pod's containers, in the notation of the container that makes the request.
pub fn requests_of_containers(spec: &PodSpec) -> ResourceList {
    let containers = || spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let sample = |name: &str| {
        containers().find_map(|container| container.resources.as_ref()?.requests.as_ref()?.get(name))
    };
    let written = |(name, amount): (String, Amount)| {
        let text = sample(&name).map_or_else(|| amount.to_decimal(), |sample| amount.to_text_like(sample));
        (name, text)
    };
    effective(spec, effective_requests).into_iter().map(written).collect_map()
}

/// Returns the pod's limits on its node, for the resources it limits.
pub fn pod_limits(pod: &Pod) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::new() };
    let mut total = effective(spec, |c| amounts(c.resources.as_ref().and_then(|r| r.limits.as_ref())));
    for_pod_as_a_whole(&mut total, spec.resources.as_ref().and_then(|r| r.limits.as_ref()));
    for (resource, overhead) in amounts(spec.overhead.as_ref()) {
        // An unlimited resource stays unlimited.
        total.entry(resource).and_modify(|limit| *limit += overhead);
    }
    total
}

/// Returns whether the pod as a whole may request this resource (`spec.resources`).
pub fn is_pod_level_resource(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

/// Returns the resources of the pod as a whole, if it sets any that count.
pub fn pod_level_resources(spec: &PodSpec) -> Option<&ResourceRequirements> {
    let whole = spec.resources.as_ref()?;
    let mut names = [&whole.requests, &whole.limits].into_iter().flatten().flat_map(|list| list.keys());
    names.any(|name| is_pod_level_resource(name)).then_some(whole)
}

/// Returns the pod's QoS class (POD-11), which decides the order of eviction under memory pressure. If resources of
/// the pod as a whole are set, they alone decide.
pub fn qos_class(pod: &Pod) -> &'static str {
    let (mut any, mut guaranteed) = (false, true);
    let Some(spec) = &pod.spec else { return "BestEffort" };
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let all: Vec<Option<&ResourceRequirements>> = match pod_level_resources(spec) {
        Some(whole) => vec![Some(whole)],
        None => containers.map(|container| container.resources.as_ref()).collect(),
    };
    for resources in all {
        for resource in ["cpu", "memory"] {
            let limit = Amount::in_list(resources.and_then(|r| r.limits.as_ref()), resource);
            let requested = resources.and_then(|r| r.requests.as_ref()).and_then(|l| l.get(resource));
            let request = requested.map_or(limit, Amount::of);
            any |= !limit.is_zero() || !request.is_zero();
            guaranteed &= !limit.is_zero() && limit == request;
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// Returns true if an init container keeps running beside the app containers.
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

/// Returns the parsed amounts of a list.
pub fn amounts(list: Option<&ResourceList>) -> Amounts {
    list.into_iter().flatten().map(|(name, quantity)| (name.clone(), Amount::of(quantity))).collect_map()
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
            // Init containers run one at a time: the largest counts, if it is more than the app containers.
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
        // Container a requests 0, b has no request.
        let assumed = pod_requests_or(&pod, &[("cpu", Amount::from_millis(100))]);
        assert_eq!(assumed["cpu"].millis(), 1100);
    }

    /// SCH-3: during a resize the larger amounts of a pod count on its node, unless the resize can never fit.
    #[test]
    fn a_resize_counts_with_what_is_more_sch_3() {
        let of = |spec: &str, given: &str, actual: &str, reason: &str| {
            let pod: Pod = serde_json::from_value(json!({
                "spec": {"containers": [container(spec)]},
                "status": {"conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
                    "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                        "allocatedResources": {"cpu": given}, "resources": {"requests": {"cpu": actual}}}]}}))
            .unwrap();
            [pod_requests(&pod), allocated_requests(&pod), spec_requests(&pod)].map(|all| all["cpu"].millis())
        };
        assert_eq!(of("2", "1", "1", "Deferred"), [2000, 1000, 2000]);
        assert_eq!(of("2", "1", "1", "Infeasible"), [1000, 1000, 2000]);
        assert_eq!(of("1", "1", "3", "Deferred"), [3000, 3000, 1000], "it shrinks and has not yet");
    }
}
