//! Well-known names: labels, annotations, taints and condition types, each defined only here.
//!
//! The names for Jobs are in [`super::job`], those for volumes in [`super::storage`].

/// Keys of labels.
pub mod label {
    /// The node's name, on a node.
    pub const HOSTNAME: &str = "kubernetes.io/hostname";
    /// The zone of a node or a volume.
    pub const ZONE: &str = "topology.kubernetes.io/zone";
    /// The region of a node or a volume.
    pub const REGION: &str = "topology.kubernetes.io/region";
    /// [`ZONE`] as it was before Kubernetes 1.17.
    pub const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
    /// [`REGION`] as it was before Kubernetes 1.17.
    pub const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";
    /// The hash of a Deployment's pod template, on its ReplicaSets and pods.
    pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";
    /// The Service that an EndpointSlice belongs to.
    pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
    /// Marks the endpoints of a Service without a cluster IP.
    pub const HEADLESS_SERVICE: &str = "service.kubernetes.io/headless";
    /// The component that manages an EndpointSlice.
    pub const ENDPOINT_SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
    /// Marks Endpoints that must not be mirrored into EndpointSlices.
    pub const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
    /// On the pods of a `podium dev` run: the project that they belong to.
    pub const PODIUM_PROJECT: &str = "podium.dev/project";
}

/// Keys of annotations.
pub mod annotation {
    /// On the mirror of a static pod: the static pod's uid.
    pub const MIRROR_POD: &str = "kubernetes.io/config.mirror";
    /// The source from which a kubelet has a pod; `file` for a static one.
    pub const CONFIG_SOURCE: &str = "kubernetes.io/config.source";
    /// The configuration last passed to `kubectl apply`.
    pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
    /// The time of the last `kubectl rollout restart`, on a pod template.
    pub const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";
    /// The container that `kubectl logs` and `exec` use by default.
    pub const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
    /// A Deployment's revision, on the Deployment and on its ReplicaSets.
    pub const DEPLOYMENT_REVISION: &str = "deployment.kubernetes.io/revision";
    /// Pods with a lower cost are removed first when a ReplicaSet shrinks.
    pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    /// On a node: it requests that Podium runs this node, and how.
    pub const PODIUM_NODE: &str = "podium.dev/node";
}

/// Keys of the taints that Kubernetes itself puts on nodes.
pub mod taint {
    /// The common prefix.
    pub const PREFIX: &str = "node.kubernetes.io/";
    /// The node's Ready condition is False.
    pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
    /// The node's Ready condition is Unknown.
    pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
    /// The node is cordoned.
    pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
    /// The node is short of memory.
    pub const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";
    /// The node is short of disk space.
    pub const DISK_PRESSURE: &str = "node.kubernetes.io/disk-pressure";
    /// The node is short of process ids.
    pub const PID_PRESSURE: &str = "node.kubernetes.io/pid-pressure";
    /// The node's network is not set up.
    pub const NETWORK_UNAVAILABLE: &str = "node.kubernetes.io/network-unavailable";
    /// An administrator or a fence has declared the node shut down.
    pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
}

/// Types of conditions.
pub mod condition {
    /// A pod serves requests; a node accepts pods.
    pub const READY: &str = "Ready";
    /// A pod's containers are ready, regardless of its readiness gates.
    pub const CONTAINERS_READY: &str = "ContainersReady";
    /// A pod's init containers are done.
    pub const INITIALIZED: &str = "Initialized";
    /// A pod's sandbox and network exist.
    pub const READY_TO_START_CONTAINERS: &str = "PodReadyToStartContainers";
    /// A pod is bound to a node.
    pub const POD_SCHEDULED: &str = "PodScheduled";
    /// A pod is about to be deleted because of a disruption.
    pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
    /// A node is short of memory.
    pub const MEMORY_PRESSURE: &str = "MemoryPressure";
    /// A node is short of disk space.
    pub const DISK_PRESSURE: &str = "DiskPressure";
    /// A node is short of process ids.
    pub const PID_PRESSURE: &str = "PIDPressure";
    /// A node's network is not set up.
    pub const NETWORK_UNAVAILABLE: &str = "NetworkUnavailable";
    /// A workload could not create or delete pods.
    pub const REPLICA_FAILURE: &str = "ReplicaFailure";
    /// A disruption budget has disruptions left.
    pub const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
}
