//! The cluster's configuration: every timing and limit, with Kubernetes' defaults.
//!
//! Tests and the config file shorten the timings. A duration that is not configurable in Kubernetes is a constant at
//! its place of use.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration written as seconds (a number, fractions allowed) in the config file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(pub Duration);

impl Seconds {
    const fn new(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    const fn millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0.as_secs_f64())
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        Duration::try_from_secs_f64(seconds).map(Self).map_err(serde::de::Error::custom)
    }
}

macro_rules! timings {
    ($($(#[$attribute:meta])* $field:ident = $default:expr;)*) => {
        /// The control plane's timings; the defaults are Kubernetes'.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", default, deny_unknown_fields)]
        pub struct Timings {
            $($(#[$attribute])* pub $field: Seconds,)*
        }

        impl Default for Timings {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    };
}

timings! {
    /// The first delay before a failed container is started again.
    container_back_off_initial = Seconds::new(10);
    /// The longest delay before a failed container is started again.
    container_back_off_max = Seconds::new(300);
    /// A container that ran this long without failing starts over with the first delay.
    container_back_off_reset = Seconds::new(600);
    /// The first delay before a daemon pod that failed on its node is deleted again.
    daemon_pod_back_off_initial = Seconds::new(1);
    /// The longest delay before a daemon pod that failed on its node is deleted again.
    daemon_pod_back_off_max = Seconds::new(900);
    /// The first delay before a Job replaces a failed pod.
    job_back_off_initial = Seconds::new(10);
    /// The longest delay before a Job replaces a failed pod.
    job_back_off_max = Seconds::new(600);
    /// The first delay before an image is pulled again.
    image_back_off_initial = Seconds::new(10);
    /// The longest delay before an image is pulled again.
    image_back_off_max = Seconds::new(300);
    /// The time after a container's start during which failed network probes do not count: Kubernetes' kubelet, which
    /// lists containers once a second, would not probe the container yet.
    #[serde(alias = "podRelist")]
    probe_relist_tolerance = Seconds::new(1);
    /// The interval at which a kubelet renews its node's Lease.
    #[serde(alias = "nodeLeaseRenew")]
    node_lease_renew_interval = Seconds::new(10);
    /// The interval at which a kubelet writes its node's status when nothing changed.
    #[serde(alias = "nodeStatusReport")]
    node_status_report_frequency = Seconds::new(300);
    /// The timeout of a request to a node's runtime (kubelet's `runtimeRequestTimeout`); a command in a container
    /// gets this in addition to its own timeout.
    runtime_request_timeout = Seconds::new(120);
    /// The timeout for a node's runtime to report its status while other work waits for it: an exec then fails, and a
    /// stop kills the runtime.
    runtime_status_timeout = Seconds::new(10);
    /// The interval at which a kubelet checks that its runtime responds (PLEG's relist period).
    pleg_relist_period = Seconds::new(1);
    /// A runtime that has not answered for this long makes its node NotReady (PLEG's relist threshold).
    pleg_relist_threshold = Seconds::new(180);
    /// The longest time that the first request to stop waits for pods, even those with a longer grace period. kubelet's
    /// `shutdownGracePeriod` limits grace periods in the same way; it is off by default, and then the machine's
    /// shutdown kills the pods. Ten minutes suffice for pods that finish their work, and an unattended stop still ends.
    #[serde(alias = "shutdownGraceLimit")]
    shutdown_grace_period = Seconds::new(600);
    /// The first delay before a failed cleanup of a pod (its files, its object) is tried again.
    cleanup_back_off_initial = Seconds::new(1);
    /// The longest delay before a failed cleanup of a pod is tried again.
    cleanup_back_off_max = Seconds::new(120);
    /// The interval at which cpu and memory usage is measured; cpu is averaged over it.
    #[serde(alias = "metricsResolution")]
    metric_resolution = Seconds::new(5);
    /// The interval at which a node checks its machine for resource pressure, and its pods for exceeded limits.
    #[serde(alias = "evictionCheck")]
    eviction_monitoring_period = Seconds::new(10);
    /// The interval at which the state in memory is compared with the disk, and the informers' caches with the state in
    /// memory.
    #[serde(alias = "selfCheck")]
    self_check_interval = Seconds::new(300);
    /// The interval at which a node checks for changed manifests of static pods.
    #[serde(alias = "staticPodCheck")]
    file_check_frequency = Seconds::new(1);
    /// No heartbeat for this long makes a node's Ready condition Unknown.
    #[serde(alias = "nodeMonitorGrace")]
    node_monitor_grace_period = Seconds::new(50);
    /// The time a new node has for its first report.
    #[serde(alias = "nodeStartupGrace")]
    node_startup_grace_period = Seconds::new(60);
    /// Nodes that stop reporting within this time are handled together.
    #[serde(alias = "nodeEvictionCheck")]
    node_eviction_interval = Seconds::millis(100);
    /// A node must have been missing for this long before its pods are removed.
    #[serde(alias = "missingNodeQuarantine")]
    missing_node_quarantine_time = Seconds::new(40);
    /// The time for which a pod tolerates a node that is not ready or unreachable, unless it sets its own.
    #[serde(alias = "defaultToleration")]
    default_toleration_seconds = Seconds::new(300);
    /// The grace period of a force-deleted pod's processes on the node.
    #[serde(alias = "forceDeleteGrace")]
    force_delete_grace_period = Seconds::new(2);
    /// The extension a preStop hook gets at the end of the grace period.
    pre_stop_extension = Seconds::new(2);
    /// The first delay before a failed reconcile is tried again.
    reconcile_back_off_initial = Seconds::millis(5);
    /// The longest delay before a failed reconcile is tried again.
    reconcile_back_off_max = Seconds::new(1000);
    /// The first delay before an unschedulable pod is tried again.
    #[serde(alias = "schedulerBackOffInitial")]
    pod_initial_backoff = Seconds::new(1);
    /// The longest delay before an unschedulable pod is tried again.
    #[serde(alias = "schedulerBackOffMax")]
    pod_max_backoff = Seconds::new(10);
    /// Unschedulable pods are tried again after this long even without an event.
    #[serde(alias = "schedulerFlush")]
    pod_max_in_unschedulable_pods_duration = Seconds::new(300);
    /// The time to live of events.
    #[serde(alias = "eventTimeToLive")]
    event_ttl = Seconds::new(3600);
    /// The time for which a budget counts an eviction if the pod's deletion is not observed.
    disruption_timeout = Seconds::new(120);
    /// The time for which a node's host and its pods live on without a control plane. Kubernetes has no such timeout.
    #[serde(alias = "unclaimedHost")]
    unclaimed_host_timeout = Seconds::new(86_400);
    /// The time for which changes are retained for watches that resume, as by etcd's compaction.
    #[serde(alias = "watchHistory")]
    watch_history_retention = Seconds::new(300);
    /// The interval between bookmarks of a watch that requests them.
    #[serde(alias = "watchBookmark")]
    bookmark_interval = Seconds::new(60);
    /// A new connection to the API is closed if the client sends no request within this time.
    #[serde(alias = "httpHeader")]
    http_header_timeout = Seconds::new(32);
    /// A connection to the API without a request under way is closed after this long.
    #[serde(alias = "httpIdle")]
    http_idle_timeout = Seconds::new(90);
    /// An idle session (exec, attach, port-forward, a log) is closed after this long, as by the kubelet's
    /// `streamingConnectionIdleTimeout`. kubectl's WebSockets are never idle: it sends pings.
    #[serde(alias = "streamIdle")]
    streaming_connection_idle_timeout = Seconds::new(14_400);
    /// The timeout for a request's body, and for a client to accept the next chunk of a response.
    #[serde(alias = "httpRequest")]
    http_request_timeout = Seconds::new(60);
}

/// The cluster's limits; requests beyond them are refused with the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Limits {
    /// Pods that have not ended; 0 means no limit, `None` means 1 000 and twice the pods that the nodes may run. Each
    /// costs memory in the control plane, even if it never runs.
    pub active_pods: Option<usize>,
    /// Stored events; 0 means no limit, `None` means 10 000. Beyond the limit, the events with the oldest last
    /// occurrence are removed.
    pub events: Option<usize>,
    /// Requests served at once, except the cluster owner's: the seats of API Priority and Fairness; 0 means no limit,
    /// `None` means 600, as kube-apiserver's `--max-requests-inflight` and `--max-mutating-requests-inflight` together.
    #[serde(alias = "requestsInFlight")]
    pub max_requests_in_flight: Option<usize>,
    /// Bytes of all objects as JSON; 0 means no limit, `None` means 512 MiB. etcd has `--quota-backend-bytes`, 2 GiB,
    /// on a disk; here they are held in memory, where they take two or three times the bytes of their JSON.
    pub store_bytes: Option<usize>,
    /// Bytes of the objects that controllers copy from templates (pods, claims, Jobs, ReplicaSets,
    /// ControllerRevisions) as JSON; 0 means no limit, `None` means 32 MiB and 16 KiB for each pod that the nodes may
    /// run. One number in a manifest decides how many copies there are.
    pub template_copy_bytes: Option<usize>,
}

/// The rate at which pods are evicted from unreachable nodes: kube-controller-manager's flags of the same names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct NodeLifecycleConfig {
    /// Nodes per second evicted in a zone that is healthy, or entirely unreachable.
    pub node_eviction_rate: f64,
    /// Nodes per second evicted in a large zone with mostly unreachable nodes; a small one evicts none.
    pub secondary_node_eviction_rate: f64,
    /// Zones with more nodes than this are large.
    pub large_cluster_size_threshold: usize,
    /// The share of unreachable nodes (at least three) that makes a zone unhealthy.
    pub unhealthy_zone_threshold: f64,
}

impl Default for NodeLifecycleConfig {
    fn default() -> Self {
        Self {
            node_eviction_rate: 0.1,
            secondary_node_eviction_rate: 0.01,
            large_cluster_size_threshold: 50,
            unhealthy_zone_threshold: 0.55,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timings_default_to_kubernetes_and_take_seconds_node_2_job_1() {
        let timings: Timings = serde_json::from_str(r#"{"nodeMonitorGracePeriod": 0.5}"#).unwrap();
        assert_eq!(timings.node_monitor_grace_period.0, Duration::from_millis(500));
        assert_eq!(timings.container_back_off_max.0, Duration::from_mins(5));
        assert_eq!(timings.job_back_off_max.0, Duration::from_mins(10));
        assert_eq!(Timings::default().node_monitor_grace_period.0, Duration::from_secs(50));
        assert!(serde_json::from_str::<Timings>(r#"{"nodeMonitorGracePeroid": 1}"#).is_err());
        assert!(serde_json::from_str::<Timings>(r#"{"nodeMonitorGracePeriod": -1}"#).is_err());
    }
}
