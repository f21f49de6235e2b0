//! A node: its Node object, heartbeats and the state that its pods share (NODE-1).

mod counts;
mod health;
mod machine_ids;
mod meter;
mod object;
mod present_images;
mod requested_pulls;
mod static_manifest;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Taint;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use super::faults::NodeDisk;
use super::ips::{Ips, NodeIpv6};
use super::pod_ips::{self, PodIps};
use super::runtime::{HostFaults, Runtime};
use super::volumes_in_use::VolumesInUse;
use ::object::low_ports::LowPorts;
use ::object::quantity::ResourceList;
use api::Api;
use base::clock::Clock;
use base::task::Tasks;
use ipnet::Ipv4Net;
use reconcile::{ControllerStats, Recorder, StatsLimits};

pub(super) use counts::{Counts, WorkItem};
use health::Health;
use meter::Meter;
pub(super) use object::{heartbeat, report};
pub(super) use present_images::PresentImages;
pub(super) use requested_pulls::RequestedPulls;
pub use static_manifest::StaticManifest;

use super::admit::AdmittedPods;
use super::pressure::{EvictionConfig, NodePressure};

/// The number of pods whose volumes are written concurrently on one node.
const VOLUME_WRITERS: usize = 2;

/// The configuration of a node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The Node object's name.
    pub name: String,
    /// Label topology.kubernetes.io/zone.
    pub zone: Option<String>,
    /// Label topology.kubernetes.io/region.
    pub region: Option<String>,
    /// Further labels.
    pub labels: BTreeMap<String, String>,
    /// The taints with which the node registers.
    pub taints: Vec<Taint>,
    /// The node's address.
    pub ip: IpAddr,
    /// The range of its pods' addresses.
    pub pod_range: Ipv4Net,
    /// Its IPv6 addresses, in a cluster with both families.
    pub ipv6: Option<NodeIpv6>,
    /// The capacity, all of which is allocatable: cpu, memory, ephemeral-storage, pods.
    pub capacity: ResourceList,
    /// The directory with a subdirectory for each pod's volumes.
    pub pods_dir: PathBuf,
    /// The directory of the user's profiles of system calls (`seccompProfile.localhostProfile`).
    pub seccomp_dir: PathBuf,
    /// No process runs here: probes and hooks over the network count as successful, and no volume is written.
    pub hollow: bool,
    /// Its static pods.
    pub static_pods: Vec<StaticManifest>,
    /// The thresholds at which its pods are evicted.
    pub eviction: EvictionConfig,
    /// The ports that its programs may not bind.
    pub low_ports: LowPorts,
    /// A note for users: the reason why pods have no network of their own, if they have none.
    pub network_note: Option<String>,
    /// A note for users: the reason why containers have a single user id, if they have.
    pub users_note: Option<String>,
    /// The cluster's DNS server, for the pods' resolv.conf.
    pub dns: Option<IpAddr>,
    /// The cluster's domain: `cluster.local`.
    pub domain: String,
}

impl NodeConfig {
    /// The node's addresses.
    pub(crate) fn ips(&self) -> Ips {
        Ips { first: Some(self.ip), second: self.ipv6.map(|own| own.ip.into()) }
    }

    /// The addresses of the pod with this IPv4 address.
    pub(crate) fn ips_of(&self, ip: IpAddr) -> Ips {
        if ip == self.ip {
            return self.ips();
        }
        let offset = pod_ips::offset(self.pod_range, ip);
        Ips { first: Some(ip), second: offset.and_then(|offset| self.ipv6?.of_pod(offset)) }
    }

    /// The ranges of its pods' addresses, in each family.
    pub(crate) fn pod_ranges(&self) -> Vec<String> {
        let second = self.ipv6.map(|own| own.pods.to_string());
        std::iter::once(self.pod_range.to_string()).chain(second).collect()
    }
}

