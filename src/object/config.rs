//! The cluster's configuration: every timing and limit, with Kubernetes' defaults.
//!
//! Tests and the config file shorten the timings. A duration that Kubernetes does not let anybody configure stands where
//! it is used.

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
    ($($(#[doc = $doc:literal])* $field:ident = $default:expr;)*) => {
        /// How long the control plane waits for what; the defaults are Kubernetes'.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", default, deny_unknown_fields)]
        pub struct Timings {
            $($(#[doc = $doc])* pub $field: Seconds,)*
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
    /// The first delay before a daemon pod that failed on its node is removed again.
    daemon_pod_back_off_initial = Seconds::new(1);
    /// The longest delay before a daemon pod that failed on its node is removed again.
    daemon_pod_back_off_max = Seconds::new(900);
    /// The first delay before a Job makes a pod in place of one that failed.
    job_back_off_initial = Seconds::new(10);
    /// The longest delay before a Job makes a pod in place of one that failed.
    job_back_off_max = Seconds::new(360);
    /// The first delay before an image is pulled again.
    image_back_off_initial = Seconds::new(10);
    /// The longest delay before an image is pulled again.
    image_back_off_max = Seconds::new(300);
    /// What probes over the network find within so long after a container's start says nothing against it: another
    /// kubelet would not know yet that it runs.
    pod_relist = Seconds::new(1);
    /// How often a kubelet renews its node's Lease.
    node_lease_renew = Seconds::new(10);
    /// How often a kubelet writes its node's status when nothing changed.
    node_status_report = Seconds::new(300);
    /// How long a node's runtime may take to answer (kubelet's `runtimeRequestTimeout`); a command in a container
    /// gets this on top of its own time.
    runtime_request_timeout = Seconds::new(120);
    /// How long a node's runtime may take to say that it is there, when all else waits for that: before an exec is
    /// given up, and before a stop kills it.
    runtime_status_timeout = Seconds::new(10);
    /// How often a kubelet asks whether its runtime answers (PLEG's relist period).
    pleg_relist_period = Seconds::new(1);
    /// A runtime that has not answered for this long makes its node NotReady (PLEG's relist threshold).
    pleg_relist_threshold = Seconds::new(180);
    /// How long the first request to stop waits for pods with a longer grace. kubelet's `shutdownGracePeriod` cuts the
    /// graces of pods in the same way but is off by default, and the machine then goes down under them; ten minutes
    /// are more than what a pod with work to finish asks for, and a stop that nobody watches still ends.
    shutdown_grace_limit = Seconds::new(600);
    /// The first delay before what could not be let go of a pod (its files, its object) is tried again.
    cleanup_back_off_initial = Seconds::new(1);
    /// The longest delay before what could not be let go of a pod is tried again.
    cleanup_back_off_max = Seconds::new(120);
    /// How often the use of cpu and memory is measured; cpu is averaged over this time.
    metrics_resolution = Seconds::new(5);
    /// How often a node looks whether its machine is short of something, and its pods over their limits.
    eviction_check = Seconds::new(10);
    /// How often the state in memory is compared with the disk, and caches with the state.
    self_check = Seconds::new(300);
    /// How often a node looks for changed manifests of static pods.
    static_pod_check = Seconds::new(1);
    /// No heartbeat for this long makes a node's Ready condition Unknown.
    node_monitor_grace = Seconds::new(40);
    /// A new node that has not reported yet gets this long.
    node_startup_grace = Seconds::new(60);
    /// Nodes that fall silent within this time are judged together.
    node_eviction_check = Seconds::millis(100);
    /// A node must have been missing for this long before its pods are removed.
    missing_node_quarantine = Seconds::new(40);
    /// How long a pod tolerates a node that is not ready or unreachable when it does not say.
    default_toleration = Seconds::new(300);
    /// The grace a force-deleted pod's processes get from the node.
    force_delete_grace = Seconds::new(2);
    /// The extension a preStop hook gets at the end of the grace period.
    pre_stop_extension = Seconds::new(2);
    /// The first delay before a failed reconcile is tried again.
    reconcile_back_off_initial = Seconds::millis(5);
    /// The longest delay before a failed reconcile is tried again.
    reconcile_back_off_max = Seconds::new(1000);
    /// The first delay before an unschedulable pod is tried again.
    scheduler_back_off_initial = Seconds::new(1);
    /// The longest delay before an unschedulable pod is tried again.
    scheduler_back_off_max = Seconds::new(10);
    /// Unschedulable pods are tried again after this long even when nothing happened.
    scheduler_flush = Seconds::new(300);
    /// How long events are kept.
    event_time_to_live = Seconds::new(3600);
    /// How long an orphaned disruption of a budget counts when its pod is not seen deleted.
    disruption_timeout = Seconds::new(120);
    /// How long the host of a node and its pods live on that no control plane claims (not Kubernetes').
    unclaimed_host = Seconds::new(86_400);
    /// How long changes are kept for watches that resume, as etcd's compaction does.
    watch_history = Seconds::new(300);
    /// How often a watch with bookmarks gets one.
    watch_bookmark = Seconds::new(60);
    /// A connection to the API that has not brought a request after this long is closed.
    http_header = Seconds::new(32);
    /// A connection to the API without a request under way is closed after this long.
    http_idle = Seconds::new(90);
    /// A session (exec, attach, port-forward, a log) on which nothing passes is closed after this long, as the kubelet's
    /// `streamingConnectionIdleTimeout` says. kubectl's WebSockets are never idle: it sends pings.
    stream_idle = Seconds::new(14_400);
    /// A request's body must have come, and a client must take the next piece of an answer, within this time.
    http_request = Seconds::new(60);
}

/// How much of something the cluster takes; what is beyond is refused with the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Limits {
    /// Pods that have not ended; 0 = no limit, none = 1 000 and twice the pods that the nodes may run. Each costs
    /// memory in the control plane, whether it ever runs or not.
    pub active_pods: Option<usize>,
    /// Events that are kept; 0 = no limit, none = 10 000. Beyond it those go that last happened longest ago.
    pub events: Option<usize>,
    /// Requests that are answered at once, of all but the cluster's owner: the seats of API Priority and Fairness; 0 = no
    /// limit, none = 600, as kube-apiserver's `--max-requests-inflight` and `--max-mutating-requests-inflight` together.
    pub requests_in_flight: Option<usize>,
    /// Bytes of all objects as JSON; 0 = no limit, none = 512 MiB. etcd has `--quota-backend-bytes`, 2 GiB, on a disk;
    /// here they are held in memory, with two or three times as much as their text.
    pub store_bytes: Option<usize>,
    /// Bytes of what controllers copy from templates (pods, claims, Jobs, ReplicaSets, ControllerRevisions) as JSON;
    /// 0 = no limit, none = 32 MiB and 16 KiB for each pod that the nodes may run. One manifest makes as many copies as
    /// a number in it says.
    pub template_copy_bytes: Option<usize>,
}

/// How fast the pods of silent nodes are driven away: kube-controller-manager's flags of the same names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct NodeLifecycleConfig {
    /// Nodes a second that are given up in a zone that is healthy, or silent as a whole.
    pub node_eviction_rate: f64,
    /// Nodes a second that are given up in a large zone most of which is silent; a small one gives up none.
    pub secondary_node_eviction_rate: f64,
    /// Zones with more nodes than this are large.
    pub large_cluster_size_threshold: usize,
    /// The share of silent nodes (at least three) that makes a zone unhealthy.
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
    fn timings_default_to_kubernetes_and_take_seconds() {
        let timings: Timings = serde_json::from_str(r#"{"nodeMonitorGrace": 0.5}"#).unwrap();
        assert_eq!(timings.node_monitor_grace.0, Duration::from_millis(500));
        assert_eq!(timings.container_back_off_max.0, Duration::from_mins(5));
        assert!(serde_json::from_str::<Timings>(r#"{"nodeMonitorGrase": 1}"#).is_err());
        assert!(serde_json::from_str::<Timings>(r#"{"nodeMonitorGrace": -1}"#).is_err());
    }
}
