//! Pods.

mod resize;
mod update;
mod validate;

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerState, Pod, PodStatus};
use serde_json::json;

use super::columns::{Column, NONE, RowCondition, or_none};
use super::resource::{PodShape, Resource, SelectableField, flag, selectable, text};
use apimachinery::default::{pod_spec, set};
use apimachinery::validate::FieldErrors;
use object::pod::printed_status;
use object::quantity::ResourceList;
use object::quota;
use object::resources::qos_class;

pub(crate) use resize::resize as validate_resize;
pub(crate) use validate::{binding as validate_binding, pod as validate_pod};

impl Resource for Pod {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text(
            "Ready",
            "The aggregate readiness state of this pod for accepting traffic.",
            |pod, _| json!(printed_status(pod).ready_text()),
        ),
        Column::text("Status", "The aggregate status of the containers in this pod.", |pod, _| {
            json!(printed_status(pod).status)
        }),
        Column::text(
            "Restarts",
            "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.",
            |pod, now| json!(printed_status(pod).restarts_text(now)),
        ),
        Column::age(),
        Column::wide(
            "IP",
            "IP address allocated to the pod. Routable at least within the cluster.",
            |pod, _| or_none(pod.status.as_ref().and_then(|s| s.pod_ip.as_deref())),
        ),
        Column::wide("Node", "NodeName indicates in which node this pod is scheduled.", |pod, _| {
            or_none(pod.spec.as_ref().and_then(|s| s.node_name.as_deref()))
        }),
        Column::wide("Nominated Node", "Set when this pod preempts other pods on the node.", |pod, _| {
            or_none(pod.status.as_ref().and_then(|s| s.nominated_node_name.as_deref()))
        }),
        Column::wide(
            "Readiness Gates",
            "Conditions evaluated for pod readiness in addition to those of its containers.",
            |pod, _| json!(readiness_gates(pod)),
        ),
    ];
    const SELECTABLE: &'static [SelectableField<Self>] = &[
        selectable("spec.nodeName", |pod| text(pod.spec.as_ref().and_then(|s| s.node_name.as_ref()))),
        selectable("spec.restartPolicy", |pod| {
            text(pod.spec.as_ref().and_then(|s| s.restart_policy.as_ref()))
        }),
        selectable("spec.schedulerName", |pod| {
            text(pod.spec.as_ref().and_then(|s| s.scheduler_name.as_ref()))
        }),
        selectable("spec.serviceAccountName", |pod| {
            text(pod.spec.as_ref().and_then(|s| s.service_account_name.as_ref()))
        }),
        selectable("spec.hostNetwork", |pod| flag(pod.spec.as_ref().and_then(|s| s.host_network))),
        selectable("status.phase", |pod| text(pod.status.as_ref().and_then(|s| s.phase.as_ref()))),
        selectable("status.podIP", |pod| text(pod.status.as_ref().and_then(|s| s.pod_ip.as_ref()))),
        selectable("status.podIPs", |pod| {
            let ips = pod.status.as_ref().and_then(|s| s.pod_ips.as_ref()).into_iter().flatten();
            Cow::Owned(ips.map(|ip| ip.ip.as_str()).collect::<Vec<_>>().join(" "))
        }),
        selectable("status.nominatedNodeName", |pod| {
            text(pod.status.as_ref().and_then(|s| s.nominated_node_name.as_ref()))
        }),
    ];

    fn apply_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        pod_spec::apply_pod_spec_defaults(spec);
        pod_spec::apply_pod_only_defaults(spec);
    }

    fn prepare_for_create(&mut self) {
        self.status = Some(PodStatus { phase: Some("Pending".into()), ..PodStatus::default() });
    }

    fn complete_status(&mut self) {
        // Computed only if it is missing, because it reads the resources of all containers.
        let lacks_class = |status: &PodStatus| status.qos_class.as_deref().is_none_or(str::is_empty);
        let class = self.status.as_ref().is_some_and(lacks_class).then(|| qos_class(self));
        let Some(status) = self.status.as_mut() else { return };
        if let Some(class) = class {
            status.qos_class = Some(class.into());
        }
        let lists = [
            &mut status.init_container_statuses, &mut status.container_statuses,
            &mut status.ephemeral_container_statuses,
        ];
        for container in lists.into_iter().flatten().flatten() {
            set(&mut container.last_state, ContainerState::default());
            set(&mut container.state, ContainerState::default());
        }
    }

    fn validate(&self, errors: &mut FieldErrors) {
        validate::pod(errors, self);
    }

    fn validate_create(&self, errors: &mut FieldErrors) {
        validate::create(errors, self);
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        update::update(errors, self, old);
    }

    fn validate_status(&self, old: &Self, errors: &mut FieldErrors) {
        validate::status_update(errors, self, old);
    }

    fn row_condition(&self) -> Option<RowCondition> {
        let (reason, message) = match self.status.as_ref()?.phase.as_deref()? {
            "Succeeded" => ("Succeeded", "The pod has completed successfully."),
            "Failed" => ("Failed", "The pod failed."),
            _ => return None,
        };
        Some(RowCondition { type_: "Completed", status: "True", reason, message })
    }

    fn pod(&self) -> Option<PodShape<'_>> {
        Some(PodShape { path: "spec", metadata: Some(&self.metadata), spec: self.spec.as_ref()? })
    }

    fn usage(&self, now: Timestamp) -> ResourceList {
        quota::pod_usage(self, now)
    }

    fn uses(resource: &str) -> bool {
        quota::is_of_pods(resource)
    }
}

fn readiness_gates(pod: &Pod) -> String {
    let gates = pod.spec.as_ref().and_then(|s| s.readiness_gates.as_deref()).unwrap_or_default();
    if gates.is_empty() {
        return NONE.into();
    }
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let open = gates
        .iter()
        .filter(|gate| conditions.iter().any(|c| c.type_ == gate.condition_type && c.status == "True"))
        .count();
    format!("{open}/{}", gates.len())
}
