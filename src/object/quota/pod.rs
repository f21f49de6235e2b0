//! A pod's usage in quotas: the pod itself, and its requests and limits while it lives.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::pod::is_terminal;
use crate::quantity::{Amount, ResourceList};
use crate::resources::{Amounts, pod_limits, pod_requests};
use base::clock::saturating_after;
use base::sort::CollectMap;

/// Resources that count under their own name, `requests.NAME` and `limits.NAME`.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Returns the pod's usage of every resource that quotas know.
pub fn usage(pod: &Pod, now: Timestamp) -> ResourceList {
    if is_over(pod, now) {
        return ResourceList::new();
    }
    let (requests, limits) = requests_and_limits(pod);
    let mut used = named(&requests, &limits);
    used.insert("pods".into(), Quantity("1".into()));
    used
}

/// Returns the pod's total requests and limits, in its author's notation.
pub fn requests_and_limits(pod: &Pod) -> (ResourceList, ResourceList) {
    let requests = written(pod, pod_requests(pod), |r| r.requests.as_ref());
    (requests, written(pod, pod_limits(pod), |r| r.limits.as_ref()))
}

/// Returns the requests and limits of a container, or of a pod as a whole, under their names in quotas.
pub fn named_resources(resources: Option<&ResourceRequirements>) -> ResourceList {
    let resources = resources.cloned().unwrap_or_default();
    named(&resources.requests.unwrap_or_default(), &resources.limits.unwrap_or_default())
}

/// Returns true if pods use this resource.
pub fn is_of_pods(resource: &str) -> bool {
    let compute = |name: &str| COMPUTE.contains(&name);
    match resource.split_once('.') {
        Some(("requests", name)) => compute(name) || name.starts_with("hugepages-") || is_extended(name),
        Some(("limits", name)) => compute(name),
        _ => resource == "pods" || compute(resource) || resource.starts_with("hugepages-"),
    }
}

/// Returns true if the pod has ended, or should have been deleted a whole grace period ago.
fn is_over(pod: &Pod, now: Timestamp) -> bool {
    let meta = &pod.metadata;
    let overdue = match (&meta.deletion_timestamp, meta.deletion_grace_period_seconds) {
        (Some(at), Some(grace)) => {
            let grace = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
            now > saturating_after(at.0, grace)
        }
        _ => false,
    };
    is_terminal(pod) || overdue
}

fn named(requests: &ResourceList, limits: &ResourceList) -> ResourceList {
    let mut used = ResourceList::new();
    for (name, quantity) in requests {
        let own_name = COMPUTE.contains(&name.as_str()) || name.starts_with("hugepages-");
        if own_name {
            used.insert(name.clone(), quantity.clone());
        }
        // Resources that cannot be overcommitted count by their requests only.
        if own_name || is_extended(name) {
            used.insert(format!("requests.{name}"), quantity.clone());
        }
    }
    for (name, quantity) in limits.iter().filter(|(name, _)| COMPUTE.contains(&name.as_str())) {
        used.insert(format!("limits.{name}"), quantity.clone());
    }
    used
}

/// Returns true for extended resources, which have a vendor's domain.
fn is_extended(name: &str) -> bool {
    name.split_once('/').is_some_and(|(domain, _)| {
        domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io") && !domain.starts_with("requests.")
    })
}

/// One of the two lists of a container's resources.
type ResourceListFn = fn(&ResourceRequirements) -> Option<&ResourceList>;

/// Returns the amounts in the notation of the pod's author.
fn written(pod: &Pod, amounts: Amounts, list: ResourceListFn) -> ResourceList {
    let spec = pod.spec.as_ref();
    let containers =
        || spec.iter().flat_map(|s| s.containers.iter().chain(s.init_containers.iter().flatten()));
    let sample = |name: &str| {
        let whole = spec.and_then(|s| s.resources.as_ref());
        let mut all = containers().filter_map(|c| c.resources.as_ref()).chain(whole);
        all.find_map(|resources| list(resources)?.get(name))
    };
    let text = |name: &str, amount: Amount| {
        sample(name).map_or_else(|| amount.to_decimal(), |sample| amount.to_text_like(sample))
    };
    amounts.into_iter().map(|(name, amount)| (name.clone(), text(&name, amount))).collect_map()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn used(pod: Value) -> String {
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let used = usage(&pod, "2026-11-21T00:01:00Z".parse().unwrap());
        used.iter().map(|(name, q)| format!("{name}={}", q.0)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_pod_counts_what_it_asks_for_until_it_is_over_quo_1() {
        let spec = json!({"containers": [{"name": "c", "resources": {
            "requests": {"cpu": "500m", "memory": "512Mi", "example.com/gpu": "1", "hugepages-2Mi": "4Mi"},
            "limits": {"memory": "1G", "example.com/gpu": "1"}}},
            {"name": "d", "resources": {"requests": {"memory": "512Mi"}}}]});
        let all = "cpu=500m hugepages-2Mi=4Mi limits.memory=1G memory=1Gi pods=1 requests.cpu=500m \
                   requests.example.com/gpu=1 requests.hugepages-2Mi=4Mi requests.memory=1Gi";
        let going = |since: &str| json!({"deletionTimestamp": since, "deletionGracePeriodSeconds": 30});
        for (meta, phase, expected) in [
            (json!({}), "Pending", all),
            (json!({}), "Running", all),
            (json!({}), "Succeeded", ""),
            (json!({}), "Failed", ""),
            (going("2026-11-21T00:00:40Z"), "Running", all),
            (going("2026-11-21T00:00:20Z"), "Running", ""),
        ] {
            let pod = json!({"metadata": meta, "spec": spec, "status": {"phase": phase}});
            assert_eq!(used(pod), expected, "{phase}");
        }
    }
}
