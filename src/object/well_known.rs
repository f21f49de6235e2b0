//! Well-known names: labels, annotations, taints, finalizers, types of conditions and secrets, each defined only here.
//!
//! A subject with a module of its own has its names there: [`super::job`], [`super::storage`], [`super::ingress`],
//! [`super::low_ports`], [`super::cluster_domain`]. A name of Kubernetes that one file alone needs may be in that file.
//! The node host links no crate that knows Kubernetes, so it repeats the annotations in which it describes itself.

/// Keys of labels.
pub mod label {
    /// The node's name, on a node.
    pub const HOSTNAME: &str = "kubernetes.io/hostname";
    /// The operating system of a node.
    pub const OS: &str = "kubernetes.io/os";
    /// The processor architecture of a node.
    pub const ARCH: &str = "kubernetes.io/arch";
    /// The machine type of a node.
    pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
    /// The role of a node, besides the labels whose prefix is [`NODE_ROLE_PREFIX`].
    pub const NODE_ROLE: &str = "kubernetes.io/role";
    /// The prefix of labels whose rest is a role of the node.
    pub const NODE_ROLE_PREFIX: &str = "node-role.kubernetes.io/";
    /// The zone of a node or a volume.
    pub const ZONE: &str = "topology.kubernetes.io/zone";
    /// The region of a node or a volume.
    pub const REGION: &str = "topology.kubernetes.io/region";
    /// [`ZONE`] as it was before Kubernetes 1.17.
    pub const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
    /// [`REGION`] as it was before Kubernetes 1.17.
    pub const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";
    /// The renamed labels of nodes: the old name, the version of Kubernetes that deprecated it, and the new name.
    pub const RENAMED_NODE_LABELS: [(&str, &str, &str); 5] = [
        ("beta.kubernetes.io/arch", "v1.14", ARCH),
        ("beta.kubernetes.io/os", "v1.14", OS),
        (BETA_REGION, "v1.17", REGION),
        (BETA_ZONE, "v1.17", ZONE),
        ("beta.kubernetes.io/instance-type", "v1.17", INSTANCE_TYPE),
    ];
    /// The hash of a Deployment's pod template, on its ReplicaSets and pods.
    pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";
    /// A StatefulSet's pod's name, by which a service can select one pod.
    pub const STATEFUL_SET_POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
    /// The ordinal of a StatefulSet's pod.
    pub const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
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
    /// On the pod of a node's shell: the id of the console that created it.
    pub const PODIUM_NODE_SHELL: &str = "podium.dev/node-shell";
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
    /// Earlier revisions of a ReplicaSet that was rolled back to.
    pub const DEPLOYMENT_REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
    /// The Deployment's replicas when the ReplicaSet was last sized.
    pub const DEPLOYMENT_DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
    /// The Deployment's maximum when the ReplicaSet was last sized.
    pub const DEPLOYMENT_MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
    /// The reason of a change, as `kubectl rollout history` shows it.
    pub const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";
    /// On a Secret with a token: the name of its ServiceAccount.
    pub const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
    /// The seccomp profile of a pod before Kubernetes 1.19.
    pub const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
    /// On the bookmark that ends the initial events of a watch.
    pub const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";
    /// Pods with a lower cost are removed first when a ReplicaSet shrinks.
    pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    /// On a node: it requests that Podium runs this node, and how.
    pub const PODIUM_NODE: &str = "podium.dev/node";
    /// On a node: the last applied settings of the config file, in JSON.
    pub const PODIUM_NODE_SETTINGS: &str = "podium.dev/node-settings";
    /// On a node: the `status.capacity` with which its object requested it, in JSON, since the kubelet then overwrites
    /// the status.
    pub const PODIUM_CAPACITY: &str = "podium.dev/capacity";
    /// On a node: the isolation of its containers. The node host writes it and the next three.
    pub const PODIUM_ISOLATION: &str = "podium.dev/isolation";
    /// On a node: the kinds of namespaces that its containers get.
    pub const PODIUM_NAMESPACES: &str = "podium.dev/namespaces";
    /// On a node: `yes` if pods can have user namespaces of their own.
    pub const PODIUM_POD_USERS: &str = "podium.dev/pod-users";
    /// On a node: its pods' network, `fabric` or `loopback`.
    pub const PODIUM_NETWORK: &str = "podium.dev/network";
    /// On a node: the reason why its pods have no network of their own.
    pub const PODIUM_NETWORK_NOTE: &str = "podium.dev/network-note";
    /// On a node: the reason why its containers run as one user.
    pub const PODIUM_USERS_NOTE: &str = "podium.dev/users-note";
    /// On the Service `default/kubernetes`: the ranges of the cluster's addresses, with the ranges of their mirrors.
    pub const PODIUM_MACHINE_ADDRESSES: &str = "podium.dev/machine-addresses";
    /// On the Service `default/kubernetes`: the first port that the control plane may bind on the machine.
    pub const PODIUM_MACHINE_LOW_PORTS: &str = "podium.dev/machine-unprivileged-port-start";
    /// On the Service `default/kubernetes`: `true` if the machine has `::1`.
    pub const PODIUM_MACHINE_IPV6: &str = "podium.dev/machine-ipv6";
    /// On a StatefulSet: the time for which a node with one of its pods may be not Ready before it is fenced, such as
    /// `60s`.
    pub const PODIUM_FENCE_AFTER: &str = "podium.dev/fence-after";
    /// On an object that a scenario created: the scenario's uid. Only these are deleted at its end.
    pub const PODIUM_MADE_BY_SCENARIO: &str = "podium.dev/made-by-scenario";
    /// On the snapshot of the state before a restore: the restore's uid.
    pub const PODIUM_BEFORE_RESTORE: &str = "podium.dev/before-restore";
    /// On a fork's first restore, before which no snapshot is taken, since there is no state to return to.
    pub const PODIUM_FIRST_RESTORE: &str = "podium.dev/of-nothing";
}

