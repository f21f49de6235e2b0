//! In-place resize: the allocated, actuated and desired resources of a pod's containers. Pure; the worker executes.
//!
//! In Kubernetes' terms: the spec's resources are *desired*; those that the node has agreed to are *allocated*; those
//! in effect for a running container are *actuated*. Only cpu and memory of app containers and sidecars ever differ.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, ResourceRequirements};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::runtime::ResourceLimits;
use super::spec::{self, Role};
use base::sort::CollectMap;
use object::quantity::{Amount, ResourceList};
use object::resources::{pod_level_resources, spec_requests};

/// The state of a pod's resizes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Resize {
    /// The resources allocated to each resizable container, by name; empty before the pod starts: then its spec
    /// applies.
    pub(crate) allocated: BTreeMap<String, ResourceRequirements>,
    /// The resize whose resources could not be allocated.
    pub(crate) pending: Option<PendingResize>,
    /// The resize whose allocated resources could not be brought into effect.
    pub(crate) failed: Option<FailedResize>,
    /// The generation of a resize whose start has been recorded, and whose end has not.
    pub(crate) started: Option<i64>,
}

/// A resize that waits, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingResize {
    /// `Infeasible` (never on this node) or `Deferred` (not now).
    pub(crate) reason: &'static str,
    /// The reason as the event gives it: `Infeasible`, `OutOfcpu` …
    pub(crate) event_reason: String,
    /// Names the resource that is short.
    pub(crate) message: String,
    /// The pod's generation that requested it.
    pub(crate) generation: Option<i64>,
}

/// A resize that is not in effect, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailedResize {
    /// The error.
    pub(crate) message: String,
    /// The time of the next attempt.
    pub(crate) until: Timestamp,
}

/// The containers that can be resized.
pub(crate) fn resizable(pod: &Pod) -> impl Iterator<Item = (Role, &Container)> {
    let sidecars = spec::init_containers(pod).filter(|(role, _)| *role == Role::Sidecar);
    sidecars.chain(spec::app_containers(pod).iter().map(|c| (Role::App, c)))
}

impl Resize {
    /// The container's allocated resources.
    pub(crate) fn of<'a>(&'a self, container: &'a Container) -> Option<&'a ResourceRequirements> {
        self.allocated.get(&container.name).or(container.resources.as_ref())
    }

    /// Returns true if some container's spec differs from its allocation.
    pub(crate) fn is_requested(&self, pod: &Pod) -> bool {
        resizable(pod).any(|(_, c)| !same(self.of(c), c.resources.as_ref()))
    }

    /// Allocates to every container the resources of its spec.
    pub(crate) fn allocate(&mut self, pod: &Pod) {
        self.pending = None;
        self.failed = None;
        self.allocated.clear();
        self.begin(pod);
    }

    /// Allocates the resources of their specs to containers that have no allocation yet.
    pub(crate) fn begin(&mut self, pod: &Pod) {
        for (_, container) in resizable(pod) {
            if !self.allocated.contains_key(&container.name) {
                let resources = container.resources.clone().unwrap_or_default();
                self.allocated.insert(container.name.clone(), resources);
            }
        }
    }

    /// Restores an earlier kubelet's allocations from the pod's status.
    pub(crate) fn adopt(&mut self, pod: &Pod) {
        for (_, container) in resizable(pod) {
            let reported = spec::container_status(pod, &container.name).and_then(allocated_resources);
            if let Some(reported) =
                reported.filter(|reported| !same(Some(reported), container.resources.as_ref()))
            {
                self.allocated.insert(container.name.clone(), reported);
            }
        }
    }
}

/// The pod with its allocated resources.
pub(crate) fn allocated_pod<'a>(pod: &'a Pod, resize: &Resize) -> std::borrow::Cow<'a, Pod> {
    if !resize.is_requested(pod) {
        return std::borrow::Cow::Borrowed(pod);
    }
    let mut own = pod.clone();
    let lists = own
        .spec
        .iter_mut()
        .flat_map(|spec| spec.init_containers.iter_mut().flatten().chain(spec.containers.iter_mut()));
    for container in lists {
        if let Some(allocated) = resize.allocated.get(&container.name) {
            container.resources = Some(allocated.clone());
        }
    }
    std::borrow::Cow::Owned(own)
}