/// A node that runs in this process.
pub(super) struct Node {
    pub(super) config: NodeConfig,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) recorder: Recorder,
    pub(super) tasks: Tasks,
    // Locks of single map operations, never held across an await.
    pub(super) ips: Mutex<PodIps>,
    /// The catalogue's images that containers here were created from.
    pub(super) images: Mutex<PresentImages>,
    /// The pulls that clients requested.
    pub(super) requested_pulls: Arc<Mutex<RequestedPulls>>,
    /// Its containers' usage at the last reading.
    pub(super) meter: Mutex<Meter>,
    /// The requests of the pods it has accepted.
    pub(super) admitted: Mutex<AdmittedPods>,
    /// Manifests of static pods that cannot be used, with the reasons, as last reported.
    pub(super) broken_manifests: Mutex<BTreeSet<(String, String)>>,
    /// The pressure conditions of its machine.
    pub(super) eviction: NodePressure,
    /// The disks that its pods use.
    pub(super) disks: Mutex<VolumesInUse>,
    /// The health of its runtime.
    pub(super) health: Health,
    /// Injected faults of its disk.
    pub(super) disk: NodeDisk,
    /// Limits concurrent volume writes: a thread for each of many pods costs more than it saves. Per node, since a
    /// node's kubelet may be paused while it writes.
    pub(super) volume_writers: Semaphore,
    /// Limits the measurements of its volumes to one at a time: a file system that does not respond blocks no second
    /// thread.
    pub(super) volume_measurements: Arc<Semaphore>,
    closing: watch::Sender<Option<NodeShutdown>>,
    /// The kubelet's clock, which a fault can skew.
    pub(super) clock: Clock,
    /// Durations and errors of its kubelet's work.
    pub(super) figures: ControllerStats<WorkItem>,
    /// Further counters of its kubelet.
    pub(super) counts: Counts,
}

/// A node that stops.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeShutdown {
    pub(super) how: ShutdownMode,
    /// The time at which it began to stop, on the monotonic clock.
    pub(super) since: Duration,
}

/// The manner in which a stopping node ends its pods: those it has, and any that is bound to it meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShutdownMode {
    /// Each pod within its grace period.
    Gracefully,
    /// At once.
    Forced,
}

impl Node {
    /// Applies the faults of the node's clock and disk to the runtime.
    pub(super) fn push_faults(&self) {
        let skew_millis = i64::try_from(self.clock.skew().as_millis()).unwrap_or(0);
        self.runtime.set_faults(HostFaults { skew_millis, disk: self.disk.fault() });
    }

    pub(super) fn new(api: &Api, config: NodeConfig, runtime: Arc<dyn Runtime>, tasks: Tasks) -> Self {
        let clock = api.clock().apart();
        Self {
            recorder: Recorder::on_host(&api.with_clock(&clock), "kubelet", Some(&config.name)),
            ips: Mutex::new(PodIps::new(config.pod_range)),
            images: Mutex::default(),
            requested_pulls: Arc::default(),
            meter: Mutex::default(),
            admitted: Mutex::default(),
            broken_manifests: Mutex::default(),
            eviction: NodePressure::default(),
            disks: Mutex::default(),
            health: Health::new(api.clock(), api.timings().pleg_relist_threshold.0),
            closing: watch::Sender::new(None),
            disk: NodeDisk::default(),
            volume_writers: Semaphore::new(VOLUME_WRITERS),
            volume_measurements: Arc::new(Semaphore::new(1)),
            figures: ControllerStats::with_limits(api.clock(), StatsLimits::OF_MANY),
            counts: Counts::default(),
            clock,
            runtime,
            tasks,
            config,
        }
    }

    /// Begins to stop the node: every later pass over one of its pods ends the pod, by force if requested.
    pub(super) fn close(&self, how: ShutdownMode) {
        let now = self.clock.monotonic();
        self.closing.send_modify(|closed| {
            let before = closed.unwrap_or(NodeShutdown { how, since: now });
            let forced = before.how == ShutdownMode::Forced;
            *closed = Some(NodeShutdown { how: if forced { before.how } else { how }, since: before.since });
        });
    }

    pub(super) fn closing(&self) -> Option<NodeShutdown> {
        *self.closing.borrow()
    }

    /// Returns when the node's pods must end at once.
    pub(super) async fn forced(&self) {
        let forced =
            |closed: &Option<NodeShutdown>| closed.is_some_and(|closed| closed.how == ShutdownMode::Forced);
        // The sender lives as long as this node.
        let _ = self.closing.subscribe().wait_for(forced).await;
    }
}