/// Finalizers of Podium's own controllers.
pub mod finalizer {
    /// Holds a scenario until everything it created is deleted.
    pub const PODIUM_SCENARIO: &str = "podium.dev/scenario";
    /// Holds a fence until the node is back, or is deleted.
    pub const PODIUM_FENCE: &str = "podium.dev/fence";
    /// Holds a snapshot while its file exists.
    pub const PODIUM_SNAPSHOT_FILE: &str = "podium.dev/snapshot-file";
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
    /// The self-check has found a difference; on the namespace `kube-system`.
    pub const PODIUM_STATE_DIFFERS: &str = "podium.dev/StateDiffers";
}

/// Types of secrets.
pub mod secret_type {
    /// A token with which a machine joins the cluster.
    pub const BOOTSTRAP_TOKEN: &str = "bootstrap.kubernetes.io/token";
    /// The token of a ServiceAccount.
    pub const SERVICE_ACCOUNT_TOKEN: &str = "kubernetes.io/service-account-token";
    /// Registries with credentials, as `~/.dockercfg` has them.
    pub const DOCKERCFG: &str = "kubernetes.io/dockercfg";
    /// Registries with credentials, as `~/.docker/config.json` has them.
    pub const DOCKERCONFIGJSON: &str = "kubernetes.io/dockerconfigjson";
}

/// Podium's own controllers, as objects choose them.
pub mod controller {
    /// Of a GatewayClass.
    pub const PODIUM_GATEWAY: &str = "podium.dev/gateway";
    /// The load balancer class of the cluster's pool.
    pub const PODIUM_POOL: &str = "podium.dev/pool";
}

/// Podium's own query parameters.
pub mod parameter {
    /// Of a pod's `exec`: requests a report on the pod's network instead of a session.
    pub const PODIUM_NETWORK: &str = "podium.dev/network";
}