/// Returns the allocated resources in a container's status. Of limits the status has only those in effect.
fn allocated_resources(status: &ContainerStatus) -> Option<ResourceRequirements> {
    let actual = status.resources.clone();
    if actual.is_none() && status.allocated_resources.is_none() {
        return None;
    }
    let requests = status.allocated_resources.clone();
    let actual = actual.unwrap_or_default();
    Some(ResourceRequirements { requests: requests.or(actual.requests), ..actual })
}

/// Returns true if cpu and memory are equal amounts, in any notation.
pub(crate) fn same(one: Option<&ResourceRequirements>, other: Option<&ResourceRequirements>) -> bool {
    ["cpu", "memory"].iter().all(|resource| same_resource(one, other, resource))
}

fn same_resource(
    one: Option<&ResourceRequirements>,
    other: Option<&ResourceRequirements>,
    resource: &str,
) -> bool {
    let of = |list: Option<&ResourceList>| list.and_then(|list| list.get(resource)).map(Amount::of);
    let both = |r: Option<&ResourceRequirements>| {
        (of(r.and_then(|r| r.limits.as_ref())), of(r.and_then(|r| r.requests.as_ref())))
    };
    both(one) == both(other)
}

/// Returns true if the change needs a new process, by the container's `resizePolicy`.
pub(crate) fn needs_restart(
    container: &Container,
    from: Option<&ResourceRequirements>,
    to: Option<&ResourceRequirements>,
) -> bool {
    container.resize_policy.iter().flatten().any(|policy| {
        policy.restart_policy == "RestartContainer" && !same_resource(from, to, &policy.resource_name)
    })
}

/// The limits that the runtime enforces on a container.
pub(crate) fn limits(resources: Option<&ResourceRequirements>) -> ResourceLimits {
    let of = |list: Option<&ResourceList>, resource: &str| {
        list.and_then(|list| list.get(resource)).map(Amount::of).filter(|a| !a.is_zero())
    };
    let limit = |resource| of(resources.and_then(|r| r.limits.as_ref()), resource);
    let request = of(resources.and_then(|r| r.requests.as_ref()), "cpu");
    let millis = |amount: Amount| u64::try_from(amount.millis()).ok();
    ResourceLimits {
        memory_bytes: limit("memory").and_then(|a| u64::try_from(a.units()).ok()),
        cpu_millicores: limit("cpu").and_then(millis),
        cpu_request_millicores: request.and_then(millis),
        pod_cpu_request_millicores: None,
    }
}

/// Returns the limits of a container of this pod with its allocated resources; a container without its own limit has
/// the pod's.
pub(crate) fn limits_of(pod: &Pod, container: &Container, resize: &Resize) -> ResourceLimits {
    let (own, whole) = (limits(resize.of(container)), limits_of_pod(pod));
    ResourceLimits {
        memory_bytes: own.memory_bytes.or(whole.memory_bytes),
        cpu_millicores: own.cpu_millicores.or(whole.cpu_millicores),
        pod_cpu_request_millicores: cpu_request_of_pod(pod, resize),
        ..own
    }
}

/// Returns the limits of all containers of a pod together, which no resize changes.
pub(crate) fn limits_of_pod(pod: &Pod) -> ResourceLimits {
    limits(pod_level_resources(spec::spec(pod)))
}

/// Returns the CPU request of the whole pod with its allocated resources.
fn cpu_request_of_pod(pod: &Pod, resize: &Resize) -> Option<u64> {
    let requested = spec_requests(&allocated_pod(pod, resize)).get("cpu").copied();
    u64::try_from(requested.map_or(0, Amount::millis)).ok()
}

