//! Which columns each kind has. The order is that of the cells in `rows`.

mod policy;
mod storage;
mod workload;

use serde::Serialize;

use crate::object::Kind;

/// One column of a table.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq)]
pub struct Column {
    /// Its heading; clients print it in capitals.
    pub name: &'static str,
    /// `string`, `integer` or `boolean`.
    #[serde(rename = "type")]
    pub type_: &'static str,
    /// `name` for the object's name, else empty.
    pub format: &'static str,
    /// What `kubectl explain` would say.
    pub description: &'static str,
    /// 0: always shown; 1: only with `-o wide`.
    pub priority: i32,
}

const fn text(name: &'static str, description: &'static str) -> Column {
    Column { name, type_: "string", format: "", description, priority: 0 }
}

const fn number(name: &'static str, description: &'static str) -> Column {
    Column { type_: "integer", ..text(name, description) }
}

const fn wide(name: &'static str, description: &'static str) -> Column {
    Column { priority: 1, ..text(name, description) }
}

const NAME: Column = Column {
    format: "name",
    ..text("Name", "Name must be unique within a namespace. Is required when creating resources.")
};
const AGE: Column = text(
    "Age",
    "CreationTimestamp is a timestamp representing the server time when this object was created, in RFC3339 form and in UTC.",
);
const SELECTOR: Column = wide("Selector", "Label selector for the pods of the object.");

pub(super) fn of(kind: Kind) -> &'static [Column] {
    match kind {
        Kind::Pod => {
            const {
                &[
                    NAME,
                    text("Ready", "The aggregate readiness state of this pod for accepting traffic."),
                    text("Status", "The aggregate status of the containers in this pod."),
                    text(
                        "Restarts",
                        "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.",
                    ),
                    AGE,
                    wide("IP", "IP address allocated to the pod. Routable at least within the cluster."),
                    wide("Node", "NodeName indicates in which node this pod is scheduled."),
                    wide("Nominated Node", "Set when this pod preempts other pods on the node."),
                    wide(
                        "Readiness Gates",
                        "Conditions evaluated for pod readiness beside those of its containers.",
                    ),
                ]
            }
        }
        Kind::Deployment => workload::DEPLOYMENT,
        Kind::ReplicaSet | Kind::ReplicationController => workload::REPLICAS,
        Kind::PodTemplate => workload::POD_TEMPLATE,
        Kind::ControllerRevision => workload::REVISION,
        Kind::StatefulSet => workload::STATEFUL_SET,
        Kind::DaemonSet => workload::DAEMON_SET,
        Kind::Job => workload::JOB,
        Kind::CronJob => workload::CRON_JOB,
        Kind::StorageClass => storage::CLASS,
        Kind::PersistentVolume => storage::VOLUME,
        Kind::PersistentVolumeClaim => storage::CLAIM,
        Kind::HorizontalPodAutoscaler => policy::AUTOSCALER,
        Kind::ResourceQuota => policy::QUOTA,
        Kind::LimitRange | Kind::PodPreset => policy::CREATED,
        Kind::PodDisruptionBudget => policy::BUDGET,
        Kind::Node => {
            const {
                &[
                    NAME,
                    text("Status", "The status of the node"),
                    text("Roles", "The roles of the node"),
                    AGE,
                    text("Version", "Kubelet Version reported by the node."),
                    wide("Internal-IP", "The node's address within the cluster."),
                    wide("External-IP", "The node's address from outside."),
                    wide("OS-Image", "OS Image reported by the node."),
                    wide("Kernel-Version", "Kernel Version reported by the node."),
                    wide("Container-Runtime", "ContainerRuntime Version reported by the node."),
                ]
            }
        }
        Kind::Namespace => const { &[NAME, text("Status", "The status of the namespace"), AGE] },
        Kind::Event => {
            const {
                &[
                    text("Last Seen", "Time when this event was last observed."),
                    text(
                        "Type",
                        "Type of this event (Normal, Warning), new types could be added in the future.",
                    ),
                    text("Reason", "The reason for the transition into the object's current status."),
                    text("Object", "The object that this event is about."),
                    wide("Subobject", "The part of the object that this event is about."),
                    wide("Source", "The component reporting this event."),
                    text("Message", "A human-readable description of the status of this operation."),
                    wide("First Seen", "The time at which the event was first recorded."),
                    Column { priority: 1, ..number("Count", "The number of times this event has occurred.") },
                    Column { priority: 1, ..NAME },
                ]
            }
        }
        Kind::ConfigMap => const { &[NAME, text("Data", "How many entries the data has."), AGE] },
        Kind::Secret => {
            const {
                &[
                    NAME,
                    text("Type", "Used to facilitate programmatic handling of secret data."),
                    text("Data", "How many entries the data has."),
                    AGE,
                ]
            }
        }
        Kind::ServiceAccount => {
            const { &[NAME, text("Secrets", "Secrets that pods running with this account may use."), AGE] }
        }
        Kind::Service => {
            const {
                &[
                    NAME,
                    text("Type", "How the Service is exposed."),
                    text("Cluster-IP", "The IP address of the service, assigned by the control plane."),
                    text("External-IP", "Addresses at which the service is reached from outside."),
                    text("Port(s)", "The list of ports that are exposed by this service."),
                    AGE,
                    SELECTOR,
                ]
            }
        }
        Kind::Endpoints => const { &[NAME, text("Endpoints", "Addresses and ports of the service."), AGE] },
        Kind::EndpointSlice => {
            const {
                &[
                    NAME,
                    text("AddressType", "The type of address carried by this EndpointSlice."),
                    text("Ports", "The list of network ports exposed by each endpoint in this slice."),
                    text("Endpoints", "The addresses of the endpoints in this slice."),
                    AGE,
                ]
            }
        }
        Kind::Lease => {
            const { &[NAME, text("Holder", "The identity of the holder of the current lease."), AGE] }
        }
        Kind::PriorityClass => {
            const {
                &[
                    NAME,
                    number("Value", "The integer value of this priority class."),
                    Column {
                        type_: "boolean",
                        ..text("Global-Default", "Whether this is the priority of pods that name no class.")
                    },
                    AGE,
                    text("PreemptionPolicy", "Whether pods of this class preempt others."),
                ]
            }
        }
        #[allow(unreachable_patterns, reason = "kinds without columns of their own")]
        _ => const { &[NAME, AGE] },
    }
}
