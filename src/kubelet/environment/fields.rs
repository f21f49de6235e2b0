//! `fieldRef` and `resourceFieldRef`: a pod's access to its own fields.

use std::collections::BTreeMap;
use std::fmt::Write;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};

use crate::ips::Ips;
use crate::spec;
use base::quote::quote;
use object::quantity::{Amount, ResourceList};

/// The value at a field path; `None` for an unsupported path.
pub(crate) fn field_value(pod: &Pod, path: &str, pod_ips: Ips, host_ips: Ips) -> Option<String> {
    let meta = &pod.metadata;
    let of = |text: &Option<String>| Some(text.clone().unwrap_or_default());
    match path {
        "metadata.name" => of(&meta.name),
        "metadata.namespace" => of(&meta.namespace),
        "metadata.uid" => of(&meta.uid),
        "metadata.labels" => Some(lines(meta.labels.as_ref())),
        "metadata.annotations" => Some(lines(meta.annotations.as_ref())),
        "spec.nodeName" => of(&spec::spec(pod).node_name),
        "spec.serviceAccountName" => of(&spec::spec(pod).service_account_name),
        "status.podIP" => Some(pod_ips.first_text()),
        "status.podIPs" => Some(pod_ips.text()),
        "status.hostIP" => Some(host_ips.first_text()),
        "status.hostIPs" => Some(host_ips.text()),
        _ => {
            let (field, key) = path.strip_suffix("']")?.split_once("['")?;
            let map = match field {
                "metadata.labels" => meta.labels.as_ref(),
                "metadata.annotations" => meta.annotations.as_ref(),
                _ => return None,
            };
            Some(map.and_then(|m| m.get(key)).cloned().unwrap_or_default())
        }
    }
}

/// Formats a map as lines `key="value"`, with the values quoted as in Go.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let mut out = String::new();
    for (index, (key, value)) in map.into_iter().flatten().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let _ = write!(out, "{key}={}", quote(value));
    }
    out
}

/// A container's request or limit divided by the divisor, rounded up; none for an unsupported resource.
///
/// A container without a limit gets the pod's limit, or else the node's allocatable amount.
pub(crate) fn resource_value(
    pod: &Pod,
    container: &Container,
    field: &ResourceFieldSelector,
    allocatable: &ResourceList,
) -> Option<String> {
    let (list, resource) = field.resource.split_once('.')?;
    if !matches!(resource, "cpu" | "memory" | "ephemeral-storage") && !resource.starts_with("hugepages-") {
        return None;
    }
    let resources = container.resources.as_ref();
    let amount = match list {
        "limits" => resources
            .and_then(|r| r.limits.as_ref())
            .and_then(|l| l.get(resource))
            .or_else(|| spec::pod_level_limit(pod, resource))
            .map_or_else(|| Amount::in_list(Some(allocatable), resource), Amount::of),
        "requests" => Amount::in_list(resources.and_then(|r| r.requests.as_ref()), resource),
        _ => return None,
    };
    let divisor = field.divisor.as_ref().map(Amount::of).filter(|d| !d.is_zero());
    let divisor = divisor.unwrap_or_else(|| Amount::from_units(1));
    // Milli-units represent every cpu amount exactly; memory is in whole units already.
    let (amount, divisor) = (i128::from(amount.millis()), i128::from(divisor.millis()).max(1));
    Some((amount.div_euclid(divisor) + i128::from(amount.rem_euclid(divisor) > 0)).to_string())
}
