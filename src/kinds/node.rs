//! Nodes.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeSystemInfo};
use serde_json::{Value, json};

use super::columns::{Column, NONE};
use super::resource::{Resource, SelectableField, flag, selectable};
use apimachinery::validate::{FieldErrors, Path, metadata, names, placement, resources};
use base::sort::SliceOrder;
use object::time::UNKNOWN;
use object::well_known::label::{NODE_ROLE, NODE_ROLE_PREFIX};

impl Resource for Node {
    // A kubelet registers its node together with its status.
    const KEEPS_STATUS_AT_CREATION: bool = true;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Status", "The status of the node", |node, _| json!(state(node))),
        Column::text("Roles", "The roles of the node", |node, _| json!(roles(node))),
        Column::age(),
        Column::text("Version", "Kubelet Version reported by the node.", |node, _| {
            json!(
                node.status
                    .as_ref()
                    .and_then(|s| s.node_info.as_ref())
                    .map_or("", |i| i.kubelet_version.as_str())
            )
        }),
        Column::wide("Internal-IP", "The node's address inside the cluster.", |node, _| {
            address(node, "InternalIP")
        }),
        Column::wide("External-IP", "The node's address outside the cluster.", |node, _| {
            address(node, "ExternalIP")
        }),
        Column::wide("OS-Image", "OS Image reported by the node.", |node, _| reported(node, |i| &i.os_image)),
        Column::wide("Kernel-Version", "Kernel Version reported by the node.", |node, _| {
            reported(node, |i| &i.kernel_version)
        }),
        Column::wide("Container-Runtime", "ContainerRuntime Version reported by the node.", |node, _| {
            reported(node, |i| &i.container_runtime_version)
        }),
    ];
    const SELECTABLE: &'static [SelectableField<Self>] =
        &[selectable("spec.unschedulable", |node| flag(node.spec.as_ref().and_then(|s| s.unschedulable)))];

    fn apply_defaults(&mut self) {
        self.spec.get_or_insert_default();
        if let Some(status) = &mut self.status
            && status.allocatable.is_none()
        {
            status.allocatable.clone_from(&status.capacity);
        }
    }

    fn complete_status(&mut self) {
        let status = self.status.get_or_insert_default();
        status.daemon_endpoints.get_or_insert_default().kubelet_endpoint.get_or_insert_default();
        status.node_info.get_or_insert_default();
    }

    fn validate(&self, errors: &mut FieldErrors) {
        if let Some(spec) = &self.spec {
            pod_ranges(errors, &ranges(spec));
            // Kubernetes reports taints at this path, too.
            let taints = Path::root("metadata.taints");
            let mut seen = HashSet::new();
            for (path, taint) in taints.each(spec.taints.iter().flatten()) {
                metadata::label_key(errors, &path.child("key"), &taint.key);
                let value = taint.value.as_deref().unwrap_or_default();
                errors.invalid_each(&path.child("value"), value, names::label_value(value));
                errors.required_one_of(&path.child("effect"), Some(&taint.effect), placement::TAINT_EFFECTS);
                if !seen.insert((&taint.key, &taint.effect)) {
                    errors.duplicate_because(
                        &path,
                        &object::json_of(taint),
                        "taints must be unique by key and effect pair",
                    );
                }
            }
        }
        if let Some(status) = &self.status {
            let path = Path::root("status");
            for (field, list) in [("capacity", &status.capacity), ("allocatable", &status.allocatable)] {
                let path = path.child(field);
                for (name, amount) in list.iter().flatten() {
                    resources::amount(errors, &path.child(name), name, amount);
                }
            }
        }
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
        addresses_differ(errors, self);
        let (Some(new), Some(old)) = (&self.spec, &old.spec) else { return };
        let path = Path::root("spec");
        let (new_ranges, old_ranges) = (ranges(new), ranges(old));
        // Only the first range is immutable: the second appears and disappears with the machine's IPv6.
        if !old_ranges.is_empty() && new_ranges.first() != old_ranges.first() {
            let detail = "node updates may not change podCIDR except from \"\" to valid";
            errors.forbidden(&path.child("podCIDRs"), detail);
        }
        if old.provider_id.as_ref().is_some_and(|id| !id.is_empty()) && new.provider_id != old.provider_id {
            let detail = "node updates may not change providerID except from \"\" to valid";
            errors.forbidden(&path.child("providerID"), detail);
        }
    }

    fn validate_status(&self, _old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
        addresses_differ(errors, self);
    }
}

/// Returns the pod ranges: `podCIDRs`, or `podCIDR` alone if it is not the first of them.
fn ranges(spec: &NodeSpec) -> Vec<String> {
    let all = spec.pod_cidrs.clone().unwrap_or_default();
    match spec.pod_cidr.as_ref().filter(|first| !first.is_empty()) {
        Some(first) if all.first() != Some(first) => vec![first.clone()],
        _ => all,
    }
}

fn pod_ranges(errors: &mut FieldErrors, ranges: &[String]) {
    let path = Path::root("spec.podCIDRs");
    for (i, range) in ranges.iter().enumerate() {
        errors.invalid_each(&path.index(i), range, names::cidr(range));
    }
    if ranges.len() < 2 {
        return;
    }
    let is_v6: Vec<bool> = ranges.iter().map(|range| range.contains(':')).collect();
    if ranges.len() > 2 || is_v6[0] == is_v6[1] {
        errors.invalid(&path, &ranges.to_vec(), "may specify no more than one CIDR for each IP family");
    }
    for (i, range) in ranges.iter().enumerate().filter(|(i, range)| ranges[..*i].contains(range)) {
        errors.duplicate(&path.index(i), range);
    }
}

/// Requires that the addresses of a node differ.
fn addresses_differ(errors: &mut FieldErrors, node: &Node) {
    let path = Path::root("status.addresses");
    let mut seen = HashSet::new();
    let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    for (i, address) in addresses.enumerate() {
        if !seen.insert((&address.type_, &address.address)) {
            errors.duplicate(&path.index(i), &object::json_of(address));
        }
    }
}

fn state(node: &Node) -> String {
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let mut state = match conditions.iter().find(|c| c.type_ == "Ready") {
        Some(ready) if ready.status == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_string();
    if node.spec.as_ref().is_some_and(|s| s.unschedulable == Some(true)) {
        state.push_str(",SchedulingDisabled");
    }
    state
}

fn address(node: &Node, type_: &str) -> Value {
    let addresses = node.status.as_ref().and_then(|s| s.addresses.as_deref()).unwrap_or_default();
    json!(addresses.iter().find(|a| a.type_ == type_).map_or(NONE, |a| a.address.as_str()))
}

fn reported(node: &Node, part: fn(&NodeSystemInfo) -> &String) -> Value {
    let info = node.status.as_ref().and_then(|s| s.node_info.as_ref());
    json!(info.map(|info| part(info).as_str()).filter(|text| !text.is_empty()).unwrap_or(UNKNOWN))
}

fn roles(node: &Node) -> String {
    let mut roles: Vec<&str> = Vec::new();
    for (key, value) in node.metadata.labels.iter().flatten() {
        match key.strip_prefix(NODE_ROLE_PREFIX) {
            Some(role) if !role.is_empty() => roles.push(role),
            _ if key == NODE_ROLE && !value.is_empty() => roles.push(value),
            _ => {}
        }
    }
    roles.order();
    roles.dedup();
    if roles.is_empty() { NONE.into() } else { roles.join(",") }
}