/// Explains why the memory limits cannot be lowered to the allocated amounts: a container or the pod uses more. Each
/// tuple holds a new limit and the current usage.
pub(crate) fn cannot_lower(lowered: &[(&str, u64, u64)], pod: Option<(u64, u64)>) -> Option<String> {
    let mut errors = Vec::new();
    if let Some((limit, used)) = pod.filter(|(limit, used)| used > limit) {
        errors.push(format!("attempting to set pod memory limit ({limit}) below current usage ({used})"));
    }
    for (name, limit, used) in lowered.iter().filter(|(_, limit, used)| used > limit) {
        errors.push(format!(
            "attempting to set container {name:?} memory limit ({limit}) below current usage ({used})"
        ));
    }
    let list = match errors.as_slice() {
        [] => return None,
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    Some(format!("cannot decrease memory limits: {list}"))
}

/// The details in the text of a resize's events, in Kubernetes' order.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct EventDetails<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_containers: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    containers: Vec<Value>,
    generation: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// The text of a resize's events: `Pod resize started: {"containers":[…],"generation":2}`.
pub(crate) fn message(
    summary: &str,
    pod: &Pod,
    resize: &Resize,
    desired: bool,
    error: Option<&str>,
) -> String {
    let generation = pod.metadata.generation.unwrap_or_default();
    let mut details = EventDetails { generation, error, ..EventDetails::default() };
    for (role, container) in resizable(pod) {
        let resources = if desired { container.resources.as_ref() } else { resize.of(container) };
        let mut shown = Map::new();
        for (side, list) in [
            ("limits", resources.and_then(|r| r.limits.as_ref())),
            ("requests", resources.and_then(|r| r.requests.as_ref())),
        ] {
            let list: Map<String, Value> = list
                .into_iter()
                .flatten()
                .filter(|(name, _)| ["cpu", "memory"].contains(&name.as_str()))
                .map(|(name, quantity)| (name.clone(), json!(quantity.0)))
                .collect_map();
            if !list.is_empty() {
                shown.insert(side.into(), list.into());
            }
        }
        let list = if role == Role::Sidecar { &mut details.init_containers } else { &mut details.containers };
        list.push(json!({"name": container.name, "resources": shown}));
    }
    let details = serde_json::to_string(&details).expect("the details have string keys");
    format!("Pod resize {summary}: {details}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(resources: &Value) -> Pod {
        let policies = json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
        serde_json::from_value(json!({"metadata": {"generation": 2}, "spec": {
            "initContainers": [{"name": "once", "resources": {"requests": {"cpu": "9"}}},
                {"name": "side", "restartPolicy": "Always", "resources": {"limits": {"memory": "1Mi"}}}],
            "containers": [{"name": "app", "resources": resources, "resizePolicy": policies}]}}))
        .unwrap()
    }

    /// POD-12: the requested amounts, equal amounts in another notation, and changes that need a new process.
    #[test]
    fn a_resize_is_a_change_of_amounts_pod_12() {
        let before = pod(&json!({"requests": {"cpu": "1", "memory": "1Gi"}}));
        let mut resize = Resize::default();
        assert!(!resize.is_requested(&before), "without an allocation no resize is requested");
        resize.allocate(&before);
        assert_eq!(resize.allocated.keys().collect::<Vec<_>>(), ["app", "side"]);
        for (after, requested, restart) in [
            (json!({"requests": {"cpu": "1000m", "memory": "1024Mi"}}), false, false),
            (json!({"requests": {"cpu": "2", "memory": "1Gi"}}), true, false),
            (json!({"requests": {"cpu": "1", "memory": "2Gi"}}), true, true),
            (json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "3Gi"}}), true, true),
            (json!({"requests": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1"}}), false, false),
        ] {
            let after = pod(&after);
            assert_eq!(resize.is_requested(&after), requested, "{after:?}");
            let app = &spec::app_containers(&after)[0];
            assert_eq!(needs_restart(app, resize.of(app), app.resources.as_ref()), restart, "{app:?}");
            let shown = allocated_pod(&after, &resize);
            assert!(same(shown.spec.as_ref().unwrap().containers[0].resources.as_ref(), resize.of(app)));
        }
    }

    #[test]
    fn the_share_of_a_pod_is_what_its_containers_request_pod_11() {
        let pod: Pod = serde_json::from_value(json!({"spec": {"containers": [
            {"name": "a", "resources": {"requests": {"cpu": "250m"}}},
            {"name": "b", "resources": {"requests": {"cpu": "1"}}}, {"name": "c"}]}}))
        .unwrap();
        let share = |pod: &Pod, resize: &Resize| {
            let container = &spec::app_containers(pod)[0];
            limits_of(pod, container, resize).pod_cpu_request_millicores
        };
        let mut resize = Resize::default();
        assert_eq!(share(&pod, &resize), Some(1250), "before its start");

        resize.allocate(&pod);
        let mut resized = pod.clone();
        let request = json!({"requests": {"cpu": "50m"}});
        resized.spec.as_mut().unwrap().containers[0].resources = serde_json::from_value(request).unwrap();
        let reported = json!({"containerStatuses": [{"name": "a", "ready": true, "restartCount": 0, "image": "",
            "imageID": "", "allocatedResources": {"cpu": "250m"}}]});
        resized.status = serde_json::from_value(reported).unwrap();
        assert_eq!(share(&resized, &resize), Some(1250), "the resize is not allocated");
        resize.allocate(&resized);
        assert_eq!(share(&resized, &resize), Some(1050), "the status still has the former request");
    }

    /// The texts are those that a 1.36 kubelet recorded.
    #[test]
    fn the_events_read_as_kubernetes_tells_them() {
        let resized = pod(&json!({"limits": {"cpu": "6", "memory": "1Gi"}, "requests": {"cpu": "6"}}));
        let list = r#"{"initContainers":[{"name":"side","resources":{"limits":{"memory":"1Mi"}}}],"containers":[{"name":"app","resources":{"limits":{"cpu":"6","memory":"1Gi"},"requests":{"cpu":"6"}}}],"generation":2"#;
        let resize = Resize::default();
        assert_eq!(
            message("started", &resized, &resize, false, None),
            format!("Pod resize started: {list}}}")
        );
        let short = "Node didn't have enough resource: cpu, requested: 6000, used: 3950, capacity: 8000";
        assert_eq!(
            message("OutOfcpu", &resized, &resize, true, Some(short)),
            format!("Pod resize OutOfcpu: {list},\"error\":\"{short}\"}}")
        );
    }

    /// A limit is never set below what is in use: that would be a kill in disguise.
    #[test]
    fn a_limit_below_what_is_used_is_refused() {
        assert_eq!(cannot_lower(&[("a", 100, 100), ("b", 50, 7)], Some((150, 107))), None);
        assert_eq!(
            cannot_lower(&[("a", 134_217_728, 418_054_144)], Some((134_217_728, 418_054_144))).unwrap(),
            "cannot decrease memory limits: [attempting to set pod memory limit (134217728) below current usage \
             (418054144), attempting to set container \"a\" memory limit (134217728) below current usage \
             (418054144)]"
        );
        assert_eq!(
            cannot_lower(&[("a", 1, 2)], None).unwrap(),
            "cannot decrease memory limits: attempting to set container \"a\" memory limit (1) below current \
             usage (2)"
        );
    }

    /// SAFE-7: a restarted kubelet continues from the status.
    #[test]
    fn allocated_resources_are_read_from_the_status_safe_7() {
        let mut resized = pod(&json!({"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}));
        resized.status = serde_json::from_value(json!({"containerStatuses": [{"name": "app", "image": "i",
            "imageID": "", "ready": true, "restartCount": 0, "containerID": "podium://1",
            "allocatedResources": {"cpu": "1"},
            "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "3"}}}]}))
        .unwrap();
        let mut resize = Resize::default();
        resize.adopt(&resized);
        let expected = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "3"}});
        assert_eq!(serde_json::to_value(&resize.allocated["app"]).unwrap(), expected);
        assert!(resize.is_requested(&resized));
    }
}
